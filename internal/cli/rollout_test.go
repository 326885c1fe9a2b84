package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

// underWay is a rollout at its second stage.
func underWay() *apipb.Rollout {
	ann := &apipb.Actor{Name: "ann"}
	self := &apipb.Actor{Name: "rollout/frontends"}
	return &apipb.Rollout{
		Partition: "shop", Name: "frontends", Governs: true, Stages: []string{"canary", "rest"},
		Run: &apipb.RolloutRun{
			Run: 3, State: "running", To: "shop@12", From: "shop@9", Began: before(22 * time.Minute), By: ann, Reason: "the new binary",
			Stages: []*apipb.RolloutStage{
				{Name: "canary", Total: 2, Selected: 2, Done: 2, Began: before(22 * time.Minute), Ended: before(10 * time.Minute)},
				{Name: "rest", Total: 40, Selected: 11, Done: 7, Began: before(9 * time.Minute), Assets: []*apipb.RolloutAsset{
					{Asset: "web/c", State: "ill"}, {Asset: "web/d", State: "moving"},
					{Asset: "web/e", State: "soaking", Healthy: durationpb.New(4 * time.Minute), Soak: durationpb.New(10 * time.Minute)},
					{Asset: "web/f", State: "waits"}, {Asset: "web/g", State: "done"},
				}},
				{Name: "last", Total: 0, Waits: "for the stages before it"},
			},
			Waits: "stage rest waits for web/c, which is not healthy, and 2 more", WaitsFor: []string{"web/c", "web/d", "web/e"}, Next: timestamppb.New(noon.Add(6 * time.Minute)),
			Verdicts: []*apipb.RolloutVerdict{{
				Validation: "errors", Stage: "rest", Result: "waiting", At: before(time.Minute), Reason: "3 of 10 samples", Record: "frontends-3-rest",
				Metrics: []*apipb.RolloutMetric{
					{Name: "rate", Result: "waiting", Reason: "3 of 10 samples", Values: []float64{0.1, 0.2, 0.9}, Baseline: []float64{0.1, 0.1}},
					{Name: "latency", Result: "good", Reason: "at most 3 % worse"},
				},
			}},
			Events: []*apipb.RolloutEvent{
				{At: before(22 * time.Minute), By: ann, Kind: "begin", Text: "to shop@12: 42 assets differ"},
				{At: before(10 * time.Minute), By: self, Kind: "stage", Text: "canary is done\x1b[2J"},
			},
		},
		Pending: []*apipb.RolloutOrder{{Kind: "pause", By: ann, At: before(time.Second), Reason: "lunch"}},
	}
}

func shown(t *testing.T, output string, show func(s *session)) string {
	t.Helper()
	var b bytes.Buffer
	show(&session{Terminal: Terminal{Out: &b, Err: &b}, output: output, now: func() time.Time { return noon }})
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(line)); output == "table" && n > 140 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	return b.String()
}

