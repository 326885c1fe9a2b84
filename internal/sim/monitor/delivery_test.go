package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// delivery plays an application before a monitor.
type deliveryPlay struct {
	*Monitor
	now time.Time
	has string
}

var (
	one, two = Release{"1.0.0", "sha256:1"}, Release{"1.1.0", "sha256:2"}
	moved    = Release{"1.1.0", "sha256:3"}
)

// newDeliveryPlay begins within a window, with the first version everywhere.
func newDeliveryPlay() *deliveryPlay {
	p := &deliveryPlay{now: time.Date(2026, 11, 27, 10, 5, 0, 0, time.UTC)}
	p.Monitor = New(Options{
		Now: func() time.Time { return p.now }, Has: func(intent.AssetID) string { return p.has }, Delivered: &Delivered{Application: "web", Document: "fields", Prefix: "web-"},
	})
	whole := map[string]map[string]string{}
	for _, name := range []string{"test", "staging", "production"} {
		whole[name] = map[string]string{"version": one.Name, "digest": one.Digest, "knob": "0"}
	}
	text, _ := json.Marshal(whole)
	p.fieldsRevised(false, []fieldChange{{After: text}})
	return p
}

// give an environment a version, by delivery or by a person.
func (p *deliveryPlay) give(delivered bool, environment string, r Release) {
	changes := []fieldChange{{Path: "/" + environment + "/version", After: json.RawMessage(fmt.Sprintf("%q", r.Name))}}
	if delivered {
		changes = append(changes, fieldChange{Path: "/" + environment + "/digest", After: json.RawMessage(fmt.Sprintf("%q", r.Digest))})
	}
	p.fieldsRevised(delivered, changes)
}

// verified brings a version to an environment, where a program says something of it, and lets
// minutes pass.
func (p *deliveryPlay) verified(environment string, r Release, good bool) {
	p.give(true, environment, r)
	p.has = r.Name + " " + r.Digest + " 0"
	p.deliveredEffect(intent.AssetID("web-" + environment))
	content := intent.Sum("test", []byte(environment+r.Name+r.Digest))
	row := intent.DeliveryRecord{Kind: intent.DeliveryStanding, Environment: environment, Version: intent.VersionName{Name: r.Name, Digest: r.Digest}, Good: true, Content: content}
	p.deliveryRow(row)
	program := p.ProgramBegan(intent.Verification{Environment: environment, Name: "smoke", Version: row.Version, Content: content, Assets: []intent.AssetID{intent.AssetID("web-" + environment)}})
	p.ProgramEnded(program)
	p.ProgramSaid(program, good)
	row.Kind, row.Constraint, row.Good = intent.DeliveryResult, "smoke", good
	p.deliveryRow(row)
	p.now = p.now.Add(3 * time.Minute)
}

func (p *deliveryPlay) vote(r Release, by string, approve bool) {
	p.VoteAnswered(p.VoteAsked(r, by, approve))
}

func (p *deliveryPlay) act(a Act) { p.ActAnswered(p.ActAsked(a)) }

// staged brings the second version to staging, as it may come.
func (p *deliveryPlay) staged() {
	p.verified("test", two, true)
	p.verified("staging", two, true)
}

