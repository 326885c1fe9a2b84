// Command slowest is an example of a plugin that measures for validations of rollouts: the
// slowest request of each step, by a log. docs/use/validation.md says what it is told; lehr
// starts it.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/sdk/serve"
)

func main() {
	os.Exit(serve.MainCheck(serve.Check{Name: "slowest", Version: "1", Measure: measure}))
}

// measure reads a log of lines such as "2026-11-21T08:00:07Z web/a 35", in milliseconds,
// which is the first argument.
func measure(_ context.Context, request *pluginpb.MeasureRequest) ([]serve.Sample, error) {
	if len(os.Args) != 2 {
		return nil, serve.Misconfigured("it was not started with the name of one file")
	}
	log, err := os.ReadFile(os.Args[1])
	if err != nil {
		return nil, err
	}
	start, end, step := request.Start.AsTime(), request.End.AsTime(), request.Step.AsDuration()
	slowest := map[time.Duration]float64{}
	for line := range strings.Lines(string(log)) {
		var at, asset string
		var milliseconds float64
		if _, err := fmt.Sscan(line, &at, &asset, &milliseconds); err != nil {
			return nil, fmt.Errorf("%q is no request: %w", line, err)
		}
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return nil, err
		}
		if slices.Contains(request.Assets, asset) && !when.Before(start) && !when.After(end) {
			nth := when.Sub(start).Truncate(step)
			slowest[nth] = max(slowest[nth], milliseconds)
		}
	}
	var samples []serve.Sample
	for _, nth := range slices.Sorted(maps.Keys(slowest)) {
		samples = append(samples, serve.Sample{At: start.Add(nth), Value: slowest[nth]})
	}
	return samples, nil
}