// TestRolloutStatus: how it stands, what it waits for and until when, first.
func TestRolloutStatus(t *testing.T) {
	got := shown(t, "table", func(s *session) { _ = s.printStatus(underWay()) })
	want := `frontends, run 3: running, to shop@12 from shop@9; began 22m ago by ann: the new binary
Stage rest waits for web/c, which is not healthy, and 2 more; until 12:06:00 UTC (in 6m) at the earliest
  → lehr why web/c

  STAGE                              DONE LET GO ON    TOOK
  canary  ####################        2/2         2     12m
  rest    ###+++..............       7/40        11      9m
          web/c: not healthy
          web/d: not in sync yet
          web/e: healthy for 4m of 10m
  last    ....................        0/0         0       -
          waits for the stages before it

Validation errors of stage rest: waiting (1m ago): 3 of 10 samples
  rate     waiting      3 of 10 samples
           _.#  against  __  from 0.1 to 0.9
  latency  good         at most 3 % worse
  samples: lehr rollout record frontends-3-rest

Asked, and done within a second:
  pause, by ann 1s ago: lunch

WHEN     EVENT  BY      TEXT
22m ago  begin  ann     to shop@12: 42 assets differ
10m ago  stage  itself  canary is done\u001b[2J
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// TestStagesOfARunThatGoesBack wait for nothing: what they waited for before counts no longer.
func TestStagesOfARunThatGoesBack(t *testing.T) {
	goesBack := underWay()
	goesBack.Run.State, goesBack.Run.Bad = "rolling-back", "it loses searches"
	if got := shown(t, "table", func(s *session) { _ = s.printStatus(goesBack) }); strings.Contains(got, "waits for the stages before it") || !strings.Contains(got, "it loses searches") {
		t.Errorf("it prints\n%s", got)
	}
}

// TestEndingsAndBeginnings are told in words: no run yet, paused, bad, removed.
func TestEndingsAndBeginnings(t *testing.T) {
	ann := &apipb.Actor{Name: "ann"}
	for name, test := range map[string]struct {
		change func(*apipb.Rollout)
		says   []string
	}{
		"no run yet": {func(r *apipb.Rollout) { r.Run = nil }, []string{"has no run yet. Stages: canary, rest", "begins when head has something new"}},
		"held":       {func(r *apipb.Rollout) { r.Run, r.Newer = nil, "held" }, []string{"begins with: lehr rollout start frontends --reason WHY"}},
		"by field":   {func(r *apipb.Rollout) { r.Run, r.Document = nil, "knobs" }, []string{"lehr rollout start frontends --to VALUE"}},
		"paused": {func(r *apipb.Rollout) {
			r.Run.State = "paused"
			r.Run.Events = append(r.Run.Events, &apipb.RolloutEvent{Kind: "pause", By: ann, At: before(time.Minute), Text: "lunch"})
		}, []string{"Paused by ann 1m ago: lunch", "lehr rollout resume frontends"}},
		"rolled back": {func(r *apipb.Rollout) {
			r.Run.State, r.Run.Bad, r.Run.Back, r.Run.Reverts, r.Run.Ended = "rolled-back", "web/c is unhealthy", "shop@9", []string{"web/x"}, before(time.Minute)
		}, []string{"Bad: web/c is unhealthy", "Back to shop@9, which undoes more than this run changed of web/x", "ended 1m ago"}},
		"removed": {func(r *apipb.Rollout) { r.Governs, r.Pins = false, 2 }, []string{"keeps 2 assets by a pin: lehr rollout release frontends --reason WHY"}},
		"edits": {func(r *apipb.Rollout) {
			r.Run.Edits = []*apipb.RolloutEdit{{Document: "knobs", Pointer: "/a/version", Changed: "bob"}}
		}, []string{"knobs /a/version: kept as set by bob"}},
		"pull requests": {func(r *apipb.Rollout) {
			r.Run.Proposals = []*apipb.RolloutProposal{
				{Document: "knobs", Pointers: []string{"/a", "/b"}, State: "merged", PullRequest: 3, Link: "https://git.example.com/3"},
				{Document: "knobs", Pointers: []string{"/a"}, Back: true, State: "open", Trouble: "503"},
			}
		}, []string{"knobs /a, /b: pull request #3: merged, https://git.example.com/3", "knobs /a, to go back: a pull request is to be opened; the last try failed: 503"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := underWay()
			test.change(r)
			got := shown(t, "table", func(s *session) { _ = s.printStatus(r) })
			for _, want := range test.says {
				if !strings.Contains(got, want) {
					t.Errorf("it does not say %q:\n%s", want, got)
				}
			}
		})
	}
}

// TestAStageIsOverWhenItsValidationsAre: all of its assets are done before that. An order to
// skip is about it still, and it counts as none of those that are over.
func TestAStageIsOverWhenItsValidationsAre(t *testing.T) {
	run := underWay().Run
	run.Stages[0].Ended = nil
	if stage := stageNow(run); stage == nil || stage.Name != "canary" {
		t.Errorf("it is at %v", stage)
	}
	if got := stagesDone(run); got != "1/3" { // The last has no assets.
		t.Errorf("%s stages are done", got)
	}
	run.Stages[0].Skipped = true
	if stage := stageNow(run); stage == nil || stage.Name != "rest" {
		t.Errorf("after a skip it is at %v", stage)
	}
	if got := stagesDone(run); got != "2/3" {
		t.Errorf("after a skip %s stages are done", got)
	}
}

// TestRolloutAsYAML has the fields in their order, and texts as texts.
func TestRolloutAsYAML(t *testing.T) {
	r := &apipb.Rollout{Name: "1", Governs: true, Stages: []string{"true", "a: b"}, Run: &apipb.RolloutRun{Run: 3, State: "done\x1b", Promoted: true}}
	got := shown(t, "yaml", func(s *session) { _ = s.printStatus(r) })
	want := `name: "1"
governs: true
stages:
  - "true"
  - 'a: b'
run:
  run: "3"
  state: "done\e"
  promoted: true
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// TestWatchTellsEachChangeOnce, in a pipe.
func TestWatchTellsEachChangeOnce(t *testing.T) {
	got := shown(t, "wide", func(s *session) {
		told := progressTeller{session: s}
		r := underWay()
		none := underWay()
		none.Run = nil
		_ = told.tell(none)
		_ = told.tell(none)
		_ = told.tell(r)
		_ = told.tell(r)
		// One more event of the same moment, and a countdown that goes on.
		r.Run.Events = append(r.Run.Events, &apipb.RolloutEvent{At: before(10 * time.Minute), By: &apipb.Actor{Name: "bob"}, Kind: "pause", Text: "tea"})
		_ = told.tell(r)
		r.Run.State, r.Run.Waits, r.Run.WaitsFor = "done", "", nil
		_ = told.tell(r)
		next := underWay()
		next.Run.Run, next.Run.Events = 4, nil
		_ = told.tell(next)
	})
	want := `12:00:00  frontends has no run yet
11:38:00  frontends, run 3, to shop@12
11:38:00  begin by ann: to shop@12: 42 assets differ
11:50:00  stage by itself: canary is done\u001b[2J
12:00:00  running, 9 of 42 assets are done; for web/c and 2 more to be healthy, until 12:06:00 at the earliest
11:50:00  pause by bob: tea
12:00:00  done, 9 of 42 assets are done
11:38:00  frontends, run 4, to shop@12
12:00:00  running, 9 of 42 assets are done; for web/c and 2 more to be healthy, until 12:06:00 at the earliest
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// TestPlanOfARolloutInWords: what a stranger reads.
func TestPlanOfARolloutInWords(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = "web/x"
	}
	p := &apipb.PlanRolloutResponse{
		Rollout: underWay(), Rest: true, Assets: 142, Takes: durationpb.New(time.Minute), Unwanted: []string{"web/odd"},
		Steps: []*apipb.RolloutStep{
			{Stage: "rest", Assets: many, Count: 140, At: timestamppb.New(noon.Add(6 * time.Minute))},
			{Stage: "rest", Assets: []string{"web/z"}, Count: 1, Waits: "for web/z: held by ann: racks"},
		},
	}
	got := shown(t, "wide", func(s *session) { s.printRolloutPlan(p) })
	want := `frontends, run 3 to shop@12, has 142 assets. What is left of it goes at the earliest so,
if each is in sync 1m0s after it is let go on, and healthy:

AT THE EARLIEST           STAGE  ASSETS  WHICH
Fri 12:06:00 UTC (in 6m)  rest   140     web/x, web/x, web/x, web/x, web/x and 135 more
never, as it is now       rest   1       web/z: waits for web/z: held by ann: racks

No stage wants web/odd: they never go on. Give the rollout a stage with rest: true in lehr.yaml.

Nothing that is known of lets the last of these go on: what they wait for must be mended by somebody.
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// TestWhatAPlanRestsOn is said: who judges, a value that somebody gives, and what keeps a run
// from beginning.
func TestWhatAPlanRestsOn(t *testing.T) {
	for name, test := range map[string]struct {
		plan *apipb.PlanRolloutResponse
		says string
	}{
		"no more":  {&apipb.PlanRolloutResponse{Rollout: underWay(), Rest: true, Assets: 3}, "frontends, run 3 to shop@12, has let all of its 3 assets go on: lehr rollout status frontends\n"},
		"judged":   {&apipb.PlanRolloutResponse{Rollout: &apipb.Rollout{Name: "web", Validate: []string{"errors", "latency"}}}, "and healthy, and each stage found good by errors and latency:"},
		"by field": {&apipb.PlanRolloutResponse{Rollout: &apipb.Rollout{Name: "flags", Document: "knobs", Pointer: "/{id}/flag"}, Assets: 3}, "flags sets /{id}/flag of the document knobs, when somebody starts it with a value. For all its 3 assets that goes"},
		"bad":      {&apipb.PlanRolloutResponse{Rollout: &apipb.Rollout{Name: "web", Run: &apipb.RolloutRun{Run: 2, State: "rolled-back", Waits: "shop@3 has content that was judged bad"}}}, "Nothing begins by itself: shop@3 has content"},
	} {
		if got := shown(t, "table", func(s *session) { s.printRolloutPlan(test.plan) }); !strings.Contains(got, test.says) {
			t.Errorf("%s: it says\n%s", name, got)
		}
	}
}

// TestValuesToSet are JSON, or texts; what could be both is asked about.
func TestValuesToSet(t *testing.T) {
	for value, want := range map[string]string{`1.4`: `1.4`, `"1.4"`: `"1.4"`, `v1.4`: `"v1.4"`, `true`: `true`, `{"a": 1}`: `{"a":1}`, `1.10`: ``, `007`: `"007"`, `["--verse"`: ``, ` {"a"}`: ``, `"a`: ``, ``: `""`} {
		got, err := jsonOf(value)
		if (err != nil) != (want == "") || got != want {
			t.Errorf("%s is %s, %v; want %s", value, got, err, want)
		}
	}
}
