package promotion

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

const (
	ownName   = "shop/web"
	firstName = "shop/payments"
)

func lag(most uint32, behind ...string) *intentpb.DeliveryConstraint {
	return &intentpb.DeliveryConstraint{Name: "lag", Kind: &intentpb.DeliveryConstraint_Lag{Lag: &intentpb.VersionLag{Environments: behind, AtMost: most}}}
}

func released(t testing.TB, environments ...*intentpb.DeliveryEnvironment) *Application {
	t.Helper()
	a, err := New(&intentpb.Delivery{Name: "web", Versions: "images", Releases: "shop/line", Environments: environments})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// train number n brings version n of web and of payments.
func train(n int) Release {
	return Release{Number: n, Versions: map[string]intent.VersionName{ownName: named(n), firstName: named(n)}, By: "ann", Reason: "it is time", At: after(float64(n))}
}

func (r Release) changed(change func(*Release)) Release {
	change(&r)
	return r
}

func immediate(r *Release) { r.Immediate = true }
func hold(r *Release)      { r.Held = &ReleaseAct{"bob", "wait for marketing", after(5)} }
func abort(r *Release)     { r.Aborted = &ReleaseAct{"bob", "it loses orders", after(5)} }

func skipIn(environment string) func(*Release) {
	return func(r *Release) {
		r.Skipped = map[string]*ReleaseAct{environment: {"bob", "not worth it", after(5)}}
	}
}

func only(application string) func(*Release) {
	return func(r *Release) { r.Versions = map[string]intent.VersionName{application: r.Versions[application]} }
}

// TestWhatReleasesBring: one environment, several releases at once.
func TestWhatReleasesBring(t *testing.T) {
	for says, test := range map[string]struct {
		has      *Environment
		releases []Release
		// wants is the number of the version; 0: what it has.
		wants int
	}{
		"nothing, without releases":                         {had(stayed(1, 1, 2, -1)), nil, 0},
		"nothing that no release brings":                    {had(stayed(2, 1, 2, -1)), []Release{train(1), train(2)}, 0},
		"the oldest train":                                  {had(stayed(1, 1, 2, -1)), []Release{train(1), train(2), train(3)}, 2},
		"no train while another is under way":               {had(stayed(1, 1, -1, -1)), []Release{train(1), train(2), train(3)}, 0},
		"the first train where nothing was":                 {nil, []Release{train(2), train(3)}, 2},
		"the newest immediate one, also before trains":      {had(stayed(1, 1, 2, -1)), []Release{train(1), train(2), train(3).changed(immediate), train(4)}, 3},
		"an immediate one while another is under way":       {had(stayed(1, 1, -1, -1)), []Release{train(1), train(2).changed(immediate)}, 2},
		"trains after an immediate one":                     {had(stayed(3, 1, 2, -1)), []Release{train(2), train(3).changed(immediate), train(4)}, 4},
		"no train that an immediate one passed by":          {had(stayed(3, 1, 2, -1)), []Release{train(2), train(3).changed(immediate)}, 0},
		"nothing held":                                      {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(hold)}, 0},
		"no train behind a held one":                        {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(hold), train(3)}, 0},
		"a train behind a held one that it has passed":      {had(stayed(2, 1, 2, -1)), []Release{train(2).changed(hold), train(3)}, 3},
		"a train behind a held one of another application":  {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(only(firstName)).changed(hold), train(3)}, 3},
		"an immediate one in spite of a held train":         {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(hold), train(3).changed(immediate)}, 3},
		"a train behind a held one that is skipped here":    {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(hold).changed(skipIn("prod")), train(3)}, 3},
		"a train before a held one":                         {had(stayed(1, 1, 2, -1)), []Release{train(2), train(3).changed(hold)}, 2},
		"the train after one that is skipped here":          {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(skipIn("prod")), train(3)}, 3},
		"the train after one that is skipped everywhere":    {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(skipIn("")), train(3)}, 3},
		"a train that is skipped elsewhere":                 {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(skipIn("test")), train(3)}, 2},
		"what it has, where that is skipped":                {had(stayed(2, 1, 2, -1)), []Release{train(2).changed(skipIn("prod"))}, 0},
		"no aborted immediate one":                          {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(immediate).changed(abort)}, 0},
		"what was good before, where it is aborted":         {had(stayed(1, 1, 2, 3), stayed(2, 3, 4, -1)), []Release{train(1), train(2).changed(abort)}, 1},
		"what it has, where another release brings it, too": {had(stayed(1, 1, 2, 3), stayed(2, 3, 4, -1)), []Release{train(1), train(2).changed(abort), train(2).changed(func(r *Release) { r.Number = 3 })}, 0},
		"a train by a later release that is not aborted":    {had(stayed(1, 1, 2, -1)), []Release{train(2).changed(abort), train(2).changed(func(r *Release) { r.Number = 3 })}, 2},
	} {
		a := released(t, env("prod"))
		facts := &Facts{Now: after(6), Line: &Line{Releases: test.releases}, Member: ownName, Environments: map[string]*Environment{}}
		if test.has != nil {
			facts.Environments["prod"] = test.has
		}
		c := upTo(t, 5)
		o := a.Decide(c, facts).Outcomes[0]
		want := o.Has
		if test.wants > 0 {
			want = named(test.wants)
		}
		if o.Wants != want || o.Edit != (want != o.Has) {
			t.Errorf("%s: it wants %s and edits %v, want %s", says, o.Wants.Name, o.Edit, want.Name)
		}
	}
}

