package monitor

import (
	"time"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

var contents = []breach{
	{"S7", "hashes to",
		func(r *run) { r.behind("UPDATE body SET bytes = zeroblob(3) WHERE id = 1"); r.End(r.Context()) },
		func(r *run) { r.End(r.Context()) }},
	{"S7", "cannot be decoded", // and read as it is published
		func(r *run) {
			r.must(r.Stage(r.Context(), r.lease, r.at(1), []store.Entry{r.entry(job("a", "new"))}))
			r.behind("UPDATE body SET bytes = zeroblob(3) WHERE id = (SELECT max(id) FROM body)")
			r.publish(job("a", "new"))
		}, nil},
	{"S7", "a is a member from 1 to",
		func(r *run) { r.tampers("UPDATE member SET effective = zeroblob(32) WHERE asset = 'a'") },
		func(r *run) {
			r.must(r.Stage(r.Context(), r.lease, r.at(1), []store.Entry{r.entry(job("a", "new"))}))
			r.scans()
		}},
	{"S7", "a is no member from 1 to",
		func(r *run) { r.tampers("DELETE FROM member WHERE asset = 'a'") }, nil},
	{"S7", "the record of incarnation 1 is not what it was",
		func(r *run) { r.tampers("UPDATE incarnation SET record = replace(record, 'ann', 'bob')") }, nil},
	{"S7", "that was never published",
		func(r *run) {
			r.tampers("INSERT INTO incarnation (partition, seq, created, record) SELECT partition, 9, created, record FROM incarnation")
		}, nil},
	{"S7", "says that its members hash to",
		func(r *run) {
			r.behind("UPDATE bucket SET digest = zeroblob(32) WHERE bucket = ?", r.bucketOf("b"))
			r.publish(job("a", "2"))
		},
		func(r *run) { r.publish(job("a", "2")); r.publish(gone("b")); r.publish(job("b", "1")) }},
	{"S7", "says that it has 7 members; it has 6",
		func(r *run) { r.saved["phantom"] = intent.Member{}; r.publish(job("a", "2")) }, nil},
	{"S7", "was published before",
		func(r *run) { r.records("publish", "sim@1", "again, under epoch 1", "north"); r.Monitor.Commit() }, nil},
	{"S7", "the members of incarnation 1 hash to",
		func(r *run) {
			r.behind("UPDATE member SET digest = zeroblob(32) WHERE asset = 'a'")
			r.End(r.Context())
		}, nil},
	{"S7", "which it was not when 1 was head",
		func(r *run) {
			r.behind("UPDATE member SET from_seq = 0 WHERE asset = 'a'")
			r.publish(gone("a"))
		}, nil},
	{"S7", "its body is of b",
		func(r *run) { wrong := r.entry(job("b", "2")); r.puts("a", wrong) }, nil},
	{"S16", "head went from 1 to 3",
		func(r *run) { r.records("publish", "sim@3", "a leap, under epoch 1", "north"); r.Monitor.Commit() }, nil},
	{"S22", "was a lehr.process.v1.Job until incarnation 2",
		func(r *run) {
			r.publish(asset{id: "a", payload: &commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}}})
		},
		func(r *run) {
			r.publish(gone("a"))
			r.publish(asset{id: "a", payload: &commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}}})
		}},
	{"S22", "a lehr.process.v1.Job was enforced under its id",
		func(r *run) {
			r.sight("a", "key/a", false)
			r.scans()
			r.publish(gone("a"))
			r.publish(asset{id: "a", payload: &commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}}})
		},
		func(r *run) {
			r.sight("a", "key/a", false)
			r.scans()
			r.publish(gone("a"))
			r.publish(job("a", "2"))
		}},
	{"S2", "and with what it reads it is",
		func(r *run) { r.reads("b", "a"); r.publish(job("b", "2")) },
		func(r *run) { r.reads("b", "a"); r.puts("b", r.covering("b", "a")) }},
	{"S2", "and with what it reads it is", // the other changes alone
		func(r *run) { r.reads("b", "a"); r.puts("b", r.covering("b", "a")); r.publish(job("a", "2")) },
		func(r *run) { r.reads("b", "a"); r.puts("b", r.covering("b", "a")); r.publish(job("c", "2")) }},
	{"S22", "were both enforced with the resource",
		func(r *run) {
			r.sight("a", "key/a", false)
			r.sight("b", "key/b", false)
			r.tampers("UPDATE enforced SET resource_key = 'key/a'")
		},
		func(r *run) { r.sight("a", "key/a", false); r.sight("b", "key/b", false); r.End(r.Context()) }},
	{"S22", "which is claimed by nobody",
		func(r *run) { r.sight("a", "key/a", false); r.behind("DELETE FROM claim"); r.End(r.Context()) }, nil},
	{"S23", "3 of 5 assets are gone",
		func(r *run) { r.publish(gone("a"), gone("b"), gone("c")) },
		func(r *run) { r.publish(gone("a"), gone("b")) }},
	{"S23", "3 of 5 assets are gone", // one after the other
		func(r *run) { r.publish(gone("a")); r.publish(gone("b")); r.publish(gone("c")) },
		func(r *run) {
			r.publish(gone("a"))
			r.publish(gone("b"))
			r.pass(time.Hour)
			r.publish(gone("c"))
		}},
	{"S23", "all of 5 assets are gone",
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) { p.Shrink.MaxRemovedPercent, p.Shrink.Floor = 100, 9 }))
			r.publish(gone("a"), gone("b"), gone("c"), gone("d"), gone("e"))
		},
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) { p.Shrink.MaxRemovedPercent, p.Shrink.Floor = 100, 9 }))
			r.publish(gone("a"), gone("b"), gone("c"), gone("d"))
		}},
	{"S23", "3 of 5 assets are gone", // with the guard that would have held it
		func(r *run) {
			r.publish(gone("a"), gone("b"), gone("c"), policy(func(p *intentpb.Policy) { p.Shrink.MaxRemovedPercent = 100 }))
		}, nil},
	{"S23", "that nobody gave",
		func(r *run) {
			r.publishLabelled(map[string]string{acknowledgedLabel: "abcd"}, gone("a"), gone("b"), gone("c"))
		},
		func(r *run) {
			digest := r.holdsBack()
			r.must(r.Acknowledge(r.Context(), intent.CandidateID{Partition: sim, Digest: digest}, "meant", ann))
			r.publishLabelled(map[string]string{acknowledgedLabel: digest.String()}, gone("a"), gone("b"), gone("c"))
			r.publish(gone("d"))
			r.scans()
		}},
	{"S26", "which does not have it",
		func(r *run) { r.sight("a", "", false); r.tampers("UPDATE enforced SET seq = 9") },
		func(r *run) { r.sight("a", "", false); r.publish(gone("a")); r.scans() }},
	{"S26", "with content",
		func(r *run) { r.sight("a", "", false); r.tampers("UPDATE enforced SET effective = zeroblob(32)") }, nil},
	{"S26", "where it has no Turndown",
		func(r *run) { r.sight("a", "", true); r.scans() },
		func(r *run) { r.publish(job("a", "1", turndown)); r.sight("a", "", true); r.scans() }},
	{"S26", "no plugin has found it in sync",
		func(r *run) {
			r.inSync("a")
			r.end(r.admit("a"), "pushed")
			r.Recorded(r.now, "a", r.saved["a"].Effective)
		},
		func(r *run) {
			r.end(r.admit("a"), "pushed")
			r.inSync("a")
			r.Recorded(r.now, "a", r.saved["a"].Effective)
		}},
	{"S26", "no plugin has found it in sync", // with that content
		func(r *run) { r.inSync("a"); r.Recorded(r.now, "a", intent.Sum("other")) }, nil},
	{"S26", "which was never in an incarnation",
		func(r *run) { r.report("stranger"); r.scans() },
		func(r *run) { r.report("a"); r.publish(gone("a")); r.scans() }},
}

