package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// twoContents has somebody approve the same plan for two contents of an asset,
// of head and of what a pin brings back for a while: each approval is good for
// its own content alone (S9).
func (l *Lab) twoContents(d Disturbance, r *rand.Rand) {
	const marked = "record/mail" // Every push of it needs an approval.
	replica, next := l.replica(), l.good.clone()
	t := next.find(marked)
	if replica == nil || replica.Client == nil || l.options.Definition != "" || t == nil || !t.Approval || t.Mode != "" || next.find("schema/main") == nil {
		return
	}
	l.note(d.Kind, "API")
	l.tell("%s: %s", d, marked)
	// The same thing in production, and another content.
	if t.After = []string{"schema/main"}; len(l.good.find(marked).After) > 0 {
		t.After = nil
	}
	l.people.Go("person", func() {
		p := l.named(replica, somebody, d, r)
		if err := p.approveTwoContents(marked, next); err != nil {
			l.tell("%s: refused: %v", d, err)
			return
		}
		l.mark("one plan of two contents is approved")
	})
}

func (p person) approveTwoContents(asset string, next Intent) error {
	partition := string(p.partition)
	hold := &apipb.SetHoldRequest{Partition: partition, Asset: asset, Reason: "looking", Period: durationpb.New(10 * time.Minute)}
	if _, err := p.c.Brakes.SetHold(p.ctx, hold); err != nil {
		return err
	}
	defer func() {
		_, _ = p.c.Brakes.RemoveHold(p.ctx, &apipb.RemoveHoldRequest{Partition: partition, Asset: asset, Reason: "over"})
	}()
	report, err := p.report(asset)
	if err != nil {
		return err
	}
	before, first := report.Target, report.Effective
	p.World.Drift(intent.ResourceKey(report.ResourceKey), p.d.Seed)
	p.save(p.d.Number, next, "another content of "+asset)
	second, err := p.approveOther(asset, first)
	if err != nil {
		return err
	}
	if _, err := p.c.Brakes.SetPin(p.ctx, &apipb.SetPinRequest{
		Partition: partition, Asset: asset, Incarnation: before, Reason: "as it was", Period: durationpb.New(5 * time.Minute),
	}); err != nil {
		return err
	}
	if _, err = p.approveOther(asset, second); err != nil {
		return err
	}
	_, err = p.c.Brakes.RemovePin(p.ctx, &apipb.RemovePinRequest{Partition: partition, Asset: asset, Reason: "over"})
	return err
}

// approveOther approves what the asset asks for, as soon as it is about
// another content.
func (p person) approveOther(asset, content string) (effective string, err error) {
	for range 90 {
		if err := p.people.Wait(p.ctx, time.Second, nil); err != nil {
			return "", err
		}
		report, err := p.report(asset)
		if err != nil {
			return "", err
		}
		if report.Effective == content || !asksForApproval(report) {
			continue
		}
		p.tell("%s: %s, content %.8s, plan %.8s", p.d, asset, report.Effective, report.PlanDigest)
		_, err = p.c.Approvals.ApproveAsset(p.ctx, &apipb.ApproveAssetRequest{
			Partition: string(p.partition), Asset: asset, Plan: report.PlanDigest, Reason: "I looked at it",
		})
		return report.Effective, err
	}
	return "", context.DeadlineExceeded
}
