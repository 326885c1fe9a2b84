package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/enforcer"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/validation"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/preview"
)

// governance is which rollouts would bring what is planned, by pins.
type governance struct {
	policy        *intentpb.Policy
	courses       []*course.Course
	courseByAsset map[intent.AssetID]*course.Course
	targets       map[intent.AssetID]selection.Target
}

// mostForecast is of how many assets the order is told in which a rollout takes
// them: each of its waves looks at all of them.
const mostForecast = 1000

// coursesAt an incarnation are the rollouts of its policy that go by pins.
func coursesAt(ctx context.Context, s *preview.Store, schemas enforcer.Schemas, id intent.IncarnationID) ([]*course.Course, error) {
	policy, err := policyOf(ctx, s, id)
	if err != nil || len(policy.GetRollouts()) == 0 {
		return nil, err
	}
	incarnation, err := s.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	schemaSet, err := schemas.Schema(ctx, id.Partition, incarnation.Schema)
	if err != nil {
		return nil, err
	}
	courses, err := course.All(rule.New(schemaSet), policy)
	return slices.DeleteFunc(courses, func(c *course.Course) bool { return !c.ByPins() }), err
}

// governingOf an asset is the first that selects it; nil: none does.
func governingOf(ctx context.Context, s *preview.Store, courses []*course.Course, id intent.IncarnationID, asset intent.AssetID) (*course.Course, intent.Asset, error) {
	if len(courses) == 0 {
		return nil, intent.Asset{}, nil
	}
	_, body, err := s.Content(ctx, id, asset)
	if fault.Is(err, fault.NotFound) {
		return nil, intent.Asset{}, nil
	}
	if err != nil {
		return nil, intent.Asset{}, err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return nil, content, err
	}
	for _, c := range courses {
		if selects, err := c.Selects(content); selects || err != nil {
			return c, content, err
		}
	}
	return nil, content, nil
}

// governs finds what rollouts would bring of what is supposed.
func (p planning) governs(ctx context.Context, supposed *preview.Store, assets []intent.AssetID) (g governance, err error) {
	if g.courses, err = coursesAt(ctx, supposed, p.schemas, supposed.Head()); err != nil {
		return g, err
	}
	if g.policy, err = policyOf(ctx, supposed, supposed.Head()); err != nil {
		return g, err
	}
	g.courseByAsset, g.targets = map[intent.AssetID]*course.Course{}, map[intent.AssetID]selection.Target{}
	for _, id := range assets {
		c, content, err := governingOf(ctx, supposed, g.courses, supposed.Head(), id)
		if err != nil {
			return g, err
		}
		if c == nil {
			continue
		}
		if g.targets[id], err = c.Target(content); err != nil {
			return g, err
		}
		g.courseByAsset[id] = c
	}
	return g, nil
}

// tell says of what differs and is governed that its rollout brings it.
func (g governance) tell(reports map[intent.AssetID]intent.Report, now time.Time) {
	for _, c := range g.courses {
		at := g.forecast(c, reports, now)
		for id, governing := range g.courseByAsset {
			report, ok := reports[id]
			if governing != c || !ok || len(report.Plan.Changes) == 0 && report.PlanDigest.IsZero() {
				continue
			}
			report.Waiting = slices.DeleteFunc(slices.Clone(report.Waiting), func(w intent.WaitingOn) bool { return w.Kind == intent.WaitPlan })
			report.Waiting = append(report.Waiting, intent.WaitingOn{
				Kind: intent.WaitNotSelected, Owner: intent.RolloutHolder(c.Name()).Name,
				Reason: fmt.Sprintf("the rollout %s brings it%s, in its stage %s%s", c.Name(), afterText(c.Spec()), g.targets[id].Stage, at[id]),
			})
			reports[id] = report
		}
	}
}

// afterText says which rollouts go through with something before this one brings it.
func afterText(spec *intentpb.Rollout) string {
	if len(spec.After) == 0 {
		return ""
	}
	return " when " + strings.Join(spec.After, " and ") + " went through with it"
}

// forecast says when a rollout takes each asset at the earliest.
func (g governance) forecast(c *course.Course, reports map[intent.AssetID]intent.Report, now time.Time) map[intent.AssetID]string {
	var targets []selection.Target
	for id, governing := range g.courseByAsset {
		if governing != c {
			continue
		}
		t := g.targets[id]
		if reports[id].State == intent.StateInSync {
			// Long enough for any soak and delay.
			t.InSync, t.Well, t.Healthy = true, true, 365*24*time.Hour
		}
		targets = append(targets, t)
	}
	at := map[intent.AssetID]string{}
	if len(targets) > mostForecast {
		return at
	}
	policy := c.Policy(false)
	for i := range policy.Stages {
		policy.Stages[i].Judged = validation.Lasts(g.policy, c.Spec())
	}
	for _, step := range selection.Forecast(policy, targets, now, 0) {
		text := ", with the first"
		switch {
		case step.Later:
			text = ", after those before it"
		case step.At.IsZero():
			text = ", which waits " + step.Waits
		case step.At.After(now):
			text = fmt.Sprintf(", %s after the first at the earliest", step.At.Sub(now).Round(time.Second))
		}
		for _, id := range step.Assets {
			at[id] = text
		}
	}
	return at
}

