package loop

import (
	"context"
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
		began, ended := time.Now(), 0
		for i := range 3 {
			g.Go(Real(), "sleeps", func() {
				time.Sleep(time.Duration(i+1) * time.Second)
				ended++
			})
		}
		short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := g.Wait(short, Real()); err == nil || ended != 1 {
			t.Errorf("%v after %d of 3", err, ended)
		}
		if err := g.Wait(t.Context(), Real()); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
