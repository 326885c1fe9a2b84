package kargo

import (
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// verification is one by its name; Lehr runs it where it is a request to a service.
type verification struct {
	name, http, timeout string
}

// address is a URL in which nothing is to be filled in.
var address = regexp.MustCompile(`^https?://[a-zA-Z0-9.-]+(:[0-9]+)?(/[^\s{}]*)?$`)

// template is an AnalysisTemplate.
type template struct {
	object        *object
	http, timeout string
	isUsed        bool
}

// readTemplate takes a template that is one request to a service, and lists what others do.
func (r *reading) readTemplate(o *object) {
	t := &template{object: o}
	r.templates[o.kind+"/"+o.name] = t
	spec := child(o.node, "spec")
	metrics := child(spec, "metrics")
	if metrics == nil || metrics.Kind != yaml.SequenceNode {
		r.refuse(o.node, "the %s %s has no metrics", o.kind, o.name)
		return
	}
	if r.readRequestTo(t, spec, metrics) {
		return
	}
	r.leave(spec, o.kind+" "+o.name, "Lehr starts no job and weighs no metric in a verification: have what runs it call lehr delivery verdict STAGE "+segment(o.name)+
		" good|bad --reason REASON, or name a command or an http (docs/use/delivery.md#verification)", spec)
}

// readRequestTo reads a metric that posts to a service, whose status alone counts.
func (r *reading) readRequestTo(t *template, spec, metrics *yaml.Node) bool {
	if len(metrics.Content) != 1 || len(spec.Content) != 2 {
		return false
	}
	web := child(metrics.Content[0], "provider", "web")
	if web == nil || attribute(web, "method") != "POST" || !address.MatchString(attribute(web, "url")) {
		return false
	}
	if seconds := attribute(web, "timeoutSeconds"); seconds != "" {
		if count, err := strconv.Atoi(seconds); err != nil || count < 1 || count > 3600 {
			return false
		}
		t.timeout = seconds + "s"
	}
	for i := 0; i+1 < len(web.Content); i += 2 {
		if !slices.Contains([]string{"method", "url", "timeoutSeconds"}, web.Content[i].Value) {
			return false
		}
	}
	for i := 0; i+1 < len(metrics.Content[0].Content); i += 2 {
		if !slices.Contains([]string{"name", "provider"}, metrics.Content[0].Content[i].Value) {
			return false
		}
	}
	t.http = attribute(web, "url")
	r.keep(spec)
	r.Hints = append(r.Hints, "the verification "+segment(t.object.name)+" is posted to "+t.http+": whoever runs the server lists that network for this partition (--external-checks)")
	return true
}

func (r *reading) readVerification(s *stage, node *yaml.Node) {
	r.eachKey(node, "verification", map[string]func(*yaml.Node){
		"analysisTemplates": func(list *yaml.Node) {
			r.eachItem(list, "analysisTemplates", func(item *yaml.Node) { r.readTemplateOf(s, item) })
		},
		"args":                r.leaveAll("args of a verification", "what verifies is told environment, version and digest as JSON (docs/use/delivery.md#verification)"),
		"analysisRunMetadata": r.leaveAll("analysisRunMetadata", "no run is an object of a cluster"),
	})
}

func (r *reading) readTemplateOf(s *stage, item *yaml.Node) {
	var name, kind string
	r.eachKey(item, "analysisTemplates", map[string]func(*yaml.Node){"name": r.text(&name), "kind": r.text(&kind)})
	if kind == "" {
		kind = "AnalysisTemplate"
	}
	v := verification{name: segment(name)}
	switch t := r.templates[kind+"/"+name]; {
	case t == nil:
		r.Hints = append(r.Hints, "the "+kind+" "+name+" is not in what was read: have what runs it call lehr delivery verdict "+segment(s.name)+" "+v.name+" good|bad --reason REASON")
	default:
		t.isUsed = true
		v.http, v.timeout = t.http, t.timeout
	}
	if !named.MatchString(v.name) || slices.ContainsFunc(s.verify, func(other verification) bool { return other.name == v.name }) {
		r.refuse(item, "the Stage %s has two verifications of the name %q, or one without a name", s.name, name)
		return
	}
	s.verify = append(s.verify, v)
}
