package enforcer

import (
	"context"
	"errors"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// errNoState: an expression over the state that is there has nothing to look at.
var errNoState = errors.New("its plugin does not show the state that is there")

// healthJudge is who judges the health of an asset, as far as its content was read.
type healthJudge uint8

const (
	// judgeUnknown: its content was not read, so it may have a Health addon.
	judgeUnknown healthJudge = iota
	judgePlugin
	// judgeAddon: its Health addon does, of each state that its plugin reads.
	judgeAddon
)

// storedJudge is who judged the health that an earlier process reported. A report of other
// content than was enforced last, or of what is asked after a push, does not tell.
func storedJudge(report intent.Report, enforcedAs intent.Digest) healthJudge {
	switch {
	case report.State != intent.StateInSync || report.Effective != enforcedAs || report.Health.IsAfterPush():
		return judgeUnknown
	case report.Health.IsByAddon():
		return judgeAddon
	}
	return judgePlugin
}

// judgeHealth has the Health addon of the content say how the asset is, where something is
// there or should be.
func (r *reader) judgeHealth(ctx context.Context, g *observation, content intent.Asset) error {
	addon := &intentpb.Health{}
	hasAddon, err := schema.Addon(content, addon)
	if err != nil {
		return err
	}
	g.judge = judgePlugin
	if !hasAddon {
		return nil
	}
	g.judge = judgeAddon
	d := &g.difference
	if g.turndown || len(d.Current) == 0 && d.Plan.Action == intent.ActionCreate {
		return nil // Nothing is there, or is to stay.
	}
	d.Health = r.healthByAddon(ctx, content, addon.Expression, *d)
	return nil
}

// healthByAddon is the worse of what the plugin tells and what the expression says of the
// state that is there.
func (r *reader) healthByAddon(ctx context.Context, content intent.Asset, expression string, d intent.Difference) intent.Health {
	told := d.Health
	judged := intent.Health{State: intent.HealthUnknown, ObservedVersion: told.ObservedVersion, Source: intent.SourceAddon}
	problem, err := r.healthProblem(ctx, content, expression, d)
	switch {
	case told.State == intent.Unhealthy:
		judged.State, judged.Reason = intent.Unhealthy, "its plugin says: "+told.Reason
		if err == nil && problem != "" {
			judged.Reason = problem + "; " + judged.Reason
		}
	case err != nil:
		judged.Reason = "it cannot be computed: " + err.Error()
	case problem != "":
		judged.State, judged.Reason = intent.Unhealthy, problem
	case told.State != intent.Healthy && told.Reason != "":
		judged.Reason = "its plugin does not know: " + told.Reason
	default:
		judged.State, judged.Reason = intent.Healthy, told.Reason
	}
	judged.Reason = strings.TrimSuffix(judged.Reason, ": ")
	return judged
}

// healthProblem is what the expression says is wrong; empty: nothing.
func (r *reader) healthProblem(ctx context.Context, content intent.Asset, expression string, d intent.Difference) (string, error) {
	if len(d.Current) == 0 {
		return "", errNoState
	}
	rules, err := r.rules(ctx, d.Incarnation)
	if err != nil {
		return "", err
	}
	compiled, err := rules.HealthRule(expression, content.Payload.Type)
	if err != nil {
		return "", err
	}
	return compiled.Problem(presentAsset(content, d))
}
