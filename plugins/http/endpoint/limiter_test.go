package endpoint

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRequestsAreSpread: as many a second as the operator allows, and at most so many at
// once; what has no turn before its deadline is told at once.
func TestRequestsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(10)
		begin := time.Now()
		var running sync.WaitGroup
		for range 21 {
			running.Go(func() {
				leave, err := l.enter(t.Context(), time.Now())
				if err != nil {
					t.Error(err)
					return
				}
				leave()
			})
		}
		running.Wait()
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("21 requests took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i := range 20 {
			if _, err := l.enter(ctx, time.Now()); i < 8 && err != nil || i > 11 && err == nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
	})
}

// TestABusyAPIIsLeftAlone by all requests until it has time.
func TestABusyAPIIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1000)
		l.pause(time.Now(), 30*time.Second)
		l.pause(time.Now(), 10*time.Second) // A shorter one takes nothing back.
		_, err := l.enter(t.Context(), time.Now())
		if busy, ok := errors.AsType[*Busy](err); !ok || busy.Pause != 30*time.Second {
			t.Error(err)
		}
		time.Sleep(30 * time.Second)
		if leave, err := l.enter(t.Context(), time.Now()); err != nil {
			t.Error(err)
		} else {
			leave()
		}
	})
}
