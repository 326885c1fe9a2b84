package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/store"
)

// Folder is a source that lies elsewhere. It is used by one goroutine, but for
// Hint.
type Folder struct {
	options     Options
	name        string
	path        string
	queryDigest string
	patterns    source.Patterns
	limits      source.Limits
	every       time.Duration
	fetcher     fetcher
	// leader, if there is one, is at the only commit that counts.
	leader *Folder

	// state is what was read last by the owner, as snapshot. started: it looks, or
	// was looked at.
	state    *State
	snapshot *source.Snapshot
	// saved is what an earlier life kept.
	saved   *State
	failed  error
	started bool
	cancel  context.CancelFunc
	done    chan struct{}

	hint chan struct{}
	// tried is closed after the first look.
	tried chan struct{}

	lock sync.Mutex
	// latest is what was fetched last, and failure why nothing was since.
	latest  *State
	failure error
	since   time.Time
}

var _ source.Lasting = (*Folder)(nil)

func newFolder(o Options, name, path, queryDigest string, patterns source.Patterns, limits source.Limits) *Folder {
	return &Folder{
		options: o, name: name, path: path, queryDigest: queryDigest, patterns: patterns, limits: limits,
		hint: make(chan struct{}, 1), tried: make(chan struct{}), done: make(chan struct{}),
	}
}

// Path is where its files are said to lie.
func (f *Folder) Path() string { return f.path }

// Read returns what was read last. It waits only for the first look. An error
// says that nothing was ever read, or that it could not be kept.
func (f *Folder) Read(ctx context.Context, _ time.Time, _ source.Changes) (*source.Snapshot, error) {
	if err := f.look(ctx); err != nil {
		return nil, err
	}
	f.lock.Lock()
	latest, failure := f.latest, f.failure
	f.lock.Unlock()
	f.failed = failure
	if latest == nil || failure != nil && f.leader != nil && (f.leader.state == nil || latest.Revision != f.leader.state.Revision) {
		return nil, failure
	}
	if latest != f.state {
		if err := f.adopt(ctx, latest); err != nil {
			return nil, err
		}
	}
	return f.snapshot, nil
}

// look makes sure that the source was looked at.
func (f *Folder) look(ctx context.Context) error {
	first := !f.started
	if first {
		if err := f.recall(ctx); err != nil {
			return err
		}
		f.started = true
	}
	if f.options.Mode != Polled || f.every == 0 {
		if first || f.options.Mode != Offline && (f.every == 0 || f.latest == nil) {
			f.try(ctx)
		}
		return ctx.Err()
	}
	if first {
		var following context.Context
		following, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		f.options.Runtime.Go("source "+f.name, func() { f.follow(following) })
	}
	return f.options.Runtime.Wait(ctx, -1, f.tried)
}

// recall reads what was kept. It counts only if the source cannot be read now:
// what is kept may be older than what others have built from since.
func (f *Folder) recall(ctx context.Context) error {
	if f.options.Keep == nil {
		return nil
	}
	text, err := f.options.Keep.Load(ctx, f.name)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	saved := &State{}
	if json.Unmarshal(text, saved) == nil && saved.QueryDigest == f.queryDigest {
		f.saved = saved
	}
	return nil
}

// follow looks now and then until the context ends.
func (f *Folder) follow(ctx context.Context) {
	defer close(f.done)
	key := string(f.options.Partition) + "/" + f.name
	failures := 0
	for count := 0; ctx.Err() == nil; count++ {
		previous := f.changed()
		failed := f.try(ctx)
		if count == 0 {
			close(f.tried)
		} else if f.changed() != previous && f.options.Wake != nil {
			f.options.Wake()
		}
		pause := f.every
		if failures++; !failed {
			failures = 0
		} else {
			pause = loop.Backoff{First: f.every, Most: max(f.every, slowest)}.After(failures)
		}
		// However many hints there are, they are no more than looks now and then, and
		// none while whoever is asked wants to be left alone.
		quiet := max(source.EveryAtLeast, f.busyFor())
		if f.options.Runtime.Wait(ctx, quiet, nil) != nil {
			return
		}
		if f.options.Runtime.Wait(ctx, max(loop.Jitter(pause, key, count)-quiet, 0), f.hint) != nil {
			return
		}
	}
}

// slowest is how rarely a source that fails is looked at.
const slowest = 5 * time.Minute

// busyFor is how long nobody is to ask again; zero: as usual.
func (f *Folder) busyFor() time.Duration {
	f.lock.Lock()
	defer f.lock.Unlock()
	return pauseOf(f.failure)
}

type outcome struct {
	state  *State
	reason string
}

func (f *Folder) changed() outcome {
	f.lock.Lock()
	defer f.lock.Unlock()
	return outcome{f.latest, text(f.failure)}
}

