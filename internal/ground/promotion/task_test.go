package promotion

import (
	"errors"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// needs is a constraint that waits for a task.
func needs(task string) *intentpb.DeliveryConstraint {
	return &intentpb.DeliveryConstraint{Name: "with-" + task, Kind: &intentpb.DeliveryConstraint_Completed{Completed: &intentpb.CompletedTask{Task: task}}}
}

// task of an application, with parameters, and what its constraints are.
func task(name string, spec *intentpb.DeliveryTask, constraints ...*intentpb.DeliveryConstraint) *intentpb.DeliveryEnvironment {
	e := env(name, constraints...)
	spec.ParametersPointer = "/" + name + "-parameters"
	e.Task, e.OnBad = spec, intentpb.DeliveryEnvironment_ON_BAD_STAY
	return e
}

func beforeTask(name string, constraints ...*intentpb.DeliveryConstraint) *intentpb.DeliveryEnvironment {
	return task(name, &intentpb.DeliveryTask{}, constraints...)
}

func restart(n int, task string, hour float64) Act {
	return Act{Kind: Restart, Environment: task, Constraint: RunConstraint, VersionName: named(n), By: "ann", Reason: "once more", At: after(hour)}
}

func failedOnce(n int, hour float64) []Failure {
	return []Failure{{VersionName: named(n), Attempts: 1, Last: after(hour)}}
}

func found(s Stay) Stay {
	s.Found = true
	return s
}

// taskPlay is a situation of an application with tasks, and what is decided for one of its environments or tasks.
type taskPlay struct {
	name         string
	environments []*intentpb.DeliveryEnvironment
	facts        Facts
	place        string
	// wants is a version, 0: what it has. run: a run of it begins; edit: its field is set.
	wants int
	run   bool
	edit  bool
	// number of the run, and the environment that it is for.
	number int
	where  string
}

func taskPlays() []taskPlay {
	migrated := []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(0, "test"), needs("migrate")), beforeTask("migrate")}
	reported := []*intentpb.DeliveryEnvironment{env("test"), env("prod"), task("report", &intentpb.DeliveryTask{After: []string{"prod"}})}
	cleaned := []*intentpb.DeliveryEnvironment{env("prod"), task("clean", &intentpb.DeliveryTask{OnFailure: []string{"prod"}})}
	chained := []*intentpb.DeliveryEnvironment{env("prod", needs("migrate")), beforeTask("migrate", needs("scan")), beforeTask("scan")}
	shared := []*intentpb.DeliveryEnvironment{env("eu", judged(1, 0), needs("migrate")), env("us", judged(1, 0), needs("migrate")), beforeTask("migrate")}
	testHas := func(n int) *Environment { return had(stayed(n, 1, 2, -1)) }
	bad := func(e *Environment, n int, hour float64) *Environment {
		e.Vetoes = []Veto{{VersionName: named(n), At: after(hour), Rollout: "waves"}}
		return e
	}
	return []taskPlay{
		{"nothing is let in above it", migrated, Facts{Environments: environments("prod", had(stayed(1, 0, 1, -1)))}, "migrate", 0, false, false, 0, ""},
		{"it runs for what comes next", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)))}, "migrate", 3, true, true, 1, "prod"},
		{"the environment waits for it", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, -1, -1)))}, "prod", 0, false, false, 0, ""},
		{"one that runs goes on", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, -1, -1)))}, "migrate", 0, false, false, 0, ""},
		{"what is no longer to come is replaced", migrated, Facts{Environments: environments("test", had(stayed(3, 1, 2, 4), stayed(4, 4, 5, -1)), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, -1, -1)))}, "migrate", 4, true, true, 1, "prod"},
		{"it comes once it ended well", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, 4, -1)))}, "prod", 3, false, true, 0, ""},
		{"it ran for it before", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, 4, 5), stayed(2, 5, 6, -1)))}, "prod", 3, false, true, 0, ""},
		{"it was replaced before it ended", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, -1, 5), stayed(2, 5, 6, -1)))}, "prod", 0, false, false, 0, ""},
		{"and runs for it again", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, -1, 5), stayed(2, 5, 6, -1)))}, "migrate", 3, true, true, 2, "prod"},
		{"it failed", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", &Environment{Stays: []Stay{stayed(3, 3, -1, -1)}, Failures: failedOnce(3, 4)})}, "migrate", 0, false, false, 0, ""},
		{"what failed does not come", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", &Environment{Stays: []Stay{stayed(3, 3, -1, -1)}, Failures: failedOnce(3, 4)})}, "prod", 0, false, false, 0, ""},
		{"a person has it run again", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", &Environment{Stays: []Stay{stayed(3, 3, -1, -1)}, Failures: failedOnce(3, 4)}), Acts: []Act{restart(3, "migrate", 5)}}, "migrate", 3, true, true, 2, "prod"},
		{"once", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, 4, 6), stayed(3, 6, -1, -1))), Acts: []Act{restart(3, "migrate", 5)}}, "migrate", 0, false, false, 0, ""},
		{"also what ended well", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(3, 4, 5, -1)), "migrate", had(stayed(3, 3, 4, -1))), Acts: []Act{restart(3, "migrate", 5)}}, "migrate", 3, true, true, 2, "prod"},
		{"a person has it run early", migrated, Facts{Environments: environments("prod", had(stayed(1, 0, 1, -1))), Acts: []Act{{Kind: Force, Environment: "migrate", Constraint: RunConstraint, VersionName: named(2), By: "ann", Reason: "now", At: after(1)}}}, "migrate", 2, true, true, 1, "prod"},
		{"the environment is paused", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1))), Acts: []Act{{Kind: Pause, Environment: "prod", At: after(2)}}}, "migrate", 0, false, false, 0, ""},
		{"the task is paused", migrated, Facts{Environments: environments("test", testHas(3), "prod", had(stayed(1, 0, 1, -1))), Acts: []Act{{Kind: Pause, Environment: "migrate", At: after(2)}}}, "migrate", 3, true, false, 1, "prod"},
		{"a pin wants an older one", migrated, Facts{Environments: environments("test", had(stayed(2, 0, 1, 2), stayed(3, 2, 3, -1)), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, 4, -1))), Acts: []Act{{Kind: Pin, Environment: "prod", VersionName: named(2), At: after(5)}}}, "migrate", 2, true, true, 1, "prod"},
		{"going back waits for none", migrated, Facts{Environments: environments("test", had(stayed(1, 0, 1, -1)), "prod", had(stayed(1, 0, 1, 2), stayed(2, 2, 3, -1))), Acts: []Act{{Kind: MarkBad, Environment: "prod", VersionName: named(2), At: after(4)}}}, "prod", 1, false, true, 0, ""},

		{"a task waits for another", chained, Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)))}, "migrate", 0, false, false, 0, ""},
		{"which runs first", chained, Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)))}, "scan", 4, true, true, 1, "migrate"},
		{"then it runs", chained, Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)), "scan", had(stayed(4, 2, 3, -1)))}, "migrate", 4, true, true, 1, "prod"},

		{"one run is for all that share it", shared, Facts{Environments: environments("eu", had(stayed(3, 3, 4, -1)), "us", had(stayed(2, 0, 1, -1)), "migrate", had(stayed(3, 2, 3, -1))), Votes: []Vote{approval(3, "us", "bob", 4)}}, "us", 3, false, true, 0, ""},
		{"and no other begins", shared, Facts{Environments: environments("eu", had(stayed(3, 3, 4, -1)), "us", had(stayed(2, 0, 1, -1)), "migrate", had(stayed(3, 2, 3, -1))), Votes: []Vote{approval(3, "us", "bob", 4)}}, "migrate", 0, false, false, 0, ""},
		{"what one still needs comes to its end", shared, Facts{Environments: environments("eu", had(stayed(2, 0, 1, -1)), "us", had(stayed(2, 0, 1, -1)), "migrate", had(stayed(3, 2, -1, -1))), Votes: []Vote{approval(4, "eu", "bob", 4), approval(3, "us", "bob", 4)}}, "migrate", 0, false, false, 0, ""},

		{"after: not good yet", reported, Facts{Environments: environments("prod", had(stayed(3, 0, -1, -1)))}, "report", 0, false, false, 0, ""},
		{"after: good", reported, Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)))}, "report", 3, true, true, 1, "prod"},
		{"after: also of what is older", reported, Facts{Environments: environments("prod", had(stayed(3, 0, 1, 2), stayed(2, 2, 3, -1)), "report", had(stayed(3, 1, 2, -1)))}, "report", 2, true, true, 1, "prod"},
		{"after: it ends before the next", reported, Facts{Environments: environments("prod", had(stayed(3, 0, 1, 2), stayed(4, 2, 3, -1)), "report", had(stayed(3, 1, -1, -1)))}, "report", 0, false, false, 0, ""},
		{"after: what was in the field runs for nobody", reported, Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)), "report", had(found(stayed(1, 0, -1, -1))))}, "report", 3, true, true, 1, "prod"},

		{"after: somebody wrote that it ran", reported, Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)), "report", had(found(stayed(3, 0, -1, -1))))}, "report", 0, false, false, 0, ""},

		{"on failure: nothing failed", cleaned, Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)))}, "clean", 0, false, false, 0, ""},
		{"on failure: a rollout", cleaned, Facts{Environments: environments("prod", bad(had(stayed(2, 0, 1, 2), stayed(3, 2, 3, -1)), 3, 4))}, "clean", 3, true, true, 1, "prod"},
		{"on failure: no convergence", cleaned, Facts{Environments: environments("prod", &Environment{Stays: []Stay{stayed(2, 0, 1, 2), stayed(3, 2, -1, 4), stayed(2, 4, 5, -1)}, Failures: []Failure{{VersionName: named(3), Attempts: 3, Last: after(4)}}})}, "clean", 3, true, true, 1, "prod"},
		{"on failure: attempts are left", cleaned, Facts{Environments: environments("prod", &Environment{Stays: []Stay{stayed(2, 0, 1, 2), stayed(3, 2, -1, 4), stayed(2, 4, 5, -1)}, Failures: failedOnce(3, 4)})}, "clean", 0, false, false, 0, ""},
		{"on failure: not there when it was marked", cleaned, Facts{Environments: environments("prod", had(stayed(3, 2, 3, 4), stayed(2, 4, 5, -1))), Acts: []Act{{Kind: MarkBad, VersionName: named(3), At: after(6)}}}, "clean", 0, false, false, 0, ""},
		{"on failure: marked in all", cleaned, Facts{Environments: environments("prod", had(stayed(2, 0, 1, 2), stayed(3, 2, 3, -1))), Acts: []Act{{Kind: MarkBad, VersionName: named(3), At: after(6)}}}, "clean", 3, true, true, 1, "prod"},
		{"on failure: before the task was there", cleaned, Facts{Environments: environments("prod", bad(had(stayed(2, 0, 1, 2), stayed(3, 2, 3, 4), stayed(2, 4, 5, -1)), 3, 4), "clean", had(found(stayed(1, 6, 7, -1))))}, "clean", 0, false, false, 0, ""},
	}
}

