package promotion

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// month is what happens from the middle of October on: test, staging, and production in London
// and New York, whose clocks are put back a week apart.
type month struct {
	t        *testing.T
	random   *rand.Rand
	app      *Application
	versions []Version
	facts    Facts
	// due are things that happen at a time.
	due []event
	// harms says how a version is bad; versions that are not in it are good.
	harms map[intent.VersionName]string
	// asked are the versions that somebody was asked about.
	asked map[intent.VersionName]bool
	// bounds are the latest of the earliest times that were told.
	bounds map[cell]time.Time
	// acted are versions that people pushed forward, of which earlier estimates say nothing.
	acted map[intent.VersionName]bool
	edits []edit
}

type cell struct {
	environment string
	version     intent.VersionName
}

type event struct {
	at time.Time
	do func()
}

// edit is one that was made, with the verdicts that were stored for it.
type edit struct {
	at          time.Time
	environment string
	outcome     Outcome
	verdicts    []Verdict
}

const step = 10 * time.Minute

var monthStart = time.Date(2026, 10, 12, 6, 0, 0, 0, time.UTC)

func theMonth() *intentpb.Delivery {
	freeze := &intentpb.Freeze{From: timestamppb.New(monthStart.AddDate(0, 0, 10)), Until: timestamppb.New(monthStart.AddDate(0, 0, 12)), Reason: "audit"}
	stable := soak(4*time.Hour, "staging")
	people := judged(1, 48*time.Hour)
	stable.PassedByHotfix, people.PassedByHotfix = true, true
	tested := dependsOn(0, "staging")
	london := env("prod-eu", tested, stable, people, hours("Europe/London", "Mon-Thu 09:00-17:00", 2, freeze))
	longer := soak(12*time.Hour, "prod-eu")
	longer.PassedByHotfix = true
	york := env("prod-us", dependsOn(0, "prod-eu"), longer, hours("America/New_York", "Mon-Fri 10:00-16:00", 1, freeze))
	return &intentpb.Delivery{Name: "web", Versions: "images", Environments: []*intentpb.DeliveryEnvironment{
		env("test"), verified(env("staging", dependsOn(time.Hour, "test"))), london, york,
	}}
}

func TestAMonth(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &month{
				t: t, random: rand.New(rand.NewPCG(seed, 1)), harms: map[intent.VersionName]string{}, asked: map[intent.VersionName]bool{},
				bounds: map[cell]time.Time{}, acted: map[intent.VersionName]bool{}, facts: Facts{Environments: map[string]*Environment{}},
			}
			m.restart()
			for now := monthStart; now.Before(monthStart.AddDate(0, 1, 0)); now = now.Add(step) {
				m.facts.Now = now
				m.happen()
				m.pass()
			}
			m.judgeAll()
		})
	}
}

// restart has nothing but what is stored.
func (m *month) restart() {
	text, err := json.Marshal(&m.facts)
	if err != nil {
		m.t.Fatal(err)
	}
	now := m.facts.Now
	m.facts = Facts{}
	if err := json.Unmarshal(text, &m.facts); err != nil {
		m.t.Fatal(err)
	}
	m.facts.Now = now
	if m.app, err = New(theMonth()); err != nil {
		m.t.Fatal(err)
	}
	for _, name := range m.app.Environments() {
		if m.facts.Environments[name] == nil {
			m.facts.Environments[name] = &Environment{}
		}
	}
}

func (m *month) after(d time.Duration, do func()) {
	m.due = append(m.due, event{m.facts.Now.Add(d), do})
}

func (m *month) act(kind ActKind, environment string, r intent.VersionName) {
	m.facts.Acts = append(m.facts.Acts, Act{Kind: kind, Environment: environment, VersionName: r, By: "user:ann", Reason: "because", At: m.facts.Now})
}

func (m *month) last(environment string) *Stay {
	stays := m.facts.Environments[environment].Stays
	if len(stays) == 0 {
		return &Stay{}
	}
	return &stays[len(stays)-1]
}

// happen is what the time brings: versions, acts of people, and what was begun before.
func (m *month) happen() {
	now := m.facts.Now
	if hour, minute := now.Hour(), now.Minute(); minute == 0 && (hour == 10 || hour == 16) {
		m.named()
	}
	day := int(now.Sub(monthStart) / (24 * time.Hour))
	if now.Sub(monthStart)%(24*time.Hour) == 0 {
		switch day {
		case 8:
			m.act(Pin, "prod-us", m.last("prod-us").VersionName)
		case 11:
			m.act(Unpin, "prod-us", intent.VersionName{})
		case 14:
			m.act(Pause, "", intent.VersionName{})
		case 15:
			m.act(Resume, "", intent.VersionName{})
		case 16:
			m.act(Hotfix, "", m.versions[len(m.versions)-1].VersionName())
			m.acted[m.versions[len(m.versions)-1].VersionName()] = true
		}
	}
	due := m.due
	m.due = nil
	for _, e := range due {
		if e.at.After(now) {
			m.due = append(m.due, e)
			continue
		}
		e.do()
	}
	if m.random.IntN(40) == 0 {
		m.restart()
	}
}