// TestALineThatCannotBeRead brings nothing, and takes nothing away.
func TestALineThatCannotBeRead(t *testing.T) {
	a := released(t, env("prod"))
	d := a.Decide(upTo(t, 3), &Facts{Now: after(9), Environments: environments("prod", had(stayed(1, 1, 2, -1)))})
	if d.Outcomes[0].Edit {
		t.Errorf("it is edited: %+v", d.Outcomes[0])
	}
	x, err := d.Explain("prod", named(2))
	if err != nil || x.Verdicts[0].Cause != LineUnreadable || !x.Estimate.At.IsZero() {
		t.Errorf("%+v, %v", x, err)
	}
}

// ordered is the facts of web, which waits for payments in the releases.
func ordered(t testing.TB, whole bool, payments map[string]*Environment, releases ...Release) *Facts {
	member := &Member{
		Application: application(t, env("test"), env("prod", dependsOn(0, "test"))), Catalogue: upTo(t, 5),
		Facts: &Facts{Now: after(9), Environments: payments},
	}
	return &Facts{Now: after(9), Member: ownName, Environments: map[string]*Environment{"test": had(stayed(1, 1, 2, -1)), "prod": had(stayed(1, 1, 2, -1))}, Line: &Line{
		Releases: releases, Order: []ReleaseOrder{{First: firstName, Then: ownName, Whole: whole}}, Members: map[string]*Member{firstName: member},
	}}
}

