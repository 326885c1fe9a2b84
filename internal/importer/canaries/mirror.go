package canaries

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// stepMirror is the name of what brings copies of requests.
const stepMirror = "mirror"

// mirror has copies of requests sent to the version that comes, before it has any.
type mirror struct {
	node    *yaml.Node
	percent int
	// matches are the requests that are copied; none: all.
	matches []mirrorMatch
	// service is what routes name, without the slot.
	service string
	// soak is how long there are copies at least; held: a person lets them begin.
	soak time.Duration
	held bool
	// isEnded: they were ended before the first requests came. isRouted: a rule of a route copies them.
	isEnded, isRouted bool
	// isUndecided: nobody can tell whether a regular expression and a path of a rule have requests in common.
	isUndecided bool
}

// mirrorMatch is of requests that have all of what it names.
type mirrorMatch struct {
	method  string
	path    pathMatch
	headers []header
}

// pathMatch is a path by a kind of Istio: exact, prefix or regex; without one it is each path.
type pathMatch struct {
	kind, value string
}

// isEveryPath reports whether a match is of every path.
func (p pathMatch) isEveryPath() bool {
	return p.kind == "" || p.kind == "prefix" && (p.value == "/" || p.value == "") || p.kind == "regex" && (p.value == ".*" || p.value == "/.*")
}

// contains reports whether every path of another match is one of it.
func (p pathMatch) contains(other pathMatch) bool {
	return p.isEveryPath() || p == other || p.kind == "prefix" && other.kind != "regex" && (p.value == other.value || strings.HasPrefix(other.value, strings.TrimSuffix(p.value, "/")+"/"))
}

// intersect returns the match of both; ok is false where there is none, or nobody can tell.
func (p pathMatch) intersect(other pathMatch) (both pathMatch, ok bool) {
	if other.contains(p) {
		return p, true
	}
	return other, p.contains(other)
}

// readMirrorRoute reads a step that begins copies of requests, or ends them.
func (x *rolloutReading) readMirrorRoute(node *yaml.Node) {
	made, name := &mirror{node: node, percent: 100}, ""
	match := child(node, "match")
	hasMatch := match != nil && len(match.Content) > 0
	switch {
	case hasMatch && (len(x.steps) > 0 || x.isAll):
		x.leave(node, "steps: setMirrorRoute", "copies come before the first requests, not beside them: write it before the first setWeight")
		return
	case hasMatch && x.mirror != nil:
		x.leave(node, "steps: setMirrorRoute", "one of them is carried over, the first: write its requests as one more match of that")
		return
	}
	x.eachKey(node, "setMirrorRoute", map[string]reader{
		"name": x.text(&name), "percentage": x.count(&made.percent),
		"match": func(list *yaml.Node) {
			x.eachItem(list, "match", func(item *yaml.Node) { x.readMirrorMatch(made, item) })
		},
	})
	if !hasMatch {
		if x.mirror != nil && len(x.steps) == 0 {
			x.mirror.isEnded = true
		}
		return
	}
	switch {
	case made.percent > 100:
		x.refuse(node, "percentage of setMirrorRoute is %d: write a share of the requests from 1 to 100", made.percent)
	case made.percent == 0:
		x.list(node, "steps: setMirrorRoute", "0 % of the requests are none: no request is copied", false)
	case len(made.matches) > 0:
		made.held, x.nextHeld = x.nextHeld, false
		x.mirror = made
	}
}

func (x *rolloutReading) readMirrorMatch(made *mirror, item *yaml.Node) {
	match, isWhole := mirrorMatch{}, true
	text := func(kind string, set func(kind, value string)) reader {
		return func(node *yaml.Node) { value := ""; x.text(&value)(node); set(kind, value) }
	}
	kinds := func(what string, set func(kind, value string)) reader {
		return func(node *yaml.Node) {
			x.eachKey(node, what, map[string]reader{"exact": text("exact", set), "prefix": text("prefix", set), "regex": text("regex", set)})
		}
	}
	x.eachKey(item, "match", map[string]reader{
		"method": func(node *yaml.Node) {
			if child(node, "exact") == nil || len(node.Content) != 2 {
				isWhole = false
				x.wrong(node, "setMirrorRoute: method", "routes know methods by their whole name: write a match for each, as method: {exact: GET}")
				return
			}
			kinds("method", func(_, value string) { match.method = value })(node)
		},
		"path": kinds("path", func(kind, value string) { match.path = pathMatch{kind, value} }),
		"headers": func(node *yaml.Node) {
			for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
				name := node.Content[i].Value
				kinds("headers", func(kind, value string) { match.headers = append(match.headers, header{name, kind, value}) })(node.Content[i+1])
			}
		},
	})
	if isWhole {
		made.matches = append(made.matches, match)
	}
}

