package app

import (
	"context"
	"reflect"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/notify"
)

// guardOwn makes this server's files nobody's input: the store with what lies beside
// it, keys and secrets, and the lists that say who may use what. It is asked again
// when a list may name others; release ends it.
func (a *App) guardOwn() {
	stores, single := a.ownFiles()
	a.guarding.Lock()
	defer a.guarding.Unlock()
	if now := [2][]string{stores, single}; !reflect.DeepEqual(now, a.guarded) {
		release := a.unguard
		a.guarded, a.unguard = now, files.Guard(stores, single)
		if release != nil {
			release()
		}
	}
}

// freeOwn ends that.
func (a *App) freeOwn() {
	a.guarding.Lock()
	defer a.guarding.Unlock()
	if a.unguard != nil {
		a.unguard()
	}
	a.guarded, a.unguard = [2][]string{}, nil
}

func (a *App) ownFiles() (stores, single []string) {
	o := &a.options
	if o.Store != "" {
		stores = append(stores, o.Store)
	}
	if o.Fetched != "" {
		stores = append(stores, o.Fetched)
	}
	single = append(single, o.TLS.Key, o.Access, o.PluginServers, o.Sources, o.Generators, o.ExternalChecks, o.Notifications, o.Quotas)
	if !o.Checkpoints.posts() {
		single = append(single, o.Checkpoints.To)
	}
	if policy := a.policy.Load(); policy != nil {
		single = append(single, policy.OIDC.WebClientSecretFile)
	}
	if policy := a.elsewhere.policy.Load(); policy != nil {
		single = append(single, policy.SecretFiles()...)
	}
	if a.pool != nil {
		for _, s := range a.pool.listed().Servers {
			single = append(single, s.Key)
		}
		single = append(single, a.pool.listed().secretFiles()...)
	}
	// One that cannot be read is told where it is needed.
	if policy, err := external.ReadPolicy(o.ExternalChecks); err == nil {
		single = append(single, policy.SecretFiles()...)
	}
	if policy, err := notify.ReadPolicy(o.Notifications); err == nil {
		single = append(single, policy.SecretFiles()...)
	}
	return stores, single
}

func (l *servers) secretFiles() (list []string) {
	add := func(u uses) {
		for _, s := range u.Secrets {
			list = append(list, s.File)
		}
	}
	for _, p := range l.Programs {
		add(p.uses)
	}
	for _, s := range l.Servers {
		add(s.uses)
	}
	return list
}

// followOwn keeps up with lists that name other secrets.
func (a *App) followOwn(ctx context.Context) {
	for a.runtime.Wait(ctx, policyLook, nil) == nil {
		a.guardOwn()
	}
}
