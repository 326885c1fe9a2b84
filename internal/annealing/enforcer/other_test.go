package enforcer

import (
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// TestAPartitionWaitsForAnother until that is there, in sync with its own head,
// and not stopped.
func TestAPartitionWaitsForAnother(t *testing.T) {
	simulate(t, func(w *world) {
		const platform = intent.PartitionID("platform")
		w.policy.Checks = []*intentpb.Check{{Name: "platform", Where: `id == "web"`, Kind: &intentpb.Check_Partition{Partition: &intentpb.OtherPartition{Id: string(platform), InSync: 50}}}}
		w.publish(web, db)
		w.inSync(db)
		w.waitsOn("web", intent.WaitCheckBroken)
		w.told("web", "there is no partition platform on this server")
		w.must(w.store.AddPartition(w.ctx, platform, "/platform/lehr.yaml", "a try", tester))
		lease, err := w.store.Acquire(w.ctx, platform, "test")
		w.must(err)
		w.told("web", "partition platform enforces nothing yet")
		// Its policy is ours, so it waits for itself, and serves what differs.
		head := intent.IncarnationID{Partition: platform}
		var disk intent.Digest
		publish := func(disks string) {
			var delta []store.Entry
			for _, asset := range []intent.Asset{w.asset(intent.PolicyAsset, w.policy), w.asset("disk", jobOf(disks))} {
				body, effective, err := schema.Builtin().Encode(asset)
				w.must(err)
				disk = effective // The last one's.
				delta = append(delta, store.Entry{Asset: asset.ID, Body: body, Member: intent.Member{Asset: asset.ID, Type: asset.Payload.Type, Digest: effective, Effective: effective}})
			}
			w.must(w.store.Unstage(w.ctx, lease))
			w.must(w.store.Stage(w.ctx, lease, head, delta))
			made, err := w.store.Publish(w.ctx, lease, intent.Incarnation{ID: intent.IncarnationID{Partition: platform, Sequence: head.Sequence + 1}, Parent: head, Author: author, Created: time.Now()})
			w.must(err)
			head = made.ID
		}
		reports := func(states ...intent.State) {
			var list []intent.Report
			for i, state := range states {
				list = append(list, intent.Report{Asset: []intent.AssetID{"disk", "net"}[i], State: state, Target: head, Effective: disk})
			}
			w.must(w.store.SaveReports(w.ctx, lease, list))
		}
		publish("1 a")
		reports(intent.StateWaiting, intent.StateWaiting)
		w.told("web", "0% of partition platform is in sync, and 50% must be")
		reports(intent.StateInSync, intent.StateWaiting)
		w.inSync(web)
		publish("2 b")           // Nobody has looked at the disk since.
		publish("2 b")           // Nor of what this one left as it was.
		w.pass(10 * time.Second) // What was read holds for a while.
		w.publish(webV2, db)
		w.told("web", "0% of partition platform is in sync")
		w.unpushed("web", "what platform's head changed was not looked at")
		w.must(w.store.SetStop(w.ctx, intent.Stop{Partition: platform, Owner: tester, Reason: "secret"}))
		reports(intent.StateInSync, intent.StateWaiting)
		w.told("web", "partition platform is stopped")
		if reason := w.report("web").Waiting[0].Reason; reason != "check platform: partition platform is stopped" {
			t.Errorf("it tells more than it may: %s", reason)
		}
		w.must(w.store.Resume(w.ctx, platform, "over", tester))
		w.inSync(webV2)
	})
}
