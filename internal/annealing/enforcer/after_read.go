package enforcer

import (
	"bytes"
	"context"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// aftermath reads what head's policy asks after the newest push of an asset that is in
// sync with what was pushed: that payload, whatever else of the asset, or of what it
// reads, is another one since. A push that failed or was cut off may have had its effect.
func (r *reader) aftermath(ctx context.Context, g *observation, content intent.Asset) ([]watch, error) {
	policy, err := r.policy(ctx, g.head)
	if err != nil || !policy.asksAfter() {
		return nil, err
	}
	types, err := r.rules(ctx, g.head)
	if err != nil {
		return nil, err
	}
	push, err := r.followed(ctx, g, content)
	if err != nil || push == nil {
		return nil, err
	}
	var watches []watch
	for _, c := range policy.checks {
		if c.GetProtection().GetAfter() == nil {
			continue
		}
		applies := c.Where == ""
		if !applies {
			if applies, err = r.isAbout(ctx, g.head, c.Check, content); err != nil {
				return nil, err
			}
		}
		if !applies {
			continue
		}
		ready := r.configured(c, types)
		w := watch{Configured: ready, at: push.Target}
		if !push.Ended.IsZero() {
			w.startsAt = push.Ended.Add(ready.Protection.After.Delay)
			w.until = w.startsAt.Add(ready.Protection.After.Duration)
		}
		w.question, err = ready.Ask(check.PhaseAfter, check.Subject{
			Partition: g.head.Partition, Asset: content, Effective: push.Effective, Digest: push.Plan, Push: push.Push,
		})
		if err != nil {
			return nil, err
		}
		watches = append(watches, w)
	}
	return watches, nil
}

// followed is the newest push of an asset, when that ended and pushed the payload that the
// asset has; nil: there is none to ask after. Where the journal does not keep it any more,
// or the incarnation that it pushed, but what is asked after it was not over, it is taken
// for one of the present content whose time is over: a pass is still to come.
func (r *reader) followed(ctx context.Context, g *observation, content intent.Asset) (*store.PushRecord, error) {
	var forgotten *store.PushRecord
	if g.unwell {
		forgotten = &store.PushRecord{OpenPush: store.OpenPush{Target: g.target, Effective: g.effective}}
	}
	pushes, err := r.store.Pushes(ctx, g.head.Partition, g.asset.id, 1)
	switch {
	case err != nil:
		return nil, err
	case len(pushes) == 0:
		return forgotten, nil
	case pushes[0].Ended.IsZero():
		return nil, nil
	case pushes[0].Effective == g.effective:
		return &pushes[0], nil
	}
	pushed, err := r.asset(ctx, pushes[0].Target, g.asset.id)
	switch {
	case fault.Is(err, fault.NotFound):
		return forgotten, nil
	case err != nil:
		return nil, err
	case pushed.Payload.Type != content.Payload.Type || !bytes.Equal(pushed.Payload.Bytes, content.Payload.Bytes):
		return nil, nil
	}
	return &pushes[0], nil
}
