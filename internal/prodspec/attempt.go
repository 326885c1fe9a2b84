package prodspec

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/store"
)

// attempts keeps sources that end this process from doing so twice (S12).
// Before this process works on what a tenant wrote, it stores a mark that names
// the sources, and removes it when that is over, however it went. A mark that
// is found was left by a process that ended meanwhile. What it names is tried
// in a child first; what ends the child is quarantined: held until the sources
// change, or a person lets it through. What the child survives did not end the
// process, and needs nobody: most marks are left by a power cut or a kill.
type attempts struct {
	program Program
	trial   Trial
	runtime loop.Runtime
	marks   marks

	// current is the mark in the store; nil: none.
	current *mark
	// dead: the mark was left by a process that ended, by an earlier life of
	// this one or by the child of a trial.
	dead bool
	// death says how the child ended that was given the mark's sources; empty:
	// they were not tried since.
	death string
	// survived are the sources that this process has worked on.
	survived []intent.SourceRevision
	// lastDifference is how the last trial read other sources than this process; nil: it read the same.
	lastDifference *difference
}

// difference is what a trial should have read, and what it did read.
type difference struct{ wanted, read []intent.SourceRevision }

func (d *difference) equals(other *difference) bool {
	return d != nil && slices.Equal(d.wanted, other.wanted) && slices.Equal(d.read, other.read)
}

// mark says what a process works on.
type mark struct {
	Sources []intent.SourceRevision `json:"sources"`
	Began   time.Time               `json:"began"`
	// Lives that ended while they worked on it, one after the other.
	Lives int `json:"lives"`
}

// Trial builds a definition in a child process. It returns the sources that the
// child worked on last, and how it died of them; empty: it did not. An error
// says that it could not be tried.
type Trial func(ctx context.Context, program Program) (at []intent.SourceRevision, death string, err error)

// pauses is how long to wait before sources that a child survived are worked on
// here, by how many lives ended with them: a child is not quite this process.
var pauses = loop.Backoff{First: time.Second, Most: 10 * time.Minute}

// quarantined is the error of sources that are not worked on.
type quarantined struct {
	mark
	death string
}

func (q *quarantined) Error() string { return "quarantined: " + q.death }

// name of what is held; another each time that sources are quarantined.
func (q *quarantined) name() intent.Digest {
	text, _ := json.Marshal(q.mark.Sources) // Texts can be encoded.
	return intent.Sum("lehr.quarantine.v1", text, []byte(q.Began.UTC().Format(time.RFC3339Nano)))
}

// recall finds the mark that an earlier life left.
func (a *attempts) recall(ctx context.Context) (err error) {
	if a.current, err = a.marks.load(ctx); err == nil && a.current != nil {
		a.dead = true
		a.current.Lives++
	}
	return err
}

// begin is called before what was read is worked on, again whenever more was
// read. An error says that it must not be worked on now.
func (a *attempts) begin(ctx context.Context, sources []intent.SourceRevision) error {
	if hasPrefix(a.survived, sources) {
		return nil
	}
	if !a.dead && a.current != nil && slices.Equal(a.current.Sources, sources) {
		return nil
	}
	if a.dead {
		if err := a.beware(ctx, sources); err != nil {
			return err
		}
		if a.dead { // It was not this that ended them.
			return nil
		}
	}
	next := mark{Sources: slices.Clone(sources), Began: a.runtime.Now()}
	if a.current != nil {
		next.Lives = a.current.Lives
	}
	if err := a.marks.save(ctx, &next); err != nil {
		return err
	}
	a.current = &next
	return nil
}

