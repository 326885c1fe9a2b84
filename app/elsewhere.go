package app

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"

	"lehr.dev/fault"
	"lehr.dev/prodspec/source/fetch"
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

// follow reads the policy again and again. One that is wrong changes nothing:
// what was read last counts until it is mended.
func (e *elsewhere) follow(ctx context.Context, a *App) {
	said := ""
	for a.runtime.Wait(ctx, policyLook, nil) == nil {
		policy, err := fetch.ReadPolicy(a.options.Sources)
		switch {
		case err != nil && err.Error() != said:
			a.log.Error("the policy of sources cannot be read, and what it said before still counts", "error", err)
			said = err.Error()
		case err == nil && !reflect.DeepEqual(policy, e.policy.Load()):
			e.policy.Store(policy)
			a.log.Info("the policy of sources was read", "file", a.options.Sources)
			said = ""
		}
	}
}

// once is what sources may use that are read without a server. End removes
// what was fetched.
func once(sources string) (options fetch.Options, end func(), err error) {
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