func TestTasks(t *testing.T) {
	for _, p := range taskPlays() {
		t.Run(p.name, func(t *testing.T) {
			app := application(t, p.environments...)
			p.facts.Now = after(10)
			d := app.Decide(upTo(t, 4), &p.facts)
			o := d.Outcomes[app.byName[p.place]]
			want := o.Has
			if p.wants > 0 {
				want = named(p.wants)
			}
			if o.Wants != want || o.Edit != p.edit || (o.Run != nil) != p.run {
				t.Fatalf("wants %s, edit %v, run %+v; want %s, %v, %v", o.Wants.Name, o.Edit, o.Run, want.Name, p.edit, p.run)
			}
			if o.Run != nil && (o.Run.Number != p.number || o.Run.Environment != p.where) {
				t.Errorf("run %d for %q, want %d for %q", o.Run.Number, o.Run.Environment, p.number, p.where)
			}
			for _, name := range app.Names() {
				for n := 1; n <= 4; n++ {
					if _, err := d.Explain(name, named(n)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// Where a task may try more than once, it runs again after its pause, and has failed after the last.
func TestTaskTriesAgain(t *testing.T) {
	migrate := beforeTask("migrate")
	migrate.Attempts = 2
	app := application(t, env("prod", needs("migrate")), migrate)
	facts := &Facts{Environments: environments("prod", had(stayed(3, 0, 1, -1)), "migrate", &Environment{Stays: []Stay{stayed(4, 2, -1, -1)}, Failures: failedOnce(4, 3)})}
	runs := func(hour float64) *Demand {
		facts.Now = after(hour)
		return app.Decide(upTo(t, 4), facts).Outcomes[1].Run
	}
	if run := runs(3.4); run != nil {
		t.Errorf("it runs within its pause: %+v", run)
	}
	if run := runs(3.5); run == nil || run.Number != 2 {
		t.Errorf("it does not run after its pause: %+v", run)
	}
	migration := facts.Environments["migrate"]
	migration.Stays[0].End = after(3.5)
	migration.Stays, migration.Failures[0] = append(migration.Stays, stayed(4, 3.5, -1, -1)), Failure{VersionName: named(4), Attempts: 2, Last: after(4)}
	if run := runs(9); run != nil {
		t.Errorf("it runs after its last attempt: %+v", run)
	}
	explained, err := app.Decide(upTo(t, 4), facts).Explain("prod", named(4))
	if err != nil || explained.Verdicts[0].Cause != TaskFailed {
		t.Errorf("%+v, %v", explained, err)
	}
}

// A newer version whose task failed keeps older ones out, unless they queue.
func TestNothingOlderComesForATaskThatFailed(t *testing.T) {
	for _, test := range []struct {
		name string
		prod *intentpb.DeliveryEnvironment
		has  int
		runs intent.VersionName
	}{
		{"superseded", env("prod", needs("migrate")), 2, intent.VersionName{}},
		{"queued", queues(env("prod", needs("migrate"))), 2, named(4)},
	} {
		app := application(t, test.prod, beforeTask("migrate"))
		failing := 4
		if test.name == "queued" {
			failing = 3
		}
		facts := &Facts{Now: after(10), Environments: environments("prod", had(stayed(test.has, 0, 1, -1)), "migrate", &Environment{Stays: []Stay{stayed(failing, 3, -1, -1)}, Failures: failedOnce(failing, 4)})}
		o := app.Decide(upTo(t, 4), facts).Outcomes[1]
		got := intent.VersionName{}
		if o.Run != nil {
			got = o.Run.VersionName
		}
		if got != test.runs {
			t.Errorf("%s: runs for %q, want %q", test.name, got.Name, test.runs.Name)
		}
	}
}

// A run that a person asks for is told of the environment, and of what that had, as the first run was.
func TestARunOnceMoreIsToldTheSame(t *testing.T) {
	app := application(t, env("prod", needs("migrate")), beforeTask("migrate"))
	for name, prod := range map[string]*Environment{
		"before it came": had(stayed(2, 0, 1, -1)), "after it came": had(stayed(2, 0, 1, 5), stayed(4, 5, 6, -1)),
	} {
		facts := &Facts{Now: after(10), Acts: []Act{restart(4, "migrate", 8)}, Environments: environments("prod", prod, "migrate", had(stayed(4, 3, 4, -1)))}
		run := app.Decide(upTo(t, 4), facts).Outcomes[1].Run
		if run == nil || run.Environment != "prod" || run.Had != named(2) || run.Number != 2 || run.By != "ann" {
			t.Errorf("%s: %+v", name, run)
		}
	}
}

// A task that failed for a version and ended well for it later, for its generator was mended, has run.
func TestATaskThatWasMendedHasRun(t *testing.T) {
	app := application(t, env("prod", needs("migrate")), beforeTask("migrate"), task("clean", &intentpb.DeliveryTask{OnFailure: []string{"migrate"}}))
	migrate := had(stayed(4, 3, 6, -1))
	migrate.Failures = failedOnce(4, 4)
	d := app.Decide(upTo(t, 4), &Facts{Now: after(10), Environments: environments("prod", had(stayed(3, 0, 1, -1)), "migrate", migrate)})
	if state := d.State(1, named(4)); state != Current {
		t.Errorf("migrate is %d", state)
	}
	if o := d.Outcomes[0]; o.Wants != named(4) || !o.Edit {
		t.Errorf("prod: %+v", o)
	}
	if run := d.Outcomes[2].Run; run != nil {
		t.Errorf("what runs on its failure runs: %+v", run)
	}
}

func TestWordsOfTasks(t *testing.T) {
	app := application(
		t, env("test"), env("prod", dependsOn(0, "test"), needs("migrate")), beforeTask("migrate"), task("report", &intentpb.DeliveryTask{After: []string{"prod"}}),
		task("clean", &intentpb.DeliveryTask{OnFailure: []string{"prod"}}),
	)
	facts := &Facts{Now: after(10), Environments: environments("test", had(stayed(3, 1, 2, -1)), "prod", had(stayed(1, 0, 1, -1)), "migrate", had(stayed(3, 3, -1, -1)))}
	d := app.Decide(upTo(t, 4), facts)
	for _, test := range []struct {
		environment string
		version     int
		says        string
	}{
		{"prod", 3, "1.3.0 is not in prod: with-migrate waits for the task migrate, which runs for it. It can be there Mon 2026-06-01 18:00 UTC at the earliest"},
		{"migrate", 3, "migrate runs for 1.3.0 since Mon 2026-06-01 11:00 UTC"},
		{"migrate", 4, "migrate does not run for 1.4.0: run waits until it comes next in prod. It can be there Mon 2026-06-01 18:00 UTC at the earliest"},
		{"report", 3, "report does not run for 1.3.0: run waits until it is good in prod. It can be there Mon 2026-06-01 18:00 UTC at the earliest"},
		{"clean", 3, "clean does not run for 1.3.0: run waits until it fails in prod. It does not come by itself"},
	} {
		explained, err := d.Explain(test.environment, named(test.version))
		if err != nil {
			t.Fatal(err)
		}
		if words := explained.Words(named(test.version).Name, test.environment); words != test.says {
			t.Errorf("%s of %s:\n%s\nwant\n%s", test.environment, named(test.version).Name, words, test.says)
		}
	}
}

func TestWrongTasks(t *testing.T) {
	plain := beforeTask("migrate")
	plain.Task.ParametersPointer, plain.Attempts = "", 2
	for _, test := range []struct {
		environments []*intentpb.DeliveryEnvironment
		says         []string
	}{
		{[]*intentpb.DeliveryEnvironment{env("prod"), beforeTask("migrate")}, []string{"tasks.migrate", "nothing has the task run"}},
		{[]*intentpb.DeliveryEnvironment{env("prod", needs("prod")), beforeTask("prod")}, []string{"tasks.prod", "an environment and a task are both called prod"}},
		{[]*intentpb.DeliveryEnvironment{env("prod", needs("migrat")), beforeTask("migrate")}, []string{"environments.prod.constraints.with-migrat", "migrat", "did you mean migrate?"}},
		{[]*intentpb.DeliveryEnvironment{env("test"), env("prod", needs("test"))}, []string{"test is an environment, and no task"}},
		{[]*intentpb.DeliveryEnvironment{env("prod", dependsOn(0, "migrate")), beforeTask("migrate")}, []string{"migrate is a task"}},
		{[]*intentpb.DeliveryEnvironment{env("prod", needs("migrate")), task("migrate", &intentpb.DeliveryTask{After: []string{"prod"}})}, []string{"circle", "prod", "migrate"}},
		{[]*intentpb.DeliveryEnvironment{env("prod", needs("a")), beforeTask("a", needs("b")), beforeTask("b", needs("a"))}, []string{"circle"}},
		{[]*intentpb.DeliveryEnvironment{env("prod"), task("report", &intentpb.DeliveryTask{After: []string{"production"}})}, []string{"tasks.report", `"production"`}},
		{[]*intentpb.DeliveryEnvironment{env("prod", needs("migrate")), plain}, []string{"tasks.migrate", "attempts: 2", "parameters"}},
	} {
		_, err := New(&intentpb.Delivery{Name: "web", Versions: "images", Environments: test.environments})
		if err == nil {
			t.Errorf("%v is accepted", test.says)
			continue
		}
		described, _ := errors.AsType[*fault.Error](err)
		for _, words := range test.says {
			if text := err.Error() + "; " + described.Hint; !strings.Contains(text, words) {
				t.Errorf("%s, want %q in it", text, words)
			}
		}
	}
}

// What people ask of a task is shown before it is made, and refused where it makes no sense.
func TestActsOnTasks(t *testing.T) {
	app := application(t, env("prod", needs("migrate")), beforeTask("migrate"))
	facts := &Facts{Now: after(10), Environments: environments("prod", had(stayed(4, 0, 1, -1)), "migrate", had(stayed(4, 0, 1, -1)))}
	effects, err := app.Effects(upTo(t, 4), facts, Act{Kind: Restart, Environment: "migrate", Constraint: RunConstraint, VersionName: named(4), Reason: "again"})
	if err != nil || len(effects) != 1 || effects[0].After.Run == nil {
		t.Errorf("%+v, %v", effects, err)
	}
	for _, kind := range []ActKind{RollBack, SkipTo} {
		if _, err := app.Effects(upTo(t, 4), facts, Act{Kind: kind, Environment: "migrate", VersionName: named(4), Had: named(4), Newest: named(4), Reason: "back"}); err == nil || !strings.Contains(err.Error(), "is a task") {
			t.Errorf("%v", err)
		}
	}
	without := beforeTask("migrate")
	without.Task.ParametersPointer = ""
	app = application(t, env("prod", needs("migrate")), without)
	if _, err := app.Effects(upTo(t, 4), facts, Act{Kind: Restart, Environment: "migrate", Constraint: RunConstraint, VersionName: named(4), Reason: "again"}); err == nil || !strings.Contains(err.Error(), "no field tells the task") {
		t.Errorf("%v", err)
	}
}

// Ten tasks of each of many environments cost little more than the environments.
func BenchmarkTasks(b *testing.B) {
	var list, tasks []*intentpb.DeliveryEnvironment
	for n := range 20 {
		name := string(rune('a' + n))
		list = append(list, env(name, needs("task-"+name)))
		tasks = append(tasks, beforeTask("task-"+name))
	}
	app := application(b, append(list, tasks...)...)
	c := upTo(b, 100)
	facts := &Facts{Now: after(200), Environments: map[string]*Environment{}}
	for b.Loop() {
		app.Decide(c, facts)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(time.Millisecond), "ms/decision")
}
