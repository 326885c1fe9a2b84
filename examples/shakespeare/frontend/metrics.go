package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// bounds of the histogram of latencies, in seconds.
var bounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}

// metrics are what Prometheus reads of a frontend: how many searches it answered, how
// many of them it failed, and how long they took. The zero value counts from nothing.
type metrics struct {
	mutex            sync.Mutex
	requests, errors uint64
	seconds          float64
	// within each bound, and above all of them.
	within [12]uint64
}

// count one search.
func (m *metrics) count(duration time.Duration, failed bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.requests++
	if failed {
		m.errors++
	}
	m.seconds += duration.Seconds()
	at := 0
	for at < len(bounds) && duration.Seconds() > bounds[at] {
		at++
	}
	m.within[at]++
}

// page in Prometheus' text format. Errors are there from the start, as a zero.
func (m *metrics) page(cluster, version string) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var b strings.Builder
	labels := fmt.Sprintf("cluster=%q,version=%q", cluster, version)
	fmt.Fprintf(&b, "# TYPE frontend_requests_total counter\nfrontend_requests_total{%s} %d\n", labels, m.requests)
	fmt.Fprintf(&b, "# TYPE frontend_errors_total counter\nfrontend_errors_total{%s} %d\n", labels, m.errors)
	b.WriteString("# TYPE frontend_seconds histogram\n")
	sum := uint64(0)
	for i, n := range m.within {
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		sum += n
		fmt.Fprintf(&b, "frontend_seconds_bucket{%s,le=%q} %d\n", labels, bound, sum)
	}
	fmt.Fprintf(&b, "frontend_seconds_sum{%s} %g\nfrontend_seconds_count{%s} %d\n", labels, m.seconds, labels, m.requests)
	return b.String()
}

func (f *frontend) showMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprint(w, f.metrics.page(f.cluster, f.answerer.Version))
}
