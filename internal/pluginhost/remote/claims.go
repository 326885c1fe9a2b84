package remote

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/pluginhost/plugin"
)

// Limits on what a plugin may say (S26).
const (
	maxName    = 256
	maxReason  = 4096
	maxPath    = 4096
	maxValue   = 8192
	maxBase    = 4096
	maxKey     = 512
	maxCurrent = 1 << 20
	maxChanges = 1000
	maxImpacts = 100
	maxTypes   = 1000
	// maxBatch bounds the answers of one call of Diff that are held together.
	maxBatch = 64 << 20
	// maxNeed is how many assets one question for content may name.
	maxNeed       = 100_000
	maxLongest    = 10 * time.Minute
	maxCadence    = 24 * time.Hour
	defaultEffect = time.Second
)

// CheckDescription turns what a plugin says of itself into a description.
func CheckDescription(response *pluginpb.DescribeResponse) (plugin.Description, error) {
	description := plugin.Description{Name: printable(response.Name, maxName), Version: printable(response.Version, maxName), Instance: printable(response.Instance, maxName)}
	refuse := func(format string, arguments ...any) (plugin.Description, error) {
		return plugin.Description{}, fault.New(fault.Invalid, "plugin %s %s describes itself wrongly: %s", description.Name, description.Version, fmt.Sprintf(format, arguments...)).
			WithHint("its authors can hold it to the protocol by \"lehr plugin test\"")
	}
	if len(response.Types) == 0 || len(response.Types) > maxTypes {
		return refuse("it serves %d types, 1 to %d are allowed", len(response.Types), maxTypes)
	}
	seen := map[string]bool{}
	for _, served := range response.Types {
		if !protoreflect.FullName(served.Type).IsValid() || seen[served.Type] {
			return refuse("%q is not a type's full name, or is named twice", printable(served.Type, maxName))
		}
		seen[served.Type] = true
		longest := served.LongestEffect.AsDuration()
		if served.LongestEffect == nil {
			longest = defaultEffect
		}
		if longest < 0 || longest > maxLongest || served.LongestEffect != nil && served.LongestEffect.CheckValid() != nil {
			return refuse("the longest effect of %s is %s, at most %s is allowed", served.Type, longest, maxLongest)
		}
		cadence := served.Cadence.AsDuration()
		if cadence < 0 || cadence > maxCadence || served.Cadence != nil && served.Cadence.CheckValid() != nil {
			return refuse("the cadence of %s is %s, at most %s is allowed", served.Type, cadence, maxCadence)
		}
		description.Types = append(description.Types, plugin.Served{Type: intent.TypeName(served.Type), Guarantee: guarantee(served.Guarantee), LongestEffect: longest, Cadence: cadence})
	}
	return description, nil
}

// guarantee takes what is not known for the weakest.
func guarantee(class pluginpb.GuaranteeClass) plugin.Guarantee {
	switch class {
	case pluginpb.GuaranteeClass_GUARANTEE_CLASS_FENCED:
		return plugin.Fenced
	case pluginpb.GuaranteeClass_GUARANTEE_CLASS_COMPARE_AND_SET:
		return plugin.CompareAndSet
	default:
		return plugin.Unguarded
	}
}

// CheckDifference fills in what a plugin says of one asset. What it may not
// say makes the difference unknown, with the reason (S11, S26): then the answer is refused.
// d.At is when the question was sent, and becomes when production began to be read. since
// and cadence say how old an answer may be: read since then, or, where that is zero, no
// longer before the question than the cadence.
func CheckDifference(diff *pluginpb.AssetDiff, d *intent.Difference, start time.Time, cadence time.Duration) (refused bool) {
	d.Reason = ""
	requestTime := d.At
	problem := checkAge(diff, d, start, cadence)
	if problem == "" {
		problem = checkState(diff, d)
	}
	if problem == "" {
		problem = checkOutcome(diff, d, requestTime)
	}
	if problem != "" {
		*d = intent.Difference{
			Asset: d.Asset, Incarnation: d.Incarnation, At: requestTime, Outcome: intent.Unknown,
			Reason: "the plugin's answer is refused: " + problem,
		}
	}
	return problem != ""
}

// checkAge sets when production was read. That a change is pending, and that nothing is
// known, is told now, whatever was read before.
func checkAge(diff *pluginpb.AssetDiff, d *intent.Difference, start time.Time, cadence time.Duration) (problem string) {
	age := diff.Age.AsDuration()
	switch {
	case diff.Age == nil, diff.GetPending() != nil, diff.GetUnknown() != nil:
		return ""
	case diff.Age.CheckValid() != nil || age < 0:
		return fmt.Sprintf("it was read %s after it was asked for, which cannot be", -age)
	case start.IsZero() && age > cadence:
		return fmt.Sprintf("it was read %s before it was asked for, and the plugin declares a cadence of %s", age, cadence)
	case !start.IsZero() && d.At.Add(-age).Before(start):
		return fmt.Sprintf("it was read %s before it was asked for, and at most %s is allowed here", age, max(0, d.At.Sub(start)))
	}
	d.At = d.At.Add(-age)
	return ""
}

