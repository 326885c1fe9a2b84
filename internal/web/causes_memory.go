package web

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
)

const (
	// causesKnown is how long the causes of a partition stay known that did not move: their words may change with it
	// as it is.
	causesKnown = 10 * time.Second
	// mostCauseBytes of causes are kept in all.
	mostCauseBytes = 32 << 20
)

// causeMemory keeps the root causes that first pages were made of, so that whoever loads one again does not wait for
// what did not change: to follow what waits of many partitions takes longer than all else on it. What a page that is
// open is told is not from here.
type causeMemory struct {
	mutex sync.Mutex
	known map[causeKey]knownCauses
	bytes int
}

// causeKey is a partition as who may see the same sees it, or a service in it.
type causeKey struct{ viewer, partition, service string }

type knownCauses struct {
	explanation *apipb.WhyResponse
	// moment is the partition as it was.
	moment string
	at     time.Time
	bytes  int
}

// momentOf names how a partition is: its head, revision, stop, reports by state, and what does not work. What people do to
// it moves its revision.
func momentOf(p *apipb.Partition, problem string) string {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return ""
	}
	return version(string(text), problem)
}

// recall returns the causes of a partition that did not move since they were read.
func (m *causeMemory) recall(key causeKey, moment string, now time.Time) (_ *apipb.WhyResponse, ok bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known, ok := m.known[key]
	if !ok || moment == "" || known.moment != moment || now.Sub(known.at) >= causesKnown {
		return nil, false
	}
	return known.explanation, true
}

// keep remembers causes, if there is room beside those that are not too old.
func (m *causeMemory) keep(key causeKey, moment string, explanation *apipb.WhyResponse, now time.Time) {
	bytes := proto.Size(explanation)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.forget(key)
	if m.bytes+bytes > mostCauseBytes {
		for other, known := range m.known {
			if now.Sub(known.at) >= causesKnown {
				m.forget(other)
			}
		}
	}
	if m.bytes+bytes > mostCauseBytes {
		return
	}
	if m.known == nil {
		m.known = map[causeKey]knownCauses{}
	}
	m.known[key] = knownCauses{explanation, moment, now, bytes}
	m.bytes += bytes
}

func (m *causeMemory) forget(key causeKey) {
	m.bytes -= m.known[key].bytes
	delete(m.known, key)
}
