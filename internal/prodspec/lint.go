package prodspec

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/validate"
)

// Lint is Build, and adds warnings of what is well-formed and probably not
// meant: findings of the rule "lint".
func Lint(ctx context.Context, program Program, now time.Time) (Built, error) {
	built, b, r, err := build(ctx, program, now, nil)
	if err != nil || built.Assets == nil {
		return built, err
	}
	l := &linter{builder: b, definition: r.definition}
	program.Progress.BeginStep("look for what is not meant", 0)
	if err := l.assets(ctx, now); err != nil {
		return built, err
	}
	l.definitions()
	l.unfilled()
	l.programs(ctx, now, r.inputs.Sources)
	built.Findings = intent.GroupFindings(append(built.Findings, l.findings...))
	return built, nil
}

type linter struct {
	*builder
	definition definition.Definition
	findings   []intent.Finding
	// gives are the generators and derivations that gave anything; types those
	// that assets have, and scopes the keys of impacted scopes.
	gives, types, scopes map[string]bool
	scoped               scoped
	deprecated           *deprecated
	// ownerless assets, in the order of their ids.
	ownerless []intent.AssetID
	secrets   int
	// placeholders that nobody fills in, and where the first of each is.
	placeholders map[string]*intent.Finding
	rules        *validate.Idle
	checks       *validate.Idle
	unsized      unsized
	staged       []*staged
	trials       []trial
}

func (l *linter) add(line int, field, message, hint string) {
	l.findings = append(l.findings, intent.Finding{
		Rule: "lint", Severity: intent.Warning, File: l.sources.file, Line: max(line, 1), Field: field, Message: message, Hint: hint,
	})
}

// assets looks at each once.
func (l *linter) assets(ctx context.Context, now time.Time) error {
	l.gives, l.types, l.scopes, l.scoped = map[string]bool{}, map[string]bool{}, map[string]bool{}, scoped{}
	l.unsized = unsized{}
	l.deprecated, l.placeholders = newDeprecated(l.set), map[string]*intent.Finding{}
	l.rules = validate.NewIdle(l.set, l.definition.Policy.GetRules())
	l.checks = validate.NewIdle(l.set, abouts(l.definition.Policy))
	var err error
	if l.staged, err = l.newStaged(); err != nil {
		return err
	}
	if l.trials, err = l.newTrials(now); err != nil {
		return err
	}
	return l.visitUntouched(ctx, nil, nil, func(id intent.AssetID, asset intent.Asset, _ []byte) error {
		m, _ := l.members.get(id)
		output := m.output()
		l.gives[m.run.Generator] = true
		for _, derived := range output.Derived() {
			l.gives[derived.Derivation] = true
		}
		if id == intent.PolicyAsset {
			return nil
		}
		l.rules.See(asset)
		l.checks.See(asset)
		l.seeTrials(asset)
		for _, s := range l.staged {
			if err := s.see(asset); err != nil {
				return err
			}
		}
		if err := l.seeUnsized(id, asset); err != nil {
			return err
		}
		if err := l.scoped.see(asset); err != nil {
			return err
		}
		if err := l.seeDeprecated(id, asset); err != nil {
			return err
		}
		if err := l.seePlaceholders(id, asset); err != nil {
			return err
		}
		l.types[string(asset.Payload.Type)] = true
		owner, scope := &intentpb.Owner{}, &intentpb.ImpactedScope{}
		if _, err := schema.Addon(asset, owner); err != nil {
			return err
		}
		if _, err := schema.Addon(asset, scope); err != nil {
			return err
		}
		if owner.Owner == "" {
			l.ownerless = append(l.ownerless, id)
		}
		for key := range scope.Scopes {
			l.scopes[key] = true
		}
		text, err := l.set.JSON(asset)
		if err != nil {
			return err
		}
		return l.secretsOf(id, text)
	})
}

