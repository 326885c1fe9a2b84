package validate

import (
	"context"
	"errors"
	"fmt"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// CheckRollouts compiles the expressions of a policy's rollouts, and says what is
// wrong with them.
func CheckRollouts(types *schema.Set, policy *intentpb.Policy) (problems []RuleProblem) {
	if len(policy.GetRollouts()) == 0 {
		return nil
	}
	environment := rule.New(types)
	for i, r := range policy.Rollouts {
		_, err := course.New(environment, policy, r)
		if problem, ok := errors.AsType[*course.Problem](err); ok {
			problems = append(problems, RuleProblem{i, problem.Field, problem.Err})
		}
	}
	return problems
}

// rollouts judges what the rollouts of the policy govern: each asset goes by the
// pins of one at most, and each has a stage. It looks at what changed, and at all
// where the rollouts did.
func (j *judging) rollouts(ctx context.Context) error {
	all, err := course.All(j.expressions, j.CandidatePolicy)
	if err != nil {
		j.add(FromError("rollout", intent.PolicyAsset, err))
		return nil
	}
	if len(all) == 0 {
		return nil
	}
	g := &governing{judging: j, all: all, selected: make([]bool, len(all))}
	for _, entry := range j.delta {
		if entry.Removed || entry.Body == nil || !g.wants(entry.Asset, entry.Member.Type) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := g.see(entry.Asset, entry.Body); err != nil {
			return err
		}
	}
	if course.Same(j.HeadPolicy, j.CandidatePolicy) && j.Again == nil {
		return nil
	}
	if j.Rest != nil {
		if err := j.Rest(ctx, g.wants, g.see); err != nil {
			return err
		}
	}
	g.idle()
	return nil
}

// governing is what rollouts are found to govern.
type governing struct {
	*judging
	all []*course.Course
	// selected says of which anything is, in their order.
	selected []bool
}

func (g *governing) wants(id intent.AssetID, typeName intent.TypeName) bool {
	for _, c := range g.all {
		if c.Wants(id, typeName) {
			return true
		}
	}
	return false
}

// see judges one asset.
func (g *governing) see(id intent.AssetID, body []byte) error {
	asset, err := schema.Decode(body)
	if err != nil {
		return err
	}
	pinned := ""
	for i, c := range g.all {
		selects, err := c.Selects(asset)
		if err != nil {
			g.failed(asset, c, "select", err)
			continue
		}
		if !selects {
			continue
		}
		g.selected[i] = true
		if c.ByPins() && pinned != "" {
			g.report(id, c, "select", fmt.Sprintf("asset %s is selected by two rollouts, %s and %s", id, pinned, c.Name()),
				"one asset can follow one rollout by pins: let the select of one of them leave it out")
		} else if c.ByPins() {
			pinned = c.Name()
		}
		g.staged(asset, c)
	}
	return nil
}

// staged judges whether a rollout can bring anything to an asset that it governs.
func (g *governing) staged(asset intent.Asset, c *course.Course) {
	lists := []string{"stages", "emergency"}
	if len(c.Spec().Emergency) == 0 {
		lists = lists[:1]
	}
	for _, list := range lists {
		_, wanted, err := c.StageOf(asset, list == "emergency")
		if err != nil {
			g.failed(asset, c, list, err)
			return
		}
		if !wanted {
			g.report(asset.ID, c, list, fmt.Sprintf("no stage of rollouts.%s.%s wants asset %s, so the rollout %s could never let it go on", c.Name(), list, asset.ID, c.Name()),
				"add a stage {rest: true} to them, or let its select leave the asset out")
			return
		}
	}
	if len(c.Spec().Rollback) > 0 {
		if _, wanted, err := c.GoesBack(asset); err != nil {
			g.failed(asset, c, "rollback", err)
			return
		} else if !wanted {
			g.report(asset.ID, c, "rollback", fmt.Sprintf("no stage of rollouts.%s.rollback wants asset %s, so nobody says when it goes back", c.Name(), asset.ID), "add a stage {rest: true} to them")
			return
		}
	}
	if c.ByPins() {
		return
	}
	if _, err := c.Pointer(asset); err != nil {
		g.failed(asset, c, "by.field", err)
	}
}

func (g *governing) report(id intent.AssetID, c *course.Course, field, message, hint string) {
	g.add(intent.Finding{
		Rule: "rollout", Severity: intent.Error, Asset: id, Field: "rollouts." + c.Name() + "." + field, Message: message, Hint: hint,
	})
}

// failed: it cannot be told, which is never a pass.
func (g *governing) failed(asset intent.Asset, c *course.Course, field string, err error) {
	message, hint := g.reason(asset, err)
	g.report(asset.ID, c, field, fmt.Sprintf("the rollout %s cannot be judged of asset %s: %s", c.Name(), asset.ID, message), hint)
}

// idle warns of rollouts that govern nothing.
func (g *governing) idle() {
	for i, c := range g.all {
		if g.selected[i] {
			continue
		}
		f := intent.Finding{
			Rule: "rollout", Severity: intent.Warning, Field: "rollouts." + c.Name() + ".select",
			Message: fmt.Sprintf("the rollout %s selects no asset, so everything goes on at once", c.Name()),
			Hint:    "look whether its select says what is meant; the policy, and types that no plugin is bound to, are never governed",
		}
		if g.Rollout != nil {
			origin := g.Rollout(c.Name())
			f.File, f.Line = origin.File, origin.Line
		}
		g.add(f)
	}
}
