package resolver

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/secret"
)

// counting has a reader that hands out what it is told, in virtual time.
func counting(read func(context.Context) result) (*kept, *atomic.Int64, func(context.Context) result) {
	var reads atomic.Int64
	return &kept{}, &reads, func(ctx context.Context) result {
		reads.Add(1)
		return read(ctx)
	}
}

func digestOf(text string) secret.Digest { return sha256.Sum256([]byte(text)) }

// TestLooksReadOnACadence and the value is kept no longer than that.
func TestLooksReadOnACadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, reads, read := counting(func(context.Context) result {
			return result{content: []byte("value"), digest: digestOf("value")}
		})
		for range 10 {
			got, err := k.get(t.Context(), nil, "x", read)
			if err != nil || string(got.content) != "value" {
				t.Fatal(got, err)
			}
			time.Sleep(2 * time.Second)
		}
		if reads.Load() != 1 {
			t.Errorf("%d readings in 20 s", reads.Load())
		}
		k.mutex.Lock()
		held := k.last.content
		k.mutex.Unlock()
		time.Sleep(cadence)
		synctest.Wait()
		k.mutex.Lock()
		if k.last.content != nil || string(held) != "\x00\x00\x00\x00\x00" || k.last.digest != digestOf("value") {
			t.Errorf("after the cadence %q is kept, with the digest %v", held, k.last.digest)
		}
		k.mutex.Unlock()
		if _, err := k.get(t.Context(), nil, "x", read); err != nil || reads.Load() != 2 {
			t.Errorf("%d readings after the cadence, %v", reads.Load(), err)
		}
	})
}

// TestThereIsOneReaderAtOnce however many ask, and a failure counts for all of them.
func TestThereIsOneReaderAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var atOnce, most atomic.Int64
		k, reads, read := counting(func(context.Context) result {
			most.Store(max(most.Load(), atOnce.Add(1)))
			defer atOnce.Add(-1)
			time.Sleep(time.Second)
			return result{err: errors.New("broken")}
		})
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() {
				if _, err := k.get(t.Context(), nil, "x", read); err == nil || err.Error() != "broken" {
					t.Errorf("%v", err)
				}
			})
		}
		asking.Wait()
		if reads.Load() != 1 || most.Load() != 1 {
			t.Errorf("%d readings, %d at once", reads.Load(), most.Load())
		}
		time.Sleep(failurePause)
		_, _ = k.get(t.Context(), nil, "x", read)
		if reads.Load() != 2 {
			t.Errorf("%d readings after the pause", reads.Load())
		}
	})
}

// TestALookDoesNotWaitForAReaderThatHangs, and asks no second one.
func TestALookDoesNotWaitForAReaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, reads, read := counting(func(ctx context.Context) result {
			<-ctx.Done()
			return result{err: fault.New(fault.Unavailable, "did not end")}
		})
		began := time.Now()
		for range 5 {
			if _, err := k.get(t.Context(), nil, "x", read); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "is being read") {
				t.Errorf("%v", err)
			}
		}
		if time.Since(began) != patience || reads.Load() != 1 {
			t.Errorf("looks waited %v, for %d readers", time.Since(began), reads.Load())
		}
		// A push waits to the end.
		if _, err := k.get(t.Context(), &secret.Push{}, "x", read); err == nil || !strings.Contains(err.Error(), "did not end") || time.Since(began) != readWithin {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
