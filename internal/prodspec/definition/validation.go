package definition

import (
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
	"lehr.dev/internal/external/placeholder"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// maxValidations of a partition.
const maxValidations = 50

// maxRetries of a validation in one run, and maxErrors of it in a row.
const maxRetries, maxErrors = 100, 1000

var (
	validationKeys = []string{"warm_up", "interval", "intervals", "every", "step", "before", "compare", "alpha", "correct", "pass", "marginal", "groups", "retries", "errors", "metrics"}
	// sourceKeys say who is asked for a metric, and sourceOnly what only one of them is told.
	sourceKeys = []string{"prometheus", "http", "sql", "command", "plugin"}
	sourceOnly = []string{"of", "experiment", "control"}
	metricKeys = slices.Concat(sourceKeys, []string{"query"}, sourceOnly, []string{
		"timeout", "unit", "group", "kind", "worse", "tolerance", "matters", "spread", "at_most", "at_least", "allow", "newest", "range", "noise",
		"critical", "shadow", "weight", "compare", "absent", "nan", "broken", "least", "fresh",
	})

	metricCompares = map[string]intentpb.Validation_Comparison{
		"before": intentpb.Validation_COMPARISON_BEFORE, "control": intentpb.Validation_COMPARISON_CONTROL, "none": intentpb.Validation_COMPARISON_NONE,
	}
	metricCorrections = map[string]intentpb.Validation_Correction{
		"holm": intentpb.Validation_CORRECTION_HOLM, "benjamini-hochberg": intentpb.Validation_CORRECTION_BENJAMINI_HOCHBERG,
	}
	metricKinds  = map[string]intentpb.ValidationMetric_Kind{"values": intentpb.ValidationMetric_KIND_VALUES, "events": intentpb.ValidationMetric_KIND_EVENTS}
	metricWorses = map[string]intentpb.ValidationMetric_Direction{
		"higher": intentpb.ValidationMetric_DIRECTION_HIGHER, "lower": intentpb.ValidationMetric_DIRECTION_LOWER, "either": intentpb.ValidationMetric_DIRECTION_EITHER,
	}
	metricAbsences = map[string]intentpb.ValidationMetric_Absence{"wait": intentpb.ValidationMetric_ABSENCE_UNSPECIFIED, "zero": intentpb.ValidationMetric_ABSENCE_ZERO}
	metricNaNs     = map[string]intentpb.ValidationMetric_NotANumber{
		"broken": intentpb.ValidationMetric_NOT_A_NUMBER_BROKEN, "ignore": intentpb.ValidationMetric_NOT_A_NUMBER_IGNORE, "zero": intentpb.ValidationMetric_NOT_A_NUMBER_ZERO,
		"bad": intentpb.ValidationMetric_NOT_A_NUMBER_BAD,
	}
)

// validations reads by what rollouts find their changes good or bad.
func (p *parser) validations(node *yaml.Node) (list []*intentpb.Validation) {
	p.eachPair(node, "validations", func(key, value *yaml.Node) {
		at := "validations." + key.Value
		if !checkName().MatchString(key.Value) {
			p.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
		}
		list = append(list, p.changeValidation(key.Value, value, at))
	})
	if len(list) > maxValidations {
		p.at(node, "validations", "there are %d validations, at most %d are allowed", len(list), maxValidations).hint("let rollouts share some")
	}
	return list
}

// changeValidation reads one. What it must be as a whole is asked once its parts are right.
func (p *parser) changeValidation(name string, node *yaml.Node, at string) *intentpb.Validation {
	findingsBefore := len(p.findings)
	fields := p.fields(node, at, validationKeys)
	v := &intentpb.Validation{Name: name}
	for key, dst := range inOrder(map[string]**durationpb.Duration{"warm_up": &v.WarmUp, "interval": &v.Interval, "every": &v.Every, "step": &v.Step, "before": &v.Before}) {
		*dst = p.optional(fields[key], at+"."+key)
	}
	for key, dst := range inOrder(map[string]*float64{"alpha": &v.Alpha, "pass": &v.Pass, "marginal": &v.Marginal}) {
		*dst = p.positive(fields[key], at+"."+key)
	}
	if intervals := fields["intervals"]; intervals != nil {
		v.Intervals = p.number(intervals, at+".intervals", 1)
	}
	if retries := fields["retries"]; retries != nil {
		if v.Retries = p.number(retries, at+".retries", 0); v.Retries > maxRetries {
			p.at(retries, at+".retries", "%s.retries is %d, at most %d are allowed", at, v.Retries, maxRetries).hint("a change that needs so many is to be looked at by a person")
		}
	}
	if errors := fields["errors"]; errors != nil {
		if v.Errors = new(p.number(errors, at+".errors", 0)); *v.Errors > maxErrors {
			p.at(errors, at+".errors", "%s.errors is %d, at most %d are allowed", at, *v.Errors, maxErrors).hint("leave errors out, and a source that fails is asked again for ever")
		}
	}
	if compare := fields["compare"]; compare != nil {
		v.Compare = choice(p, compare, at+".compare", metricCompares, "before, control or none")
	}
	if correct := fields["correct"]; correct != nil {
		v.Correct = choice(p, correct, at+".correct", metricCorrections, "holm or benjamini-hochberg")
	}
	p.eachPair(fields["groups"], at+".groups", func(key, value *yaml.Node) {
		if v.Groups == nil {
			v.Groups = map[string]float64{}
		}
		v.Groups[key.Value] = p.positive(value, at+".groups."+key.Value)
	})
	if fields["metrics"] == nil && node.Kind == yaml.MappingNode {
		p.at(node, at+".metrics", "%s.metrics is missing", at).hint("write metrics: {latency: {prometheus: main, query: …, worse: higher}}")
	}
	p.eachPair(fields["metrics"], at+".metrics", func(key, value *yaml.Node) {
		v.Metrics = append(v.Metrics, p.validationMetric(key, value, join(at+".metrics", key.Value), v.Compare))
	})
	if len(p.findings) == findingsBefore {
		_, err := validation.Of(v)
		p.check(node, at, err)
	}
	return v
}

// inOrder goes over a map in the order of its keys, so that what is found is told in one.
func inOrder[T any](fields map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if !yield(key, fields[key]) {
				return
			}
		}
	}
}

