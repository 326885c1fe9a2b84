package cli

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/ground/validation"
)

// RangeQuery asks Prometheus for the values of a query at each step of a time.
type RangeQuery struct {
	URL   *url.URL
	Token string
	Query string
	// From and To bound the time, both included.
	From, To time.Time
	Step     time.Duration
}

// Ranged are the values of one series of an answer, by their times.
type Ranged struct {
	Labels map[string]string
	Times  []time.Time
	Values []float64
}

// noVerdict annotates a command whose exit code 1 says that something is bad, not
// that it could not be looked at: errors exit with 2.
const noVerdict = "no-verdict"

const judgeLong = `Say whether a change did harm, without a server: compare samples of what changed
(experiment, or after) with those of what did not (control, or before), for each
metric by how much it changed, what that may be by chance, and how much matters.

Samples come from a CSV file with a header of time, metric, group (control or
experiment), value, and for events the number of trials they are of; from a file that
-o json wrote, which is judged again to the same bytes; or from Prometheus, which is
shown the token in LEHR_PROMETHEUS_TOKEN, if there is one. The record of a rollout's
validation is judged anew, and where that differs is said.

A pass rules out what matters. Missing or broken data is inconclusive.

Exit codes: 0 pass, 1 fail, 2 inconclusive, or there is nothing to judge by.`

// judging is one call of the command.
type judging struct {
	*session
	metrics, prometheus, at, experiment string
	queries                             []string
	window, step, interval              time.Duration
	look                                int
}

func (s *session) judgeCommand() *cobra.Command {
	j := &judging{session: s}
	command := &cobra.Command{
		Use:   "judge [FILE.csv | FILE.json]",
		Short: "Judge by metrics whether a change did harm",
		Long:  judgeLong,
		Example: `  lehr judge samples.csv --metrics metrics.yaml
  lehr judge samples.csv --at 2026-11-21T08:00:00Z   # before and after, without groups
  lehr judge --prometheus http://127.0.0.1:9090 --at 30m --window 30m \
    --query 'errors=sum(rate(errors_total[1m]))'
  lehr judge --prometheus http://127.0.0.1:9090 --at 30m --experiment version=v2 \
    --query 'latency=histogram_quantile(0.9, sum by (le, version) (rate(seconds_bucket[1m])))'
  lehr judge samples.csv --interval 1h -o json > kept.json && lehr judge kept.json
  lehr judge record.json   # of a rollout's validation`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: map[string]string{noVerdict: ""},
		RunE: func(command *cobra.Command, args []string) error {
			return j.run(command.Context(), args)
		},
	}
	flags := command.Flags()
	flags.StringVar(&j.metrics, "metrics", "", "file that says which change of each metric is harmful (docs/use/judge.md)")
	_ = command.MarkFlagFilename("metrics", "yaml")
	flags.StringVar(&j.at, "at", "", "time of the change, or how long ago as 30m: samples before it are the control's, later ones the experiment's")
	flags.StringVar(&j.prometheus, "prometheus", "", "ask the Prometheus at this URL")
	flags.StringArrayVar(&j.queries, "query", nil, "metric to ask for, NAME=QUERY; may be repeated")
	flags.StringVar(&j.experiment, "experiment", "", "series with this LABEL=VALUE are the experiment's, others the control's, both since --at")
	flags.DurationVar(&j.window, "window", time.Hour, "how long before and after --at to ask Prometheus for")
	flags.DurationVar(&j.step, "step", 15*time.Second, "time between two samples of Prometheus")
	flags.DurationVar(&j.interval, "interval", 0, "also judge each interval of this length alone")
	flags.IntVar(&j.look, "look", 0, "number of this look at growing data, from 1 on, so that all looks together keep the error bound")
	return command
}

func (j *judging) run(ctx context.Context, args []string) error {
	if len(args) > 0 && strings.EqualFold(filepath.Ext(args[0]), ".json") && j.prometheus == "" {
		text, err := readJudgement(args[0])
		if err == nil && validation.IsRecord(text) {
			return j.again(args[0], text)
		}
	}
	judgement, err := j.read(ctx, args)
	if err != nil {
		return err
	}
	if j.look != 0 {
		judgement.Settings.Look = j.look
	}
	if j.interval != 0 {
		judgement.Interval = j.interval.String()
	}
	if judgement.Interval == "" {
		return j.judgeOnce(judgement)
	}
	length, err := time.ParseDuration(judgement.Interval)
	if err != nil {
		return fault.New(fault.Invalid, "%.40q is no interval", judgement.Interval).WithHint("write one such as 10m")
	}
	chain, err := judge.Chain(judgement.Settings, judgement.Data, length)
	if err != nil {
		return err
	}
	judgement.Settings = chain.Together.Settings
	judgement.Settings.Alpha *= 2 // It took one half.
	if j.json() {
		err = printJSON(j.Out, struct {
			judge.ChainResult
			keptJudgement
		}{chain, judgement})
	} else {
		j.printChain(chain, judgement.Data)
	}
	return outcome(chain.Verdict, err)
}

