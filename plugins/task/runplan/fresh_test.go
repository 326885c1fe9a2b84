package runplan

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"google.golang.org/protobuf/types/known/durationpb"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/serve"
)

// play is a task whose runs the test carries out, by a clock of its own.
type play struct {
	t    *testing.T
	task *taskpb.Task
	run  *runrecord.Run
	now  time.Time
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func (p *play) decide() Verdict {
	p.t.Helper()
	w := p.want()
	return Decide(w, p.state(), p.now)
}

func (p *play) want() Want {
	p.t.Helper()
	w, err := Read(p.task)
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

func (p *play) state() State {
	return State{Host: "here", Run: p.run, IsHere: p.run != nil, IsStarted: true}
}

func (p *play) is(kind Kind, words ...string) Verdict {
	p.t.Helper()
	v := p.decide()
	if v.Kind != kind {
		p.t.Fatalf("at %s: verdict %d, want %d: %s", moment(p.now), v.Kind, kind, v.Reason)
	}
	for _, word := range words {
		if !strings.Contains(v.Reason, word) {
			p.t.Errorf("at %s it does not say %q: %s", moment(p.now), word, v.Reason)
		}
	}
	return v
}

func (p *play) health() serve.Health {
	p.t.Helper()
	return Health(p.want(), p.state(), p.decide(), p.now)
}

// runs carries out the run that is due: it takes a minute.
func (p *play) runs(end runrecord.End) (day string) {
	p.t.Helper()
	next := *p.is(Due).Next
	next.Began = p.now
	p.now = p.now.Add(time.Minute)
	end.Ended, end.Took = p.now, time.Minute
	next.End = &end
	p.run = &next
	return next.Day
}

var (
	well    = runrecord.End{Ending: runrecord.Well}
	badly   = runrecord.End{Ending: runrecord.Failed, Code: 3}
	busyNow = runrecord.End{Ending: runrecord.Failed, Code: 75}
)

func newPlay(t *testing.T, start string) *play {
	return &play{t: t, now: at(start), task: &taskpb.Task{Command: []string{"/bin/report"}, RetryableExitCodes: []int32{75}}}
}

func (p *play) every(d time.Duration) {
	p.task.Freshness = &taskpb.Task_Every{Every: durationpb.New(d)}
}

func (p *play) daily(at, zone string, catchUp taskpb.CatchUp) {
	p.task.Freshness = &taskpb.Task_Daily{Daily: &taskpb.Daily{At: at, Zone: zone, CatchUp: catchUp}}
}

func TestEvery(t *testing.T) {
	p := newPlay(t, "2026-03-01T12:00:00Z")
	p.every(24 * time.Hour)
	p.is(Due, "it has not run yet")
	if health := p.health(); health.State != serve.HealthUnknown {
		t.Errorf("health %+v", health)
	}
	p.runs(well)
	v := p.is(Happened, "the next is due at 2026-03-02T12:01:00Z")
	if !v.LookAt.Equal(at("2026-03-02T12:01:00Z")) {
		t.Errorf("it is looked at again at %s", v.LookAt)
	}
	p.task.Input = "another" // No content makes it run sooner.
	p.is(Happened)
	p.now = v.LookAt.Add(-time.Nanosecond)
	p.is(Happened)
	p.now = v.LookAt
	p.is(Due, "run 1 ended well 24 h ago, and it is to run every 24 h")
	if health := p.health(); health.State != serve.Healthy {
		t.Errorf("health %+v", health)
	}
	// Something keeps it from running: that is told as health.
	p.now = p.now.Add(4 * time.Hour)
	if health := p.health(); health.State != serve.Unhealthy || !strings.Contains(health.Reason, "last run 28 h ago, which is more than 27 h") {
		t.Errorf("health %+v", health)
	}
	p.task.StaleAfter = durationpb.New(48 * time.Hour)
	if health := p.health(); health.State != serve.Healthy {
		t.Errorf("health %+v", health)
	}
	// After an outage of a week it runs once.
	p.now = p.now.Add(7 * 24 * time.Hour)
	p.runs(well)
	p.is(Happened)
}

func TestEveryThatFails(t *testing.T) {
	p := newPlay(t, "2026-03-01T12:00:00Z")
	p.every(24 * time.Hour)
	p.runs(badly)
	p.is(Stuck, "exit code 3", "else it runs at its next time, 2026-03-02T12:00:00Z")
	if health := p.health(); health.State != serve.Unhealthy {
		t.Errorf("health %+v", health)
	}
	p.now = at("2026-03-02T12:00:00Z")
	p.runs(busyNow)
	v := p.is(Pausing, "it is run again at 2026-03-02T12:01:05Z")
	p.now = v.LookAt
	if v := p.is(Due); v.Next.Attempt != 2 || v.Next.Number != 3 {
		t.Errorf("next %+v", v.Next)
	}
	p.runs(badly)
	p.is(Stuck)
	p.task.Input = "mended"
	p.runs(well)
	p.is(Happened)
}

// Pauses double up to 5 min, and no clock that is set makes them longer.
func TestPauses(t *testing.T) {
	p := newPlay(t, "2026-03-01T12:00:00Z")
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		p.runs(busyNow)
		if v := p.is(Pausing); v.LookAt.Sub(p.now) != want {
			t.Fatalf("after attempt %d it waits for %s, want %s", p.run.Attempt, v.LookAt.Sub(p.now), want)
		}
		p.now = p.now.Add(-time.Hour)
		p.is(Due)
		p.now = p.now.Add(2 * time.Hour)
	}
}

// A clock that jumps makes it run at most one time more, and never keeps it from running for
// longer than twice its period.
func TestEveryWhenTheClockJumps(t *testing.T) {
	p := newPlay(t, "2026-03-01T12:00:00Z")
	p.every(24 * time.Hour)
	p.runs(well)
	p.now = p.now.Add(-time.Hour)
	p.is(Happened, "ahead of the clock")
	p.now = p.now.Add(-24 * time.Hour)
	p.is(Due, "25 h ahead of the clock")
	p.runs(well)
	p.is(Happened)
	p.now = at("2040-01-01T00:00:00Z")
	p.runs(well)
	p.now = at("2026-03-02T00:00:00Z")
	p.runs(well)
	p.is(Happened, "the next is due at 2026-03-03T00:01:00Z")
}

func TestDaily(t *testing.T) {
	p := newPlay(t, "2026-03-01T12:00:00Z")
	p.daily("02:30", "Europe/London", 0)
	if day := p.runs(well); day != "2026-03-01" {
		t.Errorf("it ran for %s", day)
	}
	v := p.is(Happened, "run 1 for 2026-03-01 ended well just now; the next is due at 2026-03-02T02:30:00Z")
	p.now = v.LookAt.Add(-time.Second)
	p.is(Happened)
	p.now = v.LookAt
	if day := p.runs(well); day != "2026-03-02" {
		t.Errorf("it ran for %s", day)
	}
	p.now = p.now.Add(-3 * time.Hour) // Yesterday again.
	p.is(Happened)
	p.now = at("2026-03-03T03:00:00Z")
	p.runs(badly)
	p.is(Stuck, "run 3 for 2026-03-03", "its next time, 2026-03-04T02:30:00Z")
	p.now = at("2026-03-04T02:30:00Z")
	p.runs(well)
	// 26 h after it began, with a timeout of an hour.
	p.now = at("2026-03-05T05:00:00Z")
	if health := p.health(); health.State != serve.Unhealthy || !strings.Contains(health.Reason, "last run 26 h ago") {
		t.Errorf("health %+v", health)
	}
}

// The clocks of London skip 01:00 to 02:00 on 29 March 2026, and repeat that hour on 25 October.
func TestDailyWhenTheClocksChange(t *testing.T) {
	for _, c := range []struct{ clock, zone, day, due string }{
		{"01:30", "Europe/London", "2026-03-28", "2026-03-28T01:30:00Z"},
		{"01:30", "Europe/London", "2026-03-29", "2026-03-29T01:00:00Z"},
		{"01:00", "Europe/London", "2026-03-29", "2026-03-29T01:00:00Z"},
		{"02:00", "Europe/London", "2026-03-29", "2026-03-29T01:00:00Z"},
		{"01:30", "Europe/London", "2026-03-30", "2026-03-30T00:30:00Z"},
		{"01:30", "Europe/London", "2026-10-25", "2026-10-25T00:30:00Z"},
		{"02:00", "Europe/London", "2026-10-25", "2026-10-25T02:00:00Z"},
		{"02:30", "America/New_York", "2026-03-08", "2026-03-08T07:00:00Z"},
		{"01:30", "America/New_York", "2026-11-01", "2026-11-01T05:30:00Z"},
		{"00:00", "Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"}, // The day that Samoa skipped.
		{"00:00", "Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"},
		{"02:30", "", "2026-03-29", "2026-03-29T02:30:00Z"},
	} {
		p := newPlay(t, c.due)
		p.daily(c.clock, c.zone, 0)
		of, ok := parseDay(c.day)
		if !ok {
			t.Fatal(c.day)
		}
		if got := moment(p.want().dueAt(of)); got != c.due {
			t.Errorf("%s at %s in %s is due at %s, want %s", c.day, c.clock, c.zone, got, c.due)
		}
	}
	// Once for each day, over a year, whenever it is looked at.
	p := newPlay(t, "2026-01-01T12:00:00Z")
	p.daily("01:30", "Europe/London", 0)
	ran := map[string]int{}
	for ; p.now.Before(at("2027-01-01T00:00:00Z")); p.now = p.now.Add(17 * time.Minute) {
		if p.decide().Kind == Due {
			ran[p.runs(well)]++
		}
	}
	for day, times := range ran {
		if times != 1 {
			t.Errorf("it ran %d times for %s", times, day)
		}
	}
	if len(ran) != 365 {
		t.Errorf("it ran for %d days", len(ran))
	}
}

func TestCatchUp(t *testing.T) {
	begin := func(rule taskpb.CatchUp) *play {
		p := newPlay(t, "2026-03-01T12:00:00Z")
		p.daily("02:30", "", rule)
		if rule == taskpb.CatchUp_CATCH_UP_SKIP {
			p.is(Happened, "is skipped", "none has ended well yet")
			p.now = at("2026-03-01T03:00:00Z")
		}
		p.runs(well)
		p.now = at("2026-03-05T12:00:00Z")
		return p
	}
	p := begin(taskpb.CatchUp_CATCH_UP_ONCE)
	p.is(Due, "it is to run for 2026-03-05 (4 days have no run that ended well)")
	p.runs(well)
	p.is(Happened)

	p = begin(taskpb.CatchUp_CATCH_UP_ALL)
	var days []string
	for range 4 {
		days = append(days, p.runs(well))
	}
	if got := strings.Join(days, " "); got != "2026-03-02 2026-03-03 2026-03-04 2026-03-05" {
		t.Errorf("it ran for %s", got)
	}
	p.is(Happened)
	p.now = at("2026-03-06T12:00:00Z")
	p.runs(badly)
	p.now = at("2026-03-08T12:00:00Z")
	if v := p.is(Stuck, "run 6 for 2026-03-06"); strings.Contains(v.Reason, "next time") || !v.LookAt.IsZero() {
		t.Errorf("a day that failed keeps those after it: %s, %s", v.Reason, v.LookAt)
	}
	p.task.Input = "mended"
	if day := p.runs(well); day != "2026-03-06" {
		t.Errorf("it ran for %s", day)
	}
	p.now = at("2029-03-06T12:00:00Z")
	if day := p.is(Due).Next.Day; day != "2028-03-06" {
		t.Errorf("after three years it begins with %s", day)
	}

	p = begin(taskpb.CatchUp_CATCH_UP_SKIP)
	p.is(Happened, "the run for 2026-03-05 was to begin by 2026-03-05T03:30:00Z, and is skipped", "the next is due at 2026-03-06T02:30:00Z")
	if health := p.health(); health.State != serve.Unhealthy || !strings.Contains(health.Reason, "days ago") {
		t.Errorf("health %+v", health)
	}
	p.now = at("2026-03-06T03:30:00Z")
	if day := p.runs(busyNow); day != "2026-03-06" {
		t.Errorf("it ran for %s", day)
	}
	p.now = at("2026-03-06T09:00:00Z")
	p.is(Due) // It has begun for that day, so it is not skipped.
}

// A day that was run for by a clock that was wrong.
func TestDailyWhenTheClockJumps(t *testing.T) {
	p := newPlay(t, "2026-03-01T12:00:00Z")
	p.daily("02:30", "", 0)
	p.now = at("2026-03-02T12:00:00Z")
	p.runs(well)
	p.now = at("2026-03-01T12:00:00Z")
	p.is(Happened) // Tomorrow's run has been.
	p.now = at("2031-01-01T12:00:00Z")
	p.runs(well)
	p.now = at("2026-03-03T12:00:00Z")
	p.is(Due)
	p.runs(well)
	p.is(Happened)
}

func TestRerunOfWhatRecurs(t *testing.T) {
	p := newPlay(t, "2026-03-01T12:00:00Z")
	p.daily("02:30", "", 0)
	p.runs(well)
	p.is(Happened)
	p.task.Rerun = &taskpb.Rerun{Id: "1", Reason: "the data were wrong"}
	if day := p.runs(well); day != "2026-03-01" {
		t.Errorf("it ran for %s", day)
	}
	p.is(Happened)
	p.task.Rerun = nil
	p.is(Happened)
}