// definitions looks for what lehr.yaml says in vain.
func (l *linter) definitions() {
	d, policy := l.definition, l.definition.Policy
	used := map[string]bool{}
	for _, checker := range ownCheckers(d) {
		for _, name := range checker.Sources {
			used[name] = true
		}
	}
	for _, g := range d.Generators {
		for _, name := range g.Sources {
			used[name] = true
		}
		if !l.gives[g.Name] && !slices.ContainsFunc(d.Generators, func(consumer definition.Generator) bool { return slices.Contains(consumer.Generators, g.Name) }) {
			l.add(g.Line, "generate."+g.Name, fmt.Sprintf("the generator %s gives no assets", g.Name), "remove it, or look whether its sources say what it reads")
		}
	}
	for _, s := range d.Sources {
		if !used[s.Name] {
			l.add(s.Line, "sources."+s.Name, fmt.Sprintf("no generator reads the source %s", s.Name), "name it in the from of one, or remove it")
		}
	}
	for _, derivation := range d.Derivations {
		if !l.gives[derivation.Name] {
			l.add(derivation.Line, "generate."+derivation.Name, fmt.Sprintf("the derivation %s gives no asset anything", derivation.Name), "its where matches none, or each has what it would give already")
		}
	}
	l.resolvers()
	l.deprecations()
	if d.Lines["mode"] == 0 {
		l.add(1, "mode", "mode is never set, so nothing is enforced", "write mode: observe if that is meant, else mode: enforce")
	}
	if policy.GetOwner() == "" && len(l.ownerless) > 0 {
		const mostShown = 5
		var names []string
		for _, id := range l.ownerless[:min(mostShown, len(l.ownerless))] {
			names = append(names, string(id))
		}
		l.add(1, "owner", fmt.Sprintf("assets without an owner, %d in all: %s", len(l.ownerless), strings.Join(names, ", ")), "write owner: WHO in lehr.yaml, or derive the addon Owner")
	}
	for _, budget := range policy.GetBudgets() {
		l.scope(budget.Scope, "this budget", d.Lines["checks"], "checks.budget.scope")
	}
	for i, c := range policy.GetChecks() {
		if c.GetPartition().GetId() == string(d.Partition) {
			l.add(d.CheckPlaces[i]["partition"].Line, "checks."+c.Name+".partition", fmt.Sprintf("the check %s waits for this partition itself, so it can never pass", c.Name), "name another partition of the server")
		}
		if scope := c.GetRate().GetScope(); scope != "" {
			l.scope(scope, "the check "+c.Name, d.CheckPlaces[i]["scope"].Line, "checks."+c.Name+".scope")
		}
	}
	for _, binding := range policy.GetPlugins() {
		if !l.types[binding.Type] {
			l.add(d.PluginLines[binding.Type], "plugins."+binding.Type, fmt.Sprintf("a plugin is bound to %s, of which there is no asset", binding.Type), "remove the binding, or look whether a generator should give one")
		}
	}
	l.unreachableQuorum(policy)
	for _, i := range l.rules.Idle() {
		l.add(d.RulePlaces[i][""].Line, fmt.Sprintf("validate.rules[%d]", i), fmt.Sprintf("the rule %s is about no asset%s", policy.Rules[i].Id, valueless(l.rules, i)), "look whether its where, or the filters of its aggregates, say what is meant")
	}
	for _, i := range l.checks.Idle() {
		name := policy.Checks[i].Name
		l.add(d.CheckPlaces[i][""].Line, "checks."+name, fmt.Sprintf("the check %s is about no asset, so it delays nothing%s", name, valueless(l.checks, i)), "look whether its where says what is meant")
	}
	l.rollouts()
	l.tellUnsized()
}

// valueless says why a where has no value for any asset; empty: it has for some.
func valueless(idle *validate.Idle, at int) string {
	if err := idle.Valueless(at); err != nil {
		return ": " + message(err)
	}
	return ""
}

// scope warns of a limit over a scope that no asset has.
func (l *linter) scope(scope, limit string, line int, field string) {
	if l.scopes[scope] {
		return
	}
	hint := "give assets the addon ImpactedScope with that key"
	if suggestion := spell.Nearest(scope, slices.Sorted(maps.Keys(l.scopes))); suggestion != "" {
		hint = "did you mean " + suggestion + "?"
	}
	l.add(line, field, fmt.Sprintf("no asset has the scope %s, so %s limits nothing", scope, limit), hint)
}

// abouts are rules about the assets that the policy's checks are about.
func abouts(policy *intentpb.Policy) []*intentpb.ValidationRule {
	var rules []*intentpb.ValidationRule
	for _, c := range policy.GetChecks() {
		rules = append(rules, &intentpb.ValidationRule{Where: c.Where, Must: "true"})
	}
	return rules
}

// unreachableQuorum: who approves must be another than who made the change.
func (l *linter) unreachableQuorum(policy *intentpb.Policy) {
	quorum := policy.GetApproval().GetQuorum()
	people := 0
	for _, binding := range policy.GetAccess() {
		if binding.Role != string(intent.Approver) && binding.Role != string(intent.Operator) {
			continue
		}
		for _, subject := range binding.To {
			if !strings.HasPrefix(subject, "user:") {
				return // A group may have any number.
			}
			people++
		}
	}
	if people > 0 && int(quorum) > people {
		l.add(l.definition.Lines["checks"], "checks.approval.quorum", fmt.Sprintf("%d people must approve, and lehr.yaml names %d who may", quorum, people), "name more approvers under access, unless the server's access policy does")
	}
}

const maxSecrets = 50

// secretsOf warns of values that look like secrets: whoever may read the
// partition may read them, for ever. The value is not shown.
func (l *linter) secretsOf(id intent.AssetID, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	for _, hit := range secrecy.Find(value) {
		if l.secrets++; l.secrets > maxSecrets {
			break
		}
		origin := l.origin(id)
		l.findings = append(l.findings, intent.Finding{
			Rule: "lint", Severity: intent.Warning, Asset: id, File: origin.File, Line: origin.Line, Field: hit.Path,
			Message: fmt.Sprintf("asset %s: %s looks like a secret", id, hit.Path),
			Hint:    "whoever may read the partition reads it, also in old incarnations: give the program a file or a variable that holds it, and change the secret",
		})
	}
	return nil
}