func (j *judging) judgeOnce(judgement keptJudgement) error {
	result, err := judge.Judge(judgement.Settings, judgement.Data)
	if err != nil {
		return err
	}
	if j.json() {
		err = printJSON(j.Out, struct {
			judge.Result
			Data []judge.Series `json:"data"`
		}{result, judgement.Data})
	} else {
		j.printResult(result, judgement.Data)
	}
	return outcome(result.Verdict, err)
}

// outcome is the exit code of a verdict.
func outcome(verdict judge.Verdict, err error) error {
	switch {
	case err != nil:
		return err
	case verdict == judge.Fail:
		return exit{exitError}
	case verdict == judge.Inconclusive:
		return exit{exitDiffers}
	}
	return nil
}

// keptJudgement is what -o json writes beside the result.
type keptJudgement struct {
	judge.Archive
	Interval string `json:"interval,omitempty"`
}

// read the settings and the samples.
func (j *judging) read(ctx context.Context, args []string) (judgement keptJudgement, err error) {
	switch {
	case len(args) > 0 && j.prometheus != "":
		return judgement, fault.New(fault.Invalid, "samples are both in a file and in Prometheus").WithHint("name the file, or --prometheus with --query")
	case len(args) == 0 && j.prometheus == "":
		return judgement, fault.New(fault.Invalid, "there is nothing to judge").WithHint("name a file of samples, or --prometheus with --query")
	case j.prometheus == "" && (len(j.queries) > 0 || j.experiment != ""):
		return judgement, fault.New(fault.Invalid, "--query and --experiment are of Prometheus").WithHint("add --prometheus URL")
	}
	if j.metrics != "" {
		file := struct {
			Judge          string `yaml:"judge"`
			judge.Settings `yaml:",inline"`
		}{}
		if err := operator.Read(j.metrics, operator.Kind{Name: "file of metrics", Key: "judge", Flag: "metrics", Page: "docs/use/judge.md"}, &file); err != nil {
			return judgement, err
		}
		judgement.Settings = file.Settings
	}
	switch {
	case j.prometheus != "":
		judgement.Data, err = j.ask(ctx)
	case strings.EqualFold(filepath.Ext(args[0]), ".json"):
		return j.readKept(args[0], judgement)
	default:
		var at time.Time
		if at, err = j.changedAt(); err == nil {
			judgement.Data, err = readSamples(args[0], at)
		}
	}
	return judgement, err
}

// changedAt is --at; zero when it is not given.
func (j *judging) changedAt() (time.Time, error) {
	at, err := j.moment(j.at)
	if err != nil || at == nil {
		return time.Time{}, err
	}
	return at.AsTime(), nil
}

// readKept reads what -o json wrote. Settings that are given replace those.
func (j *judging) readKept(path string, overrides keptJudgement) (keptJudgement, error) {
	text, err := readJudgement(path)
	if err != nil {
		return overrides, err
	}
	judgement, err := decodeKept(text)
	if err != nil {
		return overrides, fault.New(fault.Invalid, "%s is no judgement: %w", path, err).WithHint("name a file that lehr judge -o json wrote")
	}
	if j.metrics != "" {
		judgement.Settings = overrides.Settings
	}
	return judgement, nil
}

func readJudgement(path string) ([]byte, error) {
	text, err := files.Read(path, files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot read the judgement: %w", err).WithHint("name a file that lehr judge -o json wrote")
	}
	return text, nil
}

// maxAsked is how many samples a query may give for each series: Prometheus gives
// no more.
const maxAsked = 11_000

