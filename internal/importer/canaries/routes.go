package canaries

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// split is what routes are to send where.
type split struct {
	// stable has all requests in the end, canary those of a release.
	stable, canary string
	backends       []backend
	// alternatives are headers by which requests go to what comes: those of one that has all of them.
	alternatives [][]header
	// mirror copies requests to what comes; nil: none is copied.
	mirror *mirror
}

// names reports whether a backend of a route is one of the two.
func (s split) names(host string) bool {
	for _, name := range []string{s.stable, s.canary} {
		if name != "" && (host == name || strings.HasPrefix(host, name+".")) {
			return true
		}
	}
	return false
}

func items(value any, path ...string) (list []map[string]any) {
	all, _ := dig(value, path...).([]any)
	for _, item := range all {
		if fields, ok := item.(map[string]any); ok {
			list = append(list, fields)
		}
	}
	return list
}

// listOf makes a list of JSON.
func listOf(fields []map[string]any) []any {
	made := make([]any, len(fields))
	for i, f := range fields {
		made[i] = f
	}
	return made
}

// setGatewayRoute weighs the backends of the rules of a route of Gateway API that name one of the two
// Services, and says how many there are. A rule for headers comes before each.
func (s split) setGatewayRoute(fields map[string]any) (rules int) {
	var made []map[string]any
	for _, rule := range items(fields, "spec", "rules") {
		var model map[string]any
		var others []map[string]any
		for _, ref := range items(rule, "backendRefs") {
			if name := digText(ref, "name"); !s.names(name) {
				others = append(others, ref)
			} else if model == nil || name == s.stable {
				model = ref
			}
		}
		if model == nil {
			made = append(made, rule)
			continue
		}
		rules++
		if len(s.alternatives) > 0 && s.canary != "" {
			made = append(made, s.headerRule(rule, model))
		}
		refs := others
		for _, b := range s.backends {
			ref := maps.Clone(model)
			ref["name"], ref["weight"] = b.name, b.weight
			refs = append(refs, ref)
		}
		rule["backendRefs"] = listOf(refs)
		if digText(fields, "kind") != "HTTPRoute" {
			made = append(made, rule)
			continue
		}
		made = append(made, s.copyGatewayRule(rule, model)...)
	}
	if rules > 0 {
		digMap(fields, "spec")["rules"] = listOf(made)
	}
	return rules
}

// headerRule is a rule before another, for requests that have the headers.
func (s split) headerRule(rule, model map[string]any) map[string]any {
	made := maps.Clone(rule)
	delete(made, "name")
	ref := maps.Clone(model)
	ref["name"], ref["weight"] = s.canary, 1
	made["backendRefs"] = []any{ref}
	matches := items(rule, "matches")
	if len(matches) == 0 {
		matches = []map[string]any{{}}
	}
	var asked []map[string]any
	for _, m := range matches {
		for _, headers := range s.alternatives {
			with := maps.Clone(m)
			own, _ := m["headers"].([]any)
			with["headers"] = slices.Concat(own, gatewayHeaders(headers))
			asked = append(asked, with)
		}
	}
	made["matches"] = listOf(asked)
	return made
}

func gatewayHeaders(headers []header) (list []any) {
	for _, h := range headers {
		kind, value := "Exact", h.value
		switch h.kind {
		case "regex":
			kind = "RegularExpression"
		case "prefix":
			kind, value = "RegularExpression", regexp.QuoteMeta(h.value)+".*"
		}
		list = append(list, map[string]any{"type": kind, "name": h.name, "value": value})
	}
	return list
}

// setVirtualService weighs the destinations of the routes of a VirtualService that have one of the
// names, or of all that name one of the Services.
func (s split) setVirtualService(fields map[string]any, routes []string) (rules int) {
	spec := digMap(fields, "spec")
	for _, protocol := range []string{"http", "tls", "tcp"} {
		var made []map[string]any
		for _, route := range items(spec, protocol) {
			model := s.destination(route)
			if model == nil || len(routes) > 0 && protocol == "http" && !slices.Contains(routes, digText(route, "name")) {
				made = append(made, route)
				continue
			}
			rules++
			if len(s.alternatives) > 0 && s.canary != "" && protocol == "http" {
				made = append(made, s.headerRoute(route, model))
			}
			var to []map[string]any
			for _, b := range s.backends {
				to = append(to, s.destinationTo(model, b))
			}
			route["route"] = listOf(to)
			if protocol != "http" {
				made = append(made, route)
				continue
			}
			made = append(made, s.copyRoute(route, model)...)
		}
		if len(made) > 0 {
			spec[protocol] = listOf(made)
		}
	}
	return rules
}

// destination is one of a route that names a Service of the two; nil: none does.
func (s split) destination(route map[string]any) map[string]any {
	for _, to := range items(route, "route") {
		if s.names(digText(to, "destination", "host")) {
			return to
		}
	}
	return nil
}

func (s split) destinationTo(model map[string]any, b backend) map[string]any {
	made := maps.Clone(model)
	destination := maps.Clone(digMap(model, "destination"))
	_, domain, isLong := strings.Cut(digText(destination, "host"), ".")
	if destination["host"] = b.name; isLong {
		destination["host"] = b.name + "." + domain
	}
	delete(destination, "subset") // A step is a Service, not a subset of one.
	made["destination"], made["weight"] = destination, b.weight
	return made
}

func (s split) headerRoute(route, model map[string]any) map[string]any {
	made := maps.Clone(route)
	delete(made, "name")
	matches := items(route, "match")
	if len(matches) == 0 {
		matches = []map[string]any{{}}
	}
	var asked []map[string]any
	for _, m := range matches {
		for _, headers := range s.alternatives {
			with, all := maps.Clone(m), map[string]any{}
			maps.Copy(all, digMap(m, "headers"))
			for _, h := range headers {
				all[h.name] = map[string]any{h.kind: h.value}
			}
			with["headers"] = all
			asked = append(asked, with)
		}
	}
	made["match"], made["route"] = listOf(asked), listOf([]map[string]any{s.destinationTo(model, backend{s.canary, 100})})
	return made
}

// setWeighted weighs a list of services that have their name in a field: of Traefik and of APISIX.
func (s split) setWeighted(holder map[string]any, list, name string) bool {
	var model map[string]any
	var all []map[string]any
	for _, item := range items(holder, list) {
		if !s.names(digText(item, name)) {
			all = append(all, item)
		} else if model == nil {
			model = item
		}
	}
	if model == nil {
		return false
	}
	for _, b := range s.backends {
		made := maps.Clone(model)
		made[name], made["weight"] = b.name, b.weight
		all = append(all, made)
	}
	holder[list] = listOf(all)
	return true
}

// trafficSplit is an object of SMI.
func (s split) trafficSplit(name, namespace, root string) map[string]any {
	var backends []any
	for _, b := range s.backends {
		backends = append(backends, map[string]any{"service": b.name, "weight": b.weight})
	}
	return map[string]any{
		"apiVersion": "split.smi-spec.io/v1alpha2", "kind": "TrafficSplit",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     map[string]any{"service": root, "backends": backends},
	}
}
