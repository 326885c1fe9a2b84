package main

import (
	"sync/atomic"
	"time"
)

// trouble is how a release misbehaves, for who wants to see it found. The zero value
// does not.
type trouble struct {
	// errors is the share of searches that fail, from 0 to 1: of 0.05 each twentieth.
	errors float64
	// searches until now.
	searches atomic.Uint64
	// leak is by how much searches become slower in each second that it runs, up to
	// mostLeak.
	leak  time.Duration
	began time.Time
}

// mostLeak keeps a release that leaks from hanging.
const mostLeak = time.Second

// strikes makes a search as slow as it is by now, and reports whether it fails.
func (t *trouble) strikes() bool {
	if t.leak > 0 {
		time.Sleep(min(mostLeak, time.Duration(float64(t.leak)*time.Since(t.began).Seconds())))
	}
	n := float64(t.searches.Add(1))
	return uint64(n*t.errors) > uint64((n-1)*t.errors)
}
