package sim

import (
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// approveBriefly has somebody approve for so short a time that the approval
// ends before what it was given for can be admitted: while the asset is held,
// or between the decision and the admission (S9).
func (l *Lab) approveBriefly(d Disturbance, r *rand.Rand) {
	const marked = "record/mail" // Every push of it needs one.
	replica, next := l.replica(), l.good.clone()
	t := next.find(marked)
	if replica == nil || replica.Client == nil || l.options.Definition != "" || t == nil || !t.Approval || t.Mode != "" {
		return
	}
	l.note(d.Kind, "API")
	l.tell("%s: %s", d, marked)
	held := r.IntN(2) == 0
	l.save(d.Number, next, t.alter(r))
	l.people.Go("person", func() {
		p := l.named(replica, somebody, d, r)
		if err := p.approveFor(marked, 2*time.Second, held); err != nil {
			l.tell("%s: refused: %v", d, err)
		}
	})
}

// approveFor approves what an asset asks for, as soon as it asks, so that it
// cannot be admitted before the approval's end.
func (p person) approveFor(asset string, period time.Duration, held bool) error {
	for range 60 {
		if err := p.people.Wait(p.ctx, 250*time.Millisecond, nil); err != nil {
			return err
		}
		report, err := p.report(asset)
		if err != nil || !asksForApproval(report) {
			continue
		}
		if held {
			p.holdFor(intent.AssetID(asset), period+time.Second)
			_ = p.people.Wait(p.ctx, 500*time.Millisecond, nil)
		} else {
			p.armed = append(p.armed, armed{Disturbance{Number: p.d.Number, Kind: DelayAtPoint, Point: "admit", Length: period + time.Second, Seed: p.d.Seed}, 0})
		}
		_, err = p.c.Approvals.ApproveAsset(p.ctx, &apipb.ApproveAssetRequest{
			Partition: string(p.partition), Asset: asset, Plan: report.PlanDigest, Reason: "now or never", Period: durationpb.New(period),
		})
		if err == nil {
			p.mark("an approval is soon to end")
		}
		return err
	}
	return nil
}

// noNumber lets a job shrink below what its balancer has, while its plugin
// shows no number of what is there (S11).
func (l *Lab) noNumber(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	scope := []string{"a", "b"}[r.IntN(2)]
	job, balancer := next.find("job/"+scope), next.find("balancer/"+scope)
	if l.options.Definition != "" || job == nil || balancer == nil || job.Mode != "" || job.Turndown || job.Count == 1 {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, job.ID)
	l.World.Trouble(world.Trouble{Kind: world.DiffNoNumber, Asset: intent.AssetID(job.ID), Count: 2 + r.IntN(4), Seed: d.Seed})
	job.Count = 1
	l.save(d.Number, next, job.ID+" has 1 replicas")
}
