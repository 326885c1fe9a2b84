package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lehr.dev/sdk/serve"
)

func enter(t *testing.T, p *Pacer, name string) time.Time {
	t.Helper()
	leave, err := p.Enter(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	return time.Now()
}

func TestRateIsKeptForEachTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := New(Limits{PerSecond: 10, Burst: 3}), time.Now()
		var last time.Time
		for i := range 23 {
			last = enter(t, p, "a")
			if i == 2 && !last.Equal(began) {
				t.Errorf("the burst took %v", last.Sub(began))
			}
		}
		// 3 at once, and 20 more at 10 a second.
		if took := last.Sub(began); took < 1990*time.Millisecond || took > 2010*time.Millisecond {
			t.Errorf("23 took %v", took)
		}
		if at := enter(t, p, "b"); !at.Equal(last) {
			t.Error("another target had to wait")
		}
		time.Sleep(time.Hour) // A long rest gives no more than the burst.
		began = time.Now()
		for range 13 {
			last = enter(t, p, "a")
		}
		if took := last.Sub(began); took < 990*time.Millisecond || took > 1010*time.Millisecond {
			t.Errorf("after a rest 13 took %v", took)
		}
	})
}

func TestWhatCannotBeginInTimeIsBusyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := New(Limits{PerSecond: 0.1}), time.Now()
		enter(t, p, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Enter(ctx, "a")
		pause, ok := serve.BusyPause(err)
		if !ok || pause < 9*time.Second || pause > 10*time.Second || !time.Now().Equal(began) {
			t.Errorf("%v, %v, after %v", err, pause, time.Since(began))
		}
		// One that gave up has taken no token.
		gone, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(errors.New("the permit ended")) })
		if _, err := p.Enter(gone, "a"); err == nil || err.Error() != "the permit ended" {
			t.Error(err)
		}
		if at := enter(t, p, "a"); at.Sub(began) > 10*time.Second+time.Millisecond {
			t.Errorf("the next began after %v", at.Sub(began))
		}
	})
}

func TestSoManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{AtOnce: 3})
		var now, most atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for range 9 {
			all.Go(func() {
				err := p.Do(t.Context(), Call{Target: "a"}, func(context.Context) error {
					for m, n := most.Load(), now.Add(1); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
					now.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() != 3 || time.Since(began) != 3*time.Second {
			t.Errorf("%d at a time, %v in all", most.Load(), time.Since(began))
		}
	})
}

func TestIdleTargetsAreForgottenAndPausedOnesAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{PerSecond: 1000})
		p.Pause("paused", time.Minute)
		for i := range 5 * manyTargets {
			enter(t, p, fmt.Sprint("host", i))
			time.Sleep(time.Millisecond)
		}
		if len(p.targets) > manyTargets+2 {
			t.Errorf("%d targets are kept", len(p.targets))
		}
		if _, err := p.Enter(t.Context(), "paused"); err == nil {
			t.Error("the pause is forgotten")
		}
	})
}

func TestWhatIsRepeated(t *testing.T) {
	broken := fmt.Errorf("asking: %w", io.ErrUnexpectedEOF)
	for name, c := range map[string]struct {
		idempotent bool
		err        error
		attempts   int
	}{
		"a read that was cut":        {true, broken, Attempts},
		"a read that was refused":    {true, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, Attempts},
		"a read that is marked":      {true, fmt.Errorf("x: %w", Transient(errors.New("x"))), Attempts},
		"a read that took too long":  {true, &net.DNSError{IsTimeout: true, IsTemporary: true}, Attempts},
		"a read of an unknown host":  {true, &net.DNSError{IsNotFound: true}, 1},
		"a read that is wrong":       {true, errors.New("no such thing"), 1},
		"a write that was cut":       {false, broken, 1},
		"a write that is marked":     {false, Transient(errors.New("x")), 1},
		"a write that is not wanted": {false, serve.Busy(errors.New("x"), time.Second), 1},
		"a read that is not wanted":  {true, serve.Busy(errors.New("x"), time.Second), Attempts},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			err := New(Limits{}).Do(t.Context(), Call{Target: "a", Idempotent: c.idempotent}, func(context.Context) error {
				attempts++
				return c.err
			})
			if attempts != c.attempts || !errors.Is(err, c.err) {
				t.Errorf("%s: %d attempts, %v", name, attempts, err)
			}
		})
	}
}

func TestAReadThatPassesIsGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		err := New(Limits{}).Do(t.Context(), Call{Target: "a", Idempotent: true}, func(context.Context) error {
			if attempts++; attempts < Attempts {
				return io.EOF
			}
			return nil
		})
		if err != nil || attempts != Attempts {
			t.Errorf("%d attempts, %v", attempts, err)
		}
	})
}

func TestAHungTargetEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		err := New(Limits{}).Do(t.Context(), Call{Target: "db:1", Idempotent: true}, hang)
		if err == nil || !strings.Contains(err.Error(), "db:1 did not answer within 8s") || time.Since(began) != Within {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		attempts := 0
		err = New(Limits{}).Do(t.Context(), Call{Target: "db:1", Idempotent: true, Each: time.Second}, func(ctx context.Context) error {
			if attempts++; attempts == 3 {
				return nil
			}
			return hang(ctx)
		})
		if err != nil || attempts != 3 {
			t.Errorf("%d attempts, %v", attempts, err)
		}
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(errors.New("the stop is on")) })
		if err = New(Limits{}).Do(ctx, Call{Target: "db:1"}, hang); err == nil || !strings.HasPrefix(err.Error(), "the stop is on") {
			t.Error(err)
		}
	})
}

