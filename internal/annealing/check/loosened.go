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
func Loosened(prior, current *intentpb.Policy) []string {
	var findings []string
	say := func(format string, arguments ...any) { findings = append(findings, fmt.Sprintf(format, arguments...)) }
	for _, c := range prior.GetChecks() {
		at := slices.IndexFunc(current.GetChecks(), func(counterpart *intentpb.Check) bool { return counterpart.GetName() == c.GetName() })
		switch {
		case at < 0:
			say("the check %s (%s) is dropped", c.GetName(), KindOf(c))
		case !proto.Equal(c, current.GetChecks()[at]):
			say("the check %s (%s) is changed", c.GetName(), KindOf(c))
		}
	}
	for _, b := range prior.GetBudgets() {
		at := slices.IndexFunc(current.GetBudgets(), func(counterpart *intentpb.Budget) bool { return counterpart.GetScope() == b.GetScope() })
		if at < 0 {
			say("the budget of %s is dropped: at most %d pushes in flight", b.GetScope(), b.GetInFlight())
			continue
		}
		next := current.GetBudgets()[at]
		if next.GetInFlight() > b.GetInFlight() {
			say("the budget of %s grows from %d to %d pushes in flight", b.GetScope(), b.GetInFlight(), next.GetInFlight())
		}
		if b.GetUnhealthy() > 0 && (next.GetUnhealthy() == 0 || next.GetUnhealthy() > b.GetUnhealthy()) {
			say("more assets of %s may be unhealthy than %d", b.GetScope(), b.GetUnhealthy())
		}
	}
	for _, b := range prior.GetPlugins() {
		at := slices.IndexFunc(current.GetPlugins(), func(counterpart *intentpb.PluginBinding) bool { return counterpart.GetType() == b.GetType() })
		if b.GetAtOnce() > 0 && at >= 0 && (current.GetPlugins()[at].GetAtOnce() == 0 || current.GetPlugins()[at].GetAtOnce() > b.GetAtOnce()) {
			say("more pushes of %s may be under way than %d", b.GetType(), b.GetAtOnce())
		}
	}
	if prev, next := max(1, prior.GetTurndowns()), max(1, current.GetTurndowns()); next > prev {
		say("%d removals at once, in place of %d", next, prev)
	}
	if prev, next := max(1, prior.GetApproval().GetQuorum()), max(1, current.GetApproval().GetQuorum()); next < prev {
		say("a plan needs the approval of %d people, in place of %d", next, prev)
	}
	if longer(prior.GetApproval().GetExpires(), current.GetApproval().GetExpires()) {
		say("an approval counts for longer")
	}
	for _, name := range current.GetOverrides().GetAllow() {
		if !slices.Contains(prior.GetOverrides().GetAllow(), name) {
			say("the check %s may be overridden", name)
		}
	}
	if prev := prior.GetOverrides(); prev != nil && longer(prev.GetLongest(), current.GetOverrides().GetLongest()) {
		say("an override may be given for longer")
	}
	return append(findings, loosenedGuards(prior, current)...)
}

// loosenedGuards are those of candidates.
func loosenedGuards(prior, current *intentpb.Policy) []string {
	var findings []string
	if prev, next := prior.GetShrink(), current.GetShrink(); prev != nil {
		if next == nil || next.GetMaxRemovedPercent() > prev.GetMaxRemovedPercent() || next.GetMaxChangedPercent() > prev.GetMaxChangedPercent() ||
			next.GetFloor() > prev.GetFloor() || next.GetPeriod().AsDuration() < prev.GetPeriod().AsDuration() {
			findings = append(findings, "the guard against removing or changing too much at once lets more pass")
		}
	}
	for _, r := range prior.GetRules() {
		at := slices.IndexFunc(current.GetRules(), func(counterpart *intentpb.ValidationRule) bool { return counterpart.GetId() == r.GetId() })
		switch {
		case at < 0:
			findings = append(findings, fmt.Sprintf("the rule %s is dropped", r.GetId()))
		case !proto.Equal(r, current.GetRules()[at]):
			findings = append(findings, fmt.Sprintf("the rule %s is changed", r.GetId()))
		}
	}
	return findings
}

// longer: unset is as long as can be.
func longer(prev, next *durationpb.Duration) bool {
	return prev != nil && (next == nil || next.AsDuration() > prev.AsDuration())
}