func (m *month) named() {
	n := len(m.versions) + 1
	v := version(n)
	v.Created = m.facts.Now
	m.versions = append(m.versions, v)
	// One of each week's fourteen is bad; so is what comes to production third and fifth.
	if n%14 == 6 {
		m.harms[v.VersionName()] = []string{"smoke", "stuck"}[n/14%2]
	}
}

// pass decides, and does what is decided.
func (m *month) pass() {
	if len(m.versions) == 0 {
		return
	}
	c := catalogue(m.t, m.versions...)
	d := m.app.Decide(c, &m.facts)
	holdLaws(m.t, m.app, c, &m.facts, d)
	settled(m.t, m.app, c, &m.facts, d)
	if m.facts.Now.Minute() == 0 {
		m.note(d)
	}
	for i, name := range m.app.Environments() {
		m.verify(name, d.Outcomes[i].Verify)
		if o := d.Outcomes[i]; o.Edit && m.random.IntN(10) > 0 { // Else it ended before the edit was made.
			explained, err := d.Explain(name, o.Wants)
			if err != nil {
				m.t.Fatal(err)
			}
			made := edit{m.facts.Now, name, o, explained.Verdicts}
			m.edits = append(m.edits, made)
			m.allowed(made)
			m.set(name, o)
		}
	}
	m.ask(d)
}

// note what is told of when versions can be where.
func (m *month) note(d *Decision) {
	for _, v := range m.versions[max(0, len(m.versions)-5):] {
		for _, name := range m.app.Environments() {
			x, err := d.Explain(name, v.VersionName())
			if err != nil {
				m.t.Fatal(err)
			}
			if key := (cell{name, v.VersionName()}); x.Estimate.At.After(m.bounds[key]) && (x.State == Pending || x.State == Approved) {
				m.bounds[key] = x.Estimate.At
			}
		}
	}
}

func (m *month) verify(name string, verifications []string) {
	if len(verifications) == 0 {
		return
	}
	e, stay := m.facts.Environments[name], *m.last(name)
	e.Verifying = true
	m.after(30*time.Minute, func() {
		m.facts.Environments[name].Verifying = false
		m.facts.Results = append(m.facts.Results, Result{
			Environment: name, Name: verifications[0], VersionName: stay.VersionName, Content: stay.Content, At: m.facts.Now, Good: m.harms[stay.VersionName] != "smoke",
		})
	})
}

// ask people about versions that wait for them: most approve some time, some never do.
func (m *month) ask(d *Decision) {
	for _, v := range m.versions[max(0, len(m.versions)-12):] {
		r := v.VersionName()
		x, err := d.Explain("prod-eu", r)
		if err != nil {
			m.t.Fatal(err)
		}
		waits := slices.ContainsFunc(x.Verdicts, func(v Verdict) bool { return v.Cause == NeedsPeople })
		if x.State != Pending || !waits || m.asked[r] {
			continue
		}
		if m.asked[r] = true; m.random.IntN(4) == 0 {
			continue
		}
		m.after(time.Duration(1+m.random.IntN(30))*time.Hour, func() {
			m.facts.Votes = append(m.facts.Votes, Vote{Environment: "prod-eu", Constraint: "people", VersionName: r, By: "user:bo", Roles: []string{approver}, At: m.facts.Now, Approve: true})
		})
	}
}

// set the field, and have what follows happen: it converges, or a rollout brings it on.
func (m *month) set(name string, o Outcome) {
	e := m.facts.Environments[name]
	if n := len(e.Stays); n > 0 {
		e.Stays[n-1].End = m.facts.Now
	}
	e.Stays = append(e.Stays, Stay{VersionName: o.Wants, Start: m.facts.Now, Content: fmt.Sprintf("%s-%d", o.Wants.Digest, len(e.Stays)), Back: o.Back})
	if n := len(e.Stays); name == "prod-eu" && o.Why == LetIn && (n == 3 || n == 5) {
		m.harms[o.Wants] = map[int]string{3: "rollout", 5: "person"}[n]
	}
	started, harm := m.facts.Now, m.harms[o.Wants]
	good := func() {
		if stay := m.last(name); stay.Start.Equal(started) {
			stay.GoodSince = m.facts.Now
		}
	}
	inProduction := name == "prod-eu" || name == "prod-us"
	switch {
	case o.Why == FollowsRollout:
		m.after(step, good)
	case !inProduction && harm == "stuck":
		m.after(time.Hour, func() {
			e := m.facts.Environments[name]
			e.Failures = append(e.Failures, Failure{o.Wants, defaultAttempts, m.facts.Now})
		})
	case inProduction && harm == "rollout":
		e.Rollout = true
		m.after(time.Hour, func() {
			e := m.facts.Environments[name]
			e.Vetoes = append(e.Vetoes, Veto{VersionName: o.Wants, At: m.facts.Now, Rollout: "web", BackTo: o.Has})
			m.after(30*time.Minute, func() { m.facts.Environments[name].Rollout = false })
		})
	case inProduction:
		e.Rollout = true
		m.after(2*time.Hour, func() {
			m.facts.Environments[name].Rollout = false
			good()
		})
		if harm == "person" && name == "prod-eu" {
			m.after(5*time.Hour, func() { m.act(MarkBad, "", o.Wants) })
		}
	default:
		m.after(time.Duration(20+m.random.IntN(30))*time.Minute, good)
	}
}

