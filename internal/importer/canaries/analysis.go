package canaries

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// providers of metrics that Argo Rollouts has beside Prometheus. Each becomes a service that answers.
var providers = []string{"web", "job", "datadog", "newRelic", "wavefront", "cloudWatch", "graphite", "influxdb", "skywalking", "kayenta", "plugin"}

var argument = regexp.MustCompile(`\{\{\s*args\.([A-Za-z0-9_.-]+)\s*\}\}`)

// analysis is one that a Rollout asks for.
type analysis struct {
	words
	// of is the Rollout.
	of *object
	// pause is the longest of the Rollout.
	pause time.Duration
	args  map[string]string
	// dry are the metrics that decide nothing; "*": all.
	dry       []string
	templates []*object
	metrics   []measured
}

// readAnalysis reads what a Rollout says of an analysis, and the templates that it names. It returns
// the names of the validations.
func (r *reading) readAnalysis(w words, node *yaml.Node, of *object, name string, pause time.Duration) []string {
	a := &analysis{words: w.as(ofAnalysis), of: of, pause: pause, args: map[string]string{}}
	var templates []*yaml.Node
	a.eachKey(node, "analysis", map[string]reader{
		"templates": func(list *yaml.Node) {
			a.eachItem(list, "templates", func(item *yaml.Node) { templates = append(templates, item) })
		},
		"args": func(list *yaml.Node) {
			a.eachItem(list, "args", func(item *yaml.Node) { a.readArgument(a.words, item) })
		},
		"dryRun":               func(list *yaml.Node) { a.eachItem(list, "dryRun", a.readDry) },
		"startingStep":         a.left("analysis: startingStep", "Lehr judges each step, also those before it"),
		"measurementRetention": a.left("analysis: measurementRetention", "samples are kept with each verdict, as long as ended pushes are"),
		"analysisRunMetadata":  a.left("analysis: analysisRunMetadata", "there is no AnalysisRun: lehr rollout status shows what was measured"),
	})
	for _, item := range templates {
		a.readReference(a.words, item)
	}
	if len(templates) == 0 {
		a.refuse(node, "the analysis names no template: write templates: [{templateName: NAME}]")
	}
	return r.addValidations(name, a.metrics)
}

func (a *analysis) readDry(item *yaml.Node) {
	name := ""
	a.eachKey(item, "dryRun", map[string]reader{"metricName": a.text(&name)})
	a.dry = append(a.dry, name)
}

// readArgument reads an argument with its value; one that has a value already keeps it.
func (a *analysis) readArgument(w words, item *yaml.Node) {
	name, value, given := "", "", false
	w.eachKey(item, "args", map[string]reader{
		"name":  w.text(&name),
		"value": func(node *yaml.Node) { given = true; w.text(&value)(node) },
		"valueFrom": func(node *yaml.Node) {
			w.eachKey(node, "valueFrom", map[string]reader{
				"podTemplateHashValue": func(node *yaml.Node) {
					given, value = true, map[string]string{"Latest": "$scope.slot", "Stable": "$scope.former"}[node.Value]
					if w.keep(node); value == "" {
						w.refuse(node, "podTemplateHashValue is Latest or Stable")
					}
				},
				"fieldRef": func(node *yaml.Node) { value, given = a.readField(w, node) },
				"secretKeyRef": func(node *yaml.Node) {
					given = true
					w.leave(node, "args: valueFrom.secretKeyRef", "a credential is the operator's: it is written beside the source under monitoring, in the file of --external-checks")
				},
			})
		},
	})
	if _, ok := a.args[name]; given && !ok {
		a.args[name] = value
	}
}

