package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
)

// held is a push that has the permit for base "1" asked for just now.
func heldPush() (*permits, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &permits{cancel: cancel, wanted: "1", changed: make(chan struct{}), renew: func() {}}
	p.grant("1", sinceBoot())
	return p, ctx
}

func TestEffectNeedsAPermit(t *testing.T) {
	p, ctx := heldPush()
	if err := p.Effect(ctx); err != nil {
		t.Errorf("with a permit: %v", err)
	}
	p.cancel(errNoPermit)
	if err := p.Effect(ctx); !errors.Is(err, errNoPermit) {
		t.Errorf("after a refusal: %v", err)
	}
}

func TestPermitHoldsFromWhenItWasAskedFor(t *testing.T) {
	p, ctx := heldPush()
	asked := sinceBoot()
	p.grant("1", asked-plugin.PermitPeriod/2)
	if p.until > asked+plugin.PermitPeriod {
		t.Errorf("an older request made the permit longer")
	}
	p.expire(p.until - plugin.PermitPeriod/2)
	if ctx.Err() != nil {
		t.Error("cancelled while the permit holds")
	}
	// Cancelled before it runs out, not after.
	p.expire(p.until - time.Millisecond)
	if !errors.Is(context.Cause(ctx), errNoPermit) {
		t.Errorf("not cancelled when the permit runs out: %v", context.Cause(ctx))
	}
}

func TestNewBaseNeedsItsOwnPermit(t *testing.T) {
	p, ctx := heldPush()
	renewed := make(chan struct{}, 1)
	p.renew = func() { renewed <- struct{}{} }
	covered := make(chan error, 1)
	go func() { covered <- p.Cover(ctx, "2") }()
	<-renewed
	p.grant("1", sinceBoot())
	select {
	case err := <-covered:
		t.Fatalf("a permit for the old base covered the new one: %v", err)
	default:
	}
	if p.base() != "2" {
		t.Errorf("asks for base %q", p.base())
	}
	p.grant("2", sinceBoot())
	if err := <-covered; err != nil {
		t.Errorf("permitted: %v", err)
	}
}
