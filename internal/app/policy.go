package app

import (
	"context"
	"slices"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// policyLook is how often the access policy's file is read.
const policyLook = time.Second

// readPolicy has the store hold what the access policy grants; without one,
// nothing: a server that is started without does not go on with the last.
func (a *App) readPolicy(ctx context.Context) error {
	if a.options.Access == "" {
		return a.withoutPolicy(ctx)
	}
	read, err := access.ReadPolicy(a.options.Access)
	if err != nil {
		return err
	}
	logins, err := a.newLogins(read.OIDC)
	if err != nil {
		return err
	}
	return a.setPolicy(ctx, read, logins)
}

func (a *App) withoutPolicy(ctx context.Context) error {
	grants, err := a.store.Grants(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(grants, func(g store.Grant) bool { return g.Source == store.ByServer }) {
		return a.setPolicy(ctx, access.Policy{}, &logins{})
	}
	return nil
}

// setPolicy counts from when it is in the store, and in the audit.
func (a *App) setPolicy(ctx context.Context, read access.Policy, logins *logins) error {
	actor := intent.Actor{Name: a.holder, Origin: "server"}
	if err := a.store.SetPolicy(ctx, read.Grants, actor); err != nil {
		return err
	}
	a.policy.Store(&read)
	a.logins.Store(logins)
	return nil
}

// followPolicy reads the file, and that of the web client's secret, again and
// again. One that is wrong changes
// nothing: what was read last counts until it is mended.
func (a *App) followPolicy(ctx context.Context) {
	lastError := ""
	for a.runtime.Wait(ctx, policyLook, nil) == nil {
		var logins *logins
		read, err := access.ReadPolicy(a.options.Access)
		if err == nil {
			logins, err = a.newLogins(read.OIDC)
		}
		changed := err == nil && !(read.Equal(*a.policy.Load()) && logins == a.logins.Load())
		if changed {
			err = a.setPolicy(ctx, read, logins)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && err.Error() != lastError:
			a.log.Error("the access policy is not as it was read last, and that still counts", "file", a.options.Access, "error", err)
			lastError = err.Error()
		case err == nil && (changed || lastError != ""):
			a.log.Info("the access policy was read", "file", a.options.Access, "grants", len(read.Grants), "issuer", read.OIDC.Issuer)
			lastError = ""
		}
	}
}
