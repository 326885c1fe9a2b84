package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/validation"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
)

const (
	// mostPlanned assets are planned for, and mostStaged are told of one by one on
	// the way: their contents are read each time.
	mostPlanned, mostStaged = 5000, 1000
	// mostNamedOfStep are named of a step, or of a stage.
	mostNamedOfStep = 100
	// usualTakes is how long an asset is thought to take where none went before.
	usualTakes = time.Minute
)

// PlanRollout says how a rollout would go at the earliest: what is left of a run that
// goes on, else one that brought head's content now.
func (s *Server) PlanRollout(ctx context.Context, request *apipb.PlanRolloutRequest) (*apipb.PlanRolloutResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	standing, spec, err := s.standing(ctx, partition, request.Rollout)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, fault.New(fault.Conflict, "rollout %s cannot be planned: head's policy does not have it any more", request.Rollout).
			WithHint("lehr rollout status %s tells of what it did", request.Rollout)
	}
	if request.Emergency && !standing.Emergency {
		return nil, fault.New(fault.Invalid, "rollout %s has no stages for emergencies", request.Rollout).WithHint("define them in lehr.yaml, under emergency")
	}
	if request.Takes != nil && (request.Takes.CheckValid() != nil || request.Takes.AsDuration() < 0) {
		return nil, fault.New(fault.Invalid, "assets cannot take less than no time")
	}
	way, err := s.wayOf(ctx, partition, standing, spec, mostPlanned)
	if err != nil {
		return nil, err
	}
	if way.more {
		return nil, fault.New(fault.Invalid, "rollout %s governs more than %d assets, for which no plan is made", request.Rollout, mostPlanned).
			WithHint("lehr rollout status %s counts them by stage once it runs", request.Rollout)
	}
	takes := way.usualTakes()
	if request.Takes != nil {
		takes = request.Takes.AsDuration()
	}
	emergency := request.Emergency || way.open && standing.Run.Emergency
	targets := way.remaining()
	response := &apipb.PlanRolloutResponse{
		Rollout: toRollout(partition.ID, request.Rollout, spec), Takes: durationpb.New(takes), Rest: way.open, Assets: int64(len(targets)), All: len(targets) == 0,
	}
	if response.All {
		targets, response.Assets = way.anew(), int64(len(way.assets))
	}
	if standing.Run != nil {
		response.Rollout.Run = toRun(*standing.Run)
	}
	policy := way.course.Policy(emergency)
	for i := range policy.Stages {
		if !way.open || !judgedGood(standing.Run, policy.Stages[i].Name, spec.Validate) {
			policy.Stages[i].Judged = way.judged
		}
	}
	response.Unwanted = names(selection.Choose(policy, targets, s.runtime.Now()).Unwanted)
	for _, step := range selection.Forecast(policy, targets, s.runtime.Now(), takes) {
		response.Steps = append(response.Steps, &apipb.RolloutStep{
			Stage: step.Stage, Assets: names(step.Assets[:min(len(step.Assets), mostNamedOfStep)]), Count: int64(len(step.Assets)), At: toTime(step.At), Waits: step.Waits, Later: step.Later,
			Approvals: approvalsLeft(spec, standing.Run, way.open, emergency, step.Stage),
		})
	}
	return response, nil
}

// approvalsLeft is how many people must still approve a stage of a run before it begins.
func approvalsLeft(spec *intentpb.Rollout, run *intent.Rollout, open, emergency bool, stage string) int32 {
	stages := spec.Stages
	if emergency && len(spec.Emergency) > 0 {
		stages = spec.Emergency
	}
	at := slices.IndexFunc(stages, func(s *intentpb.RolloutStage) bool { return s.Name == stage })
	if at < 0 || stages[at].Approval == nil {
		return 0
	}
	needs := max(1, int(stages[at].Approval.Quorum))
	if !open || emergency != run.Emergency {
		return int32(needs)
	}
	for _, s := range run.Progress.Stages {
		if s.Name != stage || s.Approval == nil {
			continue
		}
		if s.Approval.State == intent.ApprovalGiven || s.Approval.State == intent.ApprovalSkipped {
			return 0
		}
		needs = max(1, s.Approval.Needs-s.Approval.Approved) // With a rejection that is taken back.
	}
	return int32(needs)
}