// TestOrderWithinARelease: web waits for payments, in the same environment or in all.
func TestOrderWithinARelease(t *testing.T) {
	bad := func(e *Environment, n int) *Environment {
		e.Vetoes = []Veto{{VersionName: named(n), At: after(5), Rollout: "web"}}
		return e
	}
	for says, test := range map[string]struct {
		whole    bool
		payments map[string]*Environment
		releases []Release
		// test and prod say whether web gets version 2 there.
		test, prod bool
		// words are in what is said of prod.
		words string
	}{
		"nothing is there": {payments: map[string]*Environment{}, words: "release waits with release 2: shop/payments 1.2.0 waits for prod, which never had it"},
		"the first is good in one environment": {
			payments: map[string]*Environment{"test": had(stayed(2, 1, 2, -1))}, test: true, words: "which never had it",
		},
		"the first is not good yet":                  {payments: map[string]*Environment{"test": had(stayed(2, 1, -1, -1)), "prod": had(stayed(1, 1, 2, -1))}},
		"the first is good in both":                  {payments: map[string]*Environment{"test": had(stayed(2, 1, 2, -1)), "prod": had(stayed(2, 3, 4, -1))}, test: true, prod: true},
		"whole: the first is good in one":            {whole: true, payments: map[string]*Environment{"test": had(stayed(2, 1, 2, -1))}},
		"whole: the first is good in both":           {whole: true, payments: map[string]*Environment{"test": had(stayed(2, 1, 2, -1)), "prod": had(stayed(2, 3, 4, -1))}, test: true, prod: true},
		"the first went on to something newer":       {payments: map[string]*Environment{"test": had(stayed(2, 1, 2, 3), stayed(3, 3, -1, -1)), "prod": had(stayed(3, 3, 4, -1))}, test: true, prod: true},
		"the first went back":                        {payments: map[string]*Environment{"test": had(stayed(1, 0, 1, 1), stayed(2, 1, 2, 3), stayed(1, 3, 4, -1)), "prod": had(stayed(1, 1, 2, -1))}},
		"the first is bad in one":                    {payments: map[string]*Environment{"test": had(stayed(2, 1, 2, -1)), "prod": bad(had(stayed(1, 1, 2, -1)), 2)}, test: true, words: "refuses it with release 2, for shop/payments 1.2.0 is bad in prod"},
		"the first is bad, and something newer good": {payments: map[string]*Environment{"test": bad(had(stayed(2, 1, 2, 3), stayed(3, 3, 4, -1)), 2), "prod": had(stayed(1, 1, 2, -1))}, test: true},
		"the release has only this application":      {payments: map[string]*Environment{}, releases: []Release{train(2).changed(only(ownName))}, test: true, prod: true},
	} {
		releases := test.releases
		if releases == nil {
			releases = []Release{train(1), train(2)}
		}
		facts := ordered(t, test.whole, test.payments, releases...)
		d := released(t, env("test"), env("prod")).Decide(upTo(t, 5), facts)
		if got := [2]bool{d.Outcomes[0].Edit, d.Outcomes[1].Edit}; got != [2]bool{test.test, test.prod} {
			t.Errorf("%s: edits of test and prod are %v, want %v", says, got, [2]bool{test.test, test.prod})
		}
		x, err := d.Explain("prod", named(2))
		if err != nil || !strings.Contains(x.Words("1.2.0", "prod"), test.words) {
			t.Errorf("%s: it says %q, want %q, %v", says, x.Words("1.2.0", "prod"), test.words, err)
		}
	}
	facts := ordered(t, false, nil, train(2))
	facts.Line.Members = nil
	if d := released(t, env("prod")).Decide(upTo(t, 5), facts); d.Outcomes[0].Edit {
		t.Error("it went before one that cannot be read")
	}
}

// TestEstimateOfARelease: web comes when payments has, and people who hold it are named.
func TestEstimateOfARelease(t *testing.T) {
	facts := ordered(t, false, map[string]*Environment{}, train(2))
	member := facts.Line.Members[firstName]
	member.Application = application(t, env("test"), env("prod", dependsOn(2*time.Hour, "test"), judged(1, 0)))
	x, err := released(t, env("test"), env("prod")).Decide(upTo(t, 5), facts).Explain("prod", named(2))
	if err != nil || !x.Estimate.At.Equal(after(11)) || len(x.Estimate.Awaits) != 1 || x.Estimate.Awaits[0] != (Awaited{"prod", "people"}) {
		t.Errorf("%+v, %v", x.Estimate, err)
	}
	facts.Line.Releases[0] = facts.Line.Releases[0].changed(hold)
	x, err = released(t, env("test"), env("prod")).Decide(upTo(t, 5), facts).Explain("prod", named(2))
	if err != nil || len(x.Estimate.Awaits) != 1 || x.Estimate.Awaits[0] != (Awaited{"prod", ReleasedConstraint}) {
		t.Errorf("%+v, %v", x.Estimate, err)
	}
	facts.Line.Releases[0] = train(2).changed(abort)
	x, err = released(t, env("test"), env("prod")).Decide(upTo(t, 5), facts).Explain("prod", named(2))
	if err != nil || x.State != Vetoed || !x.Estimate.At.IsZero() || !strings.Contains(x.Words("1.2.0", "prod"), "aborted by bob") {
		t.Errorf("%+v %s, %v", x, x.Words("1.2.0", "prod"), err)
	}
}

