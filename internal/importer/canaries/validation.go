package canaries

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/external/placeholder"
)

const (
	// leastEvery and leastStep are the shortest times that a validation takes.
	leastEvery = 5 * time.Second
	leastStep  = time.Second
	// usualStep is that of a metric that is measured once.
	usualStep = 15 * time.Second
)

// timing says when metrics are measured.
type timing struct {
	warmUp, step, interval time.Duration
}

// validation is one of lehr.yaml.
type validation struct {
	name   string
	timing timing
	// retries are how often harm may be found in a release without ending it.
	retries int
	// errors are how many measurements in a row may fail; negative: any number.
	errors int
	// asks: a person is asked where not all of its metrics pass and none that is critical fails.
	asks    bool
	metrics map[string]any
	names   []string
}

// measured is a metric that was read.
type measured struct {
	name   string
	timing timing
	fields map[string]any
	// errors are how many measurements in a row may fail; negative: any number.
	errors int
	// retries are how often harm may be found without ending the release.
	retries int
	// asks: a person is asked where it fails and what is critical passed.
	asks bool
}

// addValidations makes validations of metrics: one for those that are measured at the same times and may fail as often. A metric that
// decides nothing goes with any that is measured at its times.
func (r *reading) addValidations(name string, metrics []measured) (names []string) {
	var made []*validation
	find := func(m measured) *validation {
		at := slices.IndexFunc(made, func(v *validation) bool {
			return v.timing == m.timing && (v.errors == m.errors && v.retries == m.retries && v.asks == m.asks || m.fields["shadow"] == true)
		})
		if at >= 0 {
			return made[at]
		}
		v := &validation{name: unused(&r.checkedNames, segment(name)), timing: m.timing, errors: m.errors, retries: m.retries, asks: m.asks, metrics: map[string]any{}}
		made, r.validations, names = append(made, v), append(r.validations, v), append(names, v.name)
		return v
	}
	decides := func(m measured) bool { return m.fields["shadow"] != true }
	slices.SortStableFunc(metrics, func(a, b measured) int {
		switch {
		case decides(a) == decides(b):
			return 0
		case decides(a):
			return -1
		}
		return 1
	})
	for _, m := range metrics {
		v := find(m)
		// Each measurement counts there, be it the only one; the judge by itself wants five. What is missing is waited for in any case.
		m.fields["least"] = 1
		v.metrics[unused(&v.names, segment(m.name))] = m.fields
	}
	return slices.DeleteFunc(names, r.dropUndecided)
}

// dropUndecided drops a validation whose metrics are all shadows, for one of them must decide.
func (r *reading) dropUndecided(name string) bool {
	at := slices.IndexFunc(r.validations, func(v *validation) bool { return v.name == name })
	for _, fields := range r.validations[at].metrics {
		if metric, _ := fields.(map[string]any); metric["shadow"] == nil {
			return false
		}
	}
	r.validations = slices.Delete(r.validations, at, at+1)
	r.leftOut("the validation "+name, "its metrics are all dry runs, and a validation has one that decides: add one, and write shadow: true for those", false)
	return true
}

func (v *validation) fields() map[string]any {
	made := map[string]any{
		"compare": "none", "interval": v.timing.interval.String(), "every": max(v.timing.step, leastEvery).String(), "step": v.timing.step.String(), "metrics": v.metrics,
	}
	if v.retries > 0 {
		made["retries"] = v.retries
	}
	if v.asks {
		made["pass"], made["marginal"] = 100, 1
	}
	if v.errors >= 0 {
		made["errors"] = v.errors
	}
	if v.timing.warmUp > 0 {
		made["warm_up"] = v.timing.warmUp.String()
	}
	return made
}

// times are those of a metric that is measured each interval, count times; 0: for as long as the release
// goes on, whose longest pause is given. Allowed is how many may fail.
func times(every, delay, pause time.Duration, count, allowed int) timing {
	if every == 0 {
		every = usualStep
	}
	lasts := time.Duration(count) * every
	if count == 0 {
		lasts = max(pause, every*time.Duration(max(5, allowed+1)))
	}
	step := max(every, leastStep)
	return timing{delay, step, max(lasts, step, leastEvery)}
}

// setLimits writes what samples must be within.
func setLimits(fields map[string]any, l limits) {
	if l.atLeast != nil {
		fields["at_least"] = *l.atLeast
	}
	if l.atMost != nil {
		fields["at_most"] = *l.atMost
	}
	switch query, isQuery := fields["query"].(string); {
	case l.emptyFails && isQuery && fields["prometheus"] != nil:
		fields["query"] = fmt.Sprintf("(%s) or on() vector(NaN)", query)
	case l.emptyPasses && isQuery && fields["prometheus"] != nil && l.atLeast != nil:
		fields["query"] = fmt.Sprintf("(%s) or on() vector(%v)", query, *l.atLeast)
	case l.emptyPasses && isQuery && fields["prometheus"] != nil && l.atMost != nil:
		fields["query"] = fmt.Sprintf("(%s) or on() vector(%v)", query, *l.atMost)
	}
	switch {
	case l.nanPasses:
		fields["nan"] = "ignore"
	case l.nanFails:
		fields["nan"] = "bad"
	}
}

// prometheusName is what the operator's file is to call the Prometheus at an address.
func (r *reading) prometheusName(address string) string {
	for i := 1; ; i++ {
		name := r.settings.prometheus
		if i > 1 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		if known, ok := r.sources[name]; !ok || known == address {
			if r.sources == nil {
				r.sources = map[string]string{}
			}
			r.sources[name] = address
			return name
		}
	}
}

// checkQuery refuses a query that Lehr cannot ask.
func (w words) checkQuery(node *yaml.Node, query string) {
	if err := placeholder.CheckPromQL(query); err != nil {
		w.refuse(node, "the query cannot be asked: %v", err)
	}
}
