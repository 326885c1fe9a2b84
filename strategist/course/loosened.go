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
func Loosened(before, after *intentpb.Policy, name string) []string {
	was, is := named(before.GetRollouts(), name), named(after.GetRollouts(), name)
	if was == nil || is == nil {
		return nil
	}
	var found []string
	say := func(when bool, format string, arguments ...any) {
		if when {
			found = append(found, fmt.Sprintf(format, arguments...))
		}
	}
	say(!proto.Equal(was.Field, is.Field), "it changes something else")
	say(was.OnBad == intentpb.Rollout_ON_BAD_ROLLBACK && is.OnBad == intentpb.Rollout_ON_BAD_STOP, "what is bad is not rolled back")
	say(was.Newer == intentpb.Rollout_NEWER_IS_HELD && is.Newer != was.Newer, "it waits for no person to start it")
	say(Patience(is) > Patience(was), "it is patient for longer")
	for _, before := range was.After {
		say(!slices.Contains(is.After, before), "it comes no longer after the rollout %s", before)
	}
	for _, validation := range was.Validate {
		one, other := named(before.GetValidations(), validation), named(after.GetValidations(), validation)
		dropped := !slices.Contains(is.Validate, validation)
		say(dropped, "the validation %s is dropped", validation)
		say(!dropped && !proto.Equal(one, other), "the validation %s is changed", validation)
	}
	return append(found, loosenedStages(was.Stages, is.Stages)...)
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

func loosenedStages(before, after []*intentpb.RolloutStage) (found []string) {
	if !slices.EqualFunc(before, after, func(a, b *intentpb.RolloutStage) bool { return a.Name == b.Name }) {
		return []string{"it has other stages"}
	}
	for i, was := range before {
		if less := loosenedStage(was, after[i]); len(less) > 0 {
			found = append(found, fmt.Sprintf("the stage %s %s", was.Name, strings.Join(less, ", ")))
		}
	}
	return found
}

func loosenedStage(was, is *intentpb.RolloutStage) (found []string) {
	for _, part := range []struct {
		less bool
		says string
	}{
		{longer(was.Soak, is.Soak), "soaks for less time"},
		{longer(was.Delay, is.Delay), "begins earlier"},
		{more(was.Count, is.Count) || more(was.Percent, is.Percent) || more(was.Most, is.Most) || is.Factor > was.Factor && (was.Count > 0 || was.Percent > 0), "lets more go on at a time"},
		{max(1, is.Parallel) > max(1, was.Parallel), "has more groups under way"},
		{!sameMembers(was, is), "has other assets or groups"},
		// A window where there was none only makes it wait.
		{was.Window != nil && !proto.Equal(was.Window, is.Window), "has another window, or none"},
	} {
		if part.less {
			found = append(found, part.says)
		}
	}
	return found
}

// more: 0 has no bound.
func more[T uint32 | float64](was, is T) bool { return was > 0 && (is == 0 || is > was) }

func longer(a, b *durationpb.Duration) bool { return a.AsDuration() > b.AsDuration() }

func sameMembers(a, b *intentpb.RolloutStage) bool {
	members := func(s *intentpb.RolloutStage) proto.Message {
		return &intentpb.RolloutStage{Scopes: s.Scopes, Where: s.Where, By: s.By, Order: s.Order, Plugin: s.Plugin}
	}
	return proto.Equal(members(a), members(b))
}
