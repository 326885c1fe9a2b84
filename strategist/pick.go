package strategist

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/intent"
	"lehr.dev/loop"
	"lehr.dev/strategist/conduct"
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
	found := map[string]conduct.Picked{}
	for stage, p := range st.picks {
		if p.run == run && p.Key != "" {
			found[stage] = p.Picked
		}
	}
	return found
}

// picksWithin is how long a plugin may take to answer.
const picksWithin = 10 * time.Second

// pick asks the plugins that are due, each away from the owner.
func (s *Strategist) pick(ctx context.Context, st *state, run intent.Rollout, picks []conduct.Pick) {
	now := s.Runtime.Now()
	for _, asked := range picks {
		p := st.picks[asked.Stage]
		if p == nil || p.run != run.Run {
			p = &picking{run: run.Run}
			st.picks[asked.Stage] = p
		}
		if p.asking || p.Key == asked.Key && p.next.After(now) {
			continue
		}
		p.asking = true
		s.Runtime.Go("selection", func() {
			s.Runtime.Point("selection")
			found, next := s.selected(ctx, run, asked)
			s.inbox.Put(func() { p.Picked, p.next, p.asking = found, next, false })
		})
	}
}

// selected asks one plugin. What is no answer lets nothing go on (S11).
func (s *Strategist) selected(ctx context.Context, run intent.Rollout, of conduct.Pick) (found conduct.Picked, next time.Time) {
	found, next = conduct.Picked{Key: of.Key}, s.Runtime.Now().Add(askAgain)
	request := &pluginpb.SelectRequest{
		Partition: string(run.Partition), Rollout: run.Name, Run: run.Run, Stage: of.Stage, Incarnation: run.To.String(),
	}
	for _, t := range of.Targets {
		request.Targets = append(request.Targets, &pluginpb.SelectedTarget{
			Asset: string(t.Asset), Type: string(t.Type), Scopes: t.Scopes, Labels: t.Labels,
			Selected: t.Selected, InSync: t.InSync, Well: t.Well, Healthy: durationpb.New(t.Healthy),
		})
	}
	if s.Select == nil {
		found.Broken = "nobody answers here"
		return found, next
	}
	bounded, cancel := loop.WithTimeout(ctx, s.Runtime, picksWithin)
	defer cancel()
	response, err := s.Select(bounded, of.Plugin, request)
	if err != nil {
		found.Broken = err.Error()
		return found, next
	}
	found.Reason = response.Reason
	for _, asset := range response.Assets {
		found.Assets = append(found.Assets, intent.AssetID(asset))
	}
	if response.Next != nil && response.Next.AsTime().After(s.Runtime.Now()) {
		next = response.Next.AsTime()
	}
	return found, next
}
