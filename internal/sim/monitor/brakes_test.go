package monitor

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

var brakesAndAudit = []breach{
	{"S16", "head went back from 2 to 1",
		func(r *run) { r.publish(job("a", "2")); r.tampers("UPDATE partitions SET head = 1") }, nil},
	{"S16", "the newest revision of a pin went back",
		func(r *run) { r.pin("a", 1); r.tampers("UPDATE partitions SET pin_revision = 0") }, nil},
	{"S16", "two pins have revision 1",
		func(r *run) { r.pin("a", 1); r.pin("b", 1); r.tampers("UPDATE pin SET revision = 1") },
		func(r *run) { r.pin("a", 1); r.pin("b", 1); r.pin("a", 1) }},
	{"S16", "has revision 1 after there was one of 2",
		func(r *run) {
			r.behind("UPDATE partitions SET pin_revision = 1")
			r.pin("a", 1)
			r.behind("UPDATE pin SET revision = 1")
			r.scans()
		}, nil},
	{"S16", "and the newest is 1",
		func(r *run) { r.pin("a", 1); r.tampers("UPDATE pin SET revision = 5") }, nil},
	{"S25", "the pins of a changed",
		func(r *run) { r.pin("a", 1); r.tampers("DELETE FROM pin") },
		func(r *run) {
			r.pin("a", 1)
			r.must(r.Unpin(r.Context(), sim, "a", intent.RankPerson, "a try", ann))
			r.scans()
		}},
	{"S25", "the hold of a changed",
		func(r *run) {
			r.tampers("INSERT INTO hold (partition, asset, owner, origin, reason, created, ends) VALUES ('sim', 'a', '', '', '', 1, 0)")
		},
		func(r *run) { r.must(r.SetHold(r.Context(), sim, intent.Hold{Asset: "a", Owner: ann})); r.scans() }},
	{"S25", `the stop of "sim" has no audit record`,
		func(r *run) {
			r.tampers("INSERT INTO stop (partition, owner, origin, reason, since) VALUES ('sim', '', '', '', 1)")
		},
		func(r *run) { r.stop(sim); r.scans() }},
	{"S25", `the resume of "" has no audit record`,
		func(r *run) { r.stop(""); r.tampers("DELETE FROM stop") },
		func(r *run) { r.stop(""); r.must(r.Resume(r.Context(), "", "over", ann)); r.scans() }},
	{"S25", "is approved without an audit record",
		func(r *run) {
			r.approve("a", time.Time{})
			r.end(r.admit("a", approved), "pushed")
			r.tampers("UPDATE approval SET used_by = ''")
		},
		func(r *run) { r.approve("a", time.Time{}); r.end(r.admit("a", approved), "pushed"); r.scans() }},
	{"S25", "whose admission is in no audit record",
		func(r *run) { r.approve("a", time.Time{}); r.tampers("UPDATE approval SET used_by = 'sim/x'") }, nil},
	{"S25", "its admission is in no audit record",
		func(r *run) { r.enters(r.admission("a")); r.Monitor.Commit() }, nil},
	{"S25", "no audit record says how it ended",
		func(r *run) { r.admit("a"); r.tampers("UPDATE push SET open = 0") }, nil},
	{"S25", "its publication is in no audit record",
		func(r *run) {
			r.behind("INSERT INTO incarnation (partition, seq, created, record) SELECT partition, 2, created, record FROM incarnation")
			r.tampers("UPDATE partitions SET head = 2")
		}, nil},
	{"S25", "the epoch is 7, and the last that was recorded is 1",
		func(r *run) { r.tampers("UPDATE partitions SET epoch = 7") }, nil},
	{"S25", "label team=x of incarnation 1 has no audit record",
		func(r *run) {
			r.tampers("INSERT INTO label (partition, seq, name, value, person) VALUES ('sim', 1, 'team', 'x', 1)")
		},
		func(r *run) { r.must(r.SetLabel(r.Context(), r.at(1), "team", "x", "a try", ann)); r.scans() }},
	{"S25", "does not say what was admitted",
		func(r *run) { r.records("admit", "a", "something", r.lease.Holder); r.Monitor.Commit() }, nil},
	{"S25", "does not follow from those before it",
		func(r *run) {
			r.behind("UPDATE audit SET records = replace(records, 'ann', 'bob') WHERE last = 1")
			r.End(r.Context())
		},
		func(r *run) { r.End(r.Context()) }},
	{"S25", "goes from record 1 to 3",
		func(r *run) { r.behind("DELETE FROM audit WHERE last = 2"); r.End(r.Context()) }, nil},
	{"S25", "records were written",
		func(r *run) {
			r.behind("DELETE FROM audit WHERE last = (SELECT max(last) FROM audit)")
			r.End(r.Context())
		}, nil},
	{"S25", "the audit went back",
		func(r *run) { r.tampers("UPDATE audit_head SET last = 1") }, nil},
	{"S25", "does not match its records",
		func(r *run) { r.behind("UPDATE audit SET digest = zeroblob(32) WHERE last = 1"); r.End(r.Context()) }, nil},
	{"S7", "is not in the store any more",
		func(r *run) { r.tampers("DELETE FROM partitions") }, nil},
	{"monitor", "cannot read",
		func(r *run) { r.db.Close(); r.Monitor.Commit() }, nil},
}