func TestDeliveryIsWatched(t *testing.T) {
	tests := []struct {
		name string
		play func(p *deliveryPlay)
		want string // the property that is told; empty: none
	}{
		{"as it should be", func(p *deliveryPlay) {
			p.staged()
			p.vote(two, "ann", true)
			p.vote(two, "bob", true)
			p.give(true, "production", two)
		}, ""},
		{"nobody verified", func(p *deliveryPlay) {
			p.give(true, "test", two)
			p.has = "1.1.0 sha256:2 0"
			p.deliveredEffect("web-test")
			p.now = p.now.Add(3 * time.Minute)
			p.give(true, "staging", two)
		}, "S19"},
		{"too soon", func(p *deliveryPlay) {
			p.verified("test", two, true)
			p.now = p.now.Add(-150 * time.Second)
			p.give(true, "staging", two)
		}, "S19"},
		{"verified before its content changed", func(p *deliveryPlay) {
			p.verified("test", two, true)
			p.deliveryRow(intent.DeliveryRecord{Kind: intent.DeliveryStanding, Environment: "test", Version: intent.VersionName{Name: two.Name, Digest: two.Digest}, Good: true, Content: intent.Sum("other")})
			p.give(true, "staging", two)
		}, "S19"},
		{"found bad", func(p *deliveryPlay) {
			p.verified("test", two, false)
			p.give(true, "staging", two)
		}, "S20"},
		{"a result that nobody said", func(p *deliveryPlay) {
			p.deliveryRow(intent.DeliveryRecord{Kind: intent.DeliveryResult, Environment: "test", Version: intent.VersionName{Name: two.Name, Digest: two.Digest}, Constraint: "smoke"})
		}, "S11"},
		{"one person approves twice", func(p *deliveryPlay) {
			p.staged()
			p.vote(two, "ann", true)
			p.vote(two, "ann", true)
			p.give(true, "production", two)
		}, "S9"},
		{"one rejects", func(p *deliveryPlay) {
			p.staged()
			p.vote(two, "ann", true)
			p.vote(two, "bob", true)
			p.vote(two, "carol", false)
			p.give(true, "production", two)
		}, "S9"},
		{"approved before its tag was moved", func(p *deliveryPlay) {
			p.vote(two, "ann", true)
			p.vote(two, "bob", true)
			p.verified("test", moved, true)
			p.verified("staging", moved, true)
			p.give(true, "production", moved)
		}, "S9"},
		{"forced past people", func(p *deliveryPlay) {
			p.staged()
			p.act(Act{Kind: intent.ActForce, Environment: "production", Release: two, Constraint: "people"})
			p.give(true, "production", two)
		}, ""},
		{"no window is open", func(p *deliveryPlay) {
			p.staged()
			p.vote(two, "ann", true)
			p.vote(two, "bob", true)
			p.now = time.Date(2026, 11, 27, 23, 55, 0, 0, time.UTC)
			p.act(Act{Kind: intent.ActForce, Environment: "production", Release: two, Constraint: "people"})
			p.give(true, "production", two)
		}, "S19"},
		{"the third in a window", func(p *deliveryPlay) {
			p.staged()
			third := Release{"1.2.0", "sha256:4"}
			for _, r := range []Release{moved, third} {
				p.verified("test", r, true)
				p.verified("staging", r, true)
			}
			for _, r := range []Release{two, moved, third} {
				p.vote(r, "ann", true)
				p.vote(r, "bob", true)
				p.give(true, "production", r)
			}
		}, "S8"},
		{"past a pin", func(p *deliveryPlay) {
			p.act(Act{Kind: intent.ActPin, Environment: "test", Release: one})
			p.give(true, "test", two)
		}, "S10"},
		{"after a pin", func(p *deliveryPlay) {
			p.act(Act{Kind: intent.ActPin, Environment: "test", Release: one})
			p.ActAsked(Act{Kind: intent.ActUnpin, Environment: "test"}) // Whose answer is lost.
			p.give(true, "test", two)
		}, ""},
		{"while all is paused", func(p *deliveryPlay) {
			p.act(Act{Kind: intent.ActPause})
			p.give(true, "test", two)
		}, "S18"},
		{"marked bad", func(p *deliveryPlay) {
			p.act(Act{Kind: intent.ActMarkBad, Release: two})
			p.give(true, "test", two)
		}, "S20"},
		{"what it went back from comes again", func(p *deliveryPlay) {
			p.give(true, "test", two)
			p.act(Act{Kind: intent.ActRollBack, Environment: "test", Release: one})
			p.give(true, "test", one)
			p.give(true, "test", two)
		}, "S20"},
		{"what it went back from is marked good", func(p *deliveryPlay) {
			p.give(true, "test", two)
			p.act(Act{Kind: intent.ActRollBack, Environment: "test", Release: one})
			p.give(true, "test", one)
			p.act(Act{Kind: intent.ActMarkGood, Environment: "test", Release: two})
			p.give(true, "test", two)
		}, ""},
		{"what it went back from is marked good before the answer", func(p *deliveryPlay) {
			p.give(true, "test", two)
			asked := p.ActAsked(Act{Kind: intent.ActRollBack, Environment: "test", Release: one})
			p.ActAsked(Act{Kind: intent.ActMarkGood, Environment: "test", Release: two})
			p.ActAnswered(asked)
			p.give(true, "test", one)
			p.give(true, "test", two)
		}, ""},
		{"something else came before it was had to go back", func(p *deliveryPlay) {
			p.give(true, "test", two)
			asked := p.ActAsked(Act{Kind: intent.ActRollBack, Environment: "test", Release: one})
			p.give(true, "test", moved)
			p.ActAnswered(asked)
			p.give(true, "test", one)
			p.give(true, "test", moved)
		}, ""},
		{"while all is stopped", func(p *deliveryPlay) {
			p.stops[""] = answeredStop{at: p.now}
			p.give(true, "test", two)
		}, "S18"},
		{"while a stop cannot be stored", func(p *deliveryPlay) {
			p.stops[""] = answeredStop{at: p.now, unwritten: true}
			p.give(true, "test", two)
		}, ""},
		{"withdrawn", func(p *deliveryPlay) {
			p.delivering.withdrawn = map[Release]time.Time{two: p.now.Add(-2 * stepTakes)}
			p.give(true, "test", two)
		}, "S19"},
		{"withdrawn while it came", func(p *deliveryPlay) {
			p.delivering.withdrawn = map[Release]time.Time{two: p.now.Add(-stepTakes / 2)}
			p.give(true, "test", two)
		}, ""},
		{"marked good again", func(p *deliveryPlay) {
			p.act(Act{Kind: intent.ActMarkBad, Release: two})
			p.act(Act{Kind: intent.ActMarkGood, Release: two})
			p.give(true, "test", two)
		}, ""},
		{"somebody else set it", func(p *deliveryPlay) {
			p.give(true, "test", two)
			p.give(false, "test", Release{"1.2.0", two.Digest})
			p.give(true, "test", moved)
		}, "S10"},
		{"beside a program", func(p *deliveryPlay) {
			p.ProgramBegan(intent.Verification{Environment: "test", Name: "smoke"})
			p.give(true, "test", two)
		}, "S1"},
		{"a push beside a program", func(p *deliveryPlay) {
			p.ProgramBegan(intent.Verification{Environment: "test", Name: "smoke", Assets: []intent.AssetID{"web-test"}})
			p.besideVerification(&push{id: "sim/1-1", asset: "web-test"})
		}, "S1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newDeliveryPlay()
			test.play(p)
			told := p.Violations()
			if test.want == "" && len(told) > 0 {
				t.Errorf("it tells of %v", told)
			}
			if test.want != "" && !slices.ContainsFunc(told, func(v Violation) bool { return v.Property == test.want }) {
				t.Errorf("it does not tell of %s, but of %v", test.want, told)
			}
		})
	}
}

