package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

// TestMain runs this binary as a plugin when it is started as
// "<binary> plugin FOLDER CLASS [LIE]".
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "plugin" {
		os.Exit(runSubject(os.Args[2], plugin.Guarantee(os.Args[3]), strings.Join(os.Args[4:], " ")))
	}
	if len(os.Args) > 2 && os.Args[1] == "checks" {
		os.Exit(runChecker(os.Args[2]))
	}
	os.Exit(m.Run())
}

// subject is a plugin whose production is a file in a folder. It is honest of
// the class that it declares, but for one lie.
type subject struct {
	folder string
	class  plugin.Guarantee
	lie    string

	mutex sync.Mutex
	// highest token, as a plugin remembers it that should ask its target.
	highest uint64
}

func runSubject(folder string, class plugin.Guarantee, lie string) int {
	s := &subject{folder: folder, class: class, lie: lie}
	declared := class
	switch lie {
	case "declares C":
		declared = plugin.CompareAndSet
	case "declares F":
		declared = plugin.Fenced
	}
	kind := serve.Kind(serve.For(s, serve.Serving{Guarantee: declared}))
	if slices.Contains(cacheLies, lie) {
		kind = &cached{Kind: kind, subject: s, kept: map[string]serve.Difference{}}
	}
	if slices.Contains(secretLies, lie) {
		kind = s.withSecret(declared)
	}
	if lie == "cannot turn down" {
		kind = serve.For(unremovable{s}, serve.Serving{Guarantee: declared})
	}
	if runsOnce(lie) {
		kind = s.once(declared)
	}
	p := serve.Plugin{Name: "subject", Version: "1", Resources: []serve.Kind{tampered{kind, s}}}
	if lie == "" && class == plugin.CompareAndSet {
		p.Resources[0] = watchedSubject{tampered{kind, s}}
	}
	if lie == "" || !slices.Contains(wireLies, lie) && lie != "outlives its parent" {
		return serve.Main(p)
	}
	go func() {
		if lie != "outlives its parent" {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}
	}()
	listener, err := net.Listen("unix", os.Getenv(plugin.SocketVariable))
	if err != nil {
		return 1
	}
	if lie == "outlives its parent" {
		err = p.Serve(context.Background(), listener)
	} else {
		err = serveTampered(p, listener, s)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// tried is the rule that was tried last.
func (s *subject) tried() string {
	name, _ := os.ReadFile(filepath.Join(s.folder, "tried"))
	return string(name)
}

// thing is production: the job, its version, and the highest token seen.
type thing struct {
	job            *processpb.Job
	version, token uint64
}

func (s *subject) path() string { return filepath.Join(s.folder, "thing") }

func (s *subject) load() (thing, error) {
	var t thing
	content, err := os.ReadFile(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	header, body, _ := strings.Cut(string(content), "\n")
	var exists bool
	if _, err := fmt.Sscan(header, &t.version, &t.token, &exists); err != nil {
		return t, err
	}
	if exists {
		t.job = &processpb.Job{}
		err = proto.Unmarshal([]byte(body), t.job)
	}
	return t, err
}

func (s *subject) store(t thing) error {
	var body []byte
	if t.job != nil {
		body, _ = proto.Marshal(t.job)
	}
	temporary := fmt.Sprintf("%s.%d", s.path(), os.Getpid())
	if err := os.WriteFile(temporary, fmt.Appendf(nil, "%d %d %t\n%s", t.version, t.token, t.job != nil, body), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, s.path())
}

// base of a thing: for class N its content only.
func (s *subject) base(t thing) string {
	if s.class == plugin.Unguarded {
		return fmt.Sprint("content ", t.job)
	}
	return fmt.Sprint("version ", t.version)
}

func (s *subject) Read(_ context.Context, assets []serve.Asset[*processpb.Job]) ([]serve.State[*processpb.Job], error) {
	states := make([]serve.State[*processpb.Job], len(assets))
	for i := range assets {
		t, err := s.load()
		if s.lie == "writes while looking" {
			t.version++
			err = errors.Join(err, s.store(t))
		}
		states[i] = serve.State[*processpb.Job]{Current: t.job, Err: err, Base: s.base(t), Key: "subject:thing", Health: serve.Health{State: serve.Healthy}}
		switch s.lie {
		case "tells a capacity that is no number":
			states[i].Impacts = []serve.Impact{{Dimension: "tasks", Current: math.NaN()}}
		case "tells a capacity below nothing":
			states[i].Impacts = []serve.Impact{{Dimension: "tasks", Target: -3}}
		case "tells an endless key":
			states[i].Key = serve.ResourceKey(strings.Repeat("k", 100_000))
		}
	}
	return states, nil
}

func (s *subject) Resolve(_ context.Context, asset serve.Asset[*processpb.Job]) (*processpb.Job, error) {
	return asset.Payload, nil
}

func (s *subject) Apply(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	if s.lie == "leaves a lock behind" {
		lock := filepath.Join(s.folder, "lock")
		if _, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
		defer os.Remove(lock)
	}
	if s.lie == "goes on without a permit" && s.tried() == "withdrawn permit stops a push" {
		// One effect each 200 ms for ever, the first with a permit.
		for i := 0; ; i++ {
			if i == 0 {
				if err := permit.Effect(ctx); err != nil {
					return err
				}
			}
			t, _ := s.load()
			t.version++
			if err := s.store(t); err != nil || i == 40 {
				return err
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	if s.lie != "ignores permits" {
		if err := permit.Effect(ctx); err != nil {
			return err
		}
	}
	return s.write(change, change.Target)
}

func (s *subject) Remove(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	if s.lie == "removes nothing" {
		return nil
	}
	return s.write(change, nil)
}

// write changes the thing as the class says: under the target's lock, unless
// the plugin takes what it compares from its memory.
func (s *subject) write(change serve.Change[*processpb.Job], job *processpb.Job) error {
	if s.lie != "checks before it acts" {
		lock, err := os.OpenFile(filepath.Join(s.folder, "flock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		defer lock.Close()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			return err
		}
	}
	t, err := s.load()
	if err != nil {
		return err
	}
	highest := t.token
	if s.lie == "remembers the token itself" {
		s.mutex.Lock()
		highest, s.highest = s.highest, max(s.highest, change.Token)
		s.mutex.Unlock()
	}
	switch {
	case s.class == plugin.CompareAndSet && s.lie != "checks before it acts" && s.base(t) != change.State.Base:
		return fmt.Errorf("the target refuses: %w", serve.ErrStale)
	case s.class == plugin.Fenced && change.Token < highest:
		return fmt.Errorf("the target refuses: %w", serve.Outranked(highest))
	}
	t.version, t.token, t.job = t.version+1, max(t.token, change.Token), job
	return s.store(t)
}

// unremovable hides Remove.
type unremovable struct {
	serve.Resource[*processpb.Job]
}

// tampered is a kind that lies where a resource cannot.
type tampered struct {
	serve.Kind
	subject *subject
}

func (k tampered) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	differences := k.Kind.Diff(ctx, assets)
	for i := range differences {
		switch {
		case k.subject.lie == "says it is gone" && assets[i].TurnedDown():
			differences[i] = serve.Difference{Outcome: serve.InSync}
		case k.subject.lie == "tells a state of another type" && len(differences[i].Current) > 0:
			differences[i].Current = []byte("\x12\x03abc")
		case k.subject.lie == "believes its own pushes" && k.subject.highest > 0:
			differences[i] = serve.Difference{Outcome: serve.InSync, Current: differences[i].Current, Base: differences[i].Base}
		}
	}
	return differences
}

func (k tampered) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	now := k.Kind.Diff(ctx, []serve.Intent{push.Asset})[0]
	switch k.subject.lie {
	case "pushes any plan":
		push.Plan = now.Plan.Digest()
	case "forgets the base":
		push.Base = now.Base
	case "acts on every delivery":
		t, _ := k.subject.load()
		t.version++
		_ = k.subject.store(t)
	}
	return k.Kind.Push(ctx, push, permits)
}

// watchedSubject hints the example when its thing changes, and what nobody asked about.
type watchedSubject struct{ tampered }

func (w watchedSubject) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	for seen := uint64(0); ; {
		if t, err := w.subject.load(); err == nil && t.version != seen {
			seen = t.version
			hint(first.Partition, example)
			hint(first.Partition, "somebody/else")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
