package sim

import (
	"math/rand/v2"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// rush has a target be too busy for a push, and something else wanted of it
// meanwhile, which is no reason to ask it sooner (L10).
func (l *Lab) rush(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "job", "balancer", "command")
	if t == nil || t.Approval || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, t.ID)
	id := intent.AssetID(t.ID)
	kinds := []world.TroubleKind{world.PushBusy, world.PushBusy, world.DiffBusy}
	l.World.Trouble(world.Trouble{Kind: kinds[r.IntN(len(kinds))], Asset: id, Count: 1 + r.IntN(3), Seed: d.Seed})
	l.save(d.Number, next, t.alter(r))
	l.after(2*time.Second+time.Duration(r.Int64N(int64(8*time.Second))), func() {
		again := l.intent.clone()
		if t := again.find(string(id)); t != nil && again.Slip == "" {
			l.mark("new content for a busy target")
			l.save(d.Number, again, t.alter(r))
		}
	})
	if r.IntN(3) == 0 {
		d.Kind = PersonRetry
		l.after(15*time.Second, func() { l.strike(d) })
	}
}

// retry has an asset tried again that waits because something failed, or any.
func (p person) retry() error {
	list, err := p.c.Reports.ListReports(p.ctx, &apipb.ListReportsRequest{Partition: string(p.partition)})
	if err != nil || len(list.Reports) == 0 {
		return err
	}
	asset, waits := p.asset(p.r), ""
	for _, report := range list.Reports {
		for _, waiting := range report.Waiting {
			if waits == "" && waiting.Kind == string(intent.WaitBackoff) {
				asset, waits = intent.AssetID(report.Asset), waiting.Kind
			}
		}
	}
	p.tell("%s: %s %s", p.d, asset, waits)
	p.Monitor.Retried(asset) // From the asking on it may be so.
	_, err = p.c.Brakes.RetryAsset(p.ctx, &apipb.RetryAssetRequest{Partition: string(p.partition), Asset: string(asset), Reason: "it is mended"})
	if err == nil && waits != "" {
		p.mark("a person had what failed tried again")
	}
	return err
}
