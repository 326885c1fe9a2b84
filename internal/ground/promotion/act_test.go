package promotion

import (
	"errors"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
)

// TestEffects: what an act would change is what it changes once it is made.
func TestEffects(t *testing.T) {
	a, c := application(t, env("test"), env("prod", dependsOn(0, "test"))), upTo(t, 3)
	f := &Facts{Now: after(10), Environments: environments("test", had(stayed(1, 0, 0, 1), stayed(2, 1, 1, 2), stayed(3, 2, 2, -1)), "prod", had(stayed(1, 1, 1, 4), stayed(2, 4, 4, -1)))}
	back := act(RollBack, "prod", 1, 0)
	back.Had, back.Newest = named(2), named(3)
	for _, test := range []struct {
		act  Act
		want string
	}{
		{act(Pin, "prod", 2, 0), "prod: 1.3.0 -> 1.2.0"},
		{act(MarkBad, "", 3, 0), "test: 1.3.0 -> 1.2.0; prod: 1.3.0 -> 1.2.0"},
		{act(Pause, "", 0, 0), "prod: 1.3.0 -> 1.3.0 held"},
		{back, "prod: 1.3.0 -> 1.1.0"},
		{act(MarkGood, "prod", 2, 0), ""},
	} {
		effects, err := a.Effects(c, f, test.act)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, e := range effects {
			word := e.Environment + ": " + e.Before.Wants.Name + " -> " + e.After.Wants.Name
			if e.After.Hold != NoHold {
				word += " held"
			}
			words = append(words, word)
		}
		if got := strings.Join(words, "; "); got != test.want {
			t.Errorf("act %d has the effects %s, want %s", test.act.Kind, got, test.want)
		}
		if len(f.Acts) != 0 {
			t.Fatal("asking what an act changes has made it")
		}
	}
}

func TestActsThatCannotBeMade(t *testing.T) {
	a, c := application(t, verified(env("test")), env("prod", dependsOn(0, "test"))), upTo(t, 3)
	f := &Facts{Now: after(10), Environments: environments("prod", had(stayed(1, 1, 1, 4), stayed(2, 4, -1, -1))), Acts: []Act{act(MarkBad, "prod", 3, 5)}}
	back := func(to, had, newest int) Act {
		b := act(RollBack, "prod", to, 0)
		b.Had, b.Newest = named(had), named(newest)
		return b
	}
	force := act(Force, "prod", 3, 0)
	force.Constraint = "test"
	silent := act(Pin, "prod", 2, 0)
	silent.Reason = ""
	for _, test := range []struct {
		act  Act
		kind fault.Kind
		says string
	}{
		{act(Pin, "prd", 2, 0), fault.Invalid, `there is no environment "prd"`},
		{act(Pin, "", 2, 0), fault.Invalid, "in which environment"},
		{silent, fault.Invalid, "not said why"},
		{act(Pin, "prod", 9, 0), fault.Invalid, "no version 1.9.0 of web is known"},
		{act(MarkBad, "", 9, 0), fault.Invalid, "no version 1.9.0 of web is known"},
		{act(Pin, "prod", 3, 0), fault.Conflict, "version 1.3.0 is bad in prod"},
		{act(SkipTo, "prod", 3, 0), fault.Conflict, "version 1.3.0 is bad in prod"},
		{back(2, 2, 3), fault.Conflict, "was never good in prod"},
		{back(1, 1, 3), fault.Conflict, "prod has 1.2.0, and not 1.1.0"},
		{back(1, 2, 2), fault.Conflict, "version 1.3.0 is known by now"},
		{force, fault.Invalid, `there is no constraint "test"`},
	} {
		_, err := a.Effects(c, f, test.act)
		if fault.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v", test.says, err)
		}
	}
	if _, err := a.Effects(c, f, back(1, 2, 3)); err != nil {
		t.Error(err)
	}
}

func TestBadApplications(t *testing.T) {
	field := env("other")
	field.Pointer = "/test"
	alike := []*intentpb.DeliveryEnvironment{env("test"), env("test")}
	for _, test := range []struct {
		environments []*intentpb.DeliveryEnvironment
		field, says  string
	}{
		{alike, "environments.test", "two environments test"},
		{[]*intentpb.DeliveryEnvironment{env("test"), field}, "environments.other", "and so does test"},
		{[]*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(0, "tset"))}, "environments.prod.constraints.tested", `there is no environment "tset"`},
		{[]*intentpb.DeliveryEnvironment{env("a", dependsOn(0, "a"))}, "environments.a", "in a circle: a -> a"},
		{[]*intentpb.DeliveryEnvironment{env("a"), env("b", dependsOn(0, "d")), env("c", soak(1, "b")), env("d", anyOf("a", "c"))}, "environments.b", "in a circle: b -> d -> c -> b"},
		{[]*intentpb.DeliveryEnvironment{env("a", hours("UTC", "00:00-24:00", 1))}, "environments.a.constraints.hours", "windows never end"},
		{[]*intentpb.DeliveryEnvironment{env("a", hours("Europe/Londn", "09:00-17:00", 0))}, "environments.a.constraints.hours", "no time zone"},
	} {
		_, err := New(&intentpb.Delivery{Name: "web", Environments: test.environments})
		problem, ok := err.(*Problem) //nolint:errorlint // New says that its error is one.
		if !ok || problem.Field != test.field || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v", test.says, err)
		}
	}
}