// TestLag: test may be so many versions ahead of prod, and no more.
func TestLag(t *testing.T) {
	for _, test := range []struct {
		most  uint32
		prod  int // The version that prod has; 0: none.
		bad   int // A version that is bad in prod; 0: none.
		wants int
	}{
		{0, 1, 0, 1}, {1, 1, 0, 2}, {2, 1, 0, 3}, {9, 1, 0, 5}, {1, 0, 0, 1}, {2, 0, 0, 2},
		{1, 1, 2, 3}, // What cannot come any more does not count.
		{1, 1, 3, 2}, // But what is to come counts.
	} {
		prod := &Environment{}
		if test.prod > 0 {
			prod = had(stayed(test.prod, 1, 2, -1))
		}
		if test.bad > 0 {
			prod.Vetoes = []Veto{{VersionName: named(test.bad), At: after(2)}}
		}
		facts := &Facts{Now: after(9), Environments: map[string]*Environment{"prod": prod}}
		if test.most == 0 {
			facts.Environments["test"] = had(stayed(1, 1, 2, -1))
		}
		d := application(t, env("test", lag(test.most, "prod")), env("prod", deny("1.*"))).Decide(upTo(t, 5), facts)
		if got := d.Outcomes[0].Wants; got != named(test.wants) {
			t.Errorf("at most %d ahead of %d, with %d bad: it wants %s, want %s", test.most, test.prod, test.bad, got.Name, named(test.wants).Name)
		}
	}
}

// TestEstimateOfALag: version 3 comes to test when prod has version 2, which soaks there first.
func TestEstimateOfALag(t *testing.T) {
	facts := &Facts{Now: after(9), Environments: map[string]*Environment{
		"test": had(stayed(1, 1, 2, 8), stayed(2, 8, 9, -1)), "prod": had(stayed(1, 1, 2, -1)),
	}}
	a := application(t, env("test", lag(1, "prod")), env("prod", soak(4*time.Hour, "test")))
	x, err := a.Decide(upTo(t, 3), facts).Explain("test", named(3))
	if err != nil || !x.Estimate.At.Equal(after(13)) || !strings.Contains(x.Words("1.3.0", "test"), "prod, which would be 2 versions behind, and may be 1") {
		t.Errorf("%v %s, %v", x.Estimate, x.Words("1.3.0", "test"), err)
	}
}

