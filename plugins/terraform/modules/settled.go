package modules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lehr.dev/sdk/serve"
)

// settled has what the last look at each module in sync found, and of what. A plan that changes
// nothing, of the same files, values and state as refreshed, would be shown as the same, so it is
// not shown again: that costs as much as a plan.
type settled struct {
	mutex sync.Mutex
	// found by the folder of the asset.
	found map[string]settledLook
}

type settledLook struct {
	fingerprint fingerprint
	difference  serve.Difference
}

// fingerprint is a SHA-256 of what an empty plan was made of. Some of it is secret: it is not
// written, nor told.
type fingerprint string

func newSettled() *settled { return &settled{found: map[string]settledLook{}} }

// fingerprintOf a look at a state whose digest, as the plan found production, is refreshed.
func (l *look) fingerprintOf(refreshed string) fingerprint {
	digest := sha256.New()
	engine, err := json.Marshal(l.engine)
	if err != nil {
		return ""
	}
	fmt.Fprintf(digest, "%x %v %q %q %s %s", l.asset.Payload.Bytes, l.asset.TurnedDown(), l.run.Content.Path, l.key, engine, refreshed)
	for _, settings := range []map[string]string{l.run.Variables, l.run.Backend} {
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			fmt.Fprintf(digest, " %q=%q", name, settings[name])
		}
		fmt.Fprint(digest, ";")
	}
	return fingerprint(digest.Sum(nil))
}

// find returns what was found before of the same; nil: nothing was.
func (s *settled) find(l *look) *serve.Difference {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one, ok := s.found[l.folder.Path]
	if !ok || l.fingerprint == "" || one.fingerprint != l.fingerprint {
		return nil
	}
	return &one.difference
}

// note keeps what a look found of a module in sync; of any other nothing is kept.
func (s *settled) note(l *look, d serve.Difference) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if d.Outcome != serve.InSync || l.fingerprint == "" {
		delete(s.found, l.folder.Path)
		return
	}
	s.found[l.folder.Path] = settledLook{l.fingerprint, d}
}
