package canaries

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// route is one that a Rollout names.
type route struct {
	kinds     []string
	name      string
	namespace string
	// parts of it that are meant; none: all that name the Services.
	parts []string
	node  *yaml.Node
}

var (
	virtualService = []string{"VirtualService.networking.istio.io"}
	traefikService = []string{"TraefikService.traefik.io", "TraefikService.traefik.containo.us"}
	apisixRoute    = []string{"ApisixRoute.apisix.apache.org"}
)

const gatewayGroup = ".gateway.networking.k8s.io"

// readTraffic reads what weighs the requests and has it weigh those of the steps. It returns false
// where that cannot hold several weights at a time.
func (x *rolloutReading) readTraffic(o *object) bool {
	var routes []route
	isOther, root, isSplit, splitName := false, "", false, ""
	// other is what has one weight for each version, which a controller must write anew for each step.
	other := func(what string) reader {
		return func(node *yaml.Node) {
			isOther = true
			x.wrong(node, "trafficRouting: "+what, "it has one weight at a time, and Lehr's routes have one for each step: shares are by pods now. Write a route of Gateway API, Istio, Traefik, APISIX or SMI for shares of requests, and import again")
		}
	}
	x.eachKey(x.traffic, "trafficRouting", map[string]reader{
		"istio": func(node *yaml.Node) { x.readIstio(node, &routes) },
		"traefik": func(node *yaml.Node) {
			r := route{kinds: traefikService, node: node}
			x.eachKey(node, "traefik", map[string]reader{"weightedTraefikServiceName": x.text(&r.name)})
			routes = append(routes, r)
		},
		"apisix": func(node *yaml.Node) { x.readApisix(node, &routes) },
		"smi": func(node *yaml.Node) {
			isSplit = true
			x.eachKey(node, "smi", map[string]reader{"rootService": x.text(&root), "trafficSplitName": x.text(&splitName)})
		},
		"plugins": func(node *yaml.Node) {
			x.eachKey(node, "plugins", map[string]reader{"argoproj-labs/gatewayAPI": func(node *yaml.Node) { x.readGateway(node, &routes) }})
			isOther = isOther || len(routes) == 0
		},
		"nginx": other("nginx"), "alb": other("alb"), "ambassador": other("ambassador"), "appMesh": other("appMesh"),
		"managedRoutes": x.left("trafficRouting: managedRoutes", "a rule for headers comes before the route that it is made of"),
		"maxTrafficWeight": func(node *yaml.Node) {
			if x.keep(node); node.Value != "100" {
				x.refuse(node, "weights are percent: maxTrafficWeight is %s, write 100 and weights up to it", node.Value)
			}
		},
	})
	if isOther || len(routes) == 0 && !isSplit || len(x.problems) > 0 {
		return false
	}
	x.setRoutes(o, routes)
	if isSplit {
		x.addSplit(o, root, splitName)
	}
	return true
}

func (x *rolloutReading) readIstio(node *yaml.Node, routes *[]route) {
	one := func(node *yaml.Node) {
		r := route{kinds: virtualService, node: node}
		var name string
		x.eachKey(node, "virtualService", map[string]reader{
			"name": x.text(&name),
			"routes": func(list *yaml.Node) {
				x.eachItem(list, "routes", func(item *yaml.Node) { part := ""; x.text(&part)(item); r.parts = append(r.parts, part) })
			},
			"tlsRoutes": x.kept(), "tcpRoutes": x.kept(),
		})
		if r.name = name; strings.Contains(name, ".") {
			r.name, r.namespace, _ = strings.Cut(name, ".")
		}
		*routes = append(*routes, r)
	}
	x.eachKey(node, "istio", map[string]reader{
		"virtualService":  one,
		"virtualServices": func(list *yaml.Node) { x.eachItem(list, "virtualServices", one) },
		"destinationRule": x.left("istio: destinationRule", "a step is a Service in place of a subset: write a DestinationRule for the host of each step where the policy of traffic matters"),
	})
}

func (x *rolloutReading) readApisix(node *yaml.Node, routes *[]route) {
	x.eachKey(node, "apisix", map[string]reader{"route": func(node *yaml.Node) {
		r := route{kinds: apisixRoute, node: node}
		x.eachKey(node, "route", map[string]reader{
			"name": x.text(&r.name),
			"rules": func(list *yaml.Node) {
				x.eachItem(list, "rules", func(item *yaml.Node) { part := ""; x.text(&part)(item); r.parts = append(r.parts, part) })
			},
		})
		*routes = append(*routes, r)
	}})
}

