package kargo

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer/adapters"
)

// verification is one by its name. Lehr runs it by a command, or posts it to a service; else its result
// is handed in.
type verification struct {
	name, http, timeout string
	command             []string
}

// address is a URL in which nothing is to be filled in.
var address = regexp.MustCompile(`^https?://[a-zA-Z0-9.-]+(:[0-9]+)?(/[^\s{}]*)?$`)

// template is an AnalysisTemplate.
type template struct {
	object *object
	spec   *yaml.Node
	// args are those that have a value in the template.
	args    map[string]string
	metrics []metric
	isUsed  bool
}

// metric is one of a template.
type metric struct {
	node *yaml.Node
	name string
	// http is a service that Lehr posts to, and command a line that it runs; without either the result
	// is handed in.
	http, timeout string
	command       []string
	program       adapters.Program
}

// handedIn says what becomes of a metric that Lehr does not run.
const handedIn = "Lehr runs a job, and a request whose status alone counts, and nothing else for a verification: have what runs it call lehr delivery verdict STAGE NAME good|bad --reason REASON, " +
	"or have the judge weigh it, by a validation (docs/use/delivery.md#analysis-by-the-judge)"

// readTemplate takes the metrics of a template that are jobs, or requests to services, and lists others.
func (r *reading) readTemplate(o *object) {
	t := &template{object: o, spec: child(o.node, "spec"), args: map[string]string{}}
	r.templates[o.kind+"/"+o.name] = t
	metrics := child(t.spec, "metrics")
	if metrics == nil || metrics.Kind != yaml.SequenceNode {
		r.refuse(o.node, "the %s %s has no metrics", o.kind, o.name)
		return
	}
	r.eachKey(t.spec, o.kind+" "+o.name, map[string]func(*yaml.Node){
		"args": func(list *yaml.Node) { r.readArguments(list, t.args) },
		"metrics": func(list *yaml.Node) {
			r.eachItem(list, "metrics", func(item *yaml.Node) { t.metrics = append(t.metrics, r.readMetric(t, item)) })
		},
		"dryRun":               r.leaveAll("dryRun of the "+o.kind+" "+o.name, "a verification decides: take out what shall not"),
		"measurementRetention": r.leaveAll("measurementRetention", "Lehr keeps results as long as the history of deliveries"),
	})
}

// readArguments reads names with their values; one without a value has none here.
func (r *reading) readArguments(list *yaml.Node, to map[string]string) {
	r.eachItem(list, "args", func(item *yaml.Node) {
		name, value := attribute(item, "name"), child(item, "value")
		switch {
		case len(item.Content) == 2 && name != "":
		case len(item.Content) == 4 && name != "" && value != nil && value.Kind == yaml.ScalarNode && !strings.Contains(value.Value, "${{"):
			to[name] = value.Value
		default:
			r.leave(item, "an argument of a verification", "its value is known at a promotion only: what verifies is told environment, version and digest as JSON (docs/use/delivery.md#verification)", item)
			return
		}
		r.keep(item)
	})
}

// readMetric reads a metric. What Lehr does not run is listed.
func (r *reading) readMetric(t *template, item *yaml.Node) metric {
	m := metric{node: item, name: attribute(item, "name")}
	provider := child(item, "provider")
	job, web := child(provider, "job"), child(provider, "web")
	isOnce := true
	if item.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(item.Content); i += 2 {
			key, value := item.Content[i].Value, item.Content[i+1].Value
			isOnce = isOnce && (key == "name" || key == "provider" || key == "count" && value == "1" || key == "failureLimit" && value == "0")
		}
	}
	isRun := false
	switch {
	case !isOnce:
	case job != nil:
		isRun = m.readJob(t, job)
	case web != nil:
		isRun = m.readRequest(web)
	}
	if !isRun {
		r.leave(item, t.object.kind+" "+t.object.name, handedIn, item)
		return m
	}
	r.keep(item)
	return m
}

// jobTime is how long a job may take: Lehr lets no verification take longer.
const jobTime = "1h"