// beware returns when the sources may be worked on. What was worked on before
// the sources of the mark were read ended nobody; all else is tried in a child.
func (a *attempts) beware(ctx context.Context, sources []intent.SourceRevision) error {
	sources = readInChild(sources)
	marked := readInChild(a.current.Sources)
	if isProperPrefix(sources, marked) {
		return nil
	}
	if a.death != "" && slices.Equal(sources, marked) {
		return &quarantined{*a.current, a.death}
	}
	if a.trial == nil {
		a.dead = false
		return nil
	}
	at, death, err := a.trial(ctx, a.program)
	if err != nil {
		return err
	}
	at = readInChild(at)
	if death == "" {
		// The child read the sources itself. If they changed since this process
		// read them, the child survived others than these.
		if !hasPrefix(at, sources) {
			now := &difference{sources, at}
			isNew := !a.lastDifference.equals(now)
			a.lastDifference = now
			if isNew {
				return changedMeanwhile()
			}
			// The child read the same other sources twice, and here they are as they
			// were: that is no change, and would hold them up for ever (L7).
		}
		a.dead, a.lastDifference = false, nil
		if a.current.Lives > 1 {
			return a.runtime.Wait(ctx, pauses.After(a.current.Lives-1), nil)
		}
		return nil
	}
	if !slices.Equal(at, marked) {
		next := mark{Sources: at, Began: a.runtime.Now(), Lives: a.current.Lives}
		if err := a.marks.save(ctx, &next); err != nil {
			return err
		}
		a.current = &next
	}
	a.death = death
	switch {
	case isProperPrefix(sources, at):
		return nil
	case slices.Equal(sources, at):
		return &quarantined{*a.current, death}
	}
	return changedMeanwhile()
}

func changedMeanwhile() error {
	return fault.New(fault.Unavailable, "the sources changed while they were tried in a child").WithHint("they are read again")
}

// readInChild returns those of the sources that a child reads too, so that both can be
// compared. A child does not get the rules of a common policy. Only the name and the
// revision of a source count.
func readInChild(sources []intent.SourceRevision) []intent.SourceRevision {
	var read []intent.SourceRevision
	for _, s := range sources {
		if s.Source != definition.CommonSource {
			read = append(read, intent.SourceRevision{Source: s.Source, Revision: s.Revision})
		}
	}
	return read
}

// release lets quarantined sources be worked on here, once: what ends this
// process again is quarantined under another name.
func (a *attempts) release() { a.dead, a.death, a.current = false, "", &mark{Lives: a.current.Lives} }

// finish says that this process has ended what it began; outlived: it was not
// broken off.
func (a *attempts) finish(ctx context.Context, outlived bool) {
	if a.current == nil || a.dead {
		return
	}
	if outlived {
		a.survived = a.current.Sources
	}
	if a.marks.save(ctx, nil) == nil {
		a.current = nil
	}
}

// hasPrefix reports whether a list is how another begins, or all of it.
func hasPrefix(whole, part []intent.SourceRevision) bool {
	return len(part) <= len(whole) && slices.Equal(whole[:len(part)], part)
}

// isProperPrefix reports whether a list is how another begins, and not all of it.
func isProperPrefix(part, whole []intent.SourceRevision) bool {
	return len(part) < len(whole) && hasPrefix(whole, part)
}

// text of sources, for people.
func (m mark) text() string {
	var parts []string
	for _, s := range m.Sources {
		parts = append(parts, s.Source+" "+s.Revision)
	}
	return strings.Join(parts, ", ")
}

// marks keeps a partition's mark in the store.
type marks struct {
	store Store
	lease store.Lease
}

const (
	markBlobs = "attempt"
	markName  = "sources"
)

func (m marks) load(ctx context.Context) (*mark, error) {
	stored, err := m.store.GetBlob(ctx, m.lease.Partition, markBlobs, markName)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	loaded := &mark{}
	if err := json.Unmarshal(stored, loaded); err != nil || len(loaded.Sources) == 0 {
		// Another version's: what it names is not known, so nothing is.
		return nil, nil
	}
	return loaded, nil
}

// save replaces the mark; nil removes it.
func (m marks) save(ctx context.Context, next *mark) error {
	var text []byte
	if next != nil {
		var err error
		if text, err = json.Marshal(next); err != nil {
			return fault.New(fault.Internal, "cannot encode what is worked on: %w", err)
		}
	}
	return m.store.PutBlobs(ctx, m.lease, markBlobs, map[string][]byte{markName: text})
}