func TestBusyPausesAllAndIsToldWhenItIsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began, sent := New(Limits{}), time.Now(), 0
		busy := func(pause time.Duration) func(context.Context) error {
			return func(context.Context) error { sent++; return serve.Busy(errors.New("429"), pause) }
		}
		err := p.Do(t.Context(), Call{Target: "a", Idempotent: true}, busy(time.Minute))
		if pause, ok := serve.BusyPause(err); !ok || pause != time.Minute || !time.Now().Equal(began) {
			t.Errorf("%v, %v after %v", err, pause, time.Since(began))
		}
		time.Sleep(20 * time.Second)
		err = p.Do(t.Context(), Call{Target: "a"}, busy(time.Second))
		if pause, ok := serve.BusyPause(err); !ok || pause != 40*time.Second || sent != 1 {
			t.Errorf("while it is paused: %v, %v, %d sent", err, pause, sent)
		}
		// A pause that is over in time is waited for.
		began = time.Now()
		if err := p.Do(t.Context(), Call{Target: "b", Idempotent: true}, func(context.Context) error {
			if time.Since(began) < 2*time.Second {
				return serve.Busy(errors.New("429"), 2*time.Second)
			}
			return nil
		}); err != nil || time.Since(began) > 2500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	date := func(after time.Duration) string { return now.Add(after).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		after, date string
		want        time.Duration
		ok          bool
	}{
		"nothing":                {"", "", 0, false},
		"no sense":               {"soon", "", 0, false},
		"below nothing":          {"-5", "", 0, false},
		"seconds":                {" 7 ", "", 7 * time.Second, true},
		"none":                   {"0", "", time.Second, true},
		"a year":                 {"31536000", "", MaxPause, true},
		"more than fits":         {"18446744073709551615", "", MaxPause, true},
		"a date":                 {date(9 * time.Second), date(0), 9 * time.Second, true},
		"a clock an hour behind": {date(-time.Hour + 9*time.Second), date(-time.Hour), 9 * time.Second, true},
		"a clock a day ahead":    {date(24*time.Hour + 9*time.Second), date(24 * time.Hour), 9 * time.Second, true},
		"a date of our clock":    {date(9 * time.Second), "", 9 * time.Second, true},
		"a date that is past":    {date(-time.Hour), "", time.Second, true},
		"a date far away":        {date(24 * time.Hour), "", MaxPause, true},
	} {
		header := http.Header{}
		header.Set("Retry-After", c.after)
		header.Set("Date", c.date)
		if got, ok := RetryAfter(header, now); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v, want %v", name, got, ok, c.want)
		}
	}
}

func TestStatuses(t *testing.T) {
	said := http.Header{"Retry-After": {"7"}}
	for _, c := range []struct {
		status    int
		header    http.Header
		pause     time.Duration
		transient bool
	}{
		{200, said, 0, false}, {404, said, 0, false}, {500, nil, 0, false},
		{429, nil, DefaultPause, false}, {429, said, 7 * time.Second, false},
		{503, nil, 0, true}, {503, said, 7 * time.Second, false}, {502, said, 0, true}, {504, nil, 0, true},
	} {
		err := CheckStatus("api", c.status, c.header)
		if pause, _ := serve.BusyPause(err); pause != c.pause || IsTransient(err) != c.transient {
			t.Errorf("%d %v: %v", c.status, c.header, err)
		}
	}
}

// TestFetchOfARealServer: what the wire does to reads and writes.
func TestFetchOfARealServer(t *testing.T) {
	var requests atomic.Int64
	trouble := func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%3 == 0 {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s", r.Method, body)
			return
		}
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "cut")
		panic(http.ErrAbortHandler)
	}
	server := httptest.NewServer(http.HandlerFunc(trouble))
	defer server.Close()
	p := New(Limits{})
	for name, c := range map[string]struct {
		method     string
		idempotent bool
		want       string
		requests   int64
	}{
		"a read":                      {http.MethodGet, false, "GET ", 3},
		"a write":                     {http.MethodPost, false, "", 1},
		"a write that is the same":    {http.MethodPut, true, "PUT body", 3},
		"a write that may not repeat": {http.MethodPut, false, "", 1},
	} {
		requests.Store(0)
		var body io.Reader
		if c.method != http.MethodGet {
			body = strings.NewReader("body")
		}
		request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := p.Fetch(server.Client(), request, Call{Target: "it", Idempotent: c.idempotent}, 1<<20)
		if got := requests.Load(); got != c.requests || (err == nil) != (c.want != "") || err == nil && string(answer.Body) != c.want {
			t.Errorf("%s: %d requests, %q, %v", name, got, answer.Body, err)
		}
	}
	requests.Store(2)
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if _, err := p.Fetch(server.Client(), request, Call{Target: "it"}, 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Error(err)
	}
}
