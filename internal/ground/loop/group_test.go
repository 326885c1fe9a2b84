package loop

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGroupWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		if err := g.Wait(t.Context(), Real()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var ended atomic.Int32
		for i := range 3 {
			g.Go(Real(), "sleeps", func() {
				time.Sleep(time.Duration(i+1) * time.Second)
				ended.Add(1)
			})
		}
		short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := g.Wait(short, Real()); err == nil || ended.Load() != 1 {
			t.Errorf("%v after %d of 3", err, ended.Load())
		}
		if err := g.Wait(t.Context(), Real()); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
