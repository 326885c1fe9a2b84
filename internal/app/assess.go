package app

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/annealing/strategist"
	"lehr.dev/internal/annealing/strategist/sampling"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// assesses is who answers what a partition's rollouts ask their validations; nil: nobody,
// as where what lies outside is replaced.
func (a *App) assesses(partition intent.PartitionID) func(context.Context, strategist.Assessing) (strategist.Assessed, error) {
	if a.options.Parts.Assess != nil {
		return a.options.Parts.Assess
	}
	if a.options.Parts.Outside != nil || a.options.Parts.Plugins != nil {
		return nil
	}
	return assessor(a.samples(partition))
}

// samples is who reads the samples of a partition.
func (a *App) samples(partition intent.PartitionID) *sampling.Sampler {
	return sampling.New(partition, a.options.ExternalChecks, func(ctx context.Context, run []string, request *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
		return a.pool.judge(run).Measure(ctx, request)
	})
}

// assessor assesses stages of rollouts.
func assessor(sampler *sampling.Sampler) func(context.Context, strategist.Assessing) (strategist.Assessed, error) {
	return func(ctx context.Context, assessing strategist.Assessing) (strategist.Assessed, error) {
		return assess(ctx, sampler, judgedChange{
			title: fmt.Sprintf("stage %s of run %d of %s", assessing.Stage, assessing.Run.Run, assessing.Run.Name), validation: assessing.Validation,
			began: assessing.Began, changed: assessing.Changed, restarted: assessing.Restarted, now: assessing.Now,
			subject: sampling.Subject{
				Experiment: sampling.Part{Assets: assessing.Experiment, Scopes: assessing.ExperimentScopes},
				Control:    sampling.Part{Assets: assessing.Control, Scopes: assessing.ControlScopes},
			},
		})
	}
}

// judgedChange is a change that a validation judges.
type judgedChange struct {
	// title is for people.
	title      string
	validation *intentpb.Validation
	// began is when the first asset left what was there before, changed when the last arrived.
	began, changed time.Time
	// restarted is since when samples count, the warm-up included; zero: since changed, after the warm-up.
	restarted time.Time
	subject   sampling.Subject
	now       time.Time
}

// assess reads samples, and assesses by them.
func assess(ctx context.Context, sampler *sampling.Sampler, j judgedChange) (assessed strategist.Assessed, err error) {
	settings, err := validation.Of(j.validation)
	if err != nil {
		return assessed, err
	}
	if len(j.subject.Control.Assets) == 0 {
		settings = sampling.Alone(settings)
	}
	// Samples are of whole seconds: those of the second in which it was done may be of
	// what was there before.
	change := validation.Change{Began: j.began, Done: j.changed.Add(time.Second - 1).Truncate(time.Second)}
	if since := j.restarted.Add(-settings.WarmUp); !j.restarted.IsZero() && since.After(change.Done) {
		if change.Began.IsZero() {
			change.Began = change.Done // What is compared with before was before the change.
		}
		change.Done = since
	}
	window, err := settings.Window(change, j.now)
	if err != nil {
		return assessed, err
	}
	readings, err := sampler.Read(ctx, settings, j.subject, window)
	if err != nil {
		return assessed, err
	}
	record, series, err := validation.NewRecord(j.title, settings, change, readings, j.now)
	if err != nil {
		return assessed, err
	}
	assessed.ValidationVerdict, assessed.Next = verdictOf(record, series), record.Assessment.Next
	if assessed.Next.IsZero() || assessed.Result == string(validation.Bad) {
		assessed.Record, err = record.Pack()
	}
	return assessed, err
}

// verdictOf a record, as a run keeps it.
func verdictOf(record validation.Record, series []judge.Series) intent.ValidationVerdict {
	a := record.Assessment
	verdict := intent.ValidationVerdict{Result: string(a.Verdict), Reason: a.Why, At: record.Now}
	for i, m := range a.Metrics {
		one := intent.MetricVerdict{Name: m.Judged.Name, Result: string(m.Verdict), Reason: m.Why}
		if i < len(series) {
			one.Values, one.Baseline = plotted(series[i].Experiment), plotted(series[i].Control)
		}
		verdict.Metrics = append(verdict.Metrics, one)
	}
	return verdict
}

// plotted are means of equal parts of samples, at most as many as a run keeps; what is no
// finite number is left out.
func plotted(samples []judge.Sample) (values []float64) {
	samples = slices.SortedStableFunc(slices.Values(samples), func(a, b judge.Sample) int { return a.At.Compare(b.At) })
	var numbers []float64
	for _, s := range samples {
		v := float64(s.Value)
		if s.Of != nil {
			v /= float64(*s.Of)
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			numbers = append(numbers, v)
		}
	}
	parts := min(len(numbers), intent.MaxMetricValues)
	for i := range parts {
		part := numbers[i*len(numbers)/parts : (i+1)*len(numbers)/parts]
		mean := 0.0
		for k, v := range part {
			mean += v/float64(k+1) - mean/float64(k+1)
		}
		values = append(values, mean)
	}
	return values
}

// selects is who asks the plugins that select for a partition's rollouts, as far as the
// operator's file allows; nil: nobody.
func (a *App) selects(partition intent.PartitionID) func(context.Context, string, *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error) {
	if a.options.Parts.Outside != nil || a.options.Parts.Plugins != nil {
		return nil
	}
	return func(ctx context.Context, name string, request *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error) {
		policy, err := external.ReadPolicy(a.options.ExternalChecks)
		if err != nil {
			return nil, err
		}
		run, err := policy.Plugin(partition, name)
		if err != nil {
			return nil, err
		}
		return a.pool.judge(run).Select(ctx, request)
	}
}
