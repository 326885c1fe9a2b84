package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// prober is the demo's monitoring: it searches on the ports of the reader all the time, as a blackbox exporter does, and
// answers what share of the searches failed, by second.
type prober struct {
	listener net.Listener
	server   *http.Server
	running  sync.WaitGroup
	end      context.CancelFunc
	// mutex guards seconds: by the asset of the reader and the Unix time, what was searched.
	mutex   sync.Mutex
	seconds map[string]map[int64]probes
}

// probes of one second.
type probes struct{ failed, all int }

// Pauses between two searches on a port, and how long what they found is kept.
const (
	probeEvery = 50 * time.Millisecond
	probesKept = 10 * time.Minute
)

func newProber() (*prober, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &prober{listener: listener, seconds: map[string]map[int64]probes{}, end: func() {}}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	p.running.Go(func() { _ = p.server.Serve(listener) })
	return p, nil
}

func (p *prober) url() string { return "http://" + p.listener.Addr().String() }

// start probes the ports of each asset until close.
func (p *prober) start(ctx context.Context, assets map[string][]int) {
	ctx, p.end = context.WithCancel(ctx)
	for asset, ports := range assets {
		for _, port := range ports {
			p.running.Go(func() {
				for sleep(ctx, probeEvery) {
					at := time.Now()
					_, err := search(ctx, port)
					if ctx.Err() == nil {
						p.add(asset, at, err != nil)
					}
				}
			})
		}
	}
}

func (p *prober) add(asset string, at time.Time, failed bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	seconds := p.seconds[asset]
	if seconds == nil {
		seconds = map[int64]probes{}
		p.seconds[asset] = seconds
	}
	now := seconds[at.Unix()]
	now.all++
	if failed {
		now.failed++
	}
	seconds[at.Unix()] = now
	delete(seconds, at.Add(-probesKept).Unix())
}

// ServeHTTP answers a question of a validation: the share of searches that failed in each second that is over.
func (p *prober) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Assets     []string
		Start, End time.Time
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&question); err != nil {
		http.Error(w, fmt.Sprintf("the question is no JSON: %v", err), http.StatusBadRequest)
		return
	}
	type sample struct {
		At    time.Time `json:"at"`
		Value float64   `json:"value"`
	}
	answer := struct {
		Samples []sample `json:"samples"`
	}{[]sample{}}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	for second := question.Start.Unix(); second <= question.End.Unix() && second < now.Unix(); second++ {
		var sum probes
		for _, asset := range question.Assets {
			seen := p.seconds[asset][second]
			sum.all, sum.failed = sum.all+seen.all, sum.failed+seen.failed
		}
		at := time.Unix(second, 0).UTC()
		if sum.all > 0 && !at.Before(question.Start) && !at.After(question.End) {
			answer.Samples = append(answer.Samples, sample{at, float64(sum.failed) / float64(sum.all)})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // Who asked has gone.
}

// close ends the probes and the answers.
func (p *prober) close() {
	p.end()
	_ = p.server.Close()
	p.running.Wait()
}

// readerAssets are the reader's assets with the ports of their tasks.
func (s *stage) readerAssets() map[string][]int {
	assets := map[string][]int{}
	for _, place := range readerPlaces {
		if strings.HasPrefix(place, "production/") {
			assets["reader/"+place] = s.readerPorts(place)
		}
	}
	return assets
}