func checkState(diff *pluginpb.AssetDiff, d *intent.Difference) (problem string) {
	switch {
	case len(diff.Base) > maxBase:
		return fmt.Sprintf("its base has %d bytes, at most %d are allowed", len(diff.Base), maxBase)
	case len(diff.ResourceKey) > maxKey || !isPrintable(diff.ResourceKey):
		return fmt.Sprintf("its resource key has %d bytes (at most %d) or is not printable", len(diff.ResourceKey), maxKey)
	case len(diff.Current) > maxCurrent:
		return fmt.Sprintf("its current state has %d bytes, at most %d are allowed", len(diff.Current), maxCurrent)
	case !isMessage(diff.Current):
		return "its current state is no protobuf message"
	case len(diff.Impacts) > maxImpacts:
		return fmt.Sprintf("it has %d impacts, at most %d are allowed", len(diff.Impacts), maxImpacts)
	}
	for _, impact := range diff.Impacts {
		if !isAmount(impact.Current) || !isAmount(impact.Target) || len(impact.Dimension) > maxName || !isPrintable(impact.Dimension) {
			return fmt.Sprintf("the impact %q is not two finite numbers of at least 0 with a short name", printable(impact.Dimension, maxName))
		}
		d.Impacts = append(d.Impacts, intent.Impact{Dimension: impact.Dimension, Current: impact.Current, Target: impact.Target})
	}
	d.Base, d.ResourceKey, d.Current = diff.Base, intent.ResourceKey(diff.ResourceKey), diff.Current
	d.Health = health(diff.Health)
	d.Unmanaged, problem = checkChanges(diff.Unmanaged)
	return problem
}

// checkOutcome takes over the outcome of a question asked then.
func checkOutcome(diff *pluginpb.AssetDiff, d *intent.Difference, requestTime time.Time) (problem string) {
	switch outcome := diff.Outcome.(type) {
	case *pluginpb.AssetDiff_InSync:
		d.Outcome = intent.InSync
		d.Outputs, d.OutputProblem = checkOutputs(diff.Outputs)
	case *pluginpb.AssetDiff_Unknown:
		d.Outcome, d.Reason = intent.Unknown, redactedWords(outcome.Unknown.GetReason(), maxReason)
		d.RetryAfter = askedPause(outcome.Unknown.GetRetryAfter())
		if d.Reason == "" {
			d.Reason = "the plugin cannot tell, and gives no reason"
		}
	case *pluginpb.AssetDiff_Differs:
		d.Outcome = intent.Differs
		d.Plan.Action = actions[outcome.Differs.GetAction()]
		d.Plan.Changes, problem = checkChanges(outcome.Differs.GetChanges())
		switch {
		case problem != "":
		case d.Plan.Action == "":
			problem = "it differs without saying by which action"
		case len(d.Plan.Changes) == 0 && d.Plan.Action != intent.ActionCreate && d.Plan.Action != intent.ActionDelete:
			problem = "it differs without saying in which field"
		}
	case *pluginpb.AssetDiff_Pending:
		problem = checkPending(outcome.Pending, d, requestTime)
	default:
		problem = "it says neither in sync, nor differs, nor pending, nor unknown"
	}
	return problem
}

// checkPending takes over what is pending. A time to come is that of a wrong clock, and
// counts as none.
func checkPending(pending *pluginpb.Pending, d *intent.Difference, requestTime time.Time) (problem string) {
	d.Outcome, d.Reason, d.PendingEnd = intent.Pending, redactedWords(pending.GetReason(), maxReason), redactedWords(pending.GetEnds(), maxReason)
	d.RetryAfter = askedPause(pending.GetRetryAfter())
	if d.Reason == "" {
		return "it says that a change is pending, and not which"
	}
	if pending.Since == nil {
		return ""
	}
	if pending.Since.CheckValid() != nil {
		return "it says that a change is pending since a time that is none"
	}
	if start := pending.Since.AsTime(); !start.After(requestTime) {
		d.PendingSince = start
	}
	return ""
}

var actions = map[pluginpb.Action]intent.Action{
	pluginpb.Action_ACTION_CREATE:  intent.ActionCreate,
	pluginpb.Action_ACTION_UPDATE:  intent.ActionUpdate,
	pluginpb.Action_ACTION_REPLACE: intent.ActionReplace,
	pluginpb.Action_ACTION_DELETE:  intent.ActionDelete,
}