// readJob makes a Job of Kubernetes, which a program runs.
func (m *metric) readJob(t *template, node *yaml.Node) bool {
	var said struct {
		Metadata struct {
			Labels, Annotations map[string]string
		}
		Spec map[string]any
	}
	if node.Decode(&said) != nil || said.Spec == nil || holdsSecret(node, "") {
		return false
	}
	if _, ok := said.Spec["ttlSecondsAfterFinished"]; !ok {
		said.Spec["ttlSecondsAfterFinished"] = 3600
	}
	metadata := map[string]any{"generateName": segment(t.object.name) + "-", "namespace": attribute(t.object.node, "metadata", "namespace")}
	if metadata["namespace"] == "" {
		metadata["namespace"] = "default"
	}
	if len(said.Metadata.Labels) > 0 {
		metadata["labels"] = said.Metadata.Labels
	}
	if len(said.Metadata.Annotations) > 0 {
		metadata["annotations"] = said.Metadata.Annotations
	}
	text, err := jsonText(map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": said.Spec})
	if err != nil {
		return false
	}
	m.command, m.program, m.timeout = adapters.RunJob.Command(text), adapters.RunJob, jobTime
	return true
}

// readRequest takes a request to a service, whose status alone counts: Lehr posts one without a body
// itself, and a program sends others.
func (m *metric) readRequest(web *yaml.Node) bool {
	method, url := attribute(web, "method"), attribute(web, "url")
	if method == "" {
		method = "GET"
	}
	arguments := []string{"--method", method, "--url", url}
	isPlain := method == "POST" && address.MatchString(url)
	for i := 0; i+1 < len(web.Content); i += 2 {
		value := web.Content[i+1]
		switch web.Content[i].Value {
		case "method", "url":
		case "timeoutSeconds":
			if count, err := strconv.Atoi(value.Value); err != nil || count < 1 || count > 3600 {
				return false
			}
			m.timeout = value.Value + "s"
			arguments = append(arguments, "--timeout", value.Value)
		case "body":
			isPlain = false
			arguments = append(arguments, "--body", value.Value)
		case "jsonBody":
			isPlain = false
			var body any
			if value.Decode(&body) != nil {
				return false
			}
			text, err := jsonText(body)
			if err != nil {
				return false
			}
			arguments = append(arguments, "--body", text, "--header", "Content-Type=application/json")
		case "headers":
			isPlain = false
			for _, header := range value.Content {
				arguments = append(arguments, "--header", attribute(header, "key")+"="+attribute(header, "value"))
			}
		default:
			return false
		}
	}
	if url == "" || strings.ContainsAny(url, " \n") || holdsSecret(web, "") {
		return false
	}
	if isPlain {
		m.http = url
		return true
	}
	m.command, m.program = adapters.SendRequest.Command(arguments...), adapters.SendRequest
	return true
}

// holdsSecret reports whether a text below a node is or looks like a secret.
func holdsSecret(node *yaml.Node, name string) bool {
	if _, ok := secrecy.Field(name, node.Value); node.Kind == yaml.ScalarNode {
		return ok
	}
	if _, ok := secrecy.Field(attribute(node, "name"), attribute(node, "value")); ok {
		return true
	}
	for i, at := range node.Content {
		key := name
		if node.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			key = node.Content[i-1].Value
		}
		if holdsSecret(at, key) {
			return true
		}
	}
	return false
}

// jsonText is JSON that leaves <, > and & as they are.
func jsonText(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSpace(text.String()), nil
}

func (r *reading) readVerification(s *stage, node *yaml.Node) {
	args := map[string]string{}
	if list := child(node, "args"); list != nil {
		r.readArguments(list, args)
	}
	r.eachKey(node, "verification", map[string]func(*yaml.Node){
		"analysisTemplates": func(list *yaml.Node) {
			r.eachItem(list, "analysisTemplates", func(item *yaml.Node) { r.readTemplateOf(s, item, args) })
		},
		"args":                func(*yaml.Node) {}, // Read before the templates, which take them.
		"analysisRunMetadata": r.leaveAll("analysisRunMetadata", "no run is an object of a cluster"),
	})
}

func (r *reading) readTemplateOf(s *stage, item *yaml.Node, args map[string]string) {
	var name, kind string
	r.eachKey(item, "analysisTemplates", map[string]func(*yaml.Node){"name": r.text(&name), "kind": r.text(&kind)})
	if kind == "" {
		kind = "AnalysisTemplate"
	}
	t := r.templates[kind+"/"+name]
	if t == nil {
		r.Hints = append(r.Hints, "the "+kind+" "+name+" is not in what was read: have what runs it call lehr delivery verdict "+segment(s.name)+" "+segment(name)+" good|bad --reason REASON")
		r.addVerification(s, item, verification{name: segment(name)})
		return
	}
	t.isUsed = true
	isRun := slices.ContainsFunc(t.metrics, func(m metric) bool { return m.http != "" || len(m.command) > 0 })
	if !isRun {
		r.addVerification(s, item, verification{name: segment(name)})
		return
	}
	for _, m := range t.metrics {
		v := verification{name: segment(name), http: m.http, timeout: m.timeout, command: r.filled(s, t, m, args)}
		if len(t.metrics) > 1 {
			v.name = segment(name + "-" + m.name)
		}
		r.addVerification(s, item, v)
	}
}

var argumentOf = regexp.MustCompile(`\{\{\s*args\.([A-Za-z0-9_.-]+)\s*\}\}`)

// filled is the command of a metric, with the arguments of the Stage and of the template. One whose
// arguments are not known has none: its result is handed in.
func (r *reading) filled(s *stage, t *template, m metric, args map[string]string) (line []string) {
	for i, word := range m.command {
		isJSON := m.program == adapters.RunJob && i > 0
		word = argumentOf.ReplaceAllStringFunc(word, func(found string) string {
			name := argumentOf.FindStringSubmatch(found)[1]
			value, ok := args[name]
			if !ok {
				if value, ok = t.args[name]; !ok {
					return found
				}
			}
			if isJSON {
				text, _ := jsonText(value) // A text always encodes.
				value = text[1 : len(text)-1]
			}
			return value
		})
		if strings.Contains(word, "{{") {
			r.leave(m.node, t.object.kind+" "+t.object.name, "an argument of it has no value that is known before a promotion. "+handedIn, m.node)
			return nil
		}
		line = append(line, word)
	}
	if len(line) > 0 {
		r.programs.Add(m.program)
	}
	if m.http != "" {
		hint := "the verification " + segment(t.object.name) + " is posted to " + m.http + ": whoever runs the server lists that network for this partition (--external-checks)"
		if !slices.Contains(r.Hints, hint) {
			r.Hints = append(r.Hints, hint)
		}
	}
	return line
}

func (r *reading) addVerification(s *stage, item *yaml.Node, v verification) {
	if !named.MatchString(v.name) || slices.ContainsFunc(s.verify, func(other verification) bool { return other.name == v.name }) {
		r.refuse(item, "the Stage %s has two verifications of the name %q, or one without a name", s.name, v.name)
		return
	}
	s.verify = append(s.verify, v)
}