// allowed looks at an edit by other means: clocks on walls, votes and results.
func (m *month) allowed(e edit) {
	if e.outcome.Why != LetIn && e.outcome.Why != Pinned {
		return
	}
	r := e.outcome.Wants
	fail := func(format string, arguments ...any) {
		m.t.Helper()
		m.t.Fatalf("%s at %s: %s: %s", e.environment, e.at, r.Name, fmt.Sprintf(format, arguments...))
	}
	if bound := m.bounds[cell{e.environment, r}]; bound.After(e.at) && !m.acted[r] {
		fail("it was told that it comes at %s at the earliest", bound)
	}
	if e.environment[:4] == "prod" && m.harms[r] != "" {
		fail("it is bad: %s", m.harms[r])
	}
	zone, first, last, days, most := "", 0, 0, time.Thursday, 0
	switch e.environment {
	case "prod-eu":
		zone, first, last, most = "Europe/London", 9, 17, 2
		voted := slices.ContainsFunc(m.facts.Votes, func(v Vote) bool { return v.VersionName == r && e.at.Sub(v.At) < 48*time.Hour })
		if !voted && !m.acted[r] {
			fail("nobody approved it")
		}
		if !slices.ContainsFunc(m.facts.Results, func(s Result) bool { return s.VersionName == r && s.Good }) {
			fail("it was not verified")
		}
	case "prod-us":
		zone, first, last, days, most = "America/New_York", 10, 16, time.Friday, 1
	default:
		return
	}
	place, _ := time.LoadLocation(zone)
	local := e.at.In(place)
	if local.Hour() < first || local.Hour() >= last || local.Weekday() < time.Monday || local.Weekday() > days {
		fail("it is %s there", local)
	}
	if !e.at.Before(monthStart.AddDate(0, 0, 10)) && e.at.Before(monthStart.AddDate(0, 0, 12)) {
		fail("it is frozen")
	}
	count := 0
	for _, other := range m.edits {
		if other.environment == e.environment && !other.outcome.Back && other.at.In(place).YearDay() == local.YearDay() {
			count++
		}
	}
	if count > most {
		fail("it is number %d of the day", count)
	}
}

// judgeAll: at the end each version has a state in each environment that something stored
// explains, what is bad is nowhere, and all that should have happened did.
func (m *month) judgeAll() {
	d := m.app.Decide(catalogue(m.t, m.versions...), &m.facts)
	seen := map[State]int{}
	causes := map[BadCause]int{}
	for _, name := range m.app.Environments() {
		for _, v := range m.versions {
			x, err := d.Explain(name, v.VersionName())
			if err != nil {
				m.t.Fatal(err)
			}
			seen[x.State]++
			causes[x.Mark.Cause]++
			wasSet := slices.ContainsFunc(m.edits, func(e edit) bool { return e.environment == name && e.outcome.Wants == v.VersionName() })
			explained := false
			switch x.State {
			case Vetoed:
				explained = x.Mark.Cause != 0 && x.Mark.By != ""
			case Failed:
				explained = x.Failure.Attempts >= x.Attempts && wasSet
			case Previous, Current, Deploying:
				explained = wasSet
			case Skipped, Superseded:
				explained = !wasSet
			case Pending, Approved:
				explained = !wasSet && (x.Outcome.Hold != NoHold || slices.ContainsFunc(x.Verdicts, func(v Verdict) bool { return v.Status != Passes }))
			}
			if !explained {
				m.t.Errorf("%s in %s is %d, which nothing explains: %+v", v.Name, name, x.State, x)
			}
		}
		if harm := m.harms[m.last(name).VersionName]; harm != "" && name != "test" && m.facts.Now.Sub(m.last(name).Start) > 12*time.Hour {
			m.t.Errorf("%s is left with %s, which is bad: %s", name, m.last(name).Name, harm)
		}
	}
	m.covered(seen, causes)
}

// covered: a month in which nothing happens shows nothing.
func (m *month) covered(seen map[State]int, causes map[BadCause]int) {
	whys, holds := map[Why]int{}, map[string]int{}
	for _, e := range m.edits {
		whys[e.outcome.Why]++
		holds[e.environment]++
	}
	for _, why := range []Why{LetIn, WentBack, FollowsRollout} {
		if whys[why] == 0 {
			m.t.Errorf("no edit was made because of %d: %v", why, whys)
		}
	}
	for _, state := range []State{Current, Previous, Skipped, Vetoed, Failed} {
		if seen[state] == 0 {
			m.t.Errorf("no version is %d at the end: %v", state, seen)
		}
	}
	if causes[VerificationBad] == 0 || causes[RolloutBad] == 0 || causes[MarkedBad] == 0 || holds["prod-us"] < 3 || holds["prod-eu"] < 5 || holds["test"] < 40 {
		m.t.Errorf("too little happened: %v, %v, %v", causes, holds, whys)
	}
}