// try looks once, and notes what came of it.
func (f *Folder) try(ctx context.Context) (failed bool) {
	f.lock.Lock()
	last := f.latest
	f.lock.Unlock()
	first := last == nil
	if first {
		last = f.saved
	}
	state, err := f.fetch(ctx, last)
	if err != nil && first && last != nil && f.usable(ctx, last) {
		state = last
	} else if err != nil {
		state = nil
	}
	if ctx.Err() != nil {
		return true
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if state != nil {
		f.latest = state
	}
	if errors.Is(err, store.ErrAway) && f.latest != nil {
		// That Lehr's own database is away is told by all that need it.
		return true
	}
	if err != nil && f.failure == nil {
		f.since = f.options.Runtime.Now().UTC().Truncate(time.Second)
		if previous, ok := f.options.Failing[f.name]; first && ok && !previous.Since.IsZero() {
			f.since = previous.Since
		}
	}
	f.failure = err
	return err != nil
}

func (f *Folder) fetch(ctx context.Context, last *State) (*State, error) {
	if f.options.Mode == Offline {
		return nil, fault.New(fault.Unavailable, "the source %s is not looked at here", f.name)
	}
	most := patience
	switch source := f.fetcher.(type) {
	case *tree:
		most = gitPatience
	case *versions:
		most = source.patience()
	}
	limited, cancel := loop.WithTimeout(ctx, f.options.Runtime, most)
	defer cancel()
	state, err := f.fetcher.fetch(limited, last)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fault.New(fault.Unavailable, "the source %s did not answer within %s", f.name, most).WithHint("it is tried again")
	}
	if err != nil || state == last {
		return state, err
	}
	state.QueryDigest = f.queryDigest
	if err := source.Complete(f.path, f.patterns, f.limits, state.snapshot()); err != nil {
		return nil, err
	}
	return state, nil
}

func (f *Folder) usable(ctx context.Context, state *State) bool {
	return state.Contents != nil || f.fetcher != nil && f.fetcher.hasContent(ctx, state)
}

// copied is how much of a repository is kept beside its mirror.
const copied = 1 << 20

// adopt makes a state what is read. It is kept before anybody works on it, so
// that whoever comes after has it, and a child in which it is tried.
func (f *Folder) adopt(ctx context.Context, state *State) error {
	if f.options.Keep != nil && f.options.Mode != Offline && !same(f.saved, state) {
		saved := *state
		if saved.Contents == nil && total(state.Files) <= copied {
			contents := make(map[string][]byte, len(state.Files))
			for _, file := range state.Files {
				content, err := f.fetcher.content(ctx, state, file)
				if err != nil {
					return err
				}
				contents[file.Path] = content
			}
			saved.Contents = contents
		}
		text, err := json.Marshal(&saved)
		if err != nil {
			return fault.New(fault.Internal, "cannot encode the source %s: %w", f.name, err)
		}
		if err := f.options.Keep.Save(ctx, f.name, text); err != nil {
			return err
		}
		f.saved = state
	}
	f.state, f.snapshot = state, state.snapshot()
	return nil
}

// same reports whether nothing is to be kept anew.
func same(a, b *State) bool {
	return a == b || a != nil && a.Revision == b.Revision && slices.Equal(a.Files, b.Files) && maps.Equal(a.Marks, b.Marks)
}

func total(files []source.File) (bytes int64) {
	for i := range files {
		bytes += files[i].Size
	}
	return bytes
}

// Content reads a file of the snapshot that was read last.
func (f *Folder) Content(file source.File) (content []byte, err error) {
	if f.state == nil {
		return nil, source.Changed(file.Path)
	}
	content, ok := f.state.Contents[file.Path]
	if !ok {
		if f.fetcher == nil {
			return nil, unreadable(file.Path, errors.New("it was not kept"))
		}
		if content, err = f.fetcher.content(context.Background(), f.state, file); err != nil {
			return nil, err
		}
	}
	if source.Digest(content) != file.Digest {
		return nil, source.Changed(file.Path)
	}
	return content, nil
}

// Failing says since when what was read last is not known to be what the source
// holds, and why.
func (f *Folder) Failing() intent.Failing {
	if f.failed == nil || f.options.Mode == Offline {
		return intent.Failing{}
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	return intent.Failing{Since: f.since, Reason: text(f.failed)}
}

func text(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Message
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// Hint asks for a look now. It may be called by anyone.
func (f *Folder) Hint() {
	select {
	case f.hint <- struct{}{}:
	default:
	}
}

// Close ends the looks.
func (f *Folder) Close() {
	if f.cancel != nil {
		f.cancel()
		_ = f.options.Runtime.Wait(context.Background(), -1, f.done)
	}
	if f.fetcher != nil {
		f.fetcher.close()
	}
}

func sorted[V any](all map[string]V) []string {
	return slices.SortedFunc(maps.Keys(all), strings.Compare)
}