// judgedGood reports whether a run waits for no validation of a stage any more.
func judgedGood(run *intent.Rollout, stage string, validations []string) bool {
	if slices.Contains(run.Accepted, stage) {
		return true
	}
	return !slices.ContainsFunc(validations, func(name string) bool {
		return !slices.ContainsFunc(run.Progress.Verdicts, func(v intent.ValidationVerdict) bool {
			return v.Validation == name && v.Stage == stage && v.Result == "good"
		})
	})
}

// way is what a rollout governs, and how far each has come.
type way struct {
	course *course.Course
	assets []governed
	// judged is how long the validations of a stage take at least.
	judged time.Duration
	// more than were read are governed.
	more bool
	// open: the newest run goes on, and the assets are as it brings them.
	open         bool
	observations map[intent.AssetID]intent.Observation
	// fields that an open run sets; nil: it sets none.
	fields *fields
}

// governed is an asset of a rollout.
type governed struct {
	selection.Target
	// takesPart: it has to go on, or was let go on by the run.
	takesPart bool
	ill       bool
}

// wayOf reads at most so many of the assets that a rollout governs.
func (s *Server) wayOf(ctx context.Context, partition store.Partition, standing intent.RolloutStanding, spec *intentpb.Rollout, most int) (*way, error) {
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	environment, err := s.queries.Environment(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	w := &way{observations: map[intent.AssetID]intent.Observation{}, judged: validation.Lasts(policy, spec)}
	if w.course, err = course.New(environment, policy, spec); err != nil {
		return nil, fault.New(fault.Invalid, "the rollout %s of the policy cannot be read: %w", spec.Name, err)
	}
	w.open = standing.Run != nil && standing.Run.State.Open()
	if w.open && !w.course.ByPins() {
		if w.fields, err = s.fieldsOf(ctx, spec, *standing.Run); err != nil {
			return nil, err
		}
	}
	observations, err := s.store.Observations(ctx, partition.ID, spec.Name)
	if err != nil {
		return nil, err
	}
	for _, o := range observations {
		w.observations[o.Asset] = o
	}
	brakes, pins, err := s.inTheWay(ctx, partition.ID)
	if err != nil {
		return nil, err
	}
	wanted := query.Wanted{Incarnation: partition.Head, Filter: spec.Select, Index: store.AssetFilter{Limit: min(most, mostPage)}}
	for {
		matches, err := s.queries.Page(ctx, wanted)
		if err != nil {
			return nil, err
		}
		for _, member := range matches.Members {
			if !w.course.Wants(member.Asset, member.Type) {
				continue
			}
			if len(w.assets) == most {
				w.more = true
				return w, nil
			}
			asset, err := s.queries.Asset(ctx, member)
			if err != nil {
				return nil, err
			}
			g, err := s.governed(ctx, w, standing, asset, member, pins[member.Asset])
			if err != nil {
				return nil, err
			}
			g.Blocked = brakes[member.Asset]
			w.assets = append(w.assets, g)
		}
		if wanted.Index.After = matches.Next; matches.Next == "" {
			return w, nil
		}
	}
}

// inTheWay are the brakes of people, by asset, and the pins of rollouts.
func (s *Server) inTheWay(ctx context.Context, partition intent.PartitionID) (brakes map[intent.AssetID]string, pins map[intent.AssetID]intent.Pin, err error) {
	brakes, pins = map[intent.AssetID]string{}, map[intent.AssetID]intent.Pin{}
	now := s.runtime.Now()
	all, err := s.store.Pins(ctx, partition)
	if err != nil {
		return nil, nil, err
	}
	for _, pin := range all {
		switch {
		case pin.Rank == intent.RankRollout:
			pins[pin.Asset] = pin
		case pin.Rank == intent.RankPerson && !intent.Expired(pin.Until, now):
			brakes[pin.Asset] = fmt.Sprintf("pinned to %s by %s: %s", pin.Incarnation, pin.Holder.Name, pin.Reason)
		}
	}
	holds, err := s.store.Holds(ctx, partition)
	for _, hold := range holds {
		if !intent.Expired(hold.Until, now) {
			brakes[hold.Asset] = fmt.Sprintf("held by %s: %s", hold.Owner.Name, hold.Reason)
		}
	}
	return brakes, pins, err
}

// governed is how far one asset has come.
func (s *Server) governed(ctx context.Context, w *way, standing intent.RolloutStanding, asset intent.Asset, member intent.Member, pin intent.Pin) (g governed, err error) {
	if g.Target, err = w.course.Target(asset); err != nil {
		return g, err
	}
	o := w.observations[member.Asset]
	if !w.course.ByPins() {
		pointer, err := w.course.Pointer(asset)
		if err != nil {
			return g, err
		}
		g.Selected, g.takesPart = w.fields.stateOf(pointer)
	} else {
		goal := member.Effective
		if w.open {
			if goal, err = s.contentAt(ctx, standing.Run.To, member.Asset); err != nil {
				return g, err
			}
		}
		current, err := s.contentAt(ctx, pin.Incarnation, member.Asset)
		if err != nil {
			return g, err
		}
		g.Selected = current == goal && !goal.IsZero()
		g.takesPart = !goal.IsZero() && (!g.Selected || w.open && pin.Incarnation == standing.Run.To)
	}
	if g.Selected {
		g.InSync = !o.Arrived.IsZero() && o.Ill.IsZero()
		g.Well, g.Healthy, g.ill = g.InSync, o.Healthy, !o.Ill.IsZero()
	}
	return g, nil
}

// contentAt is the effective content of an asset at an incarnation; zero: it is not there.
func (s *Server) contentAt(ctx context.Context, at intent.IncarnationID, asset intent.AssetID) (intent.Digest, error) {
	if at.Sequence == 0 {
		return intent.Digest{}, nil
	}
	member, err := s.store.Member(ctx, at, asset)
	if fault.Is(err, fault.NotFound) {
		return intent.Digest{}, nil
	}
	return member.Effective, err
}

// remaining are the targets of the run, or of one that would begin.
func (w *way) remaining() (targets []selection.Target) {
	for _, g := range w.assets {
		if g.takesPart {
			targets = append(targets, g.Target)
		}
	}
	return targets
}

// anew are all targets, as if something new were there for each.
func (w *way) anew() (targets []selection.Target) {
	for _, g := range w.assets {
		t := g.Target
		t.Selected, t.InSync, t.Well, t.Healthy = false, false, false, 0
		targets = append(targets, t)
	}
	return targets
}

// usualTakes is how long it took until an asset arrived, in the middle.
func (w *way) usualTakes() time.Duration {
	var durations []time.Duration
	for _, o := range w.observations {
		if !o.Selected.IsZero() && o.Arrived.After(o.Selected) {
			durations = append(durations, o.Arrived.Sub(o.Selected))
		}
	}
	if len(durations) == 0 {
		return usualTakes
	}
	slices.Sort(durations)
	return durations[len(durations)/2]
}

// stageAssets adds to the stages of a run which assets are where: those that are not
// done first.
func (w *way) stageAssets(run *apipb.RolloutRun, now time.Time) {
	if run.State == string(intent.RolloutRollingBack) {
		return // Its stages are those by which it goes back.
	}
	policy := w.course.Policy(run.Emergency)
	for _, stage := range run.Stages {
		at := slices.IndexFunc(policy.Stages, func(s selection.Stage) bool { return s.Name == stage.Name })
		if at < 0 {
			continue
		}
		soak := policy.Stages[at].Soak
		for _, g := range w.assets {
			if !g.takesPart || !policy.Stages[at].Wants(g.Target) {
				continue
			}
			a := &apipb.RolloutAsset{Asset: string(g.Asset), State: g.state(soak)}
			if g.InSync {
				a.Healthy, a.Soak = durationpb.New(min(w.healthy(g, now), soak)), durationpb.New(soak)
			}
			stage.Assets = append(stage.Assets, a)
		}
		slices.SortStableFunc(stage.Assets, func(a, b *apipb.RolloutAsset) int {
			return cmp.Compare(slices.Index(assetStates, a.State), slices.Index(assetStates, b.State))
		})
		stage.Assets = stage.Assets[:min(len(stage.Assets), mostNamedOfStep)]
	}
}

// healthy is for how long an asset has been healthy, up to now. What is stored of it is
// written seldom while nothing changes, and an illness at once (L10).
func (w *way) healthy(g governed, now time.Time) time.Duration {
	if seenAt := w.observations[g.Asset].Seen; !seenAt.IsZero() {
		return g.Healthy + max(0, now.Sub(seenAt))
	}
	return g.Healthy
}

// assetStates of a stage, what needs a person most first.
var assetStates = []string{"ill", "moving", "soaking", "waits", "done"}

func (g governed) state(soak time.Duration) string {
	switch {
	case !g.Selected:
		return "waits"
	case g.ill:
		return "ill"
	case !g.InSync:
		return "moving"
	case g.Healthy < soak:
		return "soaking"
	}
	return "done"
}
