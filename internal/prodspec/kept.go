package prodspec

import (
	"context"
	"encoding/json"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/store"
)

// sourceKeeper keeps what was read last of sources that lie elsewhere, and knows which
// they are, to forget those that are no longer read.
type sourceKeeper struct {
	fetch.Keeper
	// names, as they are listed in the store; nil: not read yet.
	names []string
}

// keptIndex is the name under which the others are listed. No source has it.
const keptIndex = "/index"

func (k *sourceKeeper) recall(ctx context.Context) error {
	if k.names != nil {
		return nil
	}
	text, err := k.Keeper.Load(ctx, keptIndex)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	k.names = []string{}
	if err == nil {
		_ = json.Unmarshal(text, &k.names) // Of another version: none is known.
	}
	return nil
}

func (k *sourceKeeper) list(ctx context.Context) error {
	text, err := json.Marshal(k.names)
	if err != nil {
		return fault.New(fault.Internal, "cannot encode the names of sources: %w", err)
	}
	return k.Keeper.Save(ctx, keptIndex, text)
}

// Save implements fetch.Keeper.
func (k *sourceKeeper) Save(ctx context.Context, name string, state []byte) error {
	if err := k.recall(ctx); err != nil {
		return err
	}
	if !slices.Contains(k.names, name) {
		k.names = append(k.names, name)
		slices.Sort(k.names)
		if err := k.list(ctx); err != nil {
			return err
		}
	}
	return k.Keeper.Save(ctx, name, state)
}

// retainOnly forgets all but these.
func (k *sourceKeeper) retainOnly(ctx context.Context, used map[string]bool) error {
	if k == nil {
		return nil
	}
	if err := k.recall(ctx); err != nil {
		return err
	}
	unused := slices.DeleteFunc(slices.Clone(k.names), func(name string) bool { return used[name] })
	for _, name := range unused {
		if err := k.Keeper.Save(ctx, name, nil); err != nil {
			return err
		}
	}
	if len(unused) == 0 {
		return nil
	}
	k.names = slices.DeleteFunc(k.names, func(name string) bool { return !used[name] })
	return k.list(ctx)
}

// lastBlobs is the kind of blob that holds what sources held last.
const lastBlobs = "source"

// lasts keeps what sources held last in the store.
type lasts struct {
	store Store
	lease store.Lease
}

func (l lasts) Load(ctx context.Context, name string) ([]byte, error) {
	return l.store.GetBlob(ctx, l.lease.Partition, lastBlobs, name)
}

func (l lasts) Save(ctx context.Context, name string, state []byte) error {
	return l.store.PutBlobs(ctx, l.lease, lastBlobs, map[string][]byte{name: state})
}

// all that is kept, for a child.
func (k *sourceKeeper) all(ctx context.Context) (map[string][]byte, error) {
	if k == nil {
		return nil, nil
	}
	if err := k.recall(ctx); err != nil {
		return nil, err
	}
	states := map[string][]byte{}
	for _, name := range k.names {
		state, err := k.Keeper.Load(ctx, name)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		states[name] = state
	}
	return states, nil
}

// memoryKeeper is what a child was given.
type memoryKeeper map[string][]byte

func (g memoryKeeper) Load(_ context.Context, name string) ([]byte, error) {
	if state, ok := g[name]; ok {
		return state, nil
	}
	return nil, fault.New(fault.NotFound, "nothing is kept of the source %s", name)
}

func (memoryKeeper) Save(context.Context, string, []byte) error { return nil }

// failingBefore is since when sources failed, as a partition's coverage says.
func failingBefore(covered []intent.SourceRevision) map[string]intent.Failing {
	failing := map[string]intent.Failing{}
	for _, r := range covered {
		if r.Failing != (intent.Failing{}) {
			failing[r.Source] = r.Failing
		}
	}
	return failing
}
