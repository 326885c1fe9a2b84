package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// permitInterval is how often permits are asked for.
	permitInterval = time.Second
	// permitTick is how often permits are looked at. A push whose permit
	// would run out before the next look is cancelled at this one, so that
	// it is cancelled in time and not after.
	permitTick = 250 * time.Millisecond
)

// errNoPermit ends a push whose permit was refused or ran out.
var errNoPermit = errors.New("no permit")

// permits is what one push may do, and until when.
type permits struct {
	cancel context.CancelCauseFunc
	// renew asks for a permit without waiting for the next interval.
	renew func()

	mutex sync.Mutex
	// wanted is the base that a permit must cover, covered the one that the
	// permit held covers, until when it ends by sinceBoot.
	wanted, covered string
	holds           bool
	until           time.Duration
	// changed is closed and replaced when a permit arrives.
	changed chan struct{}
}

// Effect returns nil when an effect may start now.
func (p *permits) Effect(ctx context.Context) error {
	for {
		p.mutex.Lock()
		may := p.holds && p.covered == p.wanted && sinceBoot() < p.until
		changed := p.changed
		p.mutex.Unlock()
		if err := context.Cause(ctx); err != nil {
			return noPermit(err)
		}
		if may {
			return nil
		}
		select {
		case <-ctx.Done():
			return noPermit(context.Cause(ctx))
		case <-changed:
		}
	}
}

func noPermit(cause error) error {
	if errors.Is(cause, errNoPermit) {
		return cause
	}
	return fmt.Errorf("%w: %w", errNoPermit, cause)
}

// Cover waits for a permit that names the base.
func (p *permits) Cover(ctx context.Context, base string) error {
	if !utf8.ValidString(base) {
		return fmt.Errorf("%w: the base %q is not text: a defect of the plugin", errNoPermit, base)
	}
	p.mutex.Lock()
	p.wanted = base
	p.mutex.Unlock()
	p.renew()
	return p.Effect(ctx)
}

// base is what the next request names.
func (p *permits) base() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.wanted
}

// grant takes a permit that was asked for at the time.
func (p *permits) grant(base string, requestedAt time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if base != p.wanted {
		return
	}
	p.holds, p.covered = true, base
	p.until = max(p.until, requestedAt+plugin.PermitPeriod)
	close(p.changed)
	p.changed = make(chan struct{})
}

// expire cancels the push when its permit is about to run out.
func (p *permits) expire(now time.Duration) {
	p.mutex.Lock()
	remaining := p.until - now
	p.mutex.Unlock()
	if remaining < permitTick {
		p.cancel(fmt.Errorf("%w: the last one ran out and Lehr gave no other", errNoPermit))
	}
}
