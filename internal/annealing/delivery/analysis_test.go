package delivery

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// analysed is chain, whose test environment is compared with production by the judge.
func analysed(against string) *intentpb.Delivery {
	spec := chain()
	spec.Environments[0].Verify = []string{"errors"}
	spec.Environments[0].Runs = []*intentpb.DeliveryVerification{{
		Name: "errors", Kind: &intentpb.DeliveryVerification_Analysis{Analysis: &intentpb.DeliveryAnalysis{Validation: "errors", Against: against}},
	}}
	return spec
}

// TestAnEnvironmentIsAnalysed: the judge is given what changed, since when, what it is compared
// with, and as much time as the validation takes, twice; its word counts as that of a program.
func TestAnEnvironmentIsAnalysed(t *testing.T) {
	for _, against := range []string{"", "production"} {
		t.Run("against "+against, func(t *testing.T) {
			w := newWorld(t, analysed(against))
			w.policies[shop].Validations = []*intentpb.Validation{{
				Name: "errors", WarmUp: durationpb.New(2 * time.Minute), Interval: durationpb.New(10 * time.Minute), Intervals: 2,
				Metrics: []*intentpb.ValidationMetric{{
					Name: "p90", Worse: intentpb.ValidationMetric_DIRECTION_HIGHER,
					Source: &intentpb.MetricSource{Ask: &intentpb.MetricSource_Prometheus{Prometheus: "main"}, Query: "rate"},
				}},
			}}
			b := w.bench()
			w.list("1.0.0", "1.1.0")
			v := b.begins()
			for v.Version.Name != "1.1.0" { // What was there first is analysed as well.
				b.ends <- nil
				b.until("the next", b.ended)
				v = b.begins()
			}
			a := v.Analysis
			if a == nil || a.Validation.GetName() != "errors" || !slices.Equal(a.Experiment.Assets, []intent.AssetID{"web/test"}) {
				t.Fatalf("it is %+v", a)
			}
			if want := map[string][]intent.AssetID{"": nil, "production": {"web/production"}}[against]; !slices.Equal(a.Control.Assets, want) {
				t.Errorf("the control is %v, want %v", a.Control.Assets, want)
			}
			stays := b.moment().Facts.Environments["test"].Stays
			last := stays[len(stays)-1]
			if !a.Began.Equal(last.Start) || !a.Changed.Equal(last.GoodSince) || a.Changed.IsZero() || a.Changed.Before(a.Began) {
				t.Errorf("it changed from %s to %s, and the stay began at %s and was good since %s", a.Began, a.Changed, last.Start, last.GoodSince)
			}
			// What waits for it comes no sooner than it can have a result.
			if at, want := b.explained("production", "1.1.0").Estimate.At, a.Changed.Add(22*time.Minute); !at.Equal(want) {
				t.Errorf("1.1.0 is expected in production at %s, want %s", at, want)
			}
			if takes := v.Until.Sub(a.Changed); takes < 44*time.Minute || takes > 51*time.Minute {
				t.Errorf("it may take until %s after the change", takes)
			}
			b.good = false
			b.ends <- nil
			b.until("the result", func() bool { return len(b.rows(intent.DeliveryResult)) > 0 && b.ended() })
			results := b.rows(intent.DeliveryResult)
			if r := results[len(results)-1]; r.Good || r.Version.Name != "1.1.0" || r.Constraint != "errors" || r.Content != v.Content {
				t.Errorf("the result is %+v", r)
			}
			b.until("the way back", func() bool { return b.edits(shop) > 1 })
			b.expectVersion(shop, "test", "1.0.0")
		})
	}
}

// TestAnAnalysisWithoutItsValidationIsNoResult: nothing is verified, and nothing is let in.
func TestAnAnalysisWithoutItsValidationIsNoResult(t *testing.T) {
	w := newWorld(t, analysed(""))
	b := w.bench()
	w.list("1.0.0", "1.1.0")
	for range 10 {
		b.build(shop)
		b.enforce(shop)
		_, _ = b.actor.pass(t.Context())
		b.tick(time.Second)
	}
	if len(b.under()) > 0 || len(b.rows(intent.DeliveryVerifying, intent.DeliveryResult)) > 0 {
		t.Error("something was verified")
	}
	b.expectVersion(shop, "production", "1.0.0")
}
