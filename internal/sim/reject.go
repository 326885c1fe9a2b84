package sim

import (
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// reject says no to one of the plans that wait.
func (p person) reject() error {
	list, err := p.c.Reports.ListReports(p.ctx, &apipb.ListReportsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	var planned []*apipb.Report
	for _, report := range list.Reports {
		if report.PlanDigest != "" && report.State == string(intent.StateWaiting) {
			planned = append(planned, report)
		}
	}
	if len(planned) == 0 {
		return nil
	}
	period := durationpb.New(p.d.Length + time.Second)
	if p.r.IntN(2) == 0 {
		period = nil // Until it is taken back.
	}
	return p.refuse(planned[p.r.IntN(len(planned))], period)
}

func (p person) refuse(report *apipb.Report, period *durationpb.Duration) error {
	p.tell("%s: %s rejects %s, plan %.8s, %s", p.d, p.name, report.Asset, report.PlanDigest, lasting(period.AsDuration()))
	_, err := p.c.Approvals.RejectAsset(p.ctx, &apipb.RejectAssetRequest{
		Partition: string(p.partition), Asset: report.Asset, Plan: report.PlanDigest, Reason: "not like this", Period: period,
	})
	if err == nil {
		p.mark("a plan was rejected")
	}
	return err
}

// withdraw takes all rejections back, one's own and those of others.
func (p person) withdraw() error {
	list, err := p.c.Approvals.ListApprovals(p.ctx, &apipb.ListApprovalsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	type rejected struct{ asset, by string }
	over := map[rejected]bool{}
	for _, r := range list.Rejections {
		of := rejected{r.Asset, r.By.Name}
		if over[of] {
			continue
		}
		over[of] = true
		p.tell("%s: %s takes back what %s rejected of %s", p.d, p.name, of.by, of.asset)
		if of.by == p.name {
			_, err = p.c.Approvals.WithdrawRejection(p.ctx, &apipb.WithdrawRejectionRequest{Partition: string(p.partition), Asset: of.asset, Reason: "it is well"})
		} else {
			_, err = p.c.Approvals.OverruleRejection(p.ctx, &apipb.OverruleRejectionRequest{Partition: string(p.partition), Asset: of.asset, Of: of.by, Reason: "it is well"})
		}
		if err != nil {
			return err
		}
		p.mark("a rejection was taken back")
	}
	return nil
}

// veto has somebody reject a plan before or after all others approve it, and
// take that back later, or never (S9).
func (l *Lab) veto(d Disturbance, r *rand.Rand) {
	next, replica := l.good.clone(), l.anyone()
	t := next.wanting(r, "command", "command", "job")
	if t == nil || l.options.Definition != "" || replica == nil || replica.Client == nil {
		return
	}
	l.note(d.Kind, "API")
	l.tell("%s: %s", d, t.ID)
	id := t.ID
	// As often as not, what needs nobody's approval. It is held until somebody
	// has seen it, and has rejected it.
	t.Approval = r.IntN(2) == 0
	const held = 15 * time.Second
	l.holdFor(intent.AssetID(id), held)
	l.after(500*time.Millisecond, func() { l.save(d.Number, next, t.alter(r)) })
	l.people.Go("person", func() {
		if err := l.named(replica, "carol", d, r).vetoes(id, held); err != nil {
			l.tell("%s: refused: %v", d, err)
		}
	})
}

func (p person) vetoes(asset string, held time.Duration) error {
	if err := p.people.Wait(p.ctx, held/2, nil); err != nil {
		return err
	}
	report, err := p.report(asset)
	if err != nil || report.PlanDigest == "" {
		return err
	}
	period := durationpb.New(held + held/2)
	if p.r.IntN(2) == 0 {
		period = nil
	}
	approve := func() error {
		if !asksForApproval(report) {
			return nil
		}
		for _, name := range []string{somebody, "dave"} {
			if _, err := p.as(name).agree(report); err != nil {
				return err
			}
		}
		return nil
	}
	steps := []func() error{func() error { return p.refuse(report, period) }, approve}
	if p.r.IntN(2) == 0 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := p.people.Wait(p.ctx, 2*held, nil); err != nil || p.r.IntN(3) == 0 {
		return err
	}
	by := p
	if p.r.IntN(2) == 0 {
		by = p.as(somebody)
	}
	return by.withdraw()
}
