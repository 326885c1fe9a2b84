package check

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Overridable are the built-in checks that a person may override where policy
// lets them: the dependency solver's, which judge by what was declared of other
// assets, and a declaration may be wrong. A policy's own checks are so too.
func Overridable() []string { return []string{"order", "capacity", "version"} }

// ways are what to do instead of overriding what cannot be.
var ways = map[string]string{
	"stop":         "lehr resume --reason WHY ends it",
	"mode":         "lehr.yaml says the mode, and is reviewed",
	"hold":         "lehr unhold ASSET --reason WHY ends it",
	"verification": "it ends by itself: lehr why ASSET says when at the latest",
	"turndown":     "nothing is removed that another asset depends on: take the dependency out of the sources first",
	"output":       "nobody knows the value that is missing: lehr document set outputs /ASSET/NAME=VALUE tells it, where no plugin does",
	"approval":     "lehr approve gives one, and whoever rejected the plan, or an operator, takes that back by lehr reject --withdraw",
	"rejected":     "whoever rejected the plan, or an operator, takes it back by lehr reject --withdraw",
	"retry":        "it ends by itself within minutes, and at once with a newer incarnation",
	"budget":       "lehr.yaml says how many pushes may be under way",
	"claim":        "a resource belongs to one asset: let the other one go, or name another resource",
	"lease":        "one server acts for a partition at a time",
	"fencing":      "a target refuses whoever lost the lease",
	"journal":      "an asset has one push at a time: wait for its end",
}

// CheckOverride refuses a check that cannot be overridden, or that policy does
// not let people override. Configured are the names of the policy's own checks.
func CheckOverride(name string, allowed []string, configured ...string) error {
	way, ok := ways[name]
	switch {
	case slices.Contains(allowed, name) && !ok:
		return nil
	case slices.Contains(Overridable(), name) || slices.Contains(configured, name) && !ok:
		return fault.New(fault.Denied, "the check %s cannot be overridden here: the partition's policy does not allow it", name).
			WithHint("lehr.yaml may, under \"checks: {overrides: {allow: [%s]}}\", for what is enforced after that; what only waits for a dependency that is wrong goes on when the sources drop it and the plan is approved", name)
	case ok:
		return fault.New(fault.Denied, "%s can never be overridden", name).WithHint("%s", way)
	default:
		return fault.New(fault.Invalid, "there is no check %q", name).WithHint("those that can be overridden are %s", strings.Join(slices.Concat(Overridable(), configured), ", "))
	}
}

// overridden lets a verdict that is in the way pass, where a person has
// overridden the check and policy allows that. Admission asks for the override
// again.
func (f Facts) overridden(v intent.Verdict) intent.Verdict {
	if v.Answer == intent.Pass {
		return v
	}
	for _, o := range f.Overrides {
		if o.Check != v.Check || !o.InForce(f.Now) {
			continue
		}
		if CheckOverride(v.Check, f.Allowed) == nil {
			return intent.Verdict{Check: v.Check, Answer: intent.Pass, Until: o.Until, Override: &o}
		}
		v.Waiting.Reason += fmt.Sprintf(". The override by %s does not count: the policy that the asset was last enforced under, or that of its target, does not allow it", o.By.Name)
	}
	return v
}

// Overridden names the checks that pass by an override.
func (d Decision) Overridden() []string {
	var names []string
	for _, v := range d.Verdicts {
		if v.Override != nil && !slices.Contains(names, v.Check) {
			names = append(names, v.Check)
		}
	}
	return names
}
