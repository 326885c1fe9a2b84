package serve

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

// maxText is how much of a reason is sent.
const maxText = 4096

var actions = map[Action]pluginpb.Action{
	ActionCreate:  pluginpb.Action_ACTION_CREATE,
	ActionUpdate:  pluginpb.Action_ACTION_UPDATE,
	ActionReplace: pluginpb.Action_ACTION_REPLACE,
	ActionDelete:  pluginpb.Action_ACTION_DELETE,
}

// encodeDifference encodes a difference that was asked for then.
func encodeDifference(asset string, d Difference, requestTime time.Time) *pluginpb.AssetDiff {
	if !utf8.ValidString(d.Base) || !utf8.ValidString(string(d.ResourceKey)) {
		d = unknown(fmt.Errorf("base %q or resource key %q is not text: a defect of the plugin", d.Base, d.ResourceKey))
	}
	if secret.IsAnyKnown() && (holdsSecret(d.Base) || holdsSecret(string(d.ResourceKey)) || holdsSecret(string(d.Current))) {
		d = unknown(errors.New("the base, the resource key or the state of the asset holds a secret, and is not told: a defect of the plugin"))
	}
	diff := &pluginpb.AssetDiff{
		Asset:       asset,
		Base:        d.Base,
		ResourceKey: string(d.ResourceKey),
		Current:     d.Current,
		Health:      encodeHealth(d),
		Unmanaged:   encodeChanges(d.Unmanaged),
	}
	if !d.At.IsZero() {
		diff.Age = pauseOf(requestTime.Sub(d.At))
	}
	for _, impact := range d.Impacts {
		diff.Impacts = append(diff.Impacts, &pluginpb.Impact{Dimension: text(impact.Dimension), Current: impact.Current, Target: impact.Target})
	}
	switch d.Outcome {
	case InSync:
		diff.Outcome = inSync
		diff.Outputs = tellOutputs(d.Outputs)
	case Differs:
		diff.Outcome = &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{
			Action:  actions[d.Plan.Action],
			Changes: encodeChanges(d.Plan.Changes),
		}}
	case Pending:
		diff.Outcome = &pluginpb.AssetDiff_Pending{Pending: encodePending(d)}
	default:
		diff.Outcome = &pluginpb.AssetDiff_Unknown{Unknown: &pluginpb.Unknown{Reason: text(d.Reason), RetryAfter: pauseOf(d.RetryAfter)}}
	}
	return diff
}

func encodePending(d Difference) *pluginpb.Pending {
	pending := &pluginpb.Pending{Reason: text(d.Reason), Ends: text(d.PendingEnd), RetryAfter: pauseOf(d.RetryAfter)}
	if !d.PendingSince.IsZero() {
		pending.Since = timestamppb.New(d.PendingSince)
	}
	return pending
}

// pauseOf is nil for none.
func pauseOf(pause time.Duration) *durationpb.Duration {
	if pause <= 0 {
		return nil
	}
	return durationpb.New(pause)
}

var inSync = &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}

func encodeHealth(d Difference) *pluginpb.Health {
	health := &pluginpb.Health{Reason: text(d.Health.Reason), ObservedVersion: text(d.Health.ObservedVersion)}
	switch d.Health.State {
	case Healthy:
		health.State = pluginpb.Health_STATE_HEALTHY
	case Unhealthy:
		health.State = pluginpb.Health_STATE_UNHEALTHY
	default:
		health.State = pluginpb.Health_STATE_UNKNOWN
	}
	return health
}

func encodeChanges(changes []FieldChange) []*pluginpb.FieldChange {
	var encoded []*pluginpb.FieldChange
	for _, change := range changes {
		encoded = append(encoded, &pluginpb.FieldChange{
			Path:        intent.Shown(secret.Redact(change.Path)),
			Current:     intent.Shown(secret.Redact(change.Current)),
			Target:      intent.Shown(secret.Redact(change.Target)),
			Reason:      text(change.Reason),
			Destructive: change.Destructive,
			Writer:      text(change.Writer),
		})
	}
	return encoded
}

// text makes what people read printable, without secrets, and not too long.
func text(s string) string {
	s = intent.Shown(secret.Redact(s))
	if len(s) > maxText {
		s = s[:maxText-len("…")]
		for len(s) > 0 && s[len(s)-1]&0xC0 == 0x80 {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return s
}

// mostProgressLines of one text are sent: Lehr keeps no more.
const mostProgressLines = 200

// progressText makes each line of a text what text makes of one. Secrets are hidden first, for they may have
// several lines.
func progressText(words string) string {
	lines := strings.Split(strings.TrimRight(secret.Redact(words), "\r\n"), "\n")
	lines = lines[max(0, len(lines)-mostProgressLines):]
	for i, line := range lines {
		lines[i] = text(strings.TrimRight(line, "\r"))
	}
	return strings.Join(lines, "\n")
}
