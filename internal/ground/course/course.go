// Package course is how a policy says that a rollout goes, ready to be asked:
// which assets it governs, to which stage each belongs, how the stages are
// selected from, and which field of a document it sets for an asset. It is pure,
// and ground: prodspec asks it when it validates and publishes, and the
// strategist in each step.
package course

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/calendar"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/selection"
)

// Course is a rollout of a policy. It is safe for concurrent use.
type Course struct {
	spec *intentpb.Rollout
	// served are the types that a plugin is bound to.
	served    map[intent.TypeName]bool
	selects   *rule.Filter
	stages    []stage
	emergency []stage
	rollback  []stage
	pointer   Pointer
}

// stage is one of a rollout, and what says which assets belong to it.
type stage struct {
	selection.Stage
	scopes []string
	filter *rule.Filter
}

// Problem is what is wrong with a field of a rollout: "select",
// "stages[0].where".
type Problem struct {
	Field string
	Err   error
}

func (p *Problem) Error() string { return p.Field + ": " + p.Err.Error() }

func (p *Problem) Unwrap() error { return p.Err }

// All are the rollouts of a policy, in its order. An error is Invalid.
func All(environment *rule.Environment, policy *intentpb.Policy) (all []*Course, err error) {
	for _, r := range policy.GetRollouts() {
		c, err := New(environment, policy, r)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the rollout %s of the policy cannot be read: %w", r.Name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// Same reports whether the rollouts of two policies govern the same assets, and let
// them go on in the same way.
func Same(a, b *intentpb.Policy) bool {
	if len(a.GetRollouts()) == 0 && len(b.GetRollouts()) == 0 {
		return true
	}
	return slices.EqualFunc(a.GetRollouts(), b.GetRollouts(), func(a, b *intentpb.Rollout) bool { return proto.Equal(a, b) }) &&
		maps.Equal(servedBy(a), servedBy(b))
}

// servedBy plugins are types.
func servedBy(policy *intentpb.Policy) map[intent.TypeName]bool {
	served := map[intent.TypeName]bool{}
	for _, binding := range policy.GetPlugins() {
		served[intent.TypeName(binding.GetType())] = true
	}
	return served
}

// New reads a rollout of a policy, which says too what is served by plugins. An
// error is a *Problem.
func New(environment *rule.Environment, policy *intentpb.Policy, spec *intentpb.Rollout) (*Course, error) {
	c := &Course{spec: spec, served: servedBy(policy)}
	var err error
	if c.selects, err = environment.Filter(spec.Select); err != nil {
		return nil, &Problem{"select", err}
	}
	if c.stages, err = c.read(environment, "stages", spec.Stages); err != nil {
		return nil, err
	}
	if c.emergency, err = c.read(environment, "emergency", spec.Emergency); err != nil {
		return nil, err
	}
	if c.rollback, err = c.read(environment, "rollback", spec.Rollback); err != nil {
		return nil, err
	}
	if spec.Field != nil {
		if c.pointer, err = ParsePointer(spec.Field.Pointer); err != nil {
			return nil, &Problem{"by.field", err}
		}
	}
	return c, nil
}

// read makes stages ready. The types of payloads are known in them as in select.
func (c *Course) read(environment *rule.Environment, list string, specs []*intentpb.RolloutStage) (stages []stage, err error) {
	for i, s := range specs {
		parsed := stage{scopes: s.Scopes, Stage: selection.Stage{
			Name: s.Name, By: groupBy(s), Order: s.Order, Parallel: int(s.Parallel), Most: int(s.Most),
			Wave:  selection.Wave{Count: int(s.Count), Percent: s.Percent, Factor: s.Factor},
			Delay: s.Delay.AsDuration(), Soak: s.Soak.AsDuration(), Plugin: s.Plugin,
		}}
		at := func(field string) string { return fmt.Sprintf("%s[%d].%s", list, i, field) }
		if s.Where != "" {
			if parsed.filter, err = environment.FilterOf(s.Where, c.selects.Narrow().Type); err != nil {
				return nil, &Problem{at("where"), err}
			}
		}
		if s.Window != nil {
			opens, err := calendar.New(s.Window)
			if err != nil {
				return nil, &Problem{at("window"), err}
			}
			parsed.Open = func(now time.Time) (bool, time.Time) {
				answer := opens.At(now)
				return answer.Open, answer.Until
			}
		}
		stages = append(stages, parsed)
	}
	return stages, nil
}

// kind gives the group of an asset of a stage; nil: they are one group.
func groupBy(s *intentpb.RolloutStage) func(selection.Target) string {
	switch kind := s.By.(type) {
	case *intentpb.RolloutStage_ByScope:
		return func(t selection.Target) string { return t.Scopes[kind.ByScope] }
	case *intentpb.RolloutStage_ByLabel:
		return func(t selection.Target) string { return t.Labels[kind.ByLabel] }
	}
	return nil
}

// Name of the rollout.
func (c *Course) Name() string { return c.spec.Name }

// Spec is what the policy says. It is not to be changed.
func (c *Course) Spec() *intentpb.Rollout { return c.spec }

// ByPins reports that its assets follow head when they are let go on; else it
// sets a field of a document.
func (c *Course) ByPins() bool { return c.spec.Field == nil }

// Narrow is what an index can answer of which assets it selects.
func (c *Course) Narrow() rule.Narrow { return c.selects.Narrow() }

// Wants reports whether it may select an asset of the type; Selects looks at the
// content.
func (c *Course) Wants(id intent.AssetID, typeName intent.TypeName) bool {
	narrowed := c.selects.Narrow().Type
	return id != intent.PolicyAsset && c.served[typeName] && (narrowed == "" || narrowed == typeName)
}

// Selects reports whether it governs an asset: never the policy, nor what no
// plugin serves, for nothing is ever pushed of them. Invalid when its condition
// cannot be judged of the asset.
func (c *Course) Selects(asset intent.Asset) (bool, error) {
	if !c.Wants(asset.ID, asset.Payload.Type) {
		return false, nil
	}
	return c.selects.Match(asset)
}

// StageOf names the stage that an asset belongs to, usually or in an emergency:
// the first that wants it. Not ok: none does.
func (c *Course) StageOf(asset intent.Asset, emergency bool) (name string, ok bool, err error) {
	scopes, _, err := impacts(asset)
	if err != nil {
		return "", false, err
	}
	return stageOf(c.stagesFor(emergency), asset, scopes)
}

// stagesFor are the stages that it goes by; without any for emergencies, always the same.
func (c *Course) stagesFor(emergency bool) []stage {
	if emergency && len(c.emergency) > 0 {
		return c.emergency
	}
	return c.stages
}

func stageOf(stages []stage, asset intent.Asset, scopes map[string]string) (string, bool, error) {
	for i := range stages {
		wants, err := stages[i].wants(asset, scopes)
		if wants || err != nil {
			return stages[i].Name, wants, err
		}
	}
	return "", false, nil
}

// impacts are the scopes and the labels of an asset.
func impacts(asset intent.Asset) (scopes, labels map[string]string, err error) {
	scope, label := &intentpb.ImpactedScope{}, &intentpb.Labels{}
	if _, err := schema.Addon(asset, scope); err != nil {
		return nil, nil, err
	}
	_, err = schema.Addon(asset, label)
	return scope.Scopes, label.Labels, err
}

// wants reports whether an asset that impacts these scopes can belong to it.
func (s *stage) wants(asset intent.Asset, scopes map[string]string) (bool, error) {
	matches := len(s.scopes) == 0
	for _, value := range scopes {
		matches = matches || slices.Contains(s.scopes, value)
	}
	if !matches || s.filter == nil {
		return matches, nil
	}
	return s.filter.Match(asset)
}

// Policy says how its targets are selected from; in an emergency by the stages
// for that, if there are any.
func (c *Course) Policy(emergency bool) (p selection.Policy) {
	for _, s := range c.stagesFor(emergency) {
		s.Wants = func(t selection.Target) bool {
			if emergency {
				return t.Emergency == s.Name
			}
			return t.Stage == s.Name
		}
		p.Stages = append(p.Stages, s.Stage)
	}
	return p
}

// GoesBack names the stage by which an asset goes back. Not ok: none wants it, or
// there are no such stages.
func (c *Course) GoesBack(asset intent.Asset) (name string, ok bool, err error) {
	scopes, _, err := impacts(asset)
	if err != nil {
		return "", false, err
	}
	return stageOf(c.rollback, asset, scopes)
}

// Back says how its targets are selected from when they go back; without stages where
// the policy has none for that.
func (c *Course) Back() (p selection.Policy) {
	for _, s := range c.rollback {
		s.Wants = func(t selection.Target) bool { return t.Rollback == s.Name }
		p.Stages = append(p.Stages, s.Stage)
	}
	return p
}

// Target is an asset with what is known of it by itself: its type, its scopes and
// labels, and its stages.
func (c *Course) Target(asset intent.Asset) (t selection.Target, err error) {
	t = selection.Target{Asset: asset.ID, Type: asset.Payload.Type}
	if t.Scopes, t.Labels, err = impacts(asset); err != nil {
		return t, err
	}
	if t.Stage, _, err = stageOf(c.stages, asset, t.Scopes); err != nil {
		return t, err
	}
	if t.Emergency = t.Stage; len(c.emergency) > 0 {
		if t.Emergency, _, err = stageOf(c.emergency, asset, t.Scopes); err != nil {
			return t, err
		}
	}
	t.Rollback, _, err = stageOf(c.rollback, asset, t.Scopes)
	return t, err
}

// Pointer of the field that it sets for an asset, of a rollout that sets one.
// Invalid when the asset has not what the pointer names.
func (c *Course) Pointer(asset intent.Asset) (string, error) { return c.pointer.Of(asset) }
