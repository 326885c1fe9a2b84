package promotion

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// lineMonth is a line of three services over a month: what they have, and what people asked, is all in facts.
type lineMonth struct {
	testing.TB
	random       *rand.Rand
	now          time.Time
	services     []string
	applications map[string]*Application
	catalogue    *Catalogue
	environments map[string]map[string]*Environment
	releases     []Release
	// due is when an environment becomes good, by service and environment, or a task that is to fail has failed.
	due     map[[2]string]time.Time
	failing map[[2]string]bool
	acts    map[string][]Act
	// promoted counts promotions, by how the version came.
	promoted map[string]int
}

const monthReleases = 60

func newLineMonth(t *testing.T, seed uint64) *lineMonth {
	m := &lineMonth{
		TB: t, random: rand.New(rand.NewPCG(seed, 1)), now: start, services: []string{"shop/payments", "shop/orders", "shop/web"}, applications: map[string]*Application{}, catalogue: upTo(t, monthReleases),
		environments: map[string]map[string]*Environment{}, due: map[[2]string]time.Time{}, failing: map[[2]string]bool{}, acts: map[string][]Act{}, promoted: map[string]int{},
	}
	for _, service := range m.services {
		m.applications[service] = released(t,
			env("test", lag(4, "staging")), env("staging", dependsOn(time.Hour, "test")),
			env("eu", dependsOn(0, "staging"), soak(4*time.Hour, "staging"), hours("Europe/London", "Mon-Thu 09:00-17:00", 2), needs("migrate")),
			env("us", dependsOn(0, "eu"), hours("America/New_York", "Mon-Fri 10:00-16:00", 1), needs("migrate")),
			beforeTask("migrate"), task("tell", &intentpb.DeliveryTask{After: []string{"us"}}), task("clean", &intentpb.DeliveryTask{OnFailure: []string{"staging", "eu"}}),
		)
		m.environments[service] = map[string]*Environment{"test": {}, "staging": {}, "eu": {}, "us": {}, "migrate": {}, "tell": {}, "clean": {}}
	}
	return m
}

// facts of a service, made anew: whoever decides remembers nothing.
func (m *lineMonth) facts(service string) *Facts {
	line := &Line{Releases: slices.Clone(m.releases), Members: map[string]*Member{}, Order: []ReleaseOrder{
		{First: "shop/payments", Then: "shop/orders"}, {First: "shop/orders", Then: "shop/web"},
	}}
	made := func(name string) *Facts {
		environments := map[string]*Environment{}
		for environment, e := range m.environments[name] {
			one := *e
			one.Stays = slices.Clone(e.Stays)
			environments[environment] = &one
		}
		return &Facts{Now: m.now, Environments: environments, Acts: slices.Clone(m.acts[name]), Line: line, Member: name}
	}
	for _, name := range m.services {
		line.Members[name] = &Member{Application: m.applications[name], Catalogue: m.catalogue, Facts: made(name)}
	}
	return made(service)
}

// happen has something happen by lot: a release, a bad version, or what a person asks.
func (m *lineMonth) happen() {
	if len(m.releases) < monthReleases && m.random.IntN(24) == 0 {
		n := len(m.releases) + 1
		r := Release{Number: n, Versions: map[string]intent.VersionName{}, Immediate: m.random.IntN(4) == 0, At: m.now}
		for _, service := range m.services {
			if m.random.IntN(4) > 0 {
				r.Versions[service] = named(n)
			}
		}
		m.releases = append(m.releases, r)
	}
	if len(m.releases) == 0 {
		return
	}
	r := &m.releases[len(m.releases)-1-m.random.IntN(min(4, len(m.releases)))]
	act := &ReleaseAct{"ann", "as it looks", m.now}
	switch m.random.IntN(200) {
	case 0, 1:
		r.Held = act
	case 2, 3, 4:
		for i := range m.releases {
			m.releases[i].Held = nil
		}
	case 5:
		r.Skipped = map[string]*ReleaseAct{[]string{"test", "eu", "us"}[m.random.IntN(3)]: act}
	case 6:
		r.Aborted = act
	case 7, 8, 9:
		service := m.services[m.random.IntN(3)]
		for _, environment := range m.applications[service].Environments() { // In this order: a seed gives one run.
			e := m.environments[service][environment]
			if n := len(e.Stays); n > 0 && m.random.IntN(2) == 0 {
				e.Vetoes = append(e.Vetoes, Veto{VersionName: e.Stays[n-1].VersionName, At: m.now, Rollout: "canary"})
			}
		}
	}
	for key, at := range m.due {
		e := m.environments[key[0]][key[1]]
		stay := &e.Stays[len(e.Stays)-1]
		if m.now.Before(at) || !stay.GoodSince.IsZero() {
			continue
		}
		delete(m.due, key)
		if m.failing[key] {
			e.Failures = append(e.Failures, Failure{VersionName: stay.VersionName, Attempts: 1, Last: at})
			m.promoted["failed tasks"]++
			continue
		}
		stay.GoodSince = at
	}
	for _, service := range m.services { // A person has a migration that failed run again, some hours later.
		migration := m.environments[service]["migrate"]
		if n := len(migration.Failures); n > 0 && m.random.IntN(12) == 0 {
			failure := migration.Failures[n-1]
			migration.Failures = migration.Failures[:n-1]
			m.acts[service] = append(m.acts[service], Act{Kind: Restart, Environment: "migrate", Constraint: RunConstraint, VersionName: failure.VersionName, By: "ann", Reason: "again", At: m.now})
		}
	}
}

