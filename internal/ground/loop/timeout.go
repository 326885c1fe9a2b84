package loop

import (
	"context"
	"time"
)

// WithTimeout is context.WithTimeout by the runtime's time; the error is then
// context.Canceled. Cancel must be called.
func WithTimeout(ctx context.Context, runtime Runtime, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	runtime.Go("timeout", func() {
		_ = runtime.Wait(ctx, d, nil)
		cancel()
	})
	return ctx, cancel
}