// TestAdviceIsWatched: a version comes to staging by an answer that passes it, that was given, and
// that counts still.
func TestAdviceIsWatched(t *testing.T) {
	row := func(p *deliveryPlay, kind intent.DeliveryKind, r Release, good bool) {
		p.deliveryRow(intent.DeliveryRecord{Kind: kind, Environment: "staging", Version: intent.VersionName{Name: r.Name, Digest: r.Digest}, Constraint: AdviceConstraint, At: p.now, Good: good})
	}
	answer := func(p *deliveryPlay, r Release, pass bool) {
		p.AdviceGiven("staging", r, pass)
		row(p, intent.DeliveryAnswer, r, pass)
	}
	for name, test := range map[string]struct {
		play func(p *deliveryPlay)
		want string
	}{
		"passed":                          {func(p *deliveryPlay) { answer(p, two, true) }, ""},
		"passed after a no":               {func(p *deliveryPlay) { answer(p, two, false); answer(p, two, true) }, ""},
		"nobody was asked":                {func(*deliveryPlay) {}, "S11"},
		"a no":                            {func(p *deliveryPlay) { answer(p, two, true); answer(p, two, false) }, "S11"},
		"no answer":                       {func(p *deliveryPlay) { answer(p, two, true); row(p, intent.DeliveryUnanswered, two, false) }, "S11"},
		"another version passed":          {func(p *deliveryPlay) { answer(p, moved, true) }, "S11"},
		"a pass that nobody gave":         {func(p *deliveryPlay) { row(p, intent.DeliveryAnswer, two, true) }, "S11"},
		"one answer stored twice":         {func(p *deliveryPlay) { answer(p, two, true); row(p, intent.DeliveryAnswer, two, true) }, "S11"},
		"a pass that ended":               {func(p *deliveryPlay) { answer(p, two, true); p.now = p.now.Add(AdviceCounts + 2*stepTakes) }, "S19"},
		"a pass that ends while it comes": {func(p *deliveryPlay) { answer(p, two, true); p.now = p.now.Add(AdviceCounts + stepTakes/2) }, ""},
		"forced": {func(p *deliveryPlay) {
			p.act(Act{Kind: intent.ActForce, Environment: "staging", Release: two, Constraint: AdviceConstraint})
		}, ""},
		"to be asked anew": {func(p *deliveryPlay) {
			answer(p, two, true)
			p.deliveryRow(intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: intent.ActRestart, Environment: "staging", Version: intent.VersionName{Name: two.Name, Digest: two.Digest}, Constraint: AdviceConstraint})
		}, "S11"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newDeliveryPlay()
			p.options.Delivered.Advised = true
			p.verified("test", two, true)
			test.play(p)
			p.give(true, "staging", two)
			violations := p.Violations()
			if test.want == "" && len(violations) > 0 {
				t.Errorf("it tells of %v", violations)
			}
			if test.want != "" && !slices.ContainsFunc(violations, func(v Violation) bool { return v.Property == test.want }) {
				t.Errorf("it does not tell of %s, but of %v", test.want, violations)
			}
		})
	}
}