// goOn decides for one service, twice, and makes one edit at most.
func (m *lineMonth) goOn(service string) {
	decision, again := m.applications[service].Decide(m.catalogue, m.facts(service)), m.applications[service].Decide(m.catalogue, m.facts(service))
	if !slices.EqualFunc(decision.Outcomes, again.Outcomes, func(a, b Outcome) bool { return a.Wants == b.Wants && a.Why == b.Why && a.Hold == b.Hold }) {
		m.Fatalf("%s: %s is decided in two ways: %+v, %+v", m.now, service, decision.Outcomes, again.Outcomes)
	}
	if m.now.Hour()%3 == 0 {
		for at, environment := range m.applications[service].Environments() {
			m.holdMatrix(decision, service, at, environment)
		}
	}
	for at, environment := range m.applications[service].Names() {
		if o := decision.Outcomes[at]; o.Edit {
			if m.applications[service].IsTask(at) {
				m.judgeTask(service, environment, o)
			} else {
				m.judge(decision, service, environment, o)
			}
			key := [2]string{service, environment}
			m.failing[key] = m.applications[service].IsTask(at) && m.random.IntN(8) == 0
			e := m.environments[service][environment]
			if n := len(e.Stays); n > 0 {
				e.Stays[n-1].End = m.now
			}
			e.Stays = append(e.Stays, Stay{VersionName: o.Wants, Start: m.now, Back: o.Back})
			m.due[key] = m.now.Add(time.Duration(m.random.IntN(40)) * time.Minute)
			return
		}
	}
}

// holdMatrix: what the matrix and why say of each version is what production has.
func (m *lineMonth) holdMatrix(d *Decision, service string, at int, environment string) {
	stays := m.environments[service][environment].Stays
	const newest = 15
	for n := max(1, len(m.releases)-newest); n <= len(m.releases); n++ {
		x, err := d.Explain(environment, named(n))
		if err != nil {
			m.Fatal(err)
		}
		isThere := len(stays) > 0 && stays[len(stays)-1].VersionName == named(n)
		if isCurrent := x.State == Current || x.State == Deploying; isCurrent && !isThere || isThere && !isCurrent && x.State != Vetoed {
			m.Fatalf("%s: %s of %s is %v in %s, which has %+v", m.now, named(n).Name, service, x.State, environment, stays)
		}
		// What is older than an immediate release that comes now is not weighed.
		isNewest := d.catalogue.Place(d.Outcomes[at].Wants) < n-1
		if x.State == Pending && isNewest && !slices.ContainsFunc(x.Verdicts, func(v Verdict) bool { return v.Status != Passes }) {
			m.Fatalf("%s: %s of %s waits for nothing in %s", m.now, named(n).Name, service, environment)
		}
	}
}

