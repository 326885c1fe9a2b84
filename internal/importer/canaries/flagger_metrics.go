package canaries

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// flaggerProviders are those of MetricTemplates beside Prometheus.
var flaggerProviders = []string{"datadog", "cloudwatch", "newrelic", "graphite", "stackdriver", "influxdb", "dynatrace", "keptn", "splunk", "externalmetrics"}

var variable = regexp.MustCompile(`\{\{-?\s*([a-zA-Z_.]+)\s*-?\}\}`)

// counters are the metrics that Flagger's own queries ask for, by provider: of requests, of those that
// failed, and of durations.
type counters struct{ requests, failed, all, duration, most string }

// builtinQueries are the success rate in percent and the duration in milliseconds, as Flagger defines
// them.
var builtinQueries = map[string]counters{
	"istio": {
		requests: "istio_requests_total", all: `reporter="destination",destination_workload_namespace="{{ namespace }}",destination_workload=~"{{ target }}"`,
		failed: `response_code!~"5.*"`, duration: "istio_request_duration_milliseconds_bucket",
	},
	"linkerd": {
		requests: "response_total", all: `namespace="{{ namespace }}",deployment=~"{{ target }}",direction="inbound"`,
		failed: `classification!="failure"`, duration: "response_latency_ms_bucket",
	},
	"kubernetes": {
		requests: "http_request_duration_seconds_count", all: `kubernetes_namespace="{{ namespace }}",kubernetes_pod_name=~"{{ target }}-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)"`,
		failed: `status!~"5.*"`, duration: "http_request_duration_seconds_bucket", most: " * 1000",
	},
}

func builtinQuery(provider, metric string) string {
	q, ok := builtinQueries[provider]
	switch {
	case !ok:
		return ""
	case metric == "request-success-rate":
		return fmt.Sprintf("sum(rate(%s{%s,%s}[{{ interval }}])) / sum(rate(%s{%s}[{{ interval }}])) * 100", q.requests, q.all, q.failed, q.requests, q.all)
	case metric == "request-duration":
		return fmt.Sprintf("histogram_quantile(0.99, sum(rate(%s{%s}[{{ interval }}])) by (le))%s", q.duration, q.all, q.most)
	}
	return ""
}

func (c *canaryReading) readMetrics(o *object) {
	if c.metrics != nil {
		c.eachItem(c.metrics, "metrics", func(item *yaml.Node) { c.readMetric(o, item) })
	}
}

func (c *canaryReading) readMetric(o *object, item *yaml.Node) {
	name, interval, query := "", "1m", ""
	var bounds limits
	var threshold *float64
	var queryNode, template *yaml.Node
	variables := map[string]string{}
	number := func(to **float64) reader {
		return func(node *yaml.Node) {
			n := 0.0
			if err := node.Decode(&n); err != nil {
				c.refuse(node, "a number is expected here")
			}
			*to = &n
			c.keep(node)
		}
	}
	c.eachKey(item, "metrics", map[string]reader{
		"name": c.text(&name), "interval": c.text(&interval), "threshold": number(&threshold),
		"thresholdRange": func(node *yaml.Node) {
			c.eachKey(node, "thresholdRange", map[string]reader{"min": number(&bounds.atLeast), "max": number(&bounds.atMost)})
		},
		"query":       func(node *yaml.Node) { queryNode = node; c.text(&query)(node) },
		"templateRef": func(node *yaml.Node) { template = node },
		"templateVariables": func(node *yaml.Node) {
			if err := node.Decode(&variables); err != nil {
				c.refuse(node, "templateVariables are texts by name")
			}
			c.keep(node)
		},
	})
	if threshold != nil && bounds.atLeast == nil && bounds.atMost == nil {
		if bounds.atMost = threshold; name == "request-success-rate" {
			bounds = limits{atLeast: threshold}
		}
	}
	if bounds.atLeast == nil && bounds.atMost == nil {
		c.refuse(item, "the metric %s has no thresholdRange, so it would judge nothing", name)
		return
	}
	fill := func(node *yaml.Node, text string) string { return c.fill(o, node, text, interval, variables) }
	fields := map[string]any{}
	switch builtin := builtinQuery(strings.SplitN(c.provider, ":", 2)[0], name); {
	case template != nil:
		if fields = c.readTemplate(o, template, fill); fields == nil {
			return
		}
	case queryNode != nil:
		fields["prometheus"], fields["query"] = c.prometheusName(c.metricsServer), fill(queryNode, query)
		c.checkQuery(queryNode, fields["query"].(string))
	case builtin != "":
		fields["prometheus"], fields["query"] = c.prometheusName(c.metricsServer), fill(item, builtin)
	default:
		c.refuse(item, "the metric %s has no templateRef, and Lehr has no query of its own for it with provider %s: write a MetricTemplate", name, c.provider)
		return
	}
	// To Flagger, no value and NaN are checks that fail.
	bounds.nanFails, bounds.emptyFails = true, true
	setLimits(fields, bounds)
	c.measured = append(c.measured, measured{name: name, timing: c.times(), fields: fields, errors: -1})
}

