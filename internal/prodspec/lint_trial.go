package prodspec

import (
	"fmt"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/validate"
)

// trial evaluates what a check asks of an asset, as an enforcer does before a push: what
// compiles over any type may have no value for some.
type trial struct {
	name   string
	where  *rule.Filter
	places definition.RulePlaces
	asks   []asked
}

// asked is one expression, by its key in the definition.
type asked struct {
	key string
	// evaluate says why there is no answer for an asset.
	evaluate func(intent.Asset) error
}

// newTrials are those of the checks that have expressions. What does not compile was
// refused before.
func (l *linter) newTrials(now time.Time) (trials []trial, err error) {
	environment := rule.New(l.set)
	for i, c := range l.definition.Policy.GetChecks() {
		t := trial{name: c.GetName(), places: l.definition.CheckPlaces[i]}
		var over intent.TypeName
		if c.GetWhere() != "" {
			if t.where, err = environment.Filter(c.GetWhere()); err != nil {
				return nil, err
			}
			over = t.where.Narrow().Type
		}
		if err := t.ask(environment, c, over, now); err != nil {
			return nil, err
		}
		if t.where != nil || len(t.asks) > 0 {
			trials = append(trials, t)
		}
	}
	return trials, nil
}

func (t *trial) ask(environment *rule.Environment, c *intentpb.Check, over intent.TypeName, now time.Time) error {
	if text := c.GetCondition().GetMust(); text != "" {
		must, err := environment.Condition(text, over, rule.Moving)
		if err != nil {
			return err
		}
		// What a push would do is not known here.
		if !must.Reads("diff", "action") && !must.Reads("diff", "destructive") && !must.Reads("diff", "changes") {
			push := rule.Push{Now: now, Published: now, Mode: "enforce", Health: intent.Health{State: intent.Healthy}}
			t.asks = append(t.asks, asked{"must", func(asset intent.Asset) error {
				_, err := must.Holds(asset, rule.Added{Push: push})
				return err
			}})
		}
	}
	for key, text := range map[string]string{"version": c.GetDeny().GetVersion(), "serves": c.GetPeak().GetServes()} {
		if text == "" {
			continue
		}
		compiled, err := environment.Compile(text, over)
		if err != nil {
			return err
		}
		evaluate := func(asset intent.Asset) error { _, err := compiled.Text(asset); return err }
		if key == "serves" {
			evaluate = func(asset intent.Asset) error { _, err := compiled.Number(asset); return err }
		}
		t.asks = append(t.asks, asked{key, evaluate})
	}
	for _, said := range []map[string]string{c.GetQuery().GetLabels(), c.GetAlerts().GetLabels(), c.GetPeak().GetLabels()} {
		for _, name := range slices.Sorted(maps.Keys(said)) {
			compiled, err := environment.Compile(said[name], over)
			if err != nil {
				return err
			}
			t.asks = append(t.asks, asked{"labels", func(asset intent.Asset) error { _, err := compiled.Text(asset); return err }})
		}
	}
	return nil
}

// seeTrials tells of the expressions that have no value for an asset.
func (l *linter) seeTrials(asset intent.Asset) {
	for _, t := range l.trials {
		if t.where != nil {
			about, err := t.where.Match(asset)
			if err != nil {
				l.tellTrial(t, "where", asset.ID, err)
			}
			if err != nil || !about {
				continue
			}
		}
		for _, one := range t.asks {
			if err := one.evaluate(asset); err != nil {
				l.tellTrial(t, one.key, asset.ID, err)
			}
		}
	}
}

func (l *linter) tellTrial(t trial, key string, asset intent.AssetID, err error) {
	f := validate.FromError("lint", asset, err)
	place, ok := t.places[key]
	if !ok {
		place = t.places[""]
	}
	f.Severity, f.File, f.Line, f.Column, f.Field = intent.Warning, l.sources.file, max(place.Line, 1), place.Column, "checks."+t.name+"."+key
	f.Message = fmt.Sprintf("asset %s: its pushes would wait, for the check %s has no answer: %s", asset, t.name, f.Message)
	l.findings = append(l.findings, f)
}