// optional is a length of time, or nil where there is none.
func (p *parser) optional(node *yaml.Node, at string) *durationpb.Duration {
	if node == nil {
		return nil
	}
	return durationpb.New(p.duration(node, at))
}

// positive is a number above 0; 0 where there is none.
func (p *parser) positive(node *yaml.Node, at string) float64 {
	if node == nil {
		return 0
	}
	findingsBefore := len(p.findings)
	n := p.measure(node, at)
	if len(p.findings) == findingsBefore && n <= 0 {
		p.at(node, at, "%s must be more than 0, is %s", at, describe(node)).hint("leave it out for what is usual")
	}
	return n
}

func (p *parser) validationMetric(key, node *yaml.Node, at string, compare intentpb.Validation_Comparison) *intentpb.ValidationMetric {
	findingsBefore := len(p.findings)
	fields := p.fields(node, at, metricKeys)
	m := &intentpb.ValidationMetric{Name: key.Value, Source: &intentpb.MetricSource{}}
	for key, dst := range inOrder(map[string]*string{"unit": &m.Unit, "group": &m.Group}) {
		if fields[key] != nil {
			*dst = p.text(fields[key], at+"."+key)
		}
	}
	for key, dst := range inOrder(map[string]*string{"tolerance": &m.Tolerance, "matters": &m.Matters}) {
		*dst = p.band(fields[key], at+"."+key)
	}
	for key, dst := range inOrder(map[string]*float64{"spread": &m.Spread, "noise": &m.Noise, "weight": &m.Weight}) {
		*dst = p.positive(fields[key], at+"."+key)
	}
	for key, dst := range inOrder(map[string]**float64{"at_most": &m.AtMost, "at_least": &m.AtLeast, "broken": &m.Broken}) {
		if fields[key] != nil {
			*dst = new(p.measure(fields[key], at+"."+key))
		}
	}
	for key, dst := range inOrder(map[string]*bool{"critical": &m.Critical, "shadow": &m.Shadow}) {
		if fields[key] != nil {
			*dst = choice(p, fields[key], at+"."+key, truths, "true or false")
		}
	}
	for key, dst := range inOrder(map[string]*uint32{"allow": &m.Allow, "newest": &m.Newest, "least": &m.Least}) {
		if fields[key] != nil {
			*dst = p.number(fields[key], at+"."+key, 1)
		}
	}
	p.metricChoices(m, fields, at)
	m.Fresh = p.optional(fields["fresh"], at+".fresh")
	if m.AtMost == nil && m.AtLeast == nil {
		for _, key := range []string{"allow", "newest"} {
			if fields[key] != nil {
				p.at(fields[key], at+"."+key, "%s.%s is of a limit", at, key).hint("write at_most or at_least, or remove it")
			}
		}
	}
	if m.Compare != 0 {
		compare = m.Compare
	}
	p.metricSource(m.Source, node, fields, at, compare)
	if len(p.findings) == findingsBefore {
		p.check(key, at, validation.CheckMetric(m, compare))
	}
	return m
}