func TestDeliveryWindows(t *testing.T) {
	if n := len(DeliveryWindows()); n < 15 || n > 20 {
		t.Errorf("%d windows, and a calendar has at most 20", n)
	}
	day := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	for offset, want := range map[time.Duration]bool{0: true, 59 * time.Minute: true, time.Hour: false, 74 * time.Minute: false, 75 * time.Minute: true, 1430 * time.Minute: false} {
		if _, ok := deliveryWindow(day.Add(offset)); ok != want {
			t.Errorf("%s after midnight a window is open: %v", offset, ok)
		}
	}
}

// TestGrantsOfFields: only a grant to just that application, of just that field, lets it be set.
func TestGrantsOfFields(t *testing.T) {
	watched := &Delivered{Home: "releases", Application: "web", Document: "fields"}
	good := &intentpb.PromotionGrant{Partition: "releases", Application: "web", Document: "fields", Pointers: []string{"/test", "/staging"}}
	for name, edit := range map[string]func(g *intentpb.PromotionGrant){
		"":                   func(*intentpb.PromotionGrant) {},
		"another home":       func(g *intentpb.PromotionGrant) { g.Partition = "other" },
		"another app":        func(g *intentpb.PromotionGrant) { g.Application = "api" },
		"another document":   func(g *intentpb.PromotionGrant) { g.Document = "knobs" },
		"another field":      func(g *intentpb.PromotionGrant) { g.Pointers = []string{"/production"} },
		"a field of a field": func(g *intentpb.PromotionGrant) { g.Pointers = []string{"/test/digest"} },
	} {
		grant := proto.CloneOf(good)
		edit(grant)
		if got := grantsField(&intentpb.Policy{PromotionGrants: []*intentpb.PromotionGrant{grant}}, watched, "test"); got != (name == "") {
			t.Errorf("%q: %v", name, got)
		}
	}
	if grantsField(nil, watched, "test") {
		t.Error("no policy grants it")
	}
}
