package delivery

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// askingTest is chain, whose test environment asks a plugin, after the version's age.
func askingTest() *intentpb.Delivery {
	spec := chain()
	spec.Environments[0].Constraints = []*intentpb.DeliveryConstraint{
		{Name: "denied", Kind: &intentpb.DeliveryConstraint_Deny{Deny: &intentpb.DeniedVersions{Entries: []*intentpb.DeniedVersion{{What: &intentpb.DeniedVersion_Version{Version: "1.9.*"}, Reason: "no"}}}}},
		{Name: "quiet", Kind: &intentpb.DeliveryConstraint_Asked{Asked: &intentpb.AskedVerdict{Ask: &intentpb.AskedVerdict_Plugin{Plugin: "quiet"}}}},
	}
	return spec
}

// plugin answers what constraints ask, as the test says.
type plugin struct {
	*bench
	asked   chan Asking
	answers chan func() (Reply, error)
	// gone is closed when another actor takes over.
	gone chan struct{}
}

func (w *world) plugin() *plugin {
	p := &plugin{asked: make(chan Asking, 10), answers: make(chan func() (Reply, error)), gone: make(chan struct{})}
	p.bench = w.bench()
	p.again()
	return p
}

// again has another actor take over, which asks the plugin.
func (p *plugin) again() {
	p.restart()
	close(p.gone)
	gone := make(chan struct{})
	p.gone = gone
	p.actor.Ask = func(ctx context.Context, a Asking) (Reply, error) {
		p.asked <- a
		select {
		case answer := <-p.answers:
			return answer()
		case <-gone:
			return Reply{}, errLost
		case <-ctx.Done():
			return Reply{}, ctx.Err()
		}
	}
}

// expectQuestion steps until the plugin is asked about a version.
func (p *plugin) expectQuestion(version string) (a Asking) {
	p.t.Helper()
	p.until("a question about "+version, func() bool {
		select {
		case a = <-p.asked:
			return true
		default:
			return false
		}
	})
	if a.Version.Name != version || a.Constraint != "quiet" || a.Environment != "test" || a.Home != shop || a.Partition != shop {
		p.t.Fatalf("it is asked %+v, want about %s", a, version)
	}
	return a
}

func (p *plugin) answer(r Reply, err error) {
	p.t.Helper()
	select {
	case p.answers <- func() (Reply, error) { return r, err }:
	case <-time.After(time.Minute):
		p.t.Fatal("it was not asked")
	}
}

// isQuiet fails the test where something is asked within some steps.
func (p *plugin) isQuiet(steps int) {
	p.t.Helper()
	for range steps {
		p.step()
	}
	select {
	case a := <-p.asked:
		p.t.Fatalf("it is asked again: %+v", a)
	default:
	}
}

// isAnswered reports whether the actor has stored the answers to all that it asked.
func (p *plugin) isAnswered() bool {
	for _, i := range p.actor.inquiries {
		if !i.stored {
			return false
		}
	}
	return true
}

func (p *plugin) why(version string) string {
	p.t.Helper()
	return p.explained("test", version).Words(version, "test")
}

// minute is the time of the world as estimates tell it. How many steps a question takes depends on the machine.
func (p *plugin) minute() string { return p.clock.Format("Mon 2006-01-02 15:04 UTC") }

// TestAConstraintAsks: a no keeps a version out until it is asked again, and a pass lets in that
// version alone.
func TestAConstraintAsks(t *testing.T) {
	w := newWorld(t, askingTest())
	w.list("1.0.0", "1.1.0", "1.9.0")
	p := w.plugin()
	p.expectQuestion("1.1.0") // 1.9.0 is denied, and nobody is asked about it.
	p.answer(Reply{Reason: "the change is not approved yet"}, nil)
	results := func() []intent.DeliveryRecord { return p.rows(intent.DeliveryAnswer) }
	p.until("the no", func() bool { return len(results()) == 1 })
	if why := p.why("1.1.0"); why != "1.1.0 is not in test: quiet says no for now: the change is not approved yet. It can be there "+p.minute()+" at the earliest, if quiet of test says yes" {
		t.Error(why)
	}
	p.isQuiet(50) // Every minute, by default.
	p.expectQuestion("1.1.0")
	p.answer(Reply{Reason: "the change is not approved yet"}, nil)
	p.isQuiet(50)
	if len(results()) != 1 {
		t.Errorf("the same no is in %d rows", len(results()))
	}
	p.expectQuestion("1.1.0")
	p.answer(Reply{Pass: true, Reason: "CHG-7"}, nil)
	p.until("the promotion", func() bool { return p.fieldOfTest() == "1.1.0" })
	p.isQuiet(100)
	admitted := p.rows(intent.DeliveryAdmission)
	if len(admitted) == 0 || !slices.ContainsFunc(admitted[len(admitted)-1].Verdicts, func(v intent.DeliveryVerdict) bool { return v.Constraint == "quiet" && v.Status == "passes" }) {
		t.Errorf("let in by %+v", admitted)
	}
	w.list("1.0.0", "1.1.0", "1.2.0")
	p.expectQuestion("1.2.0")
}

func (p *plugin) fieldOfTest() string {
	p.t.Helper()
	doc, err := p.store.Document(p.t.Context(), shop, "knobs", "")
	p.must(err)
	have, _, err := fieldOf(doc.Content, "/test/version")
	p.must(err)
	return have
}

