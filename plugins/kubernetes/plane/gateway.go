package plane

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pod is where a gateway sent a request.
type Pod struct {
	Name, Image string
	Labels      map[string]string
}

// Gateway is a reverse proxy that follows HTTPRoutes of one namespace, the Services that they name and the
// endpoints behind these, as the controllers of a cluster write them: hosts, methods, headers, weights and mirrors. A
// kubelet runs no program here, so what a pod answers is said by a function.
type Gateway struct {
	// URL that takes requests.
	URL string

	plane     *Plane
	namespace string
	answer    func(Pod) (status int)
	// copied is called with what a pod answered to a copy of a request, which nobody else gets; nil: there is none who asks.
	copied func(pod Pod, status int)

	mutex  sync.Mutex
	routes []route
	pods   map[string][]Pod
	// owed is how much of its weight each backend of a rule has had no requests for.
	owed map[string]int
}

type route struct {
	Metadata struct{ Name string }
	Spec     struct {
		Hostnames []string
		Rules     []routeRule
	}
}

type routeRule struct {
	Matches []struct {
		Method  string
		Headers []struct{ Name, Value string }
	}
	Filters []struct {
		RequestMirror *struct {
			BackendRef struct{ Name string }
			// Percent of the requests; nil: all.
			Percent *int
		}
	}
	BackendRefs []struct {
		Name   string
		Weight int
	}
}

// refresh is how often a gateway reads what it follows.
const refresh = 100 * time.Millisecond

// StartGateway serves until the test ends. The CustomResourceDefinition of HTTPRoutes must be there.
func (p *Plane) StartGateway(namespace string, answer func(Pod) (status int)) *Gateway {
	p.Helper()
	g := &Gateway{plane: p, namespace: namespace, answer: answer, owed: map[string]int{}}
	server := httptest.NewServer(g)
	p.Cleanup(server.Close)
	g.URL = server.URL
	ctx, ended := p.Context(), make(chan struct{})
	go func() {
		defer close(ended)
		g.follow(ctx)
	}()
	p.Cleanup(func() { <-ended })
	return g
}

// SetCopied has a function called for each copy of a request that a pod got.
func (g *Gateway) SetCopied(copied func(pod Pod, status int)) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.copied = copied
}

func (g *Gateway) follow(ctx context.Context) {
	ticker := time.NewTicker(refresh)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			g.read()
		}
	}
}

// read takes over what the API server has. One that does not answer leaves all as it was.
func (g *Gateway) read() {
	var routes struct{ Items []route }
	var endpoints struct {
		Items []struct {
			Metadata  struct{ Labels map[string]string }
			Endpoints []struct {
				Conditions struct{ Ready bool }
				TargetRef  struct{ Name string }
			}
		}
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec struct{ Containers []struct{ Image string } }
		}
	}
	for path, into := range map[string]any{
		"/apis/gateway.networking.k8s.io/v1/namespaces/" + g.namespace + "/httproutes": &routes,
		"/apis/discovery.k8s.io/v1/namespaces/" + g.namespace + "/endpointslices":      &endpoints,
		"/api/v1/namespaces/" + g.namespace + "/pods":                                  &list,
	} {
		answer, err := g.plane.Ask(http.MethodGet, path, "", nil)
		if err != nil || json.Unmarshal(answer, into) != nil {
			return
		}
	}
	known := map[string]Pod{}
	for _, one := range list.Items {
		known[one.Metadata.Name] = Pod{one.Metadata.Name, one.Spec.Containers[0].Image, one.Metadata.Labels}
	}
	pods := map[string][]Pod{}
	for _, slice := range endpoints.Items {
		service := slice.Metadata.Labels["kubernetes.io/service-name"]
		for _, endpoint := range slice.Endpoints {
			if pod, ok := known[endpoint.TargetRef.Name]; ok && endpoint.Conditions.Ready {
				pods[service] = append(pods[service], pod)
			}
		}
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.routes, g.pods = routes.Items, pods
}

// ServeHTTP sends a request where its route says: 404 without a route, 503 without a pod.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pod, mirrors, copied, status := g.choose(r)
	if status == http.StatusOK {
		status = g.answer(pod)
	}
	for _, mirror := range mirrors {
		if answered := g.answer(mirror); copied != nil {
			copied(mirror, answered)
		}
	}
	w.Header().Set("X-Pod", pod.Name)
	w.Header().Set("X-Image", pod.Image)
	w.WriteHeader(status)
}

// choose says which pod has a request, which pods have a copy, and who is told of copies.
func (g *Gateway) choose(r *http.Request) (pod Pod, mirrors []Pod, copied func(Pod, int), status int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	host, _, _ := strings.Cut(r.Host, ":")
	for _, one := range g.routes {
		if !slices.Contains(one.Spec.Hostnames, host) {
			continue
		}
		for _, rule := range one.Spec.Rules {
			if !rule.takes(r) {
				continue
			}
			mirrors := g.mirrors(one.Metadata.Name, rule)
			if pod, ok := g.next(g.backend(one.Metadata.Name, rule)); ok {
				return pod, mirrors, g.copied, http.StatusOK
			}
			return pod, mirrors, g.copied, http.StatusServiceUnavailable
		}
	}
	return pod, nil, nil, http.StatusNotFound
}

// next is the pod of a Service that had the fewest requests.
func (g *Gateway) next(service string) (next Pod, ok bool) {
	pods := g.pods[service]
	if len(pods) == 0 {
		return next, false
	}
	next = pods[0]
	for _, other := range pods {
		if g.owed["pod/"+other.Name] < g.owed["pod/"+next.Name] {
			next = other
		}
	}
	g.owed["pod/"+next.Name]++
	return next, true
}

// mirrors are the pods that get a copy. A Service without pods gets none, and the request goes on as it would.
func (g *Gateway) mirrors(route string, rule routeRule) (pods []Pod) {
	for _, filter := range rule.Filters {
		mirror := filter.RequestMirror
		if mirror == nil {
			continue
		}
		percent := 100
		if mirror.Percent != nil {
			percent = *mirror.Percent
		}
		key := "mirror/" + route + "/" + mirror.BackendRef.Name
		if g.owed[key] += percent; g.owed[key] < 100 {
			continue
		}
		g.owed[key] -= 100
		if pod, ok := g.next(mirror.BackendRef.Name); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// takes reports whether one of a rule's matches is of the request; rules with headers or methods come first.
func (rule routeRule) takes(r *http.Request) bool {
	for _, match := range rule.Matches {
		fits := match.Method == "" || match.Method == r.Method
		for _, header := range match.Headers {
			fits = fits && r.Header.Get(header.Name) == header.Value
		}
		if fits {
			return true
		}
	}
	return len(rule.Matches) == 0
}

// backend is the one that was given least of its weight.
func (g *Gateway) backend(route string, rule routeRule) (next string) {
	total, most := 0, 0
	for _, one := range rule.BackendRefs {
		total += one.Weight
		key := route + "/" + one.Name
		g.owed[key] += one.Weight
		if next == "" || g.owed[key] > most {
			next, most = one.Name, g.owed[key]
		}
	}
	g.owed[route+"/"+next] -= total
	return next
}
