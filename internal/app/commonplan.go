package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
)

// mostRefusedShown and mostWaitingShown of a partition are told one by one.
const mostRefusedShown, mostWaitingShown = 20, 5

// planPolicy says what another common policy would hold and refuse, of what is served and seen
// now. It asks no plugin and nothing outside, and changes nothing.
func (a *App) planPolicy(ctx context.Context, file string, text []byte) (*apipb.PlanCommonPolicyResponse, error) {
	common, findings := prodspec.ParsePolicy(file, text)
	response := &apipb.PlanCommonPolicyResponse{}
	if len(findings) > 0 {
		for _, f := range findings {
			response.Findings = append(response.Findings, server.ToFinding(f))
		}
		return response, nil
	}
	stored, err := a.store.CommonPolicy(ctx)
	if err != nil {
		return nil, err
	}
	current, err := commonpolicy.Decode(stored.Body)
	if err != nil {
		return nil, err
	}
	partitions, err := a.store.ListPartitions(ctx)
	if err != nil {
		return nil, err
	}
	response.Registered = int64(len(partitions))
	for _, p := range partitions {
		if p.Head.IsZero() {
			continue
		}
		looking := policyChange{app: a, partition: p, now: a.runtime.Now()}
		change, err := looking.compare(ctx, current, common.Policy)
		if err != nil {
			return nil, fault.New(fault.KindOf(err), "comparing common policies for %s: %w", p.ID, err)
		}
		if len(change.Added)+len(change.Removed)+len(change.Changed) == 0 {
			continue
		}
		if len(change.Closed) > 0 {
			response.Held++
		}
		response.Partitions = append(response.Partitions, change)
	}
	return response, nil
}

// policyChange is what a change of the common policy would mean for one partition.
type policyChange struct {
	app       *App
	partition store.Partition
	now       time.Time
	policy    *intentpb.CommonPolicy
	set       *schema.Set
	result    *apipb.PartitionPolicyChange
	// queues of the budgets and rates that are new, by their keys.
	queues map[string]*policyQueue
}

func (c *policyChange) compare(ctx context.Context, current, next *intentpb.CommonPolicy) (*apipb.PartitionPolicyChange, error) {
	c.result, c.policy = &apipb.PartitionPolicyChange{Partition: string(c.partition.ID)}, next
	served, schemas, err := c.served(ctx)
	if err != nil {
		return nil, err
	}
	c.set = schemas
	var news []*intentpb.CommonRule
	rulesNow := commonpolicy.Rules(current, commonpolicy.TraitsOf(current, c.partition.ID, served.GetOwner()))
	rulesNext := commonpolicy.Rules(next, commonpolicy.TraitsOf(next, c.partition.ID, served.GetOwner()))
	for _, r := range rulesNext {
		at := slices.IndexFunc(rulesNow, func(old *intentpb.CommonRule) bool { return old.Name == r.Name })
		switch {
		case at < 0:
			c.result.Added = append(c.result.Added, r.Name)
		case !asksTheSame(rulesNow[at], r):
			c.result.Changed = append(c.result.Changed, r.Name)
		default:
			continue
		}
		if commonpolicy.Required(r) {
			news = append(news, r)
		}
	}
	for _, r := range rulesNow {
		if !slices.ContainsFunc(rulesNext, func(other *intentpb.CommonRule) bool { return other.Name == r.Name }) {
			c.result.Removed = append(c.result.Removed, r.Name)
		}
	}
	if len(news) == 0 {
		return c.result, nil
	}
	if err := c.refused(ctx, news); err != nil {
		return nil, err
	}
	c.notAllowed(ctx, news)
	if err := c.held(ctx, news); err != nil {
		return nil, err
	}
	c.tellQueues()
	return c.result, nil
}

// asksTheSame: where it is written, and of whom else it asks, does not matter.
func asksTheSame(a, b *intentpb.CommonRule) bool {
	bare := func(r *intentpb.CommonRule) *intentpb.CommonRule {
		r = proto.CloneOf(r)
		r.Select, r.Lines, r.Line = nil, nil, 0
		return r
	}
	return proto.Equal(bare(a), bare(b))
}

func (c *policyChange) served(ctx context.Context) (*intentpb.Policy, *schema.Set, error) {
	incarnation, err := c.app.store.Incarnation(ctx, c.partition.Head)
	if err != nil {
		return nil, nil, err
	}
	schemas, err := c.app.schemas.Schema(ctx, c.partition.ID, incarnation.Schema)
	if err != nil {
		return nil, nil, err
	}
	policy := &intentpb.Policy{}
	_, body, err := c.app.store.Content(ctx, c.partition.Head, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return policy, schemas, nil
	}
	if err != nil {
		return nil, nil, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, nil, err
	}
	return policy, schemas, schema.Payload(asset, policy)
}

