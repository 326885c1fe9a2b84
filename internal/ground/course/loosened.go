package course

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// Loosened says what a policy asks of a rollout of the one before it no longer, or
// less of. The run that brings what came with it waits for a person (S23). Of a
// change of which that cannot be told it says that something is changed. A rollout
// that only one of them has is not loosened: what it keeps stays where it is.
func Loosened(prior, current *intentpb.Policy, name string) []string {
	prev, next := named(prior.GetRollouts(), name), named(current.GetRollouts(), name)
	if prev == nil || next == nil {
		return nil
	}
	var findings []string
	say := func(applies bool, format string, arguments ...any) {
		if applies {
			findings = append(findings, fmt.Sprintf(format, arguments...))
		}
	}
	say(!proto.Equal(prev.Field, next.Field), "it changes something else")
	say(prev.OnBad == intentpb.Rollout_ON_BAD_ROLLBACK && next.OnBad == intentpb.Rollout_ON_BAD_STOP, "what is bad is not rolled back")
	say(prev.Newer == intentpb.Rollout_NEWER_IS_HELD && next.Newer != prev.Newer, "it waits for no person to start it")
	say(Patience(next) > Patience(prev), "it is patient for longer")
	for _, prior := range prev.After {
		say(!slices.Contains(next.After, prior), "it comes no longer after the rollout %s", prior)
	}
	for _, validation := range prev.Validate {
		one, counterpart := named(prior.GetValidations(), validation), named(current.GetValidations(), validation)
		dropped := !slices.Contains(next.Validate, validation)
		say(dropped, "the validation %s is dropped", validation)
		say(!dropped && !proto.Equal(one, counterpart), "the validation %s is changed", validation)
	}
	return append(findings, loosenedStages(prev.Stages, next.Stages)...)
}

// Patience of a rollout, also where it does not say: how long an asset may be
// unhealthy, or not get there, before that is bad.
func Patience(r *intentpb.Rollout) time.Duration {
	if r.GetPatience() == nil {
		return 10 * time.Minute
	}
	return r.Patience.AsDuration()
}

func named[T interface{ GetName() string }](list []T, name string) (found T) {
	if at := slices.IndexFunc(list, func(one T) bool { return one.GetName() == name }); at >= 0 {
		return list[at]
	}
	return found
}

func loosenedStages(prior, current []*intentpb.RolloutStage) (findings []string) {
	if !slices.EqualFunc(prior, current, func(a, b *intentpb.RolloutStage) bool { return a.Name == b.Name }) {
		return []string{"it has other stages"}
	}
	for i, prev := range prior {
		if less := loosenedStage(prev, current[i]); len(less) > 0 {
			findings = append(findings, fmt.Sprintf("the stage %s %s", prev.Name, strings.Join(less, ", ")))
		}
	}
	return findings
}

func loosenedStage(prev, next *intentpb.RolloutStage) (findings []string) {
	for _, part := range []struct {
		less bool
		says string
	}{
		{longer(prev.Soak, next.Soak), "soaks for less time"},
		{longer(prev.Delay, next.Delay), "begins earlier"},
		{more(prev.Count, next.Count) || more(prev.Percent, next.Percent) || more(prev.Most, next.Most) || next.Factor > prev.Factor && (prev.Count > 0 || prev.Percent > 0), "lets more go on at a time"},
		{max(1, next.Parallel) > max(1, prev.Parallel), "has more groups under way"},
		{!sameMembers(prev, next), "has other assets or groups"},
		// A window where there was none only makes it wait.
		{prev.Window != nil && !proto.Equal(prev.Window, next.Window), "has another window, or none"},
		{asksLess(prev.Approval, next.Approval), "asks fewer people, or others, to approve it"},
	} {
		if part.less {
			findings = append(findings, part.says)
		}
	}
	return findings
}

// asksLess reports whether fewer people, others, or approvals that last longer let a stage begin.
func asksLess(prev, next *intentpb.Judgement) bool {
	if prev == nil || next == nil {
		return prev != nil
	}
	lasts := prev.Expires != nil && (next.Expires == nil || longer(next.Expires, prev.Expires))
	return max(1, next.Quorum) < max(1, prev.Quorum) || lasts || !slices.Equal(prev.Roles, next.Roles)
}

// more: 0 has no bound.
func more[T uint32 | float64](prev, next T) bool { return prev > 0 && (next == 0 || next > prev) }

func longer(a, b *durationpb.Duration) bool { return a.AsDuration() > b.AsDuration() }

func sameMembers(a, b *intentpb.RolloutStage) bool {
	members := func(s *intentpb.RolloutStage) proto.Message {
		return &intentpb.RolloutStage{Scopes: s.Scopes, Where: s.Where, By: s.By, Order: s.Order, Plugin: s.Plugin}
	}
	return proto.Equal(members(a), members(b))
}