func (p *parser) metricChoices(m *intentpb.ValidationMetric, fields map[string]*yaml.Node, at string) {
	if node := fields["kind"]; node != nil {
		m.Kind = choice(p, node, at+".kind", metricKinds, "values or events")
	}
	if node := fields["worse"]; node != nil {
		m.Worse = choice(p, node, at+".worse", metricWorses, "higher, lower or either")
	}
	if node := fields["compare"]; node != nil {
		m.Compare = choice(p, node, at+".compare", metricCompares, "before, control or none")
	}
	if node := fields["absent"]; node != nil {
		m.Absent = choice(p, node, at+".absent", metricAbsences, "wait or zero")
	}
	if node := fields["nan"]; node != nil {
		m.Nan = choice(p, node, at+".nan", metricNaNs, "broken, ignore, zero or bad")
	}
	if node := fields["range"]; node != nil {
		bounds := p.fields(node, at+".range", []string{"low", "high"})
		m.Range = &intentpb.MetricRange{}
		for key, dst := range inOrder(map[string]*float64{"low": &m.Range.Low, "high": &m.Range.High}) {
			if bounds[key] != nil {
				*dst = p.measure(bounds[key], at+".range."+key)
			} else if node.Kind == yaml.MappingNode {
				p.at(node, at+".range."+key, "%s.range.%s is missing", at, key).hint("write range: {low: 0, high: 1}")
			}
		}
	}
}

// band is a change, as package judge reads it.
func (p *parser) band(node *yaml.Node, at string) string {
	if node == nil {
		return ""
	}
	if node.Kind != yaml.ScalarNode {
		p.at(node, at, "%s must be a change, is %s", at, describe(node)).hint("write 5%%, 3, or 5%% + 3")
		return ""
	}
	p.check(node, at, new(judge.Band).UnmarshalText([]byte(node.Value)))
	return node.Value
}

// metricSource reads who is asked for a metric, and what.
func (p *parser) metricSource(source *intentpb.MetricSource, node *yaml.Node, fields map[string]*yaml.Node, at string, compare intentpb.Validation_Comparison) {
	var sourceKinds []string
	for _, key := range sourceKeys {
		if fields[key] != nil {
			sourceKinds = append(sourceKinds, key)
		}
	}
	if len(sourceKinds) != 1 {
		if node.Kind == yaml.MappingNode {
			p.at(node, at, "%s is read of %d sources", at, len(sourceKinds)).hint("write one of prometheus, http, sql, command and plugin")
		}
		return
	}
	kind, sourceNode := sourceKinds[0], fields[sourceKinds[0]]
	for _, key := range sourceOnly {
		if fields[key] != nil && kind != "prometheus" {
			p.at(fields[key], at+"."+key, "%s.%s is for Prometheus", at, key).hint("remove it; others are told of which side they are asked")
		}
	}
	switch kind {
	case "prometheus", "http":
		place := p.text(sourceNode, at+"."+kind)
		p.check(sourceNode, at+"."+kind, external.CheckPlace(place))
		source.Ask = &intentpb.MetricSource_Prometheus{Prometheus: place}
		if kind == "http" {
			source.Ask = &intentpb.MetricSource_Http{Http: place}
		}
	case "sql":
		source.Ask = &intentpb.MetricSource_Sql{Sql: p.text(sourceNode, at+".sql")}
	case "command":
		line := p.texts(sourceNode, at+".command")
		if len(line) > 0 && !path.IsAbs(line[0]) {
			p.at(sourceNode, at+".command", "%s.command: %q is no absolute path", at, line[0]).hint("name the program itself, as whoever runs the server lists it in the file of --external-checks")
		}
		source.Ask = &intentpb.MetricSource_Command{Command: &intentpb.CommandLine{Line: line}}
	case "plugin":
		name := p.text(sourceNode, at+".plugin")
		if name != "" && !checkName().MatchString(name) {
			p.at(sourceNode, at+".plugin", "%s.plugin: %q is no name", at, name).hint("write the name of one that whoever runs the server lists under plugins, in the file of --external-checks")
		}
		source.Ask = &intentpb.MetricSource_Plugin{Plugin: name}
	}
	if timeout := fields["timeout"]; timeout != nil {
		d := p.duration(timeout, at+".timeout")
		if source.Timeout = durationpb.New(d); d > mostTimeout {
			p.at(timeout, at+".timeout", "%s.timeout is longer than %s", at, mostTimeout).hint("write at most 1m")
		}
	}
	p.metricQueries(source, kind, sourceNode, fields, at, compare)
}

