package delivery

import (
	"context"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/validation"
)

// Analysis is a verification by the judge: what changed in an environment is compared with what was
// there before, or with another environment.
type Analysis struct {
	Validation *intentpb.Validation
	// Began is when the environment was given its version, and Changed when all its assets were good
	// with it.
	Began, Changed time.Time
	// Experiment are the environment's assets, Control those of the other one; none: there is none.
	Experiment, Control AnalysedAssets
}

// AnalysedAssets are one side of an analysis.
type AnalysedAssets struct {
	Assets []intent.AssetID
	// Scopes are the values of their scopes, by name.
	Scopes map[string][]string
}

// analysisGrace is for how long an analysis may be at work after twice the time of its validation: samples
// may come late. Then it has no result, and is run again.
const analysisGrace = 5 * time.Minute

// analysisOf is what a verification analyses, and the longest time that it takes; nil: it is none.
func (d *Deliverer) analysisOf(ctx context.Context, m *Moment, place *Place, spec *intentpb.DeliveryVerification) (a *Analysis, longest time.Duration, err error) {
	asked := spec.GetAnalysis()
	if asked == nil {
		return nil, 0, nil
	}
	policy, err := d.Reader.Policy(ctx, m.Home.Head)
	if err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(policy.GetValidations(), func(v *intentpb.Validation) bool { return v.GetName() == asked.GetValidation() })
	if at < 0 {
		return nil, 0, fault.New(fault.Invalid, "there is no validation %q, which verifies %s", asked.GetValidation(), place.Spec.GetName())
	}
	settings, err := validation.Of(policy.Validations[at])
	if err != nil {
		return nil, 0, err
	}
	stays := m.Facts.Environments[place.Spec.GetName()].Stays
	last := &stays[len(stays)-1]
	a = &Analysis{Validation: policy.Validations[at], Began: last.Start, Changed: last.GoodSince}
	if a.Experiment, err = d.readSide(ctx, place); err != nil {
		return nil, 0, err
	}
	for i := range m.Places {
		if other := &m.Places[i]; other.Spec.GetName() == asked.GetAgainst() {
			if a.Control, err = d.readSide(ctx, other); err != nil {
				return nil, 0, err
			}
		}
	}
	// It counts from the change, and may be run again long after.
	return a, max(0, a.Changed.Add(2*settings.Length()).Sub(m.Facts.Now)) + analysisGrace, nil
}

// readSide reads the assets of an environment, with the values of their scopes.
func (d *Deliverer) readSide(ctx context.Context, place *Place) (side AnalysedAssets, err error) {
	side.Scopes = map[string][]string{}
	for _, member := range place.Assets.Members {
		side.Assets = append(side.Assets, member.Asset)
		_, body, err := d.Store.Content(ctx, place.Partition.Head, member.Asset)
		if err != nil {
			return side, err
		}
		asset, err := schema.Decode(body)
		if err != nil {
			return side, err
		}
		scope := &intentpb.ImpactedScope{}
		if _, err := schema.Addon(asset, scope); err != nil {
			return side, err
		}
		for name, value := range scope.GetScopes() {
			if !slices.Contains(side.Scopes[name], value) {
				side.Scopes[name] = append(side.Scopes[name], value)
			}
		}
	}
	for _, values := range side.Scopes {
		slices.Sort(values)
	}
	return side, nil
}