// loosenedRollouts says what rollouts a policy drops or changes, and which assets
// leave those that it has: with each, that what was pinned stays.
func (p planning) loosenedRollouts(ctx context.Context, supposed *preview.Store, base intent.IncarnationID, policies [2]*intentpb.Policy, delta []store.Entry) (loosened []string, err error) {
	stays := func(name string) string {
		return fmt.Sprintf(". What it pinned stays as it is until head says the same, or somebody lets it go: lehr rollout release %s --reason WHY", name)
	}
	for _, r := range policies[0].GetRollouts() {
		at := slices.IndexFunc(policies[1].GetRollouts(), func(other *intentpb.Rollout) bool { return other.GetName() == r.GetName() })
		switch {
		case at < 0 && r.Field == nil:
			loosened = append(loosened, fmt.Sprintf("the rollout %s is dropped", r.Name)+stays(r.Name))
		case at < 0:
			loosened = append(loosened, fmt.Sprintf("the rollout %s is dropped", r.Name))
		default:
			if less := course.Loosened(policies[0], policies[1], r.Name); len(less) > 0 {
				loosened = append(loosened, fmt.Sprintf("the rollout %s asks for less: %s. What this changes of its assets waits until a person resumes the run that begins with it", r.Name, strings.Join(less, "; ")))
			}
		}
	}
	ungoverned, err := p.leaves(ctx, supposed, base, course.Same(policies[0], policies[1]), delta)
	if err != nil {
		return nil, err
	}
	for _, r := range policies[0].GetRollouts() {
		const maxListed = 5
		ids := ungoverned[r.Name]
		if len(ids) == 0 || !slices.ContainsFunc(policies[1].GetRollouts(), func(other *intentpb.Rollout) bool { return other.GetName() == r.GetName() }) {
			continue
		}
		names := make([]string, 0, maxListed)
		for _, id := range ids[:min(maxListed, len(ids))] {
			names = append(names, string(id))
		}
		text := "no rollout governs " + strings.Join(names, ", ")
		if more := len(ids) - maxListed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		loosened = append(loosened, text+", which the rollout "+r.Name+" did"+stays(r.Name))
	}
	return loosened, nil
}

// leaves lists the assets that rollouts governed in the base, and none does in what
// is supposed, by rollout. While the rollouts are the same only what changes can.
func (p planning) leaves(ctx context.Context, supposed *preview.Store, base intent.IncarnationID, same bool, delta []store.Entry) (map[string][]intent.AssetID, error) {
	ungoverned := map[string][]intent.AssetID{}
	oldCourses, err := coursesAt(ctx, supposed, p.schemas, base)
	if err != nil || len(oldCourses) == 0 {
		return ungoverned, err
	}
	newCourses, err := coursesAt(ctx, supposed, p.schemas, supposed.Head())
	if err != nil {
		return ungoverned, err
	}
	see := func(id intent.AssetID) error {
		oldCourse, _, err := governingOf(ctx, supposed, oldCourses, base, id)
		if err != nil || oldCourse == nil {
			return err
		}
		newCourse, content, err := governingOf(ctx, supposed, newCourses, supposed.Head(), id)
		if err == nil && newCourse == nil && content.ID != "" {
			ungoverned[oldCourse.Name()] = append(ungoverned[oldCourse.Name()], id)
		}
		return err
	}
	if same {
		for _, entry := range delta {
			if entry.Removed || entry.Body == nil {
				continue
			}
			if err := see(entry.Asset); err != nil {
				return ungoverned, err
			}
		}
		return ungoverned, nil
	}
	filter := store.AssetFilter{Limit: 1000}
	for {
		members, err := supposed.Members(ctx, base, filter)
		if err != nil || len(members) == 0 {
			return ungoverned, err
		}
		for _, m := range members {
			filter.After = m.Asset
			if !slices.ContainsFunc(oldCourses, func(c *course.Course) bool { return c.Wants(m.Asset, m.Type) }) {
				continue
			}
			if err := see(m.Asset); err != nil {
				return ungoverned, err
			}
		}
	}
}
