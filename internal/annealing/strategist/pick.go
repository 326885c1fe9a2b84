package strategist

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// picking is what a plugin says of a stage, as far as it is known.
type picking struct {
	conduct.Picked
	run uint64
	// next is when it is asked again. asking: it is now.
	next   time.Time
	asking bool
}

// picked are the answers for a run.
func (st *state) picked(run uint64) map[string]conduct.Picked {
	answers := map[string]conduct.Picked{}
	for stage, p := range st.picks {
		if p.run == run && p.Key != "" {
			answers[stage] = p.Picked
		}
	}
	return answers
}

// picksWithin is how long a plugin may take to answer.
const picksWithin = 10 * time.Second

// pick asks the plugins that are due, each away from the owner.
func (s *Strategist) pick(ctx context.Context, st *state, run intent.Rollout, picks []conduct.Pick) {
	now := s.Runtime.Now()
	for _, pick := range picks {
		p := st.picks[pick.Stage]
		if p == nil || p.run != run.Run {
			p = &picking{run: run.Run}
			st.picks[pick.Stage] = p
		}
		if p.asking || p.Key == pick.Key && p.next.After(now) {
			continue
		}
		p.asking = true
		s.Runtime.Go("selection", func() {
			s.Runtime.Point("selection")
			picked, next := s.selected(ctx, run, pick)
			s.inbox.Put(func() { p.Picked, p.next, p.asking = picked, next, false })
		})
	}
}

// selected asks one plugin. What is no answer lets nothing go on (S11).
func (s *Strategist) selected(ctx context.Context, run intent.Rollout, pick conduct.Pick) (picked conduct.Picked, next time.Time) {
	picked, next = conduct.Picked{Key: pick.Key}, s.Runtime.Now().Add(askAgain)
	request := &pluginpb.SelectRequest{
		Partition: string(run.Partition), Rollout: run.Name, Run: run.Run, Stage: pick.Stage, Incarnation: run.To.String(),
	}
	for _, t := range pick.Targets {
		request.Targets = append(request.Targets, &pluginpb.SelectedTarget{
			Asset: string(t.Asset), Type: string(t.Type), Scopes: t.Scopes, Labels: t.Labels,
			Selected: t.Selected, InSync: t.InSync, Well: t.Well, Healthy: durationpb.New(t.Healthy),
		})
	}
	if s.Select == nil {
		picked.Broken = "nobody answers here"
		return picked, next
	}
	bounded, cancel := loop.WithTimeout(ctx, s.Runtime, picksWithin)
	defer cancel()
	response, err := s.Select(bounded, pick.Plugin, request)
	if err != nil {
		picked.Broken = err.Error()
		return picked, next
	}
	picked.Reason = response.Reason
	for _, asset := range response.Assets {
		picked.Assets = append(picked.Assets, intent.AssetID(asset))
	}
	if response.Next != nil && response.Next.AsTime().After(s.Runtime.Now()) {
		next = response.Next.AsTime()
	}
	return picked, next
}
