package check

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// Loosened says what a policy asks for no longer, or less of, than the one
// before it: what a person who lets the change through should know. What was
// enforced under the one before is pushed under both, until it is in sync
// (S23).
func Loosened(before, after *intentpb.Policy) []string {
	var found []string
	say := func(format string, arguments ...any) { found = append(found, fmt.Sprintf(format, arguments...)) }
	for _, c := range before.GetChecks() {
		at := slices.IndexFunc(after.GetChecks(), func(other *intentpb.Check) bool { return other.GetName() == c.GetName() })
		switch {
		case at < 0:
			say("the check %s (%s) is dropped", c.GetName(), KindOf(c))
		case !proto.Equal(c, after.GetChecks()[at]):
			say("the check %s (%s) is changed", c.GetName(), KindOf(c))
		}
	}
	for _, b := range before.GetBudgets() {
		at := slices.IndexFunc(after.GetBudgets(), func(other *intentpb.Budget) bool { return other.GetScope() == b.GetScope() })
		if at < 0 {
			say("the budget of %s is dropped: at most %d pushes in flight", b.GetScope(), b.GetInFlight())
			continue
		}
		is := after.GetBudgets()[at]
		if is.GetInFlight() > b.GetInFlight() {
			say("the budget of %s grows from %d to %d pushes in flight", b.GetScope(), b.GetInFlight(), is.GetInFlight())
		}
		if b.GetUnhealthy() > 0 && (is.GetUnhealthy() == 0 || is.GetUnhealthy() > b.GetUnhealthy()) {
			say("more assets of %s may be unhealthy than %d", b.GetScope(), b.GetUnhealthy())
		}
	}
	for _, b := range before.GetPlugins() {
		at := slices.IndexFunc(after.GetPlugins(), func(other *intentpb.PluginBinding) bool { return other.GetType() == b.GetType() })
		if b.GetAtOnce() > 0 && at >= 0 && (after.GetPlugins()[at].GetAtOnce() == 0 || after.GetPlugins()[at].GetAtOnce() > b.GetAtOnce()) {
			say("more pushes of %s may be under way than %d", b.GetType(), b.GetAtOnce())
		}
	}
	if was, is := max(1, before.GetTurndowns()), max(1, after.GetTurndowns()); is > was {
		say("%d removals at once, in place of %d", is, was)
	}
	if was, is := max(1, before.GetApproval().GetQuorum()), max(1, after.GetApproval().GetQuorum()); is < was {
		say("a plan needs the approval of %d people, in place of %d", is, was)
	}
	if longer(before.GetApproval().GetExpires(), after.GetApproval().GetExpires()) {
		say("an approval counts for longer")
	}
	for _, name := range after.GetOverrides().GetAllow() {
		if !slices.Contains(before.GetOverrides().GetAllow(), name) {
			say("the check %s may be overridden", name)
		}
	}
	if was := before.GetOverrides(); was != nil && longer(was.GetLongest(), after.GetOverrides().GetLongest()) {
		say("an override may be given for longer")
	}
	return append(found, loosenedGuards(before, after)...)
}

// loosenedGuards are those of candidates.
func loosenedGuards(before, after *intentpb.Policy) []string {
	var found []string
	if was, is := before.GetShrink(), after.GetShrink(); was != nil {
		if is == nil || is.GetMaxRemovedPercent() > was.GetMaxRemovedPercent() || is.GetMaxChangedPercent() > was.GetMaxChangedPercent() ||
			is.GetFloor() > was.GetFloor() || is.GetPeriod().AsDuration() < was.GetPeriod().AsDuration() {
			found = append(found, "the guard against removing or changing too much at once lets more pass")
		}
	}
	for _, r := range before.GetRules() {
		at := slices.IndexFunc(after.GetRules(), func(other *intentpb.ValidationRule) bool { return other.GetId() == r.GetId() })
		switch {
		case at < 0:
			found = append(found, fmt.Sprintf("the rule %s is dropped", r.GetId()))
		case !proto.Equal(r, after.GetRules()[at]):
			found = append(found, fmt.Sprintf("the rule %s is changed", r.GetId()))
		}
	}
	return found
}

// longer: unset is as long as can be.
func longer(before, after *durationpb.Duration) bool {
	return before != nil && (after == nil || after.AsDuration() > before.AsDuration())
}
