package canaries

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// finish makes the Services and routes that Flagger made, and the validations.
func (c *canaryReading) finish(o *object) {
	c.setSteps()
	c.setMirror()
	c.shares = byServices
	c.words = c.as(ofTraffic)
	spec := digMap(o.fields, "spec", "service")
	c.readService()
	root := c.rootService(spec)
	maker := c.routeMaker()
	if len(c.steps) > 0 && maker == nil {
		c.shares = byReplicas
		c.list(c.service.node, "provider: "+c.provider, "Lehr writes routes of Gateway API, Istio, Traefik and SMI: shares are by pods now. Write a route for shares of requests, and import again", true)
	}
	c.words = c.as(ofAnalysis)
	c.readMetrics(o)
	c.readWebhooks(o)
	c.setValidations()
	c.takeAutoscaler(c.reading, "Deployment.apps")
	if c.shares == byReplicas {
		if joined := c.setParts(); len(joined) > 0 {
			c.list(c.object.node, "analysis: stepWeight", fmt.Sprintf("%v: of %d pods they are no step of their own, and the share is at most one half", joined, c.replicas), false)
		}
		c.objects = append(c.objects, root)
		return
	}
	canary := c.service.name + "-canary"
	c.addService(canary, stepCandidate, &object{name: canary, fields: withMetadata(root.fields, spec, "canary")})
	root.fields = withMetadata(root.fields, spec, "apex")
	c.addSteps(root)
	if maker != nil && (len(c.steps) > 0 || len(c.alternatives) > 0 || c.mirror != nil) {
		maker(spec, split{stable: c.service.name, canary: canary, backends: c.backends(c.service.name), alternatives: c.alternatives, mirror: c.mirror})
	}
	c.list(c.service.node, "service: "+c.service.name+"-primary", "is not made: who calls it calls "+c.service.name, false)
}

func withMetadata(fields, spec map[string]any, which string) map[string]any {
	made := maps.Clone(fields)
	made["metadata"] = plainMetadata(digMap(spec, which))
	return made
}

// readService reads what Flagger makes Services and routes of; what routes take over is read there.
func (c *canaryReading) readService() {
	s := &c.service
	s.name, s.portName = c.name, "http"
	const notWritten = "Lehr writes no object of App Mesh"
	c.eachKey(s.node, "service", map[string]reader{
		"name": c.text(&s.name), "port": c.count(&s.port), "portName": c.text(&s.portName), "appProtocol": c.text(&s.appProtocol),
		"targetPort": func(node *yaml.Node) {
			if err := node.Decode(&s.targetPort); err != nil {
				c.refuse(node, "targetPort is a number or a name")
			}
			c.keep(node)
		},
		"portDiscovery": c.truth(&s.discovers), "timeout": c.text(&s.timeout),
		"gateways": c.routed("gateways", "istio"), "gatewayRefs": c.routed("gatewayRefs", "gatewayapi"), "hosts": c.routed("hosts", "istio", "gatewayapi"),
		"delegation": c.truth(&s.delegates),
		"match":      c.routed("match", "istio", "gatewayapi"), "rewrite": c.routed("rewrite", "istio"), "retries": c.routed("retries", "istio"),
		"headers": c.routed("headers", "istio"), "corsPolicy": c.routed("corsPolicy", "istio"), "trafficPolicy": c.routed("trafficPolicy", "istio"),
		"apex": c.kept(), "canary": c.kept(),
		"primary":             c.left("service: primary", "the Service of the one that serves is not made"),
		"mirror":              c.left("service: mirror", "it copies requests to a Service of somebody else: write it into the route"),
		"meshName":            c.left("service: meshName", notWritten),
		"backends":            c.left("service: backends", notWritten),
		"trafficDistribution": c.left("service: trafficDistribution", "write it into the Services of workloads/"+c.id+".yaml"),
		"unmanagedMetadata":   c.left("service: unmanagedMetadata", "only what intent names is compared"),
	})
	if s.port == 0 {
		c.refuse(s.node, "service has no port")
	}
	if s.targetPort == nil {
		s.targetPort = s.port
	}
}

// routed keeps a field that the routes of some providers have.
func (c *canaryReading) routed(name string, providers ...string) reader {
	return func(node *yaml.Node) {
		if slices.ContainsFunc(providers, func(p string) bool { return strings.HasPrefix(c.provider, p) }) {
			c.keep(node)
			return
		}
		c.wrong(node, "service: "+name, "the routes that Lehr writes for "+c.provider+" have no place for it: write it into the route")
	}
}

// rootService is the Service that has all requests in the end.
func (c *canaryReading) rootService(spec map[string]any) *object {
	port := map[string]any{"name": c.service.portName, "port": c.service.port, "targetPort": c.service.targetPort, "protocol": "TCP"}
	if c.service.appProtocol != "" {
		port["appProtocol"] = c.service.appProtocol
	}
	ports := []any{port}
	for _, container := range items(c.template, "spec", "containers") {
		for _, p := range items(container, "ports") {
			number := fmt.Sprint(p["containerPort"])
			if c.service.discovers && number != fmt.Sprint(c.service.targetPort) && digText(p, "name") != fmt.Sprint(c.service.targetPort) && number != fmt.Sprint(c.service.port) {
				name := digText(p, "name")
				if name == "" {
					name = fmt.Sprintf("tcp-%s-%s", digText(container, "name"), number)
				}
				ports = append(ports, map[string]any{"name": name, "port": p["containerPort"], "targetPort": p["containerPort"], "protocol": "TCP"})
			}
		}
	}
	if existing := c.find("Service", c.namespace, c.service.name); existing != nil {
		existing.taken = true
	}
	for _, suffix := range []string{"-primary", "-canary"} {
		if made := c.find("Service", c.namespace, c.service.name+suffix); made != nil {
			made.taken = true
		}
	}
	metadata := plainMetadata(digMap(spec, "apex"))
	metadata["name"], metadata["namespace"] = c.service.name, c.namespace
	return &object{kind: "Service", namespace: c.namespace, name: c.service.name, file: c.object.file, node: c.object.node, fields: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": metadata,
		"spec": map[string]any{"type": "ClusterIP", "selector": digMap(c.selector, "matchLabels"), "ports": ports},
	}}
}