// TestNoAnswerLetsNothingIn: what fails is told, and asked again in pauses that grow to a minute; a
// person restarts it at once.
func TestNoAnswerLetsNothingIn(t *testing.T) {
	w := newWorld(t, askingTest())
	w.list("1.0.0", "1.1.0")
	p := w.plugin()
	refused := fault.New(fault.Denied, "partition shop may not ask it").WithHint("whoever runs the server adds it")
	for range 3 {
		p.expectQuestion("1.1.0")
		p.answer(Reply{}, refused)
	}
	p.until("the trouble", func() bool { return len(p.rows(intent.DeliveryUnanswered)) > 0 })
	if why := p.why("1.1.0"); why != "1.1.0 is not in test: quiet asks, and gets no answer: partition shop may not ask it (whoever runs the server adds it). It can be there "+p.minute()+" at the earliest, if quiet of test says yes" {
		t.Error(why)
	}
	p.isQuiet(15) // 5, 10, 20 s.
	if rows := p.rows(intent.DeliveryUnanswered); len(rows) != 1 {
		t.Errorf("one trouble is in %d rows", len(rows))
	}
	p.expectQuestion("1.1.0")
	p.answer(Reply{}, refused)
	p.until("the answer", p.isAnswered)
	p.isQuiet(5)
	p.say(intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: intent.ActRestart, Environment: "test", Constraint: "quiet", Version: intent.VersionName{Name: "1.1.0"}})
	p.step()
	if p.isAnswered() {
		t.Error("after a restart it is not asked at once")
	}
	p.expectQuestion("1.1.0")
	p.answer(Reply{Pass: true, Until: p.clock.Add(-time.Hour)}, nil)
	p.until("the second trouble", func() bool { return len(p.rows(intent.DeliveryUnanswered)) == 2 })
	if p.fieldOfTest() != "1.0.0" {
		t.Errorf("a pass that is over let in %s", p.fieldOfTest())
	}
}

// TestAnAnswerToAnOlderQuestion: a person who has a constraint ask anew does not get what was asked before.
func TestAnAnswerToAnOlderQuestion(t *testing.T) {
	w := newWorld(t, askingTest())
	w.list("1.0.0", "1.1.0")
	p := w.plugin()
	p.expectQuestion("1.1.0")
	p.say(intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: intent.ActRestart, Environment: "test", Constraint: "quiet", Version: intent.VersionName{Name: "1.1.0"}})
	p.answer(Reply{Pass: true}, nil)
	p.expectQuestion("1.1.0")
	if rows := p.rows(intent.DeliveryAnswer); len(rows) > 0 || p.fieldOfTest() != "1.0.0" {
		t.Errorf("an answer to an older question counts: %+v", rows)
	}
}

// TestAPassEnds: after expires, and by its own word; then it is asked again.
func TestAPassEnds(t *testing.T) {
	for name, test := range map[string]struct {
		expires time.Duration
		passFor time.Duration
	}{"it expires": {time.Minute, 0}, "by its word": {0, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			spec := askingTest()
			if test.expires > 0 {
				spec.Environments[0].Constraints[1].GetAsked().Expires = durationpb.New(test.expires)
			}
			w := newWorld(t, spec)
			w.list("1.0.0", "1.1.0")
			p := w.plugin()
			p.act(intent.ActPause, "test", "")
			p.expectQuestion("1.1.0")
			reply := Reply{Pass: true}
			if test.passFor > 0 {
				reply.Until = p.clock.Add(test.passFor)
			}
			p.answer(reply, nil)
			p.isQuiet(40)
			p.expectQuestion("1.1.0")
			p.act(intent.ActResume, "test", "")
			for range 10 {
				p.step()
			}
			if p.fieldOfTest() != "1.0.0" {
				t.Errorf("a pass that is over let in %s", p.fieldOfTest())
			}
		})
	}
}

// TestAskingAnother: an answer of whom the constraint asked before counts no longer.
func TestAskingAnother(t *testing.T) {
	w := newWorld(t, askingTest())
	w.list("1.0.0", "1.1.0")
	p := w.plugin()
	p.act(intent.ActPause, "test", "")
	p.expectQuestion("1.1.0")
	p.answer(Reply{Pass: true}, nil)
	p.until("the pass", func() bool { return len(p.rows(intent.DeliveryAnswer)) == 1 })
	other := askingTest()
	other.Environments[0].Constraints[1].GetAsked().Ask = &intentpb.AskedVerdict_Http{Http: "changes"}
	w.policies[shop] = &intentpb.Policy{Deliveries: []*intentpb.Delivery{other}}
	p.act(intent.ActResume, "test", "")
	if a := p.expectQuestion("1.1.0"); a.Spec.GetHttp() != "changes" {
		t.Errorf("it asks %v", a.Spec)
	}
	if p.fieldOfTest() != "1.0.0" {
		t.Errorf("the answer of another let in %s", p.fieldOfTest())
	}
}

// TestARestartAsksAgain: a question whose process is gone is asked again by the next, and one whose
// answer was stored is not.
func TestARestartAsksAgain(t *testing.T) {
	w := newWorld(t, askingTest())
	w.list("1.0.0", "1.1.0")
	p := w.plugin()
	p.expectQuestion("1.1.0")
	p.again()
	p.expectQuestion("1.1.0")
	p.lost = true // The answer to what stores the pass is.
	p.answer(Reply{Pass: true}, nil)
	p.until("the pass", func() bool { return len(p.rows(intent.DeliveryAnswer)) > 0 })
	p.again()
	p.until("the promotion", func() bool { return p.fieldOfTest() == "1.1.0" })
	p.isQuiet(20)
	if rows := p.rows(intent.DeliveryAnswer); len(rows) != 1 {
		t.Errorf("one pass is in %d rows", len(rows))
	}
}