// inSync is a plugin's answer, a moment later; another one said how it differs.
func (r *run) inSync(id intent.AssetID) {
	r.Diffed(id, Diff{At: r.now, Outcome: intent.Differs, Effective: r.saved[id].Effective, Plan: r.plan})
	r.Diffed(id, Diff{At: r.now, Outcome: intent.InSync, Effective: r.saved[id].Effective})
	r.pass(time.Second)
}

// reads says that an asset reads another from now on.
func (r *run) reads(reader, other intent.AssetID) {
	r.Monitor.options.Reads = func(a intent.Asset) []intent.AssetID {
		if a.ID == reader {
			return []intent.AssetID{other}
		}
		return nil
	}
}

// covering is new content of an asset, with the digest of what it reads.
func (r *run) covering(reader, other intent.AssetID) store.Entry {
	r.Helper()
	entry := r.entry(job(reader, "2"))
	entry.Member.Effective = intent.EffectiveDigest(entry.Member.Digest, []intent.Digest{r.saved[other].Digest})
	r.saved[reader] = entry.Member
	return entry
}

// puts makes an asset a member with another's body.
func (r *run) puts(id intent.AssetID, body store.Entry) {
	r.Helper()
	body.Asset, body.Member.Asset = id, id
	r.must(r.Stage(r.Context(), r.lease, r.at(r.head), []store.Entry{body}))
	_, err := r.Publish(r.Context(), r.lease, intent.Incarnation{ID: r.at(r.head + 1), Parent: r.at(r.head), Count: len(r.saved), Created: r.now, Author: ann})
	r.must(err)
	r.head++
}

// holdsBack keeps a candidate that waits for an acknowledgement.
func (r *run) holdsBack() intent.Digest {
	r.Helper()
	id := intent.CandidateID{Partition: sim, Digest: intent.Sum("candidate")}
	candidate := intent.Candidate{ID: id, Base: r.at(r.head), State: intent.CandidateHeld, Created: r.now}
	r.must(r.SaveCandidate(r.Context(), r.lease, candidate, []store.Entry{r.entry(job("held", "1"))}))
	return id.Digest
}