// named is NAME=QUERY; a query alone may hold =~ and ==.
var named = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_.:-]*)=([^=~].*)$`)

// ask Prometheus for all queries.
func (j *judging) ask(ctx context.Context) (data []judge.Series, err error) {
	at, err := j.changedAt()
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(j.prometheus)
	label, value, labelled := strings.Cut(j.experiment, "=")
	switch {
	case err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https":
		return nil, fault.New(fault.Invalid, "--prometheus is no URL of http or https").WithHint("write --prometheus http://127.0.0.1:9090")
	case len(j.queries) == 0:
		return nil, fault.New(fault.Invalid, "nothing is asked of Prometheus").WithHint("add --query 'errors=sum(rate(errors_total[1m]))'")
	case at.IsZero():
		return nil, fault.New(fault.Invalid, "it is not said when it changed").WithHint("add --at TIME, or how long ago: --at 30m")
	case j.window <= 0 || j.step < time.Second || j.window/j.step > maxAsked:
		return nil, fault.New(fault.Invalid, "a window of %s has no samples, or more than %d, at a step of %s", j.window, maxAsked, j.step).WithHint("write a shorter --window, or a longer --step, from 1s on")
	case j.experiment != "" && (!labelled || label == ""):
		return nil, fault.New(fault.Invalid, "%.60q is no label with a value", j.experiment).WithHint("write --experiment version=v2")
	}
	end := at.Add(j.window)
	if now := j.now(); end.After(now) {
		end = now
	}
	for i, text := range j.queries {
		name, query := fmt.Sprintf("query-%d", i+1), text
		if parts := named.FindStringSubmatch(text); parts != nil {
			name, query = parts[1], parts[2]
		}
		series := judge.Series{Metric: name}
		request := RangeQuery{URL: endpoint, Token: j.Getenv("LEHR_PROMETHEUS_TOKEN"), Query: query, From: at, To: end, Step: j.step}
		if j.experiment == "" {
			request.From = at.Add(-j.window)
		}
		ranged, err := j.local.Range(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("asking for %s: %w", name, err)
		}
		for _, r := range ranged {
			for k, sampleTime := range r.Times {
				sample := judge.Sample{At: sampleTime, Value: judge.Number(r.Values[k])}
				if j.experiment == "" && sampleTime.Before(at) || j.experiment != "" && r.Labels[label] != value {
					series.Control = append(series.Control, sample)
				} else {
					series.Experiment = append(series.Experiment, sample)
				}
			}
		}
		data = append(data, series)
	}
	return data, nil
}

// summaryOf names a side's numbers.
func summaryOf(s judge.Summary, unit string) string {
	if s.Samples == 0 {
		return "no samples"
	}
	text := fmt.Sprintf("%s, median %s, from %s to %s", count(s.Samples, "sample"), shortNumber(s.Middle), shortNumber(s.Least), shortNumber(s.Most))
	if s.Of > 0 {
		text = fmt.Sprintf("%s, %s of %s, from %s to %s each", count(s.Samples, "sample"), shortNumber(s.Events), shortNumber(s.Of), shortNumber(s.Least), shortNumber(s.Most))
	}
	if unit != "" {
		text += " " + unit
	}
	if s.Broken > 0 {
		text += fmt.Sprintf("; %d more broken", s.Broken)
	}
	return text
}

func shortNumber(n judge.Number) string { return fmt.Sprintf("%.4g", float64(n)) }

// printResult prints the verdict first, then each metric.
func (j *judging) printResult(result judge.Result, data []judge.Series) {
	fmt.Fprintf(j.Out, "%s: %s.\n", strings.ToUpper(string(result.Verdict)), plain(result.Why))
	j.printMetrics(result, data)
}

func (j *judging) printMetrics(result judge.Result, data []judge.Series) {
	for _, m := range result.Metrics {
		marks := ""
		if m.Critical {
			marks += ", critical"
		}
		if m.Shadow {
			marks += ", a shadow: it does not decide"
		}
		fmt.Fprintf(j.Out, "\n%s: %s%s\n  %s\n", plain(m.Name), m.Verdict, marks, plain(m.Why))
		i := slices.IndexFunc(data, func(s judge.Series) bool { return s.Metric == m.Name })
		if i < 0 {
			continue
		}
		fmt.Fprintf(j.Out, "  control     %s\n  experiment  %s\n", plain(summaryOf(m.Control, m.Unit)), plain(summaryOf(m.Experiment, m.Unit)))
		for _, line := range plot(data[i], j.drawn()) {
			fmt.Fprintf(j.Out, "  %s\n", line)
		}
		if j.wide() {
			for _, t := range m.Tests {
				fmt.Fprintf(j.Out, "  %-6s %s: %s (%s to %s), tolerated %s, matters %s, p %s, adjusted %s (%s)\n", t.Kind, t.Verdict,
					shortNumber(t.Estimate), shortNumber(t.Low), shortNumber(t.High), shortNumber(t.Tolerated), shortNumber(t.Matters), shortNumber(t.P), shortNumber(t.Adjusted), t.Method)
			}
		}
	}
}

func (j *judging) printChain(chain judge.ChainResult, data []judge.Series) {
	fmt.Fprintf(j.Out, "%s: %s.\n\n", strings.ToUpper(string(chain.Verdict)), plain(chain.Why))
	for i, one := range chain.Intervals {
		fmt.Fprintf(j.Out, "interval %d of %d: %s\n", i+1, len(chain.Intervals), one.Verdict)
	}
	j.printMetrics(chain.Together, data)
}

// drawn: the output is a terminal, on which more than ASCII can be drawn.
func (j *judging) drawn() bool {
	file, ok := j.Out.(*os.File)
	if !ok || j.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