// A name that is misspelt is told with the probable one, also of an environment that stands below.
func TestMisspeltEnvironments(t *testing.T) {
	_, err := New(&intentpb.Delivery{Name: "web", Environments: []*intentpb.DeliveryEnvironment{env("test", dependsOn(0, "prd")), env("prod")}})
	described, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatal(err)
	}
	if hint := described.Hint; !strings.Contains(hint, "did you mean prod?") || !strings.Contains(hint, "known are test, prod") {
		t.Errorf("%v: %s", err, hint)
	}
}

// A tag that was moved leads to another version: what was said of the first is of no use to the
// second, and the environment that has the first still knows which it is.
func TestAMovedTagIsAnotherRelease(t *testing.T) {
	was, is := version(2), version(2)
	was.Withdrawn, is.Digest, is.Created = true, "sha256:moved", after(3)
	c := catalogue(t, version(1), was, is)
	a := application(t, env("prod", judged(1, 0)))
	f := &Facts{Now: after(10), Environments: environments("prod", had(stayed(2, 4, 5, -1))), Votes: []Vote{approval(2, "prod", "user:ann", 2)}}
	if _, err := a.Effects(c, &Facts{Now: after(10)}, Act{Kind: Pin, Environment: "prod", VersionName: was.VersionName(), Reason: "because"}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "no longer has 1.2.0") {
		t.Error(err)
	}
	d := a.Decide(c, f)
	if d.Outcomes[0].Edit || d.State(0, was.VersionName()) != Current || d.State(0, is.VersionName()) != Pending {
		t.Errorf("%+v: %d, %d", d.Outcomes[0], d.State(0, was.VersionName()), d.State(0, is.VersionName()))
	}
	for says, versions := range map[string][]Version{
		"two versions 1.1.0": {version(1), version(2), version(1)},
		"two versions 1.2.0": {version(2), is},
	} {
		order, _ := ordering.New(nil)
		if _, err := NewCatalogue(order, versions); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// A version that no source lists, of a name that one lists, is replaced by what is listed under that
// name, or newer, and never by anything older.
func TestAListedNameWithAnotherDigest(t *testing.T) {
	c := catalogue(t, version(1), version(2), version(3))
	a := application(t, env("prod"))
	for _, tt := range []struct {
		name string
		deny string
		want intent.VersionName
	}{
		{name: "1.2.0", want: named(3)},
		{name: "1.2.0", deny: "1.3.0", want: named(2)},
		{name: "1.3.0", want: named(3)},
		{name: "1.3.0", deny: "1.3.0", want: intent.VersionName{Name: "1.3.0", Digest: "sha256:other"}},
	} {
		app := a
		if tt.deny != "" {
			app = application(t, env("prod", deny(tt.deny)))
		}
		has := stayed(2, 0, 1, -1)
		has.VersionName = intent.VersionName{Name: tt.name, Digest: "sha256:other"}
		d := app.Decide(c, &Facts{Now: after(10), Environments: environments("prod", had(has))})
		if d.Outcomes[0].Wants != tt.want || d.Outcomes[0].Hold != NoHold {
			t.Errorf("of %s, %q denied: %+v", tt.name, tt.deny, d.Outcomes[0])
		}
	}
}

// What has no place in the order is listed, never newest, and comes where a person pins it and
// its constraints let it in.
func TestUnordered(t *testing.T) {
	odd := version(9)
	odd.Name = "latest"
	c := catalogue(t, version(1), odd)
	a := application(t, env("prod"))
	f := &Facts{Now: after(10), Environments: map[string]*Environment{}}
	d := a.Decide(c, f)
	if d.Outcomes[0].Wants != named(1) || d.State(0, odd.VersionName()) != Unordered {
		t.Errorf("%+v, %d", d.Outcomes[0], d.State(0, odd.VersionName()))
	}
	x, err := d.Explain("prod", odd.VersionName())
	if err != nil || x.Aside != ordering.NotAVersion || !x.Estimate.At.IsZero() {
		t.Errorf("%+v, %v", x, err)
	}
	f.Acts = []Act{{Kind: Pin, Environment: "prod", VersionName: odd.VersionName(), At: after(5)}}
	if d := a.Decide(c, f); d.Outcomes[0].Wants != odd.VersionName() || d.Outcomes[0].Why != Pinned {
		t.Errorf("%+v", d.Outcomes[0])
	}
	if _, err := d.Explain("prod", named(5)); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}
