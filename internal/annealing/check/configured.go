package check

import (
	"errors"
	"fmt"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// Kinds of checks that a policy may configure, in the words of lehr.yaml's
// overrides.
const (
	KindMinimumAge = "min_age"
	KindDenylist   = "denylist"
	KindCondition  = "condition"
	KindCalendar   = "calendar"
	KindRate       = "rate"
	KindPartition  = "partition"
	KindTrain      = "train"
	KindQuery      = "query"
	KindAlerts     = "alerts"
	KindPeak       = "peak"
	KindProtection = "protection"
)

// Configured is a check of a policy, ready to judge. It is safe for concurrent
// use, and assets share it.
type Configured struct {
	Name, Kind string
	// NeedsContent and NeedsOrigin say which facts it looks at.
	NeedsContent, NeedsOrigin bool
	// Rate is set for a rate limit.
	// Partition is the other one that it asks about, if any.
	Partition intent.PartitionID
	// Environment whose trains it asks about; zero: none.
	Environment Environment
	Rate        *intentpb.Rate
	// Question that it asks outside; nil: none. Its answer is a fact.
	Question *Question
	// Protection is how it asks of each push by itself; nil: it does not.
	Protection *Protection
	// Sized says how much of what it looks at the asset serves; nil: it does not.
	Sized *Sized
	// Rollbacks: it holds what goes back, too.
	Rollbacks bool
	labels    labels
	judge     func(Facts) intent.Verdict
}

// Required is a check that a push of the asset needs.
type Required struct {
	*Configured
	// Loosened: only the policy that the asset was enforced under last asks for
	// it so; the target's does not any more. An approval of the plan lets it go.
	Loosened bool
	// Common rule that asks for it; nil: a policy of the partition does.
	Common *Common
}

// Origin says where the target comes from. All but the incarnation's id is set
// where a check looks at it.
type Origin struct {
	Incarnation intent.IncarnationID
	// Published is when the target incarnation was.
	Published time.Time
	// Since is the incarnation in which the asset's content became what it is
	// at its target, Appeared when that was published, and Sources what it was
	// built from. Lost says why that is not known.
	Since    intent.IncarnationID
	Appeared time.Time
	Sources  []intent.SourceRevision
	Lost     error
}

// Configure makes a check ready, its expressions against the types of the
// target. One that cannot be made so answers that it is broken, always (S11).
func Configure(c *intentpb.Check, types *rule.Environment) *Configured {
	configured := &Configured{Name: c.GetName(), Kind: KindOf(c), Rollbacks: HoldsRollbacks(c)}
	var err error
	switch kind := c.GetKind().(type) {
	case *intentpb.Check_MinAge:
		configured.minimumAge(kind.MinAge)
	case *intentpb.Check_Deny:
		err = configured.denylist(kind.Deny, subjectType(c, types), types)
	case *intentpb.Check_Condition:
		err = configured.condition(kind.Condition, subjectType(c, types), types)
	case *intentpb.Check_Calendar:
		err = configured.calendar(kind.Calendar)
	case *intentpb.Check_Rate:
		configured.rate(kind.Rate)
	case *intentpb.Check_Partition:
		configured.partition(kind.Partition)
	case *intentpb.Check_Train:
		configured.train(kind.Train)
	case *intentpb.Check_Query:
		err = configured.metric(kind.Query, subjectType(c, types), types)
	case *intentpb.Check_Alerts:
		err = configured.alerts(kind.Alerts, subjectType(c, types), types)
	case *intentpb.Check_Peak:
		err = configured.peak(kind.Peak, subjectType(c, types), types)
	case *intentpb.Check_Protection:
		configured.protection(kind.Protection)
	default:
		err = errors.New("this version of Lehr does not know its kind")
	}
	if err != nil {
		configured.judge = func(Facts) intent.Verdict { return configured.broken(err) }
	}
	return configured
}

// HoldsRollbacks reports whether a check of policy holds what goes back, too: what must
// end is not to wait for an hour that opens, or for the alert that it ends.
func HoldsRollbacks(c *intentpb.Check) bool { return c.GetRollbacks() || c.GetDeny() != nil }

// subjectType is the type that every asset has which the check is about; empty: any.
func subjectType(c *intentpb.Check, types *rule.Environment) intent.TypeName {
	if c.GetWhere() == "" {
		return ""
	}
	filter, err := types.Filter(c.GetWhere())
	if err != nil {
		return ""
	}
	return filter.Narrow().Type
}

// KindOf a check, as Configured has it.
func KindOf(c *intentpb.Check) string {
	switch c.GetKind().(type) {
	case *intentpb.Check_MinAge:
		return KindMinimumAge
	case *intentpb.Check_Deny:
		return KindDenylist
	case *intentpb.Check_Condition:
		return KindCondition
	case *intentpb.Check_Calendar:
		return KindCalendar
	case *intentpb.Check_Rate:
		return KindRate
	case *intentpb.Check_Partition:
		return KindPartition
	case *intentpb.Check_Train:
		return KindTrain
	case *intentpb.Check_Query:
		return KindQuery
	case *intentpb.Check_Alerts:
		return KindAlerts
	case *intentpb.Check_Peak:
		return KindPeak
	case *intentpb.Check_Protection:
		return KindProtection
	default:
		return ""
	}
}

func (c *Configured) passes(end time.Time) intent.Verdict { return intent.Passed(c.Name, end) }

// waits says in plain words why not now; until is when it ends by itself, if
// that is known.
func (c *Configured) waits(kind intent.WaitingKind, end time.Time, format string, arguments ...any) intent.Verdict {
	return intent.Waits(c.Name, intent.WaitingOn{
		Kind: kind, Check: c.Name, Until: end, Reason: fmt.Sprintf("check %s: "+format, append([]any{c.Name}, arguments...)...),
	})
}

func (c *Configured) broken(err error) intent.Verdict {
	v := intent.IsBroken(c.Name, fmt.Errorf("check %s cannot answer: %w", c.Name, err))
	v.Waiting.Check = c.Name
	return v
}

// configured is the verdict of a check that policy asks for. A loosened one is
// let go by an approval of the plan, as a loosened edge is. One that policy
// dropped and that cannot answer, or could only after the push, is no trap
// either, where a plan needs an approval in any case: there is nothing to wait for.
func (f Facts) configured(c Required) intent.Verdict {
	v := f.holds(c)
	if c.Common != nil {
		v = c.common(v)
	}
	if v.Answer == intent.Pass || !f.Back || c.Rollbacks {
		return v
	}
	return intent.Verdict{Check: c.Name, Answer: intent.Pass, PassedOver: true, Fact: "passed over, for it goes back: " + v.Waiting.Reason}
}

func (f Facts) holds(c Required) intent.Verdict {
	v, endless := f.verdictOf(c)
	if v.Answer == intent.Pass || !c.Loosened {
		return v
	}
	if f.letsGo() || endless && f.Approved {
		return c.passes(f.ApprovedUntil)
	}
	v.Waiting.Loosened = true
	v.Waiting.Reason += " (dropped from the policy, or changed there, but last enforced with it)"
	if f.loosens() || endless {
		v.Waiting.Approve = true
		v.Waiting.Reason += f.letGo()
	}
	return v
}

// verdictOf is the verdict of a check before anybody let it go; endless: nothing but that ends
// it, if it does not pass.
func (f Facts) verdictOf(c Required) (v intent.Verdict, endless bool) {
	v = c.judge(f)
	if c.Loosened && v.Answer == intent.Pass && c.Protection != nil && c.Protection.After != nil {
		return c.waits(intent.WaitProtection, time.Time{}, "it was to be asked after a push, and would not be, or not so, after this one"), true
	}
	return v, v.Answer == intent.Broken
}

// letGo says how what is loosened is let go.
func (f Facts) letGo() string {
	text := fmt.Sprintf(". \"lehr approve %s --plan %s --reason WHY\" lets it go all the same", f.Asset, f.reading())
	if len(f.Consent.Approved) > 0 || len(f.Consent.Authors) > 0 || f.Consent.Need > 1 {
		text += " (" + f.Consent.Words() + ")"
	}
	return text
}

// AllowedBy lists which checks a policy lets people override: the solver's, and
// its own by name or kind.
func AllowedBy(policy *intentpb.Policy) []string {
	var names []string
	for _, name := range Overridable() {
		if Allows(policy, name, "") {
			names = append(names, name)
		}
	}
	for _, c := range policy.GetChecks() {
		if Allows(policy, c.GetName(), KindOf(c)) {
			names = append(names, c.GetName())
		}
	}
	return names
}

// Allows reports whether a policy lets people override a check of that name
// and kind.
func Allows(policy *intentpb.Policy, name, kind string) bool {
	allow := policy.GetOverrides().GetAllow()
	return slices.Contains(allow, name) || kind != "" && slices.Contains(allow, kind)
}

// Ends is when the first answer of a configured check may be another by
// itself; zero: when something changes.
func (d Decision) Ends() time.Time {
	var first time.Time
	for _, v := range d.Verdicts[min(len(Rules()), len(d.Verdicts)):] {
		end := v.Until
		if v.Answer != intent.Pass {
			end = v.Waiting.Until
		}
		if v.Override == nil && !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
}

// instant writes a moment for people.
func instant(at time.Time) string { return at.UTC().Format(time.RFC3339) }
