package monitor

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

var collected = []breach{
	{"S17", "the body of a as of incarnation 1 was collected",
		func(r *run) {
			r.tampers("DELETE FROM body WHERE digest = (SELECT digest FROM member WHERE asset = 'a')")
		},
		func(r *run) { r.publish(job("a", "2")); r.scans() }},
	{"S17", "a pin of a names incarnation 1, which was collected",
		func(r *run) {
			r.pin("a", 1)
			r.publish(job("b", "2"))
			r.tampers("DELETE FROM incarnation WHERE seq = 1")
		},
		func(r *run) { r.publish(job("b", "2")); r.tampers("DELETE FROM incarnation WHERE seq = 1") }},
	{"S17", "the enforced record of a names incarnation 1",
		func(r *run) {
			r.sight("a", "", false)
			r.publish(job("b", "2"))
			r.tampers("DELETE FROM incarnation WHERE seq = 1")
		}, nil},
	{"S17", "names incarnation 1", // an open push
		func(r *run) {
			r.admit("a")
			r.publish(job("b", "2"))
			r.tampers("DELETE FROM incarnation WHERE seq = 1")
		}, nil},
	{"S17", "label team names incarnation 1",
		func(r *run) {
			r.must(r.SetLabel(r.Context(), r.at(1), "team", "x", "a try", ann))
			r.publish(job("b", "2"))
			r.tampers("DELETE FROM incarnation WHERE seq = 1")
		}, nil},
	{"S17", "names incarnation 1, which was collected",
		func(r *run) {
			r.holdsBack()
			r.publish(job("b", "2"))
			r.tampers("DELETE FROM incarnation WHERE seq = 1")
		}, nil},
	{"S17", "the newest 2 are to be kept",
		func(r *run) {
			r.Monitor.options.Keep = 2
			r.publish(job("b", "2"))
			r.tampers("DELETE FROM incarnation WHERE seq = 1")
		},
		func(r *run) {
			r.Monitor.options.Keep = 2
			r.publish(job("b", "2"))
			r.publish(job("b", "3"))
			r.tampers("DELETE FROM incarnation WHERE seq = 1")
		}},
	{"S17", "head names incarnation 1",
		func(r *run) { r.tampers("DELETE FROM incarnation") }, nil},
	{"S17", "the body of held in candidate",
		func(r *run) { r.holdsBack(); r.tampers("DELETE FROM body WHERE id = (SELECT max(id) FROM body)") },
		func(r *run) { r.holdsBack(); r.scans() }},
	{"S17", "has 5 members left of 6",
		func(r *run) { r.tampers("DELETE FROM member WHERE asset = 'a'") }, nil},
	{"L6", "is still open",
		func(r *run) { r.admit("a"); r.End(r.Context()) },
		func(r *run) { r.end(r.admit("a"), "pushed"); r.End(r.Context()) }},
}

func (r *run) waitsFor(id intent.AssetID, reasons ...intent.WaitingOn) {
	r.Helper()
	r.report(id, func(report *intent.Report) { report.State, report.Waiting = intent.StateWaiting, reasons })
}

// everyone has a report; then a minute and more goes by.
func (r *run) looks(change func(), unlike ...intent.AssetID) {
	r.Helper()
	for id := range r.saved {
		r.report(id)
	}
	change()
	r.Waiting(r.now, time.Minute, unlike...)
	r.pass(61 * time.Second)
	r.Waiting(r.now, time.Minute, unlike...)
}

var waits = []breach{
	{"L4", "asset a has no report",
		func(r *run) { r.looks(func() { r.behind("DELETE FROM report WHERE asset = 'a'") }) },
		func(r *run) { r.looks(func() {}) }},
	{"L4", "names no reason",
		func(r *run) { r.looks(func() { r.waitsFor("a") }) },
		func(r *run) {
			r.looks(func() { r.waitsFor("a", intent.WaitingOn{Kind: intent.WaitOrder, Reason: "b first"}) })
		}},
	{"L4", "is reported in sync",
		func(r *run) { r.looks(func() {}, "a") },
		func(r *run) {
			r.looks(func() { r.waitsFor("a", intent.WaitingOn{Kind: intent.WaitOrder, Reason: "b first"}) }, "a")
		}},
	{"L4", "which is not open",
		func(r *run) {
			r.looks(func() {
				r.report("a", func(report *intent.Report) { report.State, report.Push = intent.StatePushing, "sim/1-9" })
			})
		},
		func(r *run) {
			r.looks(func() {
				push := r.admit("a").Push
				r.report("a", func(report *intent.Report) { report.State, report.Push = intent.StatePushing, push })
			})
		}},
	{"L4", "its report is of content",
		func(r *run) { r.looks(func() { r.publish(job("a", "2")) }) },
		func(r *run) { r.looks(func() { r.publish(job("a", "2")); r.report("a") }) }},
	{"L4", "its report says gone",
		func(r *run) {
			r.looks(func() { r.report("a", func(report *intent.Report) { report.State = intent.StateGone }) })
		}, nil},
}
