package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// twoPlans has somebody approve a plan of an asset on hold, production move,
// and somebody approve the new plan too: one push may use one of the two, and
// only its own (S9).
func (l *Lab) twoPlans(d Disturbance, r *rand.Rand) {
	replica := l.replica()
	if replica == nil || replica.Client == nil || l.options.Definition != "" {
		return
	}
	asset := intent.AssetID("record/mail") // It is marked: every push needs one.
	l.note(d.Kind, "API")
	l.tell("%s: %s", d, asset)
	l.people.Go("person", func() {
		p := l.named(replica, somebody, d, r)
		if err := p.approveTwoPlans(string(asset)); err != nil {
			l.tell("%s: refused: %v", d, err)
			return
		}
		l.mark("two plans of one asset are approved")
	})
}

func (p person) approveTwoPlans(asset string) error {
	partition := string(p.partition)
	hold := &apipb.SetHoldRequest{Partition: partition, Asset: asset, Reason: "looking", Period: durationpb.New(10 * time.Minute)}
	if _, err := p.c.Brakes.SetHold(p.ctx, hold); err != nil {
		return err
	}
	defer func() {
		_, _ = p.c.Brakes.RemoveHold(p.ctx, &apipb.RemoveHoldRequest{Partition: partition, Asset: asset, Reason: "over"})
	}()
	before := ""
	for n := range uint64(2) {
		report, err := p.report(asset)
		if err != nil {
			return err
		}
		p.World.Drift(intent.ResourceKey(report.ResourceKey), p.d.Seed+n)
		if before, err = p.approveNext(asset, before); err != nil {
			return err
		}
	}
	return nil
}

// approveNext approves the first plan that is another than the one before, as
// soon as it is told.
func (p person) approveNext(asset, before string) (plan string, err error) {
	for range 60 {
		if err := p.people.Wait(p.ctx, 5*time.Second, nil); err != nil {
			return "", err
		}
		report, err := p.report(asset)
		if err != nil {
			return "", err
		}
		if report.PlanDigest == "" || report.PlanDigest == before || !asksForApproval(report) {
			continue
		}
		p.tell("%s: %s, plan %.8s", p.d, asset, report.PlanDigest)
		_, err = p.c.Approvals.ApproveAsset(p.ctx, &apipb.ApproveAssetRequest{
			Partition: string(p.partition), Asset: asset, Plan: report.PlanDigest, Reason: "I looked at it",
		})
		return report.PlanDigest, err
	}
	return "", context.DeadlineExceeded
}

func (p person) report(asset string) (*apipb.Report, error) {
	response, err := p.c.Reports.GetReport(p.ctx, &apipb.GetReportRequest{Partition: string(p.partition), Asset: asset})
	if err != nil {
		return nil, err
	}
	return response.Report, nil
}