// readGateway reads what the plugin for Gateway API is told.
func (x *rolloutReading) readGateway(node *yaml.Node, routes *[]route) {
	namespace := ""
	one := func(kind string) reader {
		return func(node *yaml.Node) {
			r := route{kinds: []string{kind + gatewayGroup}, node: node}
			x.text(&r.name)(node)
			*routes = append(*routes, r)
		}
	}
	many := func(kind string) reader {
		return func(list *yaml.Node) {
			x.eachItem(list, kind, func(item *yaml.Node) {
				r := route{kinds: []string{kind + gatewayGroup}, node: item}
				x.eachKey(item, kind, map[string]reader{
					"name": x.text(&r.name), "useHeaderRoutes": x.kept(),
				})
				*routes = append(*routes, r)
			})
		}
	}
	x.eachKey(node, "gatewayAPI", map[string]reader{
		"namespace": x.text(&namespace),
		"httpRoute": one("HTTPRoute"), "grpcRoute": one("GRPCRoute"), "tcpRoute": one("TCPRoute"), "tlsRoute": one("TLSRoute"),
		"httpRoutes": many("HTTPRoute"), "grpcRoutes": many("GRPCRoute"), "tcpRoutes": many("TCPRoute"), "tlsRoutes": many("TLSRoute"),
		"configMap": x.left("gatewayAPI: configMap", "no state is kept beside the route"),
	})
	for i := range *routes {
		(*routes)[i].namespace = namespace
	}
}

// setRoutes has the routes weigh the Services of the steps.
func (x *rolloutReading) setRoutes(o *object, routes []route) {
	for _, r := range routes {
		namespace := r.namespace
		if namespace == "" {
			namespace = o.namespace
		}
		found := x.findKinds(namespace, r.name, r.kinds...)
		if found == nil {
			kind, _, _ := strings.Cut(r.kinds[0], ".")
			x.refuse(r.node, "there is no %s %s/%s in what was read, whose weights %s sets", kind, namespace, r.name, o)
			continue
		}
		if x.stableService == "" {
			x.stableService = subsetHost(found.fields)
		}
		if x.stableService == "" {
			x.refuse(r.node, "%s names no stableService, and %s no host: nothing says which Service has all requests in the end", o, found)
			continue
		}
		if !x.split().set(found, r.parts) {
			x.refuse(r.node, "%s names neither %s nor the canaryService of %s, so it has no requests to weigh", found, x.stableService, o)
		}
		x.addRoute(found)
	}
}

// subsetHost is the Service of a VirtualService whose weights are of subsets.
func subsetHost(fields map[string]any) string {
	for _, route := range items(fields, "spec", "http") {
		for _, to := range items(route, "route") {
			if digText(to, "destination", "subset") != "" {
				host, _, _ := strings.Cut(digText(to, "destination", "host"), ".")
				return host
			}
		}
	}
	return ""
}

func (x *rolloutReading) split() split {
	return split{stable: x.stableService, canary: x.canaryService, backends: x.backends(x.stableService), alternatives: x.alternatives, mirror: x.mirror}
}

// set weighs what an object has of the Services.
func (s split) set(o *object, parts []string) bool {
	switch kind, _, _ := strings.Cut(o.kind, "."); kind {
	case "VirtualService":
		return s.setVirtualService(o.fields, parts) > 0
	case "TraefikService":
		return s.setWeighted(digMap(o.fields, "spec", "weighted"), "services", "name")
	case "ApisixRoute":
		found := false
		for _, rule := range items(o.fields, "spec", "http") {
			if len(parts) == 0 || slices.Contains(parts, digText(rule, "name")) {
				found = s.setWeighted(rule, "backends", "serviceName") || found
			}
		}
		return found
	}
	return s.setGatewayRoute(o.fields) > 0
}

// addSplit makes the TrafficSplit that the controller made.
func (x *rolloutReading) addSplit(o *object, root, name string) {
	if root == "" {
		root = x.stableService
	}
	if name == "" {
		name = o.name
	}
	fields := x.split().trafficSplit(name, o.namespace, root)
	if made := x.find("TrafficSplit.split.smi-spec.io", o.namespace, name); made != nil {
		made.taken = true // The controller made it.
	}
	x.routes = append(x.routes, fields)
}
