package monitor

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

// quarantines an asset for five minutes, after its plugin failed at it.
func (r *run) quarantines(asset intent.AssetID) {
	r.Helper()
	r.failedAlone([]intent.AssetID{asset}, true, 1)
	r.Monitor.Told(apartReport(asset, r.now))
}

func apartReport(asset intent.AssetID, now time.Time) intent.Report {
	return intent.Report{
		Asset: asset, At: now, State: intent.StateWaiting,
		Waiting: []intent.WaitingOn{{Kind: intent.WaitQuarantined, Until: now.Add(5 * time.Minute)}},
	}
}

// settle lets what moved last be long ago.
func (r *run) becomesOld() { r.pass(time.Minute) }

var lookedAtApart = []breach{
	{"L2", "before its quarantine ends",
		func(r *run) { r.becomesOld(); r.quarantines("a"); r.pass(time.Minute); r.keptApart("a", 1) },
		func(r *run) { r.becomesOld(); r.quarantines("a"); r.pass(5 * time.Minute); r.keptApart("a", 1) }},
	{"L2", "before its quarantine ends", // New content, a pin and another holder of the lease end it.
		func(r *run) { r.becomesOld(); r.quarantines("a"); r.keptApart("b", 1); r.keptApart("a", 1) },
		func(r *run) {
			for _, end := range []func(){
				func() { r.publish(job("a", "2")) }, func() { r.pin("a", 1) }, func() { r.acquire("south") },
				func() { r.Monitor.Retried("a") }, func() { r.Forgot() },
			} {
				r.pass(2 * memory)
				r.quarantines("a")
				r.pass(time.Second)
				end()
				r.keptApart("a", 1)
			}
		}},
	{"L2", "before its quarantine ends", // Another process's plugin was not told.
		func(r *run) { r.becomesOld(); r.quarantines("a"); r.keptApart("a", 1) },
		func(r *run) { r.becomesOld(); r.quarantines("a"); r.keptApart("a", 2) }},
	{"L2", "before its quarantine ends", // Its pushes broke the plugin, or looks at it with others: it is looked at.
		func(r *run) { r.becomesOld(); r.quarantines("a"); r.keptApart("a", 1) },
		func(r *run) {
			r.becomesOld()
			r.quarantines("a")
			r.failedAlone([]intent.AssetID{"a"}, false, 1)
			r.toldApart(apartReport("a", r.now))
			r.keptApart("a", 1)
			r.failedAlone([]intent.AssetID{"a", "b"}, true, 1)
			r.toldApart(apartReport("a", r.now))
			r.keptApart("a", 1)
		}},
}
