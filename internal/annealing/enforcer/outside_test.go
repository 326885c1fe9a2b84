package enforcer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/test/detector"
)

// monitoring is a source that a test says the answers of.
type monitoring struct {
	mu    sync.Mutex
	value float64
	none  bool
	err   error
	bytes int
	slow  time.Duration
	asked int
	under int
	most  int
}

func (m *monitoring) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *monitoring) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

func (m *monitoring) ask(ctx context.Context, _ check.Question) (check.Answer, error) {
	m.mu.Lock()
	m.asked++
	m.under++
	m.most = max(m.most, m.under)
	slow := m.slow
	m.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(time.Millisecond + slow):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.under--
	if m.err != nil || m.none {
		return check.Answer{}, m.err
	}
	return check.Answer{Samples: []check.Sample{{Labels: map[string]string{"service": "web"}, Value: m.value}}, Bytes: m.bytes}, nil
}

// monitored starts the enforcer anew with a source.
func (w *world) monitored() *monitoring {
	m := &monitoring{}
	w.restart(func() { w.outside = m.ask })
	return m
}

func below(limit float64, query string) *intentpb.Check {
	return &intentpb.Check{Name: "errors", Kind: &intentpb.Check_Query{Query: &intentpb.Metric{Prometheus: "main", Query: query, Below: &limit}}}
}

// TestAPushWaitsForMonitoring: until what is measured is within limits, however
// long the sweep is.
func TestAPushWaitsForMonitoring(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Sweep = time.Hour })
		m := w.monitored()
		m.value = 0.5
		w.policy.Checks = []*intentpb.Check{below(0.02, "errors")}
		w.publish(web)
		w.waitsOn("web", intent.WaitMetric)
		w.told("web", `check errors: errors is 0.5 for {service="web"}, and must be below 0.02`)
		w.unpushed("web", "errors are high")
		m.set(func() { m.value = 0.01 })
		began := time.Now()
		w.inSync(web)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it was pushed after %s", took)
		}
		// What is in sync asks nothing.
		w.pass(2 * time.Minute)
		asked := m.count()
		w.pass(time.Hour)
		if m.count() != asked {
			t.Errorf("it was asked %d times more with nobody waiting", m.count()-asked)
		}
		w.owned(func(e *Enforcer) {
			if len(e.inquiries.questions)+len(e.inquiries.answers) > 0 {
				t.Errorf("%d questions are remembered", len(e.inquiries.questions))
			}
		})
	})
}

// TestAnAssetHasItsOwnSeries in the one answer for all.
func TestAnAssetHasItsOwnSeries(t *testing.T) {
	simulate(t, func(w *world) {
		w.monitored()
		c := below(0.02, "errors")
		c.GetQuery().Labels = map[string]string{"service": "id"}
		w.policy.Checks = []*intentpb.Check{c}
		w.publish(web, db)
		w.inSync(web)
		w.waitsOn("db", intent.WaitCheckBroken)
		w.told("db", `check errors cannot answer: errors gives no value for {service="db"}`)
		w.unpushed("db", "nothing is known of it")
	})
}

// TestWithoutAnAnswerNothingIsPushed (S11), and what was answered before counts
// until it is too old.
func TestWithoutAnAnswerNothingIsPushed(t *testing.T) {
	simulate(t, func(w *world) {
		m := w.monitored()
		m.err = errors.New("connection refused")
		w.policy.Checks = []*intentpb.Check{below(0.02, "errors")}
		w.publish(web)
		w.waitsOn("web", intent.WaitCheckBroken)
		w.told("web", "check errors cannot answer: prometheus main: connection refused")
		w.unpushed("web", "its source is down")
		m.set(func() { m.err, m.none = nil, true })
		w.told("web", "gives no value")
		w.unpushed("web", "there is no such series")
		m.set(func() { m.none = false })
		w.inSync(web)

		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "looking"}))
		w.publish(webV2)
		w.waitsOn("web", intent.WaitHold)
		answered := time.Now()
		m.set(func() { m.err = errors.New("connection refused") })
		w.eventually("the last answer is too old", func() bool {
			return len(w.report("web").Waiting) == 2 && w.report("web").Waiting[1].Kind == intent.WaitCheckBroken
		})
		if since := time.Since(answered); since < 30*time.Second || since > 2*time.Minute {
			t.Errorf("an answer counted for %s", since)
		}
		w.told("web", "is older than 1m0s")
		// Trying it again is spread out.
		asked := m.count()
		w.pass(time.Hour)
		if more := m.count() - asked; more < 30 || more > 150 {
			t.Errorf("a source that is down was asked %d times in an hour", more)
		}
		w.must(w.store.Unhold(w.ctx, shop, "web", "done", tester))
		w.unpushed("web", "its source is down")
		m.set(func() { m.err = nil })
		w.inSync(webV2)
	})
}

