package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/plugins/kubernetes/plane"
)

// traffic is what clients saw through a gateway, second by second.
type traffic struct {
	mutex sync.Mutex
	// requests and failures count by the second and the Deployment that answered.
	requests, failures map[int64]map[string]int
	// images count by the service that was asked, since somebody took them; where nobody answered, that of no image.
	images map[string]map[string]int
	// answers count by the image that gave them, and are not taken.
	answers map[string]int
	// copies of requests count by the image that had them.
	copies map[string]int
	// refusals are requests that no pod had.
	refusals int
	// held are assets: while they are named, there are no metrics of what they brought, so that their stages go on for as
	// long as a test counts requests.
	held []string
}

// hold keeps the stages of assets, and no others, from being judged.
func (s *traffic) hold(assets ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.held = assets
}

func (s *traffic) add(at time.Time, service, workload, image string, status int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.images[service] == nil {
		s.images[service] = map[string]int{}
	}
	s.images[service][image]++
	if s.answers == nil {
		s.answers = map[string]int{}
	}
	s.answers[image]++
	if workload == "" {
		s.refusals++
		return
	}
	s.measure(at, workload, status)
}

// measure counts what a workload answered, which the judge asks for.
func (s *traffic) measure(at time.Time, workload string, status int) {
	for _, counts := range []map[int64]map[string]int{s.requests, s.failures} {
		if counts[at.Unix()] == nil {
			counts[at.Unix()] = map[string]int{}
		}
	}
	s.requests[at.Unix()][workload]++
	if status != http.StatusOK {
		s.failures[at.Unix()][workload]++
	}
}

// countCopy counts a copy of a request, of which no client knows.
func (s *traffic) countCopy(pod plane.Pod, _ int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.copies == nil {
		s.copies = map[string]int{}
	}
	s.copies[pod.Image]++
}

// measureCopy counts a copy of a request, also for the judge.
func (s *traffic) measureCopy(pod plane.Pod, status int) {
	s.countCopy(pod, status)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.measure(time.Now(), workloadOf(pod.Name), status)
}

// answersOf counts the requests that an image answered since the test began.
func (s *traffic) answersOf(image string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.answers[image]
}

// takeCopies returns how many copies of requests each image had since the last call.
func (s *traffic) takeCopies() (images map[string]int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	images, s.copies = s.copies, map[string]int{}
	return images
}

// awaitCopies waits until, beside at least 100 requests for a service of which none had an answer of an image, the image had
// copies within bounds, as a share of the requests, and no other had any.
func (s *traffic) awaitCopies(t *testing.T, p *plane.Plane, service, image string, least, most float64, status func() string) {
	t.Helper()
	s.take(service)
	s.takeCopies()
	copies, others, answers, total, before := 0, 0, 0, 0, errors.New("nothing was counted")
	p.Wait(fmt.Sprintf("%s to have copies of %v to %v", image, least, most), func() error {
		for name, count := range s.takeCopies() {
			if name == image {
				copies += count
			} else {
				others += count
			}
		}
		for name, count := range s.take(service) {
			total += count
			if name == image {
				answers += count
			}
		}
		if total < 100 {
			return fmt.Errorf("%d requests so far; before, %w", total, before)
		}
		if share := float64(copies) / float64(total); share < least || share > most || others > 0 || answers > 0 {
			before = fmt.Errorf("of %d requests it has %d copies and %d answers, others have %d copies, and the rollout says %s", total, copies, answers, others, status())
			copies, others, answers, total = 0, 0, 0, 0
			return before
		}
		return nil
	})
}

// take returns how many requests for a service each image had since the last call.
func (s *traffic) take(service string) (images map[string]int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	images = s.images[service]
	delete(s.images, service)
	return images
}

// forget drops what was counted until now.
func (s *traffic) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.refusals = 0
	clear(s.failures)
}

// troubles counts how many requests had no pod, and how many an error.
func (s *traffic) troubles() (refusals, errors int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, counts := range s.failures {
		for _, count := range counts {
			errors += count
		}
	}
	return s.refusals, errors
}

// ServeHTTP answers Lehr's questions for metrics: of the workload that the scopes of a side name.
func (s *traffic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Side       string
		Assets     []string
		Scopes     map[string][]string
		Start, End time.Time
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	workloads := asked.Scopes["candidate"]
	if asked.Side == "control" {
		workloads = asked.Scopes["stable"]
	}
	type sample struct {
		At    time.Time `json:"at"`
		Value int       `json:"value"`
		Of    int       `json:"of"`
	}
	samples := []sample{}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	isHeld := asked.Side == "experiment" && slices.ContainsFunc(s.held, func(asset string) bool {
		return slices.Contains(asked.Assets, "kubernetes/real/shop/"+asset)
	})
	for at := asked.Start.Unix(); at < asked.End.Unix(); at++ {
		one := sample{At: time.Unix(at, 0)}
		for workload, count := range s.requests[at] {
			// By replicas a slot has a Deployment for each step: its name, and a number.
			if slices.ContainsFunc(workloads, func(of string) bool { return workload == of || strings.HasPrefix(workload, of+"-") }) {
				one.Value += s.failures[at][workload]
				one.Of += count
			}
		}
		if one.Of > 0 && !isHeld && !one.At.Before(asked.Start) {
			samples = append(samples, one)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"samples": samples})
}

// send sends requests for services, one of each in turn, until the test ends.
func (s *traffic) send(t *testing.T, url string, services ...string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-t.Context().Done():
				return
			case <-ticker.C:
			}
			service := services[i%len(services)]
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				return
			}
			request.Host = service + ".example.com"
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				continue
			}
			response.Body.Close()
			s.add(time.Now(), service, workloadOf(response.Header.Get("X-Pod")), response.Header.Get("X-Image"), response.StatusCode)
		}
	}()
	t.Cleanup(func() { <-ended })
}

// workloadOf is the Deployment of a pod; empty: nobody's.
func workloadOf(pod string) string {
	parts := strings.Split(pod, "-")
	if len(parts) < 3 {
		return ""
	}
	return strings.Join(parts[:len(parts)-2], "-")
}