// metricQueries are asked, with what stands for the side that they are asked about.
func (p *parser) metricQueries(source *intentpb.MetricSource, kind string, sourceNode *yaml.Node, fields map[string]*yaml.Node, at string, compare intentpb.Validation_Comparison) {
	for key, dst := range inOrder(map[string]*string{"query": &source.Query, "of": &source.Of}) {
		if fields[key] != nil {
			*dst = p.text(fields[key], at+"."+key)
		}
	}
	for key, dst := range inOrder(map[string]*string{"experiment": &source.Experiment, "control": &source.Control}) {
		if fields[key] != nil {
			*dst = strings.Join(p.matchers(fields[key], at+"."+key), ",")
			p.check(fields[key], at+"."+key, placeholder.CheckPromQL(*dst))
		}
	}
	query := fields["query"]
	switch {
	case query == nil && (kind == "prometheus" || kind == "sql"):
		p.at(sourceNode, at+".query", "%s.query is missing", at).hint("write what %s is asked", kind)
	case kind == "sql":
		p.check(query, at+".query", placeholder.CheckSQL(source.Query))
	case kind == "prometheus":
		p.check(query, at+".query", placeholder.CheckPromQL(source.Query))
		if fields["of"] != nil {
			p.check(fields["of"], at+".of", placeholder.CheckPromQL(source.Of))
		}
		p.selectors(source, fields, at, compare == intentpb.Validation_COMPARISON_CONTROL)
	}
}

// selectors tell the sides of a Prometheus apart.
func (p *parser) selectors(source *intentpb.MetricSource, fields map[string]*yaml.Node, at string, control bool) {
	query := fields["query"]
	selects := placeholder.Uses(source.Query+source.Of, "selector")
	switch {
	case selects && fields["experiment"] == nil:
		p.at(query, at+".experiment", "%s.experiment is missing, which $selector stands for", at).hint(`write experiment: 'version="v2"'`)
	case selects && control && fields["control"] == nil:
		p.at(query, at+".control", "%s.control is missing, which $selector stands for", at).hint(`write control: 'version!="v2"'`)
	case !selects && fields["experiment"] != nil:
		p.at(query, at+".query", "%s.query has no $selector to put them", at).hint(`write it where labels are matched: rate(requests_total{job="web",$selector}[1m])`)
	case !control && fields["control"] != nil:
		p.at(fields["control"], at+".control", "%s is not compared with a control", at).hint("write compare: control, or remove it")
	case control && !placeholder.Uses(source.Query, "asset", "scope", "selector"):
		p.at(query, at+".query", "%s.query is the same for both sides", at).hint(`write {instance=~"$asset"}, or $selector with experiment and control`)
	}
}

// validationsSchema is that of all.
func validationsSchema() map[string]any {
	metric := map[string]any{}
	for _, key := range metricKeys {
		metric[key] = metricField(key)
	}
	properties := map[string]any{}
	for _, key := range validationKeys {
		switch key {
		case "intervals":
			properties[key] = number(1)
		case "retries", "errors":
			properties[key] = number(0)
		case "compare":
			properties[key] = metricField(key)
		case "correct":
			properties[key] = enum(slices.Sorted(maps.Keys(metricCorrections)))
		case "groups":
			properties[key] = mapOf(map[string]any{"type": "number"})
		case "metrics":
			properties[key] = mapOf(object(metric))
		case "alpha", "pass", "marginal":
			properties[key] = map[string]any{"type": "number"}
		default:
			properties[key] = duration()
		}
	}
	return mapOf(object(properties, "metrics"))
}

// metricField is a key of a validation's metric.
func metricField(key string) map[string]any {
	switch key {
	case "command":
		return texts()
	case "timeout", "fresh":
		return duration()
	case "kind":
		return enum(slices.Sorted(maps.Keys(metricKinds)))
	case "worse":
		return enum(slices.Sorted(maps.Keys(metricWorses)))
	case "compare":
		return enum(slices.Sorted(maps.Keys(metricCompares)))
	case "absent":
		return enum(slices.Sorted(maps.Keys(metricAbsences)))
	case "nan":
		return enum(slices.Sorted(maps.Keys(metricNaNs)))
	case "tolerance", "matters":
		return map[string]any{"type": []string{"string", "number"}}
	case "critical", "shadow":
		return map[string]any{"type": "boolean"}
	case "allow", "newest", "least":
		return number(1)
	case "range":
		return object(map[string]any{"low": map[string]any{"type": "number"}, "high": map[string]any{"type": "number"}}, "low", "high")
	case "spread", "at_most", "at_least", "noise", "weight", "broken":
		return map[string]any{"type": "number"}
	default:
		return text()
	}
}