// times of each check: one for each step, or all iterations before requests move. Flagger checks first once
// an interval is over, so what there was before the requests moved counts for nothing.
func (c *canaryReading) times() timing {
	lasts := max(time.Duration(c.iterations-1)*c.interval, leastEvery)
	return timing{warmUp: c.interval, step: min(c.interval, lasts), interval: lasts}
}

// fill puts what a query is about in its places. The target of a release is the slot that comes.
func (c *canaryReading) fill(o *object, node *yaml.Node, text, interval string, variables map[string]string) string {
	values := map[string]string{
		"name": o.name, "namespace": o.namespace, "target": "$scope.candidate", "service": c.service.name, "ingress": c.ingress, "route": c.route, "interval": interval,
	}
	for key, value := range variables {
		values["variables."+key] = value
	}
	return strings.TrimSpace(variable.ReplaceAllStringFunc(text, func(found string) string {
		name := variable.FindStringSubmatch(found)[1]
		value, ok := values[name]
		if !ok {
			c.refuse(node, "the query asks for %s, and the Canary says no such thing", name)
		}
		return value
	}))
}

// readTemplate reads the MetricTemplate that a metric names.
func (c *canaryReading) readTemplate(o *object, node *yaml.Node, fill func(*yaml.Node, string) string) map[string]any {
	name, namespace := "", o.namespace
	c.eachKey(node, "templateRef", map[string]reader{"name": c.text(&name), "namespace": c.text(&namespace)})
	template := c.find("MetricTemplate"+flaggerGroup, namespace, name)
	if template == nil {
		c.refuse(node, "there is no MetricTemplate %s/%s in what was read: without it the release would go on unjudged", namespace, name)
		return nil
	}
	w := words{reading: c.reading, object: template, feature: ofAnalysis, again: template.taken}
	template.taken = true
	spec := child(template.node, "spec")
	if spec == nil {
		w.refuse(template.node, "%s has no spec", template)
		return nil
	}
	c.checkSecrets(template, template.fields["spec"])
	kind, address, query := "prometheus", "", ""
	var kindNode, provider, queryNode *yaml.Node
	const operators = "it is the operator's: written beside the source under monitoring, in the file of --external-checks"
	w.eachKey(spec, "the template", map[string]reader{
		"query": func(node *yaml.Node) { queryNode = node; w.text(&query)(node) },
		"provider": func(node *yaml.Node) {
			provider = node
			w.eachKey(node, "provider", map[string]reader{
				"type": func(node *yaml.Node) { kindNode = node; w.text(&kind)(node) }, "address": w.text(&address), "region": w.kept(),
				"secretRef": w.left("provider: secretRef", operators), "insecureSkipVerify": w.left("provider: insecureSkipVerify", operators),
				"headers": w.left("provider: headers", operators), "serviceAccountRef": w.left("provider: serviceAccountRef", operators),
			})
		},
	})
	switch {
	case queryNode == nil || provider == nil:
		w.refuse(spec, "%s has no query, or no provider", template)
		return nil
	case kind == "prometheus":
		filled := fill(queryNode, query)
		w.checkQuery(queryNode, filled)
		return map[string]any{"prometheus": c.prometheusName(address), "query": filled}
	case !slices.Contains(flaggerProviders, kind):
		w.refuse(kindNode, "%s is no provider of metrics that Flagger has: those are prometheus, %s", kind, strings.Join(flaggerProviders, ", "))
		return nil
	}
	told, _ := json.Marshal(map[string]any{"provider": dig(template.fields, "spec", "provider"), "query": fill(queryNode, query)}) // Values of JSON can be encoded.
	c.addHint(fmt.Sprintf("list a service %s under monitoring (kind: metrics) that asks %s and answers samples: until it answers, releases wait", segment(kind), kind))
	return map[string]any{"http": segment(kind), "query": string(told)}
}

