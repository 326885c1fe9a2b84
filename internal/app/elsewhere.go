package app

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"lehr.dev/internal/annealing/delivery/commitstatus"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/store"
)

// elsewhere is what sources that are no folders of this machine may use.
type elsewhere struct {
	policy atomic.Pointer[fetch.Policy]
	// hooks has an element for each webhook that is being read.
	hooks chan struct{}
}

func (e *elsewhere) read(path string) error {
	policy, err := fetch.ReadPolicy(path)
	if err == nil {
		e.policy.Store(policy)
	}
	return err
}

// options of a server's sources.
func (e *elsewhere) options(o Options) fetch.Options {
	folder := o.Fetched
	if folder == "" {
		folder = o.Store + ".sources"
	}
	if absolute, err := filepath.Abs(folder); err == nil {
		folder = absolute
	}
	return fetch.Options{Folder: folder, Policy: e.policy.Load, Documents: o.Parts.Documents}
}

// optionsOf are those of a partition's sources. Where an access policy says who may
// do what, its author is another than who runs the server: then they are confined to
// the folder of the definition, and to those that the policy of sources lists.
func (e *elsewhere) optionsOf(o Options, partition intent.PartitionID, place string) fetch.Options {
	options := e.options(o)
	options.Partition = partition
	if o.Access == "" {
		return options
	}
	home := homeOf(place)
	options.Within = func() []string {
		list := slices.Clone(home)
		if policy := e.policy.Load(); policy != nil {
			list = append(list, policy.FoldersOf(partition)...)
		}
		return list
	}
	return options
}

// statusHosts are the git hosts that are told where the versions of an application stand.
func (a *App) statusHosts(partition intent.PartitionID, application string, runtime loop.Runtime) map[string]commitstatus.Poster {
	posters := map[string]commitstatus.Poster{}
	for name, host := range a.elsewhere.options(a.options).StatusHosts(partition, application, runtime) {
		posters[name] = host
	}
	return posters
}

// homeOf is the folder of this machine in which a definition lies; empty: it lies
// elsewhere.
func homeOf(place string) []string {
	definition, err := source.ParseDefinition(place)
	switch {
	case err != nil:
		return []string{}
	case definition.Git == nil:
		return []string{filepath.Dir(definition.Path)}
	case filepath.IsAbs(definition.Git.URL):
		return []string{definition.Git.URL}
	}
	return []string{}
}

// follow reads the policy again and again. One that is wrong changes nothing:
// what was read last counts until it is mended.
func (e *elsewhere) follow(ctx context.Context, a *App) {
	lastError := ""
	for a.runtime.Wait(ctx, policyLook, nil) == nil {
		policy, err := fetch.ReadPolicy(a.options.Sources)
		switch {
		case err != nil && err.Error() != lastError:
			a.log.Error("the policy of sources cannot be read, and what it said before still counts", "error", err)
			lastError = err.Error()
		case err == nil && !reflect.DeepEqual(policy, e.policy.Load()):
			e.policy.Store(policy)
			a.log.Info("the policy of sources was read", "file", a.options.Sources)
			lastError = ""
		}
	}
}

// sweepPause is how long mirrors that nobody uses are let be.
const sweepPause = time.Hour

// sweep removes mirrors that nobody uses, of partitions and sources that are gone and
// of documents that are not edited, again and again.
func (a *App) sweep(ctx context.Context) {
	folder := a.elsewhere.options(a.options).Folder
	for ctx.Err() == nil {
		if removed, err := a.sweepOnce(ctx, folder, documentsOf(folder)); err != nil && ctx.Err() == nil {
			a.log.Warn("mirrors that nobody uses were not all removed; it is tried again", "error", err)
		} else if removed > 0 {
			a.log.Info("removed mirrors that nobody uses", "mirrors", removed)
		}
		_ = a.runtime.Wait(ctx, sweepPause, nil)
	}
}

func (a *App) sweepOnce(ctx context.Context, folders ...string) (removed int, err error) {
	registered, err := a.store.ListPartitions(ctx)
	if err != nil {
		return 0, err
	}
	for _, folder := range folders {
		some, err := fetch.SweepUnused(ctx, folder, func(id intent.PartitionID) bool {
			return a.common != nil && id == commonMirror || slices.ContainsFunc(registered, func(p store.Partition) bool { return p.ID == id })
		}, a.runtime.Now())
		if removed += some; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// documentsOf is where mirrors lie that documents are edited in, beside those of
// sources: no partition has that name.
func documentsOf(folder string) string { return filepath.Join(folder, ".documents") }

// temporaryOptions is what sources may use that are read without a server. End removes
// what was fetched.
func temporaryOptions(sources string) (options fetch.Options, end func(), err error) {
	e := &elsewhere{}
	if err := e.read(sources); err != nil {
		return options, nil, err
	}
	folder, err := os.MkdirTemp("", "lehr-sources-")
	if err != nil {
		return options, nil, fault.New(fault.Unavailable, "making a folder for what is fetched: %w", err)
	}
	return fetch.Options{Folder: folder, Policy: e.policy.Load, Mode: fetch.Once}, func() { os.RemoveAll(folder) }, nil
}