// checkMirror lists what is not copied, or other than it was.
func (x *rolloutReading) checkMirror() {
	m := x.mirror
	switch {
	case m == nil:
	case !m.isRouted:
		x.mirror = nil
		x.podsSoak += m.soak
		x.list(m.node, "steps: setMirrorRoute", "no request is copied: Lehr has an HTTPRoute or a VirtualService copy them, and no rule of one has these requests. Write one, and import again", true)
	default:
		if m.isUndecided {
			x.list(m.node, "steps: setMirrorRoute", "a regular expression and a path of the route may have requests in common, and none of these is copied: write the path of the route", false)
		}
		if !m.isEnded {
			x.list(m.node, "steps: setMirrorRoute", "copies end when the first requests come", false)
		}
		x.tellMirror(x.reading)
	}
}

// tellMirror says how copies begin. In the first run routes come last, and with copies they are part of a release.
func (w *workload) tellMirror(r *reading) {
	r.addHint(fmt.Sprintf("%s: no request is copied until you write active: true under mirror in workloads/%s.yaml, once the first run is done", w.id, w.id))
}

// setMirror has Flagger's copies be those of a release, where the routes of the provider copy requests.
func (c *canaryReading) setMirror() {
	m := &c.flaggerMirror
	if !m.isOn || c.skips {
		return
	}
	isCopying := c.provider == "istio" || strings.HasPrefix(c.provider, "gatewayapi")
	switch {
	case !isCopying:
		c.list(m.node, "analysis: mirror", "routes of "+c.provider+" copy no request: Lehr has those of Gateway API and Istio do so", false)
		return
	case len(c.alternatives) > 0:
		c.list(m.node, "analysis: mirror", "with match, requests go to the version that comes by their headers, and none is copied", false)
		return
	case m.weight > 100:
		c.refuse(m.node, "mirrorWeight is %d: write a share of the requests from 1 to 100", m.weight)
		return
	}
	c.mirror = &mirror{node: m.node, percent: 100, soak: c.interval}
	if m.weight > 0 {
		c.mirror.percent = m.weight
	}
	if c.iterations > 0 {
		c.mirror.soak, c.podsSoak = c.podsSoak, 0
	}
	c.tellMirror(c.reading)
}

// flaggerMirror is what a Canary says of copies.
type flaggerMirror struct {
	isOn   bool
	weight int
	node   *yaml.Node
}

// mirrorName is what routes that were read call the Service that has copies. The program has them name that of a slot.
func mirrorName(stable string) string { return stable + "-mirror" }

// copyGatewayRule is the rules that come in place of one, which copy requests.
func (s split) copyGatewayRule(rule, model map[string]any) []map[string]any {
	if s.mirror == nil {
		return []map[string]any{rule}
	}
	ref := maps.Clone(model)
	delete(ref, "weight")
	delete(ref, "filters")
	ref["name"] = mirrorName(s.stable)
	copies := map[string]any{"backendRef": ref}
	if s.mirror.percent < 100 {
		copies["percent"] = s.mirror.percent
	}
	made := maps.Clone(rule)
	filters, _ := rule["filters"].([]any)
	made["filters"] = append(slices.Clone(filters), map[string]any{"type": "RequestMirror", "requestMirror": copies})
	return s.mirror.insertBefore(rule, made, "matches", s.mirror.narrowGatewayMatch)
}