// checkChanges takes paths and values whole or not at all, but as they may be
// shown: that is what the plan's digest covers, on both sides.
func checkChanges(changes []*pluginpb.FieldChange) ([]intent.FieldChange, string) {
	if len(changes) > maxChanges {
		return nil, fmt.Sprintf("it lists %d field changes, at most %d are allowed", len(changes), maxChanges)
	}
	if len(changes) == 0 {
		return nil, ""
	}
	checked := make([]intent.FieldChange, 0, len(changes))
	seen := make(map[string]bool, len(changes))
	for _, change := range changes {
		switch {
		case change.Path == "" || len(change.Path) > maxPath || !isPrintable(change.Path) || seen[change.Path]:
			return nil, fmt.Sprintf("the field path %q is empty, named twice, too long or not printable", printable(change.Path, maxName))
		case len(change.Current) > maxValue || len(change.Target) > maxValue:
			return nil, fmt.Sprintf("a value of field %s has more than %d bytes; plugins shorten what they show", change.Path, maxValue)
		}
		seen[change.Path] = true
		checked = append(checked, intent.FieldChange{
			Path: change.Path, Current: intent.Shown(change.Current), Target: intent.Shown(change.Target),
			Reason: redactedWords(change.Reason, maxReason), Destructive: change.Destructive, Writer: printable(change.Writer, maxName),
		})
	}
	return checked, ""
}

func health(reported *pluginpb.Health) intent.Health {
	health := intent.Health{State: intent.HealthUnknown, Reason: redactedWords(reported.GetReason(), maxReason), ObservedVersion: printable(reported.GetObservedVersion(), maxName)}
	switch reported.GetState() {
	case pluginpb.Health_STATE_HEALTHY:
		health.State = intent.Healthy
	case pluginpb.Health_STATE_UNHEALTHY:
		health.State = intent.Unhealthy
	}
	return health
}

// outcome turns what a plugin says of a push into its result.
func outcome(result *pluginpb.PushResult) plugin.PushResult {
	switch outcome := result.Outcome.(type) {
	case *pluginpb.PushResult_Pushed:
		return plugin.PushResult{Ending: plugin.Pushed}
	case *pluginpb.PushResult_Stale:
		return plugin.PushResult{Ending: plugin.Stale, Reason: redactedWords(outcome.Stale.GetReason(), maxReason)}
	case *pluginpb.PushResult_Stopped:
		return plugin.PushResult{Ending: plugin.Stopped, Reason: redactedWords(outcome.Stopped.GetReason(), maxReason)}
	case *pluginpb.PushResult_Failed:
		return plugin.PushResult{
			Ending: plugin.Failed, Reason: redactedWords(outcome.Failed.GetReason(), maxReason),
			Retryable: outcome.Failed.GetRetryable(), RetryAfter: askedPause(outcome.Failed.GetRetryAfter()), KnownToken: outcome.Failed.GetKnownToken(),
		}
	default:
		return plugin.PushResult{Ending: plugin.Failed, Reason: "the plugin ended the push without saying how"}
	}
}

// askedPause is how long a plugin asks for; 0, where that is no time to come.
func askedPause(pause *durationpb.Duration) time.Duration {
	if pause.CheckValid() != nil {
		return 0
	}
	return max(0, pause.AsDuration())
}

// weight is about how much of an answer is held.
func weight(diff *pluginpb.AssetDiff) int {
	bytes := len(diff.Current) + len(diff.Base)
	for _, changes := range [][]*pluginpb.FieldChange{diff.Unmanaged, diff.GetDiffers().GetChanges()} {
		for _, change := range changes {
			bytes += len(change.GetPath()) + len(change.GetCurrent()) + len(change.GetTarget()) + len(change.GetReason()) + len(change.GetWriter())
		}
	}
	return bytes
}

// isAmount reports whether a number can be that of a capacity.
func isAmount(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }

// isMessage reports whether the bytes can be a protobuf message of any type.
func isMessage(b []byte) bool {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

func isPrintable(s string) bool { return intent.Shown(s) == s }

// redactedWords is what a plugin says in its own words: what looks like a secret is no part of it
// (S13).
func redactedWords(s string, limit int) string {
	const mostLooked = 64 << 10
	return printable(secrecy.Redact(s[:min(len(s), mostLooked)]), limit)
}

// printable is text as it may be shown, and not too long.
func printable(s string, limit int) string {
	if len(s) <= limit {
		return intent.Shown(s)
	}
	return intent.Shown(strings.ToValidUTF8(s[:limit], "")) + "…"
}