// judge an edit by what the test knows.
func (m *lineMonth) judge(d *Decision, service, environment string, o Outcome) {
	e := m.environments[service][environment]
	number := d.catalogue.Place(o.Wants) + 1
	if slices.ContainsFunc(e.Vetoes, func(v Veto) bool { return v.VersionName == o.Wants }) {
		m.Fatalf("%s: %s of %s was given what is bad there: %s", m.now, environment, service, o.Wants.Name)
	}
	release := m.releases[number-1]
	if release.Aborted != nil {
		m.Fatalf("%s: %s of %s was given the aborted release %d", m.now, environment, service, number)
	}
	if o.Back {
		m.promoted["back"]++
		return
	}
	if release.Held != nil || release.Skipped[environment] != nil || release.Versions[service] != o.Wants {
		m.Fatalf("%s: %s of %s was given release %+v", m.now, environment, service, release)
	}
	if n := len(e.Stays); n > 0 && d.catalogue.Place(e.Stays[n-1].VersionName)+1 >= number {
		m.Fatalf("%s: release %d overtook a newer one in %s of %s", m.now, number, environment, service)
	}
	first := map[string]string{"shop/orders": "shop/payments", "shop/web": "shop/orders"}[service]
	if _, ok := release.Versions[first]; ok {
		stays := m.environments[first][environment].Stays
		if n := len(stays); n == 0 || d.catalogue.Place(stays[n-1].VersionName)+1 < number {
			m.Fatalf("%s: %s of %s was given release %d before %s, which has %+v", m.now, environment, service, number, first, stays)
		}
	}
	if isProduction := environment == "eu" || environment == "us"; isProduction && !m.hasEndedWell(service, "migrate", o.Wants) {
		m.Fatalf("%s: %s of %s was given %s before its migration ended well: %+v", m.now, environment, service, o.Wants.Name, m.environments[service]["migrate"].Stays)
	}
	if release.Immediate {
		m.promoted["immediate"]++
	} else {
		m.promoted["train"]++
	}
	m.promoted[service+" "+environment]++
}

// hasEndedWell reports whether the last run of a task for a version ended well, and nobody asked for another one.
func (m *lineMonth) hasEndedWell(service, task string, r intent.VersionName) bool {
	isGood := false
	var start time.Time
	for _, stay := range m.environments[service][task].Stays {
		if stay.VersionName == r {
			isGood, start = !stay.GoodSince.IsZero(), stay.Start
		}
	}
	return isGood && !slices.ContainsFunc(m.acts[service], func(a Act) bool { return a.Environment == task && a.VersionName == r && !a.At.Before(start) })
}

// judgeTask judges that a run begins.
func (m *lineMonth) judgeTask(service, task string, o Outcome) {
	all := m.environments[service]
	if m.hasEndedWell(service, task, o.Wants) {
		m.Fatalf("%s: %s of %s runs for %s once more", m.now, task, service, o.Wants.Name)
	}
	has := func(environment string) Stay {
		if n := len(all[environment].Stays); n > 0 {
			return all[environment].Stays[n-1]
		}
		return Stay{}
	}
	hadBad := func(environment string) bool {
		return slices.ContainsFunc(all[environment].Vetoes, func(v Veto) bool { return v.VersionName == o.Wants })
	}
	isWanted := map[string]func() bool{
		"migrate": func() bool {
			// For an environment that may have it, and does not.
			return slices.ContainsFunc([]string{"eu", "us"}, func(e string) bool { return has(e).VersionName != o.Wants && !hadBad(e) })
		},
		"tell":  func() bool { return has("us").VersionName == o.Wants && !has("us").GoodSince.IsZero() },
		"clean": func() bool { return hadBad("staging") || hadBad("eu") },
	}[task]
	if !isWanted() {
		m.Fatalf("%s: %s of %s runs for %s, which nothing needs: %+v", m.now, task, service, o.Wants.Name, all)
	}
	m.promoted[task]++
}

// TestAMonthOfReleases: trains and immediate releases of three services side by side, which wait for each other, through
// windows of two zones, with tasks before, after and on failure; versions are found bad in each of them, tasks fail, and people hold, skip and abort. Nothing is remembered
// between two decisions, and at each step the matrix and why say what production has.
func TestAMonthOfReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newLineMonth(t, seed)
			for end := start.AddDate(0, 1, 0); m.now.Before(end); m.now = m.now.Add(30 * time.Minute) {
				m.happen()
				for _, i := range m.random.Perm(len(m.services)) {
					m.goOn(m.services[i])
				}
			}
			for _, way := range []string{"train", "immediate", "back", "shop/web us", "shop/orders eu", "migrate", "tell", "clean", "failed tasks"} {
				if m.promoted[way] == 0 {
					t.Errorf("nothing came as %s: %v", way, m.promoted)
				}
			}
			t.Logf("%d releases, %v", len(m.releases), m.promoted)
		})
	}
}
