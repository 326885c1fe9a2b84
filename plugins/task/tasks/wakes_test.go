package tasks

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/serve"
)

// A task is hinted once when its time comes, and not before; what waits for nothing is not.
func TestTimeThatComesIsHinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWakes()
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		hinted := map[serve.AssetID]time.Duration{}
		over := make(chan error)
		go func() {
			over <- w.Watch(ctx, func(_ serve.PartitionID, asset serve.AssetID) {
				if _, ok := hinted[asset]; ok {
					t.Errorf("%s is hinted twice", asset)
				}
				hinted[asset] = time.Since(began)
			})
		}()
		set := func(asset string, wait wake) { w.set(identity{"shop", serve.AssetID(asset)}, wait) }
		set("nightly", wake{at: began.Add(10 * time.Hour)})
		set("soon", wake{at: began.Add(100 * time.Millisecond)})
		set("past", wake{at: began.Add(-time.Hour)})
		set("never", wake{})
		set("other", wake{at: began.Add(time.Hour)})
		set("other", wake{}) // It was looked at meanwhile, and waits for nothing.
		// Its keeper is gone already.
		set("ended", wake{folder: runrecord.Folder{Path: t.TempDir()}, isLive: true, at: began.Add(100 * time.Hour)})
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		for asset, want := range map[serve.AssetID]time.Duration{"past": 0, "ended": 0, "soon": 100 * time.Millisecond, "nightly": 10 * time.Hour} {
			if got, ok := hinted[asset]; !ok || got != want {
				t.Errorf("%s was hinted after %s, want %s", asset, got, want)
			}
		}
		if len(hinted) != 4 {
			t.Errorf("hinted %v", hinted)
		}
	})
}