// refused judges what is served by the validation rules that would be in force.
func (c *policyChange) refused(ctx context.Context, rules []*intentpb.CommonRule) error {
	asked := &intentpb.Policy{}
	for _, r := range rules {
		asked.Rules = append(asked.Rules, commonpolicy.ValidationRules(r)...)
	}
	if len(asked.Rules) == 0 {
		return nil
	}
	validator, err := validate.New(c.set)
	if err != nil {
		return err
	}
	findings, err := validator.RunRules(ctx, validate.Input{
		Candidate: intent.CandidateID{Partition: c.partition.ID}, Base: c.partition.Head, Snapshots: c.app.store, History: c.app.store,
		CandidatePolicy: asked, Rest: c.rest, Now: c.now,
	})
	if err != nil {
		return err
	}
	c.refuse(findings)
	return nil
}

func (c *policyChange) refuse(findings []intent.Finding) {
	for _, f := range findings {
		c.result.RefusedCount += int64(1 + f.Alike)
		if len(c.result.Refused) < mostRefusedShown {
			c.result.Refused = append(c.result.Refused, server.ToFinding(f))
		}
	}
}

// rest reads what is served.
func (c *policyChange) rest(ctx context.Context, wanted func(intent.AssetID, intent.TypeName) bool, each func(intent.AssetID, []byte) error) error {
	filter := store.AssetFilter{Limit: 1000}
	for {
		members, err := c.app.store.Members(ctx, c.partition.Head, filter)
		if err != nil || len(members) == 0 {
			return err
		}
		for _, m := range members {
			filter.After = m.Asset
			if !wanted(m.Asset, m.Type) {
				continue
			}
			body, err := c.app.store.Body(ctx, m.Digest)
			if err != nil {
				return err
			}
			if err := each(m.Asset, body); err != nil {
				return err
			}
		}
	}
}

// held finds calendars that are closed now, and which assets that are not in sync would wait, for a
// check or for each other. What a check asks outside is not asked.
func (c *policyChange) held(ctx context.Context, rules []*intentpb.CommonRule) error {
	environment := rule.New(c.set)
	var checks []*intentpb.Check
	for _, r := range rules {
		for _, check := range r.GetPolicy().GetChecks() {
			if verdict := c.judge(environment, check, intent.Asset{}, intent.Report{}); check.GetCalendar() != nil && check.Where == "" && verdict.Answer != intent.Pass {
				c.result.Closed = append(c.result.Closed, fmt.Sprintf("%s (%s)", verdict.Waiting.Reason, commonpolicy.Place(c.policy, r, "")))
			}
			if check.GetCalendar() != nil || check.GetMinAge() != nil || check.GetDeny() != nil {
				checks = append(checks, check)
			}
		}
	}
	for _, state := range []intent.State{intent.StateWaiting, intent.StatePushing} {
		filter := store.ReportFilter{State: state, Limit: 1000}
		for {
			reports, err := c.app.store.ListReports(ctx, c.partition.ID, filter)
			if err != nil {
				return err
			}
			if len(reports) == 0 {
				break
			}
			for _, report := range reports {
				filter.After = report.Asset
				if err := c.heldAsset(ctx, environment, rules, checks, report); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *policyChange) heldAsset(ctx context.Context, environment *rule.Environment, rules []*intentpb.CommonRule, checks []*intentpb.Check, report intent.Report) error {
	c.result.Differing++
	_, body, err := c.app.store.Content(ctx, report.Target, report.Asset)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return err
	}
	if err := c.enqueue(environment, rules, content); err != nil {
		return err
	}
	for _, check := range checks {
		if !isAbout(environment, check, content) {
			continue
		}
		if c.judge(environment, check, content, report).Answer == intent.Pass {
			continue
		}
		c.result.WaitingCount++
		if len(c.result.Waiting) < mostWaitingShown {
			c.result.Waiting = append(c.result.Waiting, string(report.Asset))
		}
		return nil
	}
	return nil
}

func isAbout(environment *rule.Environment, check *intentpb.Check, content intent.Asset) bool {
	if check.Where == "" {
		return true
	}
	filter, err := environment.Filter(check.Where)
	if err != nil {
		return false
	}
	about, err := filter.Match(content)
	return err == nil && about
}

// judge asks one check alone.
func (c *policyChange) judge(environment *rule.Environment, asked *intentpb.Check, content intent.Asset, report intent.Report) intent.Verdict {
	facts := check.Facts{Now: c.now, Asset: report.Asset, Content: content, Plan: report.Plan, Health: report.Health, Effective: report.Effective,
		Checks: []check.Required{{Configured: check.Configure(asked, environment)}}}
	facts.Origin = check.Origin{Incarnation: report.Target, Published: c.now, Since: report.Target, Appeared: c.now}
	if incarnation, err := c.app.store.Incarnation(context.Background(), report.Target); err == nil {
		facts.Origin.Published, facts.Origin.Appeared, facts.Origin.Sources = incarnation.Created, incarnation.Created, incarnation.Sources
	}
	verdicts := check.Decide(facts).Verdicts
	return verdicts[len(verdicts)-1]
}