var fieldKey = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']+)'\]$`)

// readField is a field of the Rollout.
func (a *analysis) readField(w words, node *yaml.Node) (string, bool) {
	path := ""
	w.eachKey(node, "fieldRef", map[string]reader{"fieldPath": w.text(&path)})
	var value any
	if key := fieldKey.FindStringSubmatch(path); key != nil {
		value = dig(a.of.fields, "metadata", key[1], key[2])
	} else if path == "metadata.namespace" {
		value = a.of.namespace
	} else if !strings.HasPrefix(path, "status") {
		value = dig(a.of.fields, strings.Split(path, ".")...)
	}
	if value == nil {
		w.refuse(node, "%s has no field %q", a.of, path)
		return "", false
	}
	return fmt.Sprint(value), true
}

// readReference reads a template that is named, once.
func (a *analysis) readReference(w words, item *yaml.Node) {
	name, isCluster := "", false
	w.eachKey(item, "templates", map[string]reader{"templateName": w.text(&name), "clusterScope": w.truth(&isCluster)})
	kind, namespace := "AnalysisTemplate.argoproj.io", a.of.namespace
	template := a.find(kind, namespace, name)
	if isCluster {
		kind, namespace = "ClusterAnalysisTemplate.argoproj.io", ""
		for _, o := range a.objects {
			if o.kind == kind && o.name == name {
				template = o
			}
		}
	}
	if template == nil {
		w.refuse(item, "there is no %s %s in what was read: without it the release would go on unjudged", strings.TrimSuffix(kind, ".argoproj.io"), strings.TrimPrefix(namespace+"/"+name, "/"))
		return
	}
	if !slices.Contains(a.templates, template) {
		a.templates = append(a.templates, template)
		a.readTemplate(template)
	}
}

func (a *analysis) readTemplate(template *object) {
	w := words{reading: a.reading, object: template, feature: ofAnalysis, again: template.taken}
	template.taken = true
	spec := child(template.node, "spec")
	if spec == nil {
		w.refuse(template.node, "%s has no spec", template)
		return
	}
	a.checkSecrets(template, template.fields["spec"])
	metrics := 0
	if args := child(spec, "args"); args != nil {
		w.eachItem(args, "args", func(item *yaml.Node) { a.readArgument(w, item) })
	}
	w.eachKey(spec, "the template", map[string]reader{
		"args": func(*yaml.Node) {}, // Read before what needs them.
		"templates": func(list *yaml.Node) {
			w.eachItem(list, "templates", func(item *yaml.Node) { metrics++; a.readReference(w, item) })
		},
		"dryRun":               func(list *yaml.Node) { w.eachItem(list, "dryRun", a.readDry) },
		"measurementRetention": w.left("measurementRetention", "samples are kept with each verdict, as long as ended pushes are"),
		"metrics": func(list *yaml.Node) {
			w.eachItem(list, "metrics", func(item *yaml.Node) { metrics++; a.readMetric(w, a.filled(w, item)) })
		},
	})
	if metrics == 0 {
		w.refuse(spec, "%s has no metrics", template)
	}
}

// filled is a node with arguments in their places.
func (a *analysis) filled(w words, node *yaml.Node) *yaml.Node {
	made := *node
	made.Content = nil
	for _, child := range node.Content {
		made.Content = append(made.Content, a.filled(w, child))
	}
	if node.Kind == yaml.ScalarNode {
		made.Value = argument.ReplaceAllStringFunc(node.Value, func(text string) string {
			name := argument.FindStringSubmatch(text)[1]
			value, ok := a.args[name]
			if !ok {
				w.refuse(node, "the argument %s has no value: neither %s nor the template gives one", name, a.of)
			}
			return value
		})
	}
	return &made
}

// asked is what a metric says, beside whom it asks.
type asked struct {
	name, success, failure string
	every, delay           time.Duration
	// failures may be found, negative: any number; successes in a row are enough, 0: all must be good.
	// inconclusive ones, which fulfil neither of two conditions, may be found before a person is asked.
	count, failures, errors, successes, inconclusive int
	failuresNode                                     *yaml.Node
	successNode, failureNode, countNode              *yaml.Node
	provider                                         *yaml.Node
}

func (a *analysis) readMetric(w words, item *yaml.Node) {
	m := asked{errors: usualErrors}
	w.eachKey(item, "metrics", map[string]reader{
		"name": w.text(&m.name), "interval": w.while(&m.every), "initialDelay": w.while(&m.delay),
		"count":                   func(node *yaml.Node) { m.countNode = node; w.count(&m.count)(node) },
		"failureLimit":            func(node *yaml.Node) { m.failuresNode = node; a.readFailureLimit(w, node, &m.failures) },
		"successCondition":        func(node *yaml.Node) { m.successNode = node; w.text(&m.success)(node) },
		"failureCondition":        func(node *yaml.Node) { m.failureNode = node; w.text(&m.failure)(node) },
		"inconclusiveLimit":       w.count(&m.inconclusive),
		"consecutiveErrorLimit":   func(node *yaml.Node) { a.readErrorLimit(w, node, &m.errors) },
		"consecutiveSuccessLimit": w.count(&m.successes),
		"provider":                func(node *yaml.Node) { m.provider = node },
	})
	if m.provider == nil || m.name == "" {
		w.refuse(item, "a metric has a name and a provider")
		return
	}
	if m.failures < 0 && m.successes == 0 {
		w.refuse(m.failuresNode, "failureLimit: -1 lets every measurement fail: write dryRun for a metric that decides nothing")
		return
	}
	if m.count == 0 && m.every == 0 {
		m.count = 1
	}
	fields, ok := a.readProvider(w, m)
	if !ok {
		return
	}
	if slices.Contains(a.dry, "*") || slices.Contains(a.dry, m.name) {
		fields["shadow"] = true
	}
	count, allowed, retries := m.count, m.failures, 0
	switch {
	case m.successes > 0:
		// So many good ones in a row are a validation of that length, which begins anew after one that fails.
		if m.countNode != nil {
			w.list(m.countNode, "metrics: count", "where so many measurements have no consecutiveSuccessLimit in a row among them, a Rollout pauses; here it begins anew as often as failureLimit says, and then the release ends", false)
		}
		if count, allowed, retries = m.successes, 0, m.failures; retries < 0 || retries > mostRetries {
			retries = mostRetries
		}
	case count > 0:
		count = max(count, m.failures+1)
	}
	one := measured{name: m.name, timing: times(m.every, m.delay, a.pause, count, allowed), fields: fields, errors: m.errors, retries: retries}
	isBoth := m.successNode != nil && m.failureNode != nil && fields["shadow"] == nil
	if !isBoth || !a.addBoth(w, m, one, allowed) {
		one.allow(allowed)
		a.metrics = append(a.metrics, one)
	}
}

// allow has so many of the newest samples be beyond the limit.
func (m *measured) allow(failures int) {
	if failures > 0 {
		m.fields["allow"], m.fields["newest"] = failures, max(int(m.timing.interval/m.timing.step), failures+1)
	}
}

// addBoth adds a metric with two conditions as two: one that decides by failureCondition, and one that a person is asked about where
// successCondition is not fulfilled. It reports whether failureCondition can be a limit.
func (a *analysis) addBoth(w words, m asked, wanted measured, allowed int) bool {
	failure, err := readCondition(m.failure, true)
	if err != nil || failure.atLeast == nil && failure.atMost == nil {
		w.list(m.failureNode, "metrics: failureCondition", "what fulfils neither condition pauses a Rollout; here it is bad, for successCondition is the limit", false)
		return false
	}
	critical := wanted
	critical.fields = maps.Clone(wanted.fields)
	delete(critical.fields, "at_least")
	delete(critical.fields, "at_most")
	if failure.atLeast != nil {
		critical.fields["at_least"] = *failure.atLeast
	}
	if failure.atMost != nil {
		critical.fields["at_most"] = *failure.atMost
	}
	critical.fields["critical"] = true
	wanted.name += "-wanted"
	critical.asks, wanted.asks = true, true
	critical.allow(allowed)
	wanted.allow(m.inconclusive)
	a.metrics = append(a.metrics, critical, wanted)
	return true
}

const (
	// usualErrors is Argo Rollouts' own limit where a metric has none.
	usualErrors = 4
	// mostErrors of a validation that Lehr takes.
	mostErrors = 1000
)

// readErrorLimit takes how many measurements in a row may fail; -1 is any number.
func (a *analysis) readErrorLimit(w words, node *yaml.Node, to *int) {
	if node.Value == "-1" {
		*to = -1
		w.keep(node)
		return
	}
	w.count(to)(node)
	*to = min(*to, mostErrors)
}

// readFailureLimit takes how many measurements may fail; -1 is any number.
func (a *analysis) readFailureLimit(w words, node *yaml.Node, to *int) {
	if node.Value == "-1" {
		*to = -1
		w.keep(node)
		return
	}
	w.count(to)(node)
}

// readProvider reads whom a metric asks, and what answers must be.
func (a *analysis) readProvider(w words, m asked) (map[string]any, bool) {
	if m.provider.Kind != yaml.MappingNode || len(m.provider.Content) != 2 {
		w.refuse(m.provider, "the metric %s has no provider, or more than one", m.name)
		return nil, false
	}
	kind, node := m.provider.Content[0], m.provider.Content[1]
	switch {
	case kind.Value == "prometheus":
		return a.readPrometheus(w, m, node)
	case slices.Contains(providers, kind.Value):
		return a.readOther(w, m, kind.Value, node)
	}
	w.refuse(kind, "%s is no provider of metrics that Argo Rollouts has: those are prometheus, %s", kind.Value, strings.Join(providers, ", "))
	return nil, false
}

func (a *analysis) readPrometheus(w words, m asked, node *yaml.Node) (map[string]any, bool) {
	address, query, queryNode := "", "", node
	const operators = "it is the operator's: written beside the source under monitoring, in the file of --external-checks"
	timeout := 0
	w.eachKey(node, "prometheus", map[string]reader{
		"address":        w.text(&address),
		"query":          func(node *yaml.Node) { queryNode = node; w.text(&query)(node) },
		"timeout":        w.count(&timeout),
		"authentication": w.left("prometheus: authentication", operators), "insecure": w.left("prometheus: insecure", operators),
		"headers": w.left("prometheus: headers", operators), "rangeQuery": w.left("prometheus: rangeQuery", "Lehr asks for all samples of its interval in any case"),
	})
	query = strings.TrimSpace(query)
	if query == "" {
		w.refuse(node, "the metric %s has no query", m.name)
		return nil, false
	}
	w.checkQuery(queryNode, query)
	fields := map[string]any{"prometheus": a.prometheusName(address), "query": query}
	if timeout > 0 {
		fields["timeout"] = fmt.Sprintf("%ds", min(timeout, 60))
	}
	l, ok := a.readLimits(w, m)
	if !ok {
		return nil, false
	}
	setLimits(fields, l)
	return fields, true
}

// readLimits are those that conditions say. Where there is one of success and one of failure, what is
// neither is no success: that is stricter than a pause for a person.
func (a *analysis) readLimits(w words, m asked) (limits, bool) {
	text, node, isFailure := m.success, m.successNode, false
	if node == nil {
		text, node, isFailure = m.failure, m.failureNode, true
	}
	if node == nil {
		w.refuse(m.provider, "the metric %s has no condition, so it would judge nothing: write successCondition, or take it out", m.name)
		return limits{}, false
	}
	l, err := readCondition(text, isFailure)
	// What is no number fulfils neither of two conditions, and a person is asked.
	l.nanFails = l.nanFails && (m.successNode == nil || m.failureNode == nil)
	if err != nil {
		w.refuse(node, "the condition %q cannot be a limit: %v. Write the comparison into the query, as (QUERY) >= bool 0.95, and successCondition: result[0] == 1", text, err)
		return l, false
	}
	return l, true
}

// readOther makes a service of what Lehr does not ask itself: it is told the provider as it is written.
func (a *analysis) readOther(w words, m asked, kind string, node *yaml.Node) (map[string]any, bool) {
	var spec any
	if err := node.Decode(&spec); err != nil {
		w.refuse(node, "the provider %s cannot be read: %v", kind, err)
		return nil, false
	}
	query, err := json.Marshal(spec)
	if err != nil {
		w.refuse(node, "the provider %s cannot be written as JSON: %v", kind, err)
		return nil, false
	}
	w.keep(node)
	fields := map[string]any{"http": segment(kind), "query": string(query)}
	l, ok := limits{}, false
	if m.successNode != nil || m.failureNode != nil {
		text, isFailure := m.success, false
		if m.successNode == nil {
			text, isFailure = m.failure, true
		}
		l, err = readCondition(text, isFailure)
		ok, l.nanFails = err == nil, l.nanFails && (m.successNode == nil || m.failureNode == nil)
	}
	meaning := "what it measures"
	if !ok {
		one := 1.0
		l, meaning = limits{atLeast: &one}, "1 for what is good and 0 for what is not"
	}
	setLimits(fields, l)
	a.addHint(fmt.Sprintf("list a service %s under monitoring (kind: metrics) that does what the provider %s did and answers %s: until it answers, releases wait", segment(kind), kind, meaning))
	return fields, true
}

// addHint adds what a person has to do, once.
func (r *reading) addHint(text string) {
	if !slices.Contains(r.Hints, text) {
		r.Hints = append(r.Hints, text)
	}
}
