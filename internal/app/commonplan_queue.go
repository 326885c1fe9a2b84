package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/source"
)

// mostQueuesShown are the budgets and rates that are told of one partition.
const mostQueuesShown = 20

// policyQueue are the assets that are not in sync and share the places of a budget or of a rate.
type policyQueue struct {
	what   string
	places int
	assets int
}

// enqueue counts an asset that is not in sync under the budgets and rates of rules. A rate counts from
// when it is in force, so that none of its places is taken yet.
func (c *policyChange) enqueue(environment *rule.Environment, rules []*intentpb.CommonRule, content intent.Asset) error {
	scopes := &intentpb.ImpactedScope{}
	if _, err := schema.Addon(content, scopes); err != nil {
		return err
	}
	for _, r := range rules {
		for _, budget := range r.GetPolicy().GetBudgets() {
			value, ok := scopes.Scopes[budget.Scope]
			if !ok {
				continue
			}
			what := fmt.Sprintf("the budget of %s=%s has %d at once (%s)", budget.Scope, value, budget.InFlight, commonpolicy.Place(c.policy, r, "checks.budget"))
			c.count(r.Name+" budget "+budget.Scope+"="+value, what, int(budget.InFlight))
		}
		for _, asked := range r.GetPolicy().GetChecks() {
			window, ok := check.Counts(asked, content, scopes.Scopes, false)
			if !ok || !isAbout(environment, asked, content) {
				continue
			}
			most := asked.GetRate().GetAtMost()
			what := fmt.Sprintf("the rate %s lets %d begin %s within %s (%s)", asked.Name, most, window.What, asked.GetRate().GetPer().AsDuration(), commonpolicy.Place(c.policy, r, ""))
			c.count(window.Key, what, int(most))
		}
	}
	return nil
}

func (c *policyChange) count(key, what string, places int) {
	if c.queues == nil {
		c.queues = map[string]*policyQueue{}
	}
	if c.queues[key] == nil {
		c.queues[key] = &policyQueue{what: what, places: places}
	}
	c.queues[key].assets++
}

// tellQueues tells of the budgets and rates that have fewer places than there are assets. Of an
// asset that waits in several, the longest counts.
func (c *policyChange) tellQueues() {
	most := 0
	for _, key := range slices.Sorted(maps.Keys(c.queues)) {
		q := c.queues[key]
		if q.assets <= q.places {
			continue
		}
		most = max(most, q.assets-q.places)
		if len(c.result.Queued) < mostQueuesShown {
			c.result.Queued = append(c.result.Queued, fmt.Sprintf("%d of %d assets that are not in sync: %s", q.assets-q.places, q.assets, q.what))
		}
	}
	c.result.QueuedCount = int64(most)
}

// notAllowed finds what the definition names that the lists of rules do not allow. A definition in a
// repository is not fetched.
func (c *policyChange) notAllowed(ctx context.Context, rules []*intentpb.CommonRule) {
	lists := slices.DeleteFunc(slices.Clone(rules), func(r *intentpb.CommonRule) bool { return r.GetAllow() == nil })
	if len(lists) == 0 {
		return
	}
	untried := func(reason string) { c.result.Untried = append(c.result.Untried, "lists of what is allowed: "+reason) }
	place, err := source.ParseDefinition(c.partition.Definition)
	if err != nil {
		untried(err.Error())
		return
	}
	if place.Git != nil {
		untried("the definition lies in a repository, which a plan does not ask")
		return
	}
	program := prodspec.Program{Definition: c.partition.Definition, Place: c.app.options.Parts.Sources}
	content, err := prodspec.ReadDefinition(ctx, program, c.now)
	if err != nil {
		untried(err.Error())
		return
	}
	findings, err := prodspec.JudgeLists(place.Path, content, c.set, c.policy, lists)
	if err != nil {
		untried(err.Error())
		return
	}
	c.refuse(findings)
}
