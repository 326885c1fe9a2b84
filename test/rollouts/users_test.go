package rollouts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// users search all the time, each at the next cluster that is well. As with any balancer
// a search goes to another cluster when no connection can be made; what is answered with
// an error has failed.
type users struct {
	port    int
	client  *http.Client
	well    [clusters]atomic.Bool
	next    atomic.Uint64
	mutex   sync.Mutex
	tallies tally
}

// tally is what users got.
type tally struct {
	requests, failed int
	// last failure, in words.
	last string
}

func (t tally) less(before tally) tally {
	t.requests -= before.requests
	t.failed -= before.failed
	return t
}

// share of requests that failed.
func (t tally) share() float64 { return float64(t.failed) / float64(max(1, t.requests)) }

func (t tally) String() string {
	return fmt.Sprintf("%d of %d requests failed (%.2f %%) %s", t.failed, t.requests, 100*t.share(), t.last)
}

const (
	// everySearch is the time between two searches, whatever became of those before.
	everySearch = 3 * time.Millisecond
	// everyProbe is the time between two looks at whether a cluster is well.
	everyProbe = 100 * time.Millisecond
)

// startUsers begins the load, which goes on until the test ends.
func startUsers(t *testing.T, port int) *users {
	u := &users{port: port, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 20}}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait(); u.client.CloseIdleConnections() })
	for i := range clusters {
		u.well[i].Store(true)
		running.Go(func() {
			for {
				u.well[i].Store(u.healthy(ctx, i))
				if !pause(ctx, everyProbe) {
					return
				}
			}
		})
	}
	running.Go(func() {
		for tick := time.NewTicker(everySearch); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				running.Go(func() { u.count(ctx, u.search(ctx)) })
			}
		}
	})
	return u
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (u *users) get(ctx context.Context, cluster int, path string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", u.port+cluster, path), nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := u.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

func (u *users) healthy(ctx context.Context, cluster int) bool {
	status, _, err := u.get(ctx, cluster, "/healthz")
	return err == nil && status == http.StatusOK
}

// search at the next cluster that is well; the error is what a user sees.
func (u *users) search(ctx context.Context) error {
	err := fmt.Errorf("no cluster is well")
	for range clusters {
		at := int(u.next.Add(1) % clusters)
		if !u.well[at].Load() {
			continue
		}
		status, body, failed := u.get(ctx, at, "/search?q=to+be")
		switch {
		case failed != nil:
			err = failed
			u.well[at].Store(false)
		case status != http.StatusOK || !bytes.Contains(body, []byte("that is the question")):
			return fmt.Errorf("%s answers %d: %.100s", cluster(at), status, body)
		default:
			return nil
		}
	}
	return err
}

func (u *users) count(ctx context.Context, err error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if ctx.Err() != nil {
		return
	}
	if u.tallies.requests++; err != nil {
		u.tallies.failed++
		u.tallies.last = err.Error()
	}
}

// got is what users got until now.
func (u *users) got() tally {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.tallies
}