// routeMaker makes the route that the provider has; nil: it has none that holds several weights.
func (c *canaryReading) routeMaker() func(map[string]any, split) {
	switch p := c.provider; {
	case strings.HasPrefix(p, "gatewayapi"):
		return c.addGatewayRoute
	case p == "istio":
		return c.addVirtualService
	case p == "traefik":
		return c.addTraefikService
	case p == "linkerd" || p == "osm" || strings.HasPrefix(p, "smi"):
		return func(_ map[string]any, s split) {
			c.setRoute("TrafficSplit.split.smi-spec.io", s.trafficSplit(c.service.name, c.namespace, c.service.name))
		}
	}
	return nil
}

// setRoute has an object in place of one that Flagger made.
func (c *canaryReading) setRoute(kind string, fields map[string]any) {
	if existing := c.find(kind, c.namespace, c.service.name); existing != nil {
		existing.taken = true
	}
	c.routes = append(c.routes, fields)
}

func (c *canaryReading) routeObject(version, kind string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": c.service.name, "namespace": c.namespace}, "spec": spec}
}

func (c *canaryReading) addGatewayRoute(spec map[string]any, s split) {
	rule := map[string]any{"backendRefs": []any{map[string]any{"name": s.stable, "port": c.service.port}}}
	var matches []map[string]any
	for _, m := range items(spec, "match") {
		matches = append(matches, gatewayMatch(m))
	}
	if len(matches) == 0 {
		matches = []map[string]any{{"path": map[string]any{"type": "PathPrefix", "value": "/"}}}
	}
	rule["matches"] = listOf(matches)
	if c.service.timeout != "" {
		rule["timeouts"] = map[string]any{"request": c.service.timeout}
	}
	made := map[string]any{"parentRefs": dig(spec, "gatewayRefs"), "rules": []any{rule}}
	if made["parentRefs"] == nil {
		c.refuse(c.service.node, "service has no gatewayRefs, which Gateway API needs")
	}
	if hosts := dig(spec, "hosts"); hosts != nil {
		made["hostnames"] = hosts
	}
	route := c.routeObject("gateway.networking.k8s.io/v1", "HTTPRoute", made)
	s.setGatewayRoute(route)
	c.setRoute("HTTPRoute"+gatewayGroup, route)
}

// gatewayMatch is a match of Istio as one of Gateway API.
func gatewayMatch(match map[string]any) map[string]any {
	made := map[string]any{}
	for kind, value := range digMap(match, "uri") {
		made["path"] = map[string]any{"type": kindsOfPaths[kind], "value": value}
	}
	if method := digText(match, "method", "exact"); method != "" {
		made["method"] = method
	}
	var headers []header
	for name, value := range digMap(match, "headers") {
		for kind, text := range digMap(value) {
			headers = append(headers, header{name, kind, fmt.Sprint(text)})
		}
	}
	slices.SortFunc(headers, func(a, b header) int { return strings.Compare(a.name, b.name) })
	if len(headers) > 0 {
		made["headers"] = gatewayHeaders(headers)
	}
	return made
}

func (c *canaryReading) addVirtualService(spec map[string]any, s split) {
	hosts, _ := dig(spec, "hosts").([]any)
	gateways, _ := dig(spec, "gateways").([]any)
	made := map[string]any{}
	if !c.service.delegates {
		if !slices.Contains(hosts, any(c.service.name)) {
			hosts = append(slices.Clone(hosts), c.service.name)
		}
		if !slices.Contains(gateways, any("mesh")) {
			gateways = append(slices.Clone(gateways), "mesh")
		}
		made["hosts"], made["gateways"] = hosts, gateways
	}
	route := map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": s.stable}}}}
	for _, key := range []string{"match", "rewrite", "retries", "corsPolicy", "headers"} {
		if value := dig(spec, key); value != nil {
			route[key] = value
		}
	}
	if c.service.timeout != "" {
		route["timeout"] = c.service.timeout
	}
	made["http"] = []any{route}
	routed := c.routeObject("networking.istio.io/v1", "VirtualService", made)
	s.setVirtualService(routed, nil)
	c.setRoute(virtualService[0], routed)
	policy := dig(spec, "trafficPolicy")
	if policy == nil {
		return
	}
	for _, b := range append(slices.Clone(s.backends), backend{name: s.canary}) {
		rule := c.routeObject("networking.istio.io/v1", "DestinationRule", map[string]any{"host": b.name, "trafficPolicy": policy})
		digMap(rule, "metadata")["name"] = b.name
		if existing := c.find("DestinationRule.networking.istio.io", c.namespace, b.name); existing != nil {
			existing.taken = true
		}
		c.objects = append(c.objects, &object{kind: "DestinationRule.networking.istio.io", namespace: c.namespace, name: b.name, file: c.object.file, node: c.object.node, fields: rule})
	}
}

func (c *canaryReading) addTraefikService(_ map[string]any, s split) {
	made := c.routeObject("traefik.io/v1alpha1", "TraefikService", map[string]any{"weighted": map[string]any{
		"services": []any{map[string]any{"name": s.stable, "port": c.service.port}},
	}})
	s.setWeighted(digMap(made, "spec", "weighted"), "services", "name")
	c.setRoute(traefikService[0], made)
}
