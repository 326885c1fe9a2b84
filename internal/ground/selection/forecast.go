package selection

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Step is assets of a stage that go on together.
type Step struct {
	Stage  string
	Assets []intent.AssetID
	// At is the earliest time; zero: nothing that is known of lets them go on, and
	// Waits says for what. Later: they follow those before, which are more than are
	// told one by one.
	At    time.Time
	Waits string
	Later bool
}

// mostSteps bounds a forecast, and mostLooks how many targets it looks at for that.
const mostSteps, mostLooks = 10_000, 300_000

// Forecast says how a rollout goes at the earliest: as if each asset were in sync
// so long after it is let go on, and healthy from then on, and each stage judged good, and approved, as
// early as can be; what is blocked, and what is not healthy now, stays so. Its last steps are what never goes on. It
// takes some choices for each wave; where that is too much, its last steps are the
// rest of each stage.
func Forecast(p Policy, targets []Target, now time.Time, takes time.Duration) (steps []Step) {
	targets = slices.Clone(targets)
	lands := map[intent.AssetID]time.Time{}
	for _, t := range targets {
		if t.Selected && !t.InSync && t.Blocked == "" {
			lands[t.Asset] = now.Add(takes)
		}
	}
	p.Stages = slices.Clone(p.Stages)
	for i := range p.Stages {
		p.Stages[i].Held = ""
	}
	stages, _ := p.parts(targets)
	stageOf := map[intent.AssetID]int{}
	arrived := make([]time.Time, len(stages)) // the last of each
	for i, members := range stages {
		for _, t := range members {
			stageOf[t.Asset] = i
			if t.InSync {
				arrived[i] = latest(arrived[i], now.Add(-t.Healthy))
			}
		}
	}
	for range min(mostSteps, max(1, mostLooks/max(1, len(targets)))) {
		judged := p.judged(arrived, now)
		choice := Choose(p, targets, now)
		if len(choice.Assets) > 0 {
			steps = append(steps, Step{Stage: p.Stages[stageOf[choice.Assets[0]]].Name, Assets: choice.Assets, At: now})
			chosen := map[intent.AssetID]bool{}
			for _, asset := range choice.Assets {
				chosen[asset], lands[asset] = true, now.Add(takes)
			}
			for i := range targets {
				targets[i].Selected = targets[i].Selected || chosen[targets[i].Asset]
			}
			continue
		}
		next := choice.Next
		if next.IsZero() || !judged.IsZero() && judged.Before(next) {
			next = judged
		}
		for _, at := range lands {
			if next.IsZero() || at.Before(next) {
				next = at
			}
		}
		if choice.Done {
			return steps
		}
		if next.IsZero() || !next.After(now) && len(lands) == 0 {
			return append(steps, stuck(p, choice, targets)...)
		}
		for asset, at := range lands {
			if !at.After(next) {
				arrived[stageOf[asset]] = latest(arrived[stageOf[asset]], at)
			}
		}
		pass(targets, lands, now, next)
		now = next
	}
	for _, step := range stuck(p, Choose(p, targets, now), targets) {
		if step.Waits, step.Later = "", true; len(step.Assets) > 0 {
			steps = append(steps, step)
		}
	}
	return steps
}

// judged has stages wait for what judges them, and says when the first of those is done;
// zero: all are.
func (p Policy) judged(arrived []time.Time, now time.Time) (next time.Time) {
	for i := range p.Stages {
		s := &p.Stages[i]
		if s.Judged <= 0 {
			continue
		}
		s.Gate = ""
		if ends := arrived[i].Add(s.Judged); !arrived[i].IsZero() && ends.After(now) {
			s.Gate = "for what judges it"
			if next.IsZero() || ends.Before(next) {
				next = ends
			}
		}
	}
	return next
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pass lets time go by.
func pass(targets []Target, lands map[intent.AssetID]time.Time, now, next time.Time) {
	for i := range targets {
		t := &targets[i]
		if t.InSync && t.Well {
			t.Healthy += next.Sub(now)
		}
		if at, lies := lands[t.Asset]; lies && !at.After(next) {
			t.InSync, t.Well, t.Healthy = true, true, next.Sub(at)
			delete(lands, t.Asset)
		}
	}
}

// stuck are the stages that nothing known of lets go on.
func stuck(p Policy, choice Choice, targets []Target) (steps []Step) {
	stages, _ := p.parts(targets)
	for i, status := range choice.Stages {
		if status.Done == status.Total {
			continue
		}
		step := Step{Stage: status.Name, Waits: status.Waits}
		for _, t := range stages[i] {
			if !t.Selected && !t.InSync {
				step.Assets = append(step.Assets, t.Asset)
			}
		}
		steps = append(steps, step)
	}
	return steps
}
