package app

import (
	"context"
	"time"

	"lehr.dev/internal/ground/quota"
)

// followQuotas reads the file again and again. One that is wrong changes nothing: what
// was read last counts until it is mended.
func (a *App) followQuotas(ctx context.Context) {
	lastError := ""
	for a.runtime.Wait(ctx, policyLook, nil) == nil {
		limits, err := quota.Read(a.options.Quotas)
		switch {
		case err != nil && err.Error() != lastError:
			a.log.Error("the file of quotas cannot be read, and what it said before still counts", "error", err)
			lastError = err.Error()
		case err == nil && limits != a.quotas.Limits():
			a.quotas.Use(limits)
			a.log.Info("the file of quotas was read", "file", a.options.Quotas)
			lastError = ""
		}
	}
}

// bodyPatience is how long the body of a request may take to arrive.
func (a *App) bodyPatience() time.Duration {
	return time.Duration(a.quotas.Limits().BodySeconds) * time.Second
}