// TestReleasedApplicationsThatCannotBe: what contradicts releases is refused by name.
func TestReleasedApplicationsThatCannotBe(t *testing.T) {
	queueing := env("prod")
	queueing.Newer = intentpb.DeliveryEnvironment_NEWER_QUEUES
	named := deny("1.*")
	named.Name = ReleasedConstraint
	circle := lag(0, "prod")
	for says, environments := range map[string][]*intentpb.DeliveryEnvironment{
		"newer: queues":           {queueing},
		"is called release":       {env("prod", named)},
		"in a circle":             {env("test", circle), env("prod", dependsOn(0, "test"))},
		`no environment "nobody"`: {env("test", lag(1, "nobody"))},
	} {
		_, err := New(&intentpb.Delivery{Name: "web", Versions: "images", Releases: "shop/line", Environments: environments})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := New(&intentpb.Delivery{Name: "web", Versions: "images", Environments: []*intentpb.DeliveryEnvironment{env("test", lag(1, "prod")), env("prod", dependsOn(0, "test"))}}); err != nil {
		t.Errorf("a lag of one is no circle: %v", err)
	}
}

// TestTrainsArriveInOrder: over two weeks each environment takes all releases, each after it soaked before.
func TestTrainsArriveInOrder(t *testing.T) {
	a := released(t, env("test"), env("prod", soak(24*time.Hour, "test")))
	c := upTo(t, 5)
	stays := map[string]*Environment{"test": {}, "prod": {}}
	var seen []string
	releases := []Release{train(1), train(2), train(3).changed(immediate), train(4), train(5)}
	for hour := range 24 * 14 {
		now := after(float64(hour))
		facts := &Facts{Now: now, Member: ownName, Environments: stays, Line: &Line{Releases: releases[:min(5, 1+hour/48)]}}
		for i, o := range a.Decide(c, facts).Outcomes {
			if !o.Edit {
				continue
			}
			name := a.Environments()[i]
			e := stays[name]
			if n := len(e.Stays); n > 0 {
				e.Stays[n-1].End = now
			}
			e.Stays = append(e.Stays, Stay{VersionName: o.Wants, Start: now, GoodSince: now})
			seen = append(seen, fmt.Sprintf("%d %s %s", hour, name, o.Wants.Name))
		}
	}
	want := []string{
		"0 test 1.1.0", "24 prod 1.1.0", "48 test 1.2.0", "72 prod 1.2.0", "96 test 1.3.0", "120 prod 1.3.0", "144 test 1.4.0", "168 prod 1.4.0", "192 test 1.5.0", "216 prod 1.5.0",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("it went\n%s", strings.Join(seen, "\n"))
	}
}

// TestTrainOf: a train is in an environment from when its version came until all is good with that.
func TestTrainOf(t *testing.T) {
	back := func(s Stay) Stay { s.Back = true; return s }
	wasGood := func(s Stay) Stay { s.GoodBefore = time.Minute; return s }
	for says, test := range map[string]struct {
		stay     Stay
		releases []Release
		// is the number of the train; 0: none is in it.
		is int
	}{
		"what a train brought":                        {stayed(2, 1, -1, -1), []Release{train(1), train(2), train(3)}, 2},
		"what is good":                                {stayed(2, 1, 2, -1), []Release{train(2)}, 0},
		"what was good, and is not":                   {wasGood(stayed(2, 1, -1, -1)), []Release{train(2)}, 0},
		"what goes back":                              {back(stayed(2, 1, -1, -1)), []Release{train(2)}, 0},
		"what no release brought":                     {stayed(4, 1, -1, -1), []Release{train(2)}, 0},
		"what an immediate release brought":           {stayed(2, 1, -1, -1), []Release{train(2).changed(immediate)}, 0},
		"what a train and an immediate one brought":   {stayed(2, 1, -1, -1), []Release{train(2), train(2).changed(immediate)}, 0},
		"a train that was aborted":                    {stayed(2, 1, -1, -1), []Release{train(2).changed(abort)}, 0},
		"what an aborted train and another brought":   {stayed(2, 1, -1, -1), []Release{train(2), train(2).changed(abort)}, 2},
		"a train that is held while it is in":         {stayed(2, 1, -1, -1), []Release{train(2).changed(hold)}, 2},
		"a train that brings it to another one alone": {stayed(2, 1, -1, -1), []Release{train(2).changed(only(firstName))}, 0},
		"nothing": {Stay{}, []Release{train(2)}, 0},
	} {
		f := &Facts{Line: &Line{Releases: test.releases}, Member: ownName}
		is := 0
		if release := f.TrainOf(test.stay); release != nil {
			is = release.Number
		}
		if is != test.is {
			t.Errorf("%s: train %d, want %d", says, is, test.is)
		}
	}
	if (&Facts{}).TrainOf(stayed(2, 1, -1, -1)) != nil {
		t.Error("there is a train without a line")
	}
}