// readWebhooks reads who is asked beside metrics. Gates become protections, so nothing goes on without
// an answer.
func (c *canaryReading) readWebhooks(o *object) {
	if c.webhooks == nil {
		return
	}
	c.eachItem(c.webhooks, "webhooks", func(item *yaml.Node) {
		kind, name, url, timeout := "rollout", "", "", ""
		var metadata *yaml.Node
		c.eachKey(item, "webhooks", map[string]reader{
			"type": c.text(&kind), "name": c.text(&name), "url": c.text(&url), "timeout": c.text(&timeout),
			"metadata":  func(node *yaml.Node) { metadata = node; c.keep(node) },
			"muteAlert": c.left("webhooks: muteAlert", tellsOthers), "retries": c.left("webhooks: retries", "it is asked until it answers"),
			"disableTLS": c.left("webhooks: disableTLS", "the certificate is the operator's: ca beside the service"),
		})
		c.setWebhook(item, metadata, kind, name, url)
	})
}

// steps that a gate is before, by its type.
var gates = map[string]string{
	"confirm-rollout": `labels.step == "candidate"`, "pre-rollout": `!(labels.step in ["candidate", "old"])`,
	"confirm-traffic-increase": `!(labels.step in ["candidate", "old", "100"])`, "confirm-promotion": `labels.step == "100"`,
}

func (c *canaryReading) setWebhook(item, metadata *yaml.Node, kind, name, url string) {
	service := segment(name)
	where, isGate := gates[kind]
	switch {
	case isGate:
		c.checks = append(c.checks, unused(&c.checkNames, segment(c.id+"-"+name)), mapping{
			"http", service, "where", fmt.Sprintf("labels.workload == %q && %s", c.id, where),
		})
		c.addHint(fmt.Sprintf(`list %s under monitoring as %s (kind: protection): it is told of the push, and must answer {"result": "pass"}; until it does, releases wait`, url, service))
	case kind == "rollout":
		var told map[string]any
		if metadata != nil {
			_ = metadata.Decode(&told) // What is no mapping is told as nothing.
		}
		query, _ := json.Marshal(told) // As above.
		c.checkSecrets(c.object, told)
		one := 1.0
		c.measured = append(c.measured, measured{name: name, timing: c.times(), fields: map[string]any{"http": service, "query": string(query), "at_least": one}, errors: -1})
		c.addHint(fmt.Sprintf("list %s under monitoring as %s (kind: metrics): it answers samples of 1 for what is good and 0 for what is not; until it does, releases wait. What only makes load needs no place here: take it out of validations", url, service))
	default:
		c.list(item, "webhooks: "+kind, map[string]string{
			"rollback": "who wants a release back says lehr rollout rollback " + c.id, "post-rollout": tellsOthers, "event": tellsOthers,
		}[kind], kind != "rollback" && kind != "post-rollout" && kind != "event")
	}
}

// setValidations judges each step, or the pods before they have requests.
func (c *canaryReading) setValidations() {
	if len(c.measured) == 0 || c.skips {
		return
	}
	names := c.addValidations(c.id, c.measured)
	for _, v := range c.validations {
		if slices.Contains(names, v.name) {
			v.retries = c.retries
		}
	}
	if len(c.steps) == 0 && c.mirror == nil {
		c.before = names
		return
	}
	c.during = names
}
