package monitor

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

// pushesOften pushes an asset so many times, with a pause after each, after
// which it was seen in sync or not.
func (r *run) pushesOften(times int, pause time.Duration, ending string, seen bool) {
	r.Helper()
	for range times {
		r.end(r.admit("a"), ending)
		if r.Answered(r.at(r.head), "a", seen); pause > 0 {
			r.pass(pause)
		}
	}
}

var tooOften = []breach{
	{"L10", "is the 7th to content",
		func(r *run) { r.pushesOften(7, time.Second, "failed", false) },
		func(r *run) { r.pushesOften(7, 2*time.Second, "failed", false) }},
	{"L10", "though each time it did not help",
		func(r *run) { r.pushesOften(7, time.Second, "pushed", false) },
		func(r *run) { r.pushesOften(7, time.Second, "stopped", false) }},
	{"L10", "is the 7th to content",
		func(r *run) { r.pushesOften(7, time.Second, "stale", false) },
		func(r *run) {
			r.pushesOften(4, time.Second, "stale", false)
			r.publish(job("a", "2"))
			r.pushesOften(4, time.Second, "stale", false)
			r.pin("a", 1)
			r.acquire("south")
			r.ClockMoved()
		}},
	{"L10", "though each time it was undone",
		func(r *run) { r.pushesOften(13, 8*time.Second, "pushed", true) },
		func(r *run) { r.pushesOften(13, 10*time.Second, "pushed", true) }},
	{"L3", "to which it never was",
		func(r *run) { r.backsOff(11 * time.Second) },
		func(r *run) { r.backsOff(10 * time.Second) }},
	{"L3", "to which it never was",
		func(r *run) { r.end(r.admit("a"), "failed"); r.publish(job("a", "2")); r.backsOff(time.Minute) },
		func(r *run) { r.end(r.admit("a"), "failed"); r.backsOff(time.Minute) }},
	{"L3", "to which it never was",
		func(r *run) { r.ClockMoved(); r.pass(memory); r.backsOff(time.Minute) },
		func(r *run) { r.ClockMoved(); r.backsOff(time.Minute) }},
	{"L3", "to which it never was",
		func(r *run) { r.busy("a", time.Minute, 1); r.backsOff(2 * time.Minute) },
		func(r *run) { r.busy("a", time.Minute, 1); r.backsOff(66 * time.Second) }},
	{"L10", "its target is too busy",
		func(r *run) {
			r.busy("a", time.Minute, 1)
			r.publish(job("a", "2"))
			r.pass(59 * time.Second)
			r.letBe("a", "looked at", 1)
		},
		func(r *run) { r.busy("a", time.Minute, 1); r.pass(time.Minute); r.letBe("a", "looked at", 1) }},
	{"L10", "its target is too busy",
		func(r *run) { r.busy("a", time.Hour, 1); r.pass(longestPause - time.Second); r.letBe("a", "pushed", 1) },
		func(r *run) {
			r.busy("a", time.Minute, 1)
			r.Retried("a")
			r.letBe("a", "looked at", 1)
			r.busy("a", time.Minute, 1) // The person may have been heard only now.
			r.letBe("a", "looked at", 1)
			r.pass(longestPause)
			r.busy("a", time.Minute, 1)
			r.Forgot()
			r.letBe("a", "looked at", 1)
			r.busy("a", time.Minute, 1)
			r.acquire("south")
			r.letBe("a", "looked at", 1)
			r.busy("a", time.Minute, 1)
			r.letBe("a", "looked at", 2) // Another process was not told.
		}},
}

func (r *run) backsOff(pause time.Duration) {
	r.Told(intent.Report{
		Asset: "a", State: intent.StateWaiting, Effective: r.saved["a"].Effective, At: r.now,
		Waiting: []intent.WaitingOn{{Kind: intent.WaitBackoff, Until: r.now.Add(pause), Reason: "it failed"}},
	})
}

var answered = []breach{
	{"S11", "recorded as enforced with content",
		func(r *run) { r.Answered(r.at(1), "a", false); r.sight("a", "key/a", false); r.scans() },
		func(r *run) { r.Answered(r.at(1), "a", true); r.sight("a", "key/a", false); r.scans() }},
	{"S11", "recorded as enforced with content",
		func(r *run) {
			r.Answered(r.at(1), "a", true)
			r.publish(job("a", "2"))
			r.sight("a", "key/a", false)
			r.scans()
		}, nil},
	{"S11", "reported in sync with content",
		func(r *run) { r.Answered(r.at(1), "b", true); r.report("a"); r.scans() },
		func(r *run) { r.Answered(r.at(1), "a", true); r.report("a"); r.scans() }},
}
