package cli

import (
	"math"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
)

// FuzzSamples: whatever a file holds, it is read or is Invalid, and what is read is
// judged, drawn within 80 columns, and told.
func FuzzSamples(f *testing.F) {
	for _, seed := range []string{
		"time,metric,group,value\n2026-11-21T08:00:00Z,a,control,1\n1,a,after,2\n",
		"metric,group,value,of\na,before,3,100\na,experiment,NaN,\n\"a\nb\",control,1e999,-1\n",
		"\ufeffMetric, Value, Time\na,1,1763712000\na,-1e308,1763712001.5\na,1e308,0\n",
		"metric,group\n", "", "\"", "Metric,Value,Time\n0\"00", "time,time\n", "metric,group,value\na,b,c\n", "metric,group,value\na,control\n",
		`{"data":[{"metric":"a","control":[{"value":"NaN"},{"value":1}],"experiment":[{"at":"2026-11-21T08:00:00Z","value":2}]}]}`,
		`{"data":[{"metric":"a"}],"settings":{"alpha":2}}`,
	} {
		f.Add(seed)
	}
	at := time.Unix(1763712001, 0)
	f.Fuzz(func(t *testing.T, text string) {
		kept, err := decodeKept([]byte(text))
		if err != nil {
			if kept.Data, err = parseSamples(strings.NewReader(text), "samples.csv", at); err != nil {
				if !fault.Is(err, fault.Invalid) {
					t.Fatal(err)
				}
				return
			}
		}
		result, err := judge.Judge(kept.Settings, kept.Data)
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatal(err)
		}
		var out strings.Builder
		j := &judging{session: &session{Terminal: Terminal{Out: &out}, output: "wide"}}
		if j.printResult(result, kept.Data); strings.ContainsAny(out.String(), "\x1b\r\u202e") {
			t.Errorf("it could steer a terminal: %q", out.String())
		}
		for _, series := range kept.Data {
			for _, drawn := range []bool{true, false} {
				for _, line := range plot(series, drawn) {
					if len([]rune(line)) > 78 {
						t.Errorf("%d columns: %s", len([]rune(line)), line)
					}
				}
			}
		}
	})
}

func TestPlots(t *testing.T) {
	of := func(values ...float64) (samples []judge.Sample) {
		for _, v := range values {
			samples = append(samples, judge.Sample{Value: judge.Number(v)})
		}
		return samples
	}
	timed := func(samples []judge.Sample) []judge.Sample {
		for i := range samples {
			samples[i].At = time.Unix(int64(60*i), 0)
		}
		return samples
	}
	for want, series := range map[string]judge.Series{
		"control     _.-=+*%#\nexperiment  #_\n            from 1 to 8, each over its own time":                                                {Control: timed(of(1, 2, 3, 4, 5, 6, 7, 8)), Experiment: timed(of(8, 1, math.NaN()))},
		"control     [======|======]\nexperiment  " + strings.Repeat(" ", 55) + "|\n            from 0 to 8: all, the middle half, the median": {Control: of(0, 0, 1, 2, 2), Experiment: of(8)},
		"": {Control: of(math.Inf(1))},
	} {
		if got := strings.Join(plot(series, false), "\n"); got != want {
			t.Errorf("it draws\n%s\nnot\n%s", got, want)
		}
	}
	if line := plot(judge.Series{Control: timed(of(1, 2)), Experiment: timed(of(1, 1))}, true)[0]; line != "control     ▁█" {
		t.Error(line)
	}
}
