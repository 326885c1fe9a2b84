package monitor

import (
	"fmt"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// owning is a claim that is taken, passes, or is given back.
var owning = []breach{
	{"S3", "which is in head, and stays",
		func(r *run) { r.owns("a"); r.carried("b", "a", "it has left head") },
		func(r *run) { r.owns("a"); r.publish(gone("a"), job("f", "1")); r.renamed("a", "f") }},
	{"S3", "which is in head, and stays", // it only was to be something else
		func(r *run) {
			r.owns("a")
			r.end(r.admit("a", key("key/other")), "pushed")
			r.carried("b", "a", "it was seen in sync as another resource since")
		},
		func(r *run) {
			r.owns("a")
			r.end(r.admit("a", key("key/other")), "pushed")
			r.sight("a", "key/other", false)
			r.renamed("a", "b")
		}},
	{"S3", "which is in head, and stays", // both are to go
		func(r *run) {
			r.owns("a")
			r.publish(job("a", "1", turndown), job("b", "1", turndown))
			r.carried("b", "a", "it is being turned down")
		},
		func(r *run) { r.owns("a"); r.publish(job("a", "1", turndown)); r.renamed("a", "b") }},
	{"S3", "is open",
		func(r *run) {
			r.admit("a")
			r.publish(gone("a"))
			r.carried("b", "a", "it has left head")
		},
		func(r *run) {
			r.end(r.admit("a"), "failed")
			r.publish(gone("a"))
			r.renamed("a", "b")
		}},
	{"S3", "which is pinned to 1",
		func(r *run) {
			r.owns("a")
			r.pin("a", 1)
			r.publish(gone("a"))
			r.carried("b", "a", "it has left head")
		},
		func(r *run) {
			r.owns("a")
			_, err := r.SetPin(r.Context(), intent.Pin{Asset: "a", Incarnation: r.at(1), Rank: intent.RankPerson, Holder: ann, Until: r.now.Add(time.Minute)})
			r.must(err)
			r.publish(gone("a"))
			r.pass(time.Minute)
			r.renamed("a", "b")
		}},
	{"S3", `is claimed by "b"`,
		func(r *run) { r.admit("a"); r.tampers("UPDATE claim SET asset = 'b'") },
		func(r *run) { r.end(r.admit("a"), "pushed"); r.tampers("UPDATE claim SET asset = 'b'") }},
	{"S3", `is claimed by ""`,
		func(r *run) { r.admit("a"); r.tampers("DELETE FROM claim") }, nil},
	{"S5", "which took it from a",
		func(r *run) {
			r.owns("a")
			r.publish(gone("a"), job("b", "1", turndown))
			r.approve("b", time.Time{})
			r.carries("b", "a", "it has left head")
			r.forces("b", key("key/a"), approved)
		},
		func(r *run) {
			r.owns("a")
			r.publish(gone("a"))
			r.renamed("a", "b")
			r.publish(job("b", "1", turndown))
			r.approve("b", time.Time{})
			r.remove("b", key("key/a"))
		}},
	{"S5", "by a plan to remove it",
		func(r *run) { r.plans("a", intent.ActionDelete); r.approve("a", time.Time{}); r.admit("a", approved) },
		func(r *run) { r.plans("a", intent.ActionReplace); r.approve("a", time.Time{}); r.admit("a", approved) }},
	{"S12", "from partition other",
		func(r *run) {
			r.other()
			r.records("claim", "a", carriedFrom("partition \"other\""), "north")
			r.Monitor.Commit()
		},
		func(r *run) {
			r.other()
			r.must(r.RemovePartition(r.Context(), "other", "a try", ann))
			r.admit("a", key("key/other"))
		}},
	{"S21", "where it is only looked at",
		func(r *run) { r.publish(observed("a")); r.sight("a", "key/a", false); r.scans() },
		func(r *run) { r.sight("a", "key/a", false); r.publish(observed("a")); r.scans() }},
	{"S25", "does not say what was carried",
		func(r *run) { r.records("claim", "a", "claim carried: from somewhere", "north"); r.Monitor.Commit() }, nil},
	{"L7", "is still its own",
		func(r *run) {
			r.turnsDown("a")
			r.tampers("INSERT INTO claim (resource_key, partition, asset) VALUES ('key/a', 'sim', 'a')")
		},
		func(r *run) {
			r.turnsDown("a")
			r.publish(job("a", "2"))
			r.admit("a")
			r.scans()
		}},
}

// owns lets an asset be in sync.
func (r *run) owns(id intent.AssetID) { r.Helper(); r.sight(id, intent.ResourceKey("key/"+id), false) }

// renamed lets an asset be in sync with what was another's.
func (r *run) renamed(from, to intent.AssetID) {
	r.Helper()
	r.sight(to, intent.ResourceKey("key/"+from), false)
	r.scans()
}

func carriedFrom(whom string) string {
	return fmt.Sprintf("claim carried: resource %q from %s, as it may", "key/a", whom)
}

// carries records that a claim passes, whatever there is against it.
func (r *run) carries(to, from intent.AssetID, why string) {
	r.Helper()
	r.behind("UPDATE claim SET asset = ? WHERE asset = ?", string(to), string(from))
	r.records("claim", string(to), fmt.Sprintf("claim carried: resource %q from %q, as %s", "key/"+from, from, why), "north")
}

func (r *run) carried(to, from intent.AssetID, why string) {
	r.Helper()
	r.carries(to, from, why)
	r.Monitor.Commit()
}

// other is a partition with an asset that has a resource.
func (r *run) other() {
	r.Helper()
	r.must(r.AddPartition(r.Context(), "other", "/other/lehr.yaml", "a try", ann))
	lease, err := r.Acquire(r.Context(), "other", "east")
	r.must(err)
	_, err = r.SaveEnforced(r.Context(), lease, []store.Enforced{{
		Asset: "x", Type: r.saved["a"].Type, Incarnation: intent.IncarnationID{Partition: "other", Sequence: 1}, ResourceKey: "key/other", At: r.now,
	}})
	r.must(err)
}

func observed(id intent.AssetID) asset {
	return job(id, "1", &intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE})
}

// plans is the answer to a diff.
func (r *run) plans(id intent.AssetID, action intent.Action) {
	r.Diffed(id, Diff{At: r.now, Outcome: intent.Differs, Action: action, Effective: r.saved[id].Effective, Plan: r.plan})
}

// turnsDown removes an asset's resource.
func (r *run) turnsDown(id intent.AssetID) {
	r.Helper()
	r.publish(job(id, "1", turndown))
	r.approve(id, time.Time{})
	r.end(r.remove(id), "pushed")
	r.sight(id, intent.ResourceKey("key/"+id), true)
}