// TestAQuestionIsAskedOnceForAll assets and in the end not at all.
func TestAQuestionIsAskedOnceForAll(t *testing.T) {
	detector.SkipSequential(t)
	simulate(t, func(w *world) {
		m := w.monitored()
		m.value, m.slow = 1, time.Second
		w.policy.Checks = []*intentpb.Check{below(0.02, "errors")}
		things := make([]thing, 300)
		for i := range things {
			things[i] = thing{id: intent.AssetID(fmt.Sprintf("job/%03d", i)), word: "1"}
		}
		began := time.Now()
		w.publish(things...)
		for _, thing := range things {
			w.waitsOn(thing.id, intent.WaitMetric)
		}
		if m.count() > 1+int(time.Since(began)/(20*time.Second)) {
			t.Errorf("it was asked %d times in %s", m.count(), time.Since(began))
		}
		m.set(func() { m.value = 0 })
		w.inSync(things...)
	})
}

// TestQuestionsAreBounded: at once, and in what their answers take.
func TestQuestionsAreBounded(t *testing.T) {
	simulate(t, func(w *world) {
		m := w.monitored()
		m.slow, m.bytes = time.Second, 1<<20
		for i := range 40 {
			c := below(1, fmt.Sprintf("errors_%02d", i))
			c.Name = fmt.Sprintf("c%02d", i)
			w.policy.Checks = append(w.policy.Checks, c)
		}
		w.publish(web)
		w.told("web", "take more than 16 MB")
		w.unpushed("web", "not all that is asked fits")
		if m.most > mostAsking {
			t.Errorf("%d questions were under way at once", m.most)
		}
		m.set(func() { m.bytes = 1 })
		w.inSync(web)
	})
}

// TestAnAnswerThatIsTooOldAtItsAdmission is none: the store asks again.
func TestAnAnswerThatIsTooOldAtItsAdmission(t *testing.T) {
	simulate(t, func(w *world) {
		m := w.monitored()
		w.policy.Checks = []*intentpb.Check{below(0.02, "errors")}
		g := w.gated()
		open := g.shut("admit")
		w.publish(web)
		w.pass(time.Second)
		m.set(func() { m.err = errors.New("connection refused") })
		w.pass(2 * time.Minute)
		open()
		w.waitsOn("web", intent.WaitCheckBroken)
		if w.production.pushes("web") > 0 {
			t.Fatal("it was pushed on what was so long ago")
		}
	})
}

// TestAnswersFromAClockThatWasSetBackAreNone.
func TestAnswersFromAClockThatWasSetBackAreNone(t *testing.T) {
	simulate(t, func(w *world) {
		m := w.monitored()
		m.value = 1
		w.policy.Checks = []*intentpb.Check{below(0.02, "errors")}
		clock := w.jumpy()
		w.publish(web)
		w.excursion(clock, func() { w.pass(time.Minute) })
		m.set(func() { m.value = 0 })
		began := time.Now()
		w.inSync(web)
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("it was pushed after %s", took)
		}
	})
}

// TestCapacityStaysAboveTheRecentPeak: less waits, more never does.
func TestCapacityStaysAboveTheRecentPeak(t *testing.T) {
	simulate(t, func(w *world) {
		m := w.monitored()
		m.err = errors.New("connection refused")
		w.policy.Checks = []*intentpb.Check{{Name: "peak", Kind: &intentpb.Check_Peak{Peak: &intentpb.Peak{
			Prometheus: "main", Query: "max_over_time(qps[1d])", Headroom: 1.5, Keep: durationpb.New(20 * time.Second),
		}}}}
		capacity := &intentpb.Capacity{Dimensions: map[string]string{"capacity": "payload.replicas * 10u"}}
		of := func(replicas uint32, addons ...proto.Message) thing {
			return thing{id: "web", word: fmt.Sprintf("%d v1", replicas), job: &processpb.Job{Replicas: replicas, Version: "v1"}, addons: append(addons, capacity)}
		}
		// A source that is down does not keep capacity from being added.
		w.publish(of(2))
		w.inSync(of(2))
		w.publish(of(5))
		w.inSync(of(5))
		if m.count() > 0 {
			t.Errorf("it was asked %d times", m.count())
		}
		w.publish(of(3))
		w.waitsOn("web", intent.WaitCheckBroken)
		w.unpushed("web", "its source is down")
		m.set(func() { m.err, m.value = nil, 22 })
		w.waitsOn("web", intent.WaitPeak)
		w.told("web", "it serves 50 and would serve 30, less than the recent peak 22 × 1.5 = 33 (max_over_time(qps[1d]))")
		w.publish(of(4))
		w.inSync(of(4))
		w.publish(of(3))
		w.waitsOn("web", intent.WaitPeak)
		m.set(func() { m.value = 20 })
		w.inSync(of(3))
		// Another way to tell what it serves; and what cannot be told is broken.
		w.policy.Checks[0].GetPeak().Serves = "payload.replicas * 5u"
		w.publish(of(2))
		w.told("web", "it serves 15 and would serve 10")
		w.policy.Checks[0].GetPeak().Serves = ""
		w.policy.Checks[0].GetPeak().Dimension = "qps"
		w.publish(of(2))
		w.told("web", "web has no Capacity in the dimension qps")
		w.unpushed("web", "what it serves is not known")
	})
}