// copyRoute is the routes that come in place of one of a VirtualService, which copy requests.
func (s split) copyRoute(route, model map[string]any) []map[string]any {
	if s.mirror == nil {
		return []map[string]any{route}
	}
	made := maps.Clone(route)
	made["mirror"] = s.destinationTo(model, backend{name: mirrorName(s.stable)})["destination"]
	if s.mirror.percent < 100 {
		made["mirrorPercentage"] = map[string]any{"value": s.mirror.percent}
	}
	return s.mirror.insertBefore(route, made, "match", s.mirror.narrowIstioMatch)
}

// intersect returns the paths that a rule and the mirror both name, and notes where nobody can tell.
func (m *mirror) intersect(own, asked pathMatch) (both pathMatch, ok bool) {
	both, ok = own.intersect(asked)
	m.isUndecided = m.isUndecided || !ok && (own.kind == "regex" || asked.kind == "regex")
	return both, ok
}

// insertBefore returns a rule and, before it, one that copies the requests which both match; or the latter alone.
func (m *mirror) insertBefore(rule, copying map[string]any, key string, narrow func(map[string]any, mirrorMatch) (map[string]any, bool)) []map[string]any {
	if len(m.matches) == 0 {
		m.isRouted = true
		return []map[string]any{copying}
	}
	own := items(rule, key)
	if len(own) == 0 {
		own = []map[string]any{{}}
	}
	var all []map[string]any
	for _, match := range own {
		for _, asked := range m.matches {
			if both, ok := narrow(match, asked); ok {
				all = append(all, both)
			}
		}
	}
	if len(all) == 0 {
		return []map[string]any{rule}
	}
	m.isRouted = true
	delete(copying, "name")
	copying[key] = listOf(all)
	return []map[string]any{copying, rule}
}

// kindsOfPaths are those of Gateway API by those of Istio.
var kindsOfPaths = map[string]string{"exact": "Exact", "prefix": "PathPrefix", "regex": "RegularExpression"}

// narrowGatewayMatch returns a match of Gateway API with what a mirror asks for; ok is false where no request is copied.
func (m *mirror) narrowGatewayMatch(match map[string]any, asked mirrorMatch) (map[string]any, bool) {
	made, own := maps.Clone(match), pathMatch{}
	for kind, name := range kindsOfPaths {
		if path := digMap(match, "path"); path != nil && (digText(path, "type") == name || digText(path, "type") == "" && kind == "prefix") {
			own = pathMatch{kind, digText(path, "value")}
		}
	}
	path, ok := m.intersect(own, asked.path)
	if method := digText(match, "method"); !ok || method != "" && asked.method != "" && method != asked.method {
		return nil, false
	}
	if path != own {
		made["path"] = map[string]any{"type": kindsOfPaths[path.kind], "value": path.value}
	}
	if asked.method != "" {
		made["method"] = asked.method
	}
	if headers, _ := match["headers"].([]any); len(asked.headers) > 0 {
		made["headers"] = slices.Concat(headers, gatewayHeaders(asked.headers))
	}
	return made, true
}

// narrowIstioMatch returns a match of a VirtualService with what a mirror asks for; ok is false where no request is copied.
func (m *mirror) narrowIstioMatch(match map[string]any, asked mirrorMatch) (map[string]any, bool) {
	made, own := maps.Clone(match), pathMatch{}
	for kind := range kindsOfPaths {
		if value := digText(match, "uri", kind); value != "" {
			own = pathMatch{kind, value}
		}
	}
	path, ok := m.intersect(own, asked.path)
	method := digMap(match, "method")
	if exact := digText(method, "exact"); !ok || asked.method != "" && method != nil && exact != asked.method {
		return nil, false
	}
	if path != own {
		made["uri"] = map[string]any{path.kind: path.value}
	}
	if asked.method != "" {
		made["method"] = map[string]any{"exact": asked.method}
	}
	if len(asked.headers) > 0 {
		headers := maps.Clone(digMap(match, "headers"))
		if headers == nil {
			headers = map[string]any{}
		}
		for _, h := range asked.headers {
			headers[h.name] = map[string]any{h.kind: h.value}
		}
		made["headers"] = headers
	}
	return made, true
}
