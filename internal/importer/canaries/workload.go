package canaries

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// How the requests are shared between the slots while a release goes on.
const (
	// byServices: a Service for each step, which routes weigh; without steps blue/green.
	byServices = "services"
	// byReplicas: a Deployment for each step.
	byReplicas = "replicas"
	// atOnce: no slots; a Deployment that is updated in place, pod by pod.
	atOnce = "at once"
)

// stepName of what brings the pods, all requests, and of what scales the other slot down.
const (
	stepCandidate = "candidate"
	stepAll       = "100"
	stepOld       = "old"
)

// step is a share of the requests.
type step struct {
	weight int
	// soak is how long it stays so at least; held: a person lets it begin.
	soak time.Duration
	held bool
	// pods of the version that comes, where they grow with the steps.
	pods int
}

func (s step) name() string { return fmt.Sprint(s.weight) }

// service is one that selects the live slot, from a step on.
type service struct {
	step string
	// slot is the one that it may select; empty: whichever is live.
	slot   string
	object map[string]any
}

// part is a Deployment of each slot: by replicas, or where pods grow with the steps.
type part struct {
	Step string `yaml:"step"`
	Pods int    `yaml:"pods"`
}

// workload is what runs pods, and how a release of it goes on.
type workload struct {
	id, name, namespace string
	words               words
	// slotLabel is on pods, with the slot as its value.
	slotLabel  string
	replicas   int
	template   map[string]any
	metadata   map[string]any
	selector   map[string]any
	deployment map[string]any
	shares     string
	steps      []step
	mirror     *mirror
	parts      []part
	scaling    scaling
	services   []service
	// routes weigh the Services, and come once these are there.
	routes     []map[string]any
	autoscaler map[string]any
	// podsSoak is how long pods are well before they have requests, soak the while after the last step.
	podsSoak, soak time.Duration
	// held: a person lets the last step begin.
	held bool
	// delay before the other slot is scaled down.
	delay    time.Duration
	patience time.Duration
	// isHeld: a person begins each run.
	isHeld   bool
	affinity *affinity
	// before are validations of pods that have no requests, or only those that headers name; during those of each step.
	before, during []string
}

// affinity keeps pods of a slot from machines that have those of the other.
type affinity struct {
	labels     map[string]any
	weight     int
	isRequired bool
}

// newWorkload reads who it is; what has one name with another is refused.
func (r *reading) newWorkload(o *object, name string, words words) *workload {
	w := &workload{name: name, namespace: o.namespace, words: words, replicas: 1, deployment: map[string]any{}, delay: 30 * time.Second}
	for _, other := range r.workloads {
		if other.name == w.name && other.namespace == w.namespace {
			words.refuse(o.node, "%s is there twice, also at %s:%d: remove one of them", o, other.words.object.file, other.words.object.node.Line)
		}
	}
	if len(name)+len("-step-100") > 63 {
		words.refuse(o.node, "the name %.70q is too long for those that its slots and steps have: give it one of at most 54 characters", name)
	}
	id := segment(name)
	if slices.Contains(r.ids, id) {
		id = segment(o.namespace + "-" + name)
	}
	w.id = unused(&r.ids, id)
	w.metadata = plainMetadata(digMap(o.fields, "metadata"))
	r.workloads = append(r.workloads, w)
	o.taken = true
	return w
}

// plainMetadata are the labels and annotations.
func plainMetadata(metadata map[string]any) map[string]any {
	made := map[string]any{}
	for _, key := range []string{"labels", "annotations"} {
		if fields := digMap(metadata, key); len(fields) > 0 {
			made[key] = fields
		}
	}
	return made
}

// setPods takes the pods of a template, and what selects them.
func (w *workload) setPods(r *reading, o *object, node *yaml.Node, template, selector map[string]any) {
	w.template, w.selector = template, selector
	if len(digMap(template, "spec")) == 0 {
		w.words.refuse(node, "%s has no pods: its template has no spec", o)
		return
	}
	if len(selector) == 0 {
		w.words.refuse(node, "%s has no selector: write selector.matchLabels, as its pods have them", o)
		return
	}
	labels := digMap(template, "metadata", "labels")
	for key, value := range digMap(selector, "matchLabels") {
		if labels[key] != value {
			w.words.refuse(node, "the selector of %s asks for %s: %v, which its pods do not have", o, key, value)
		}
	}
	r.checkSecrets(o, template)
}

// addService adds a copy of a Service that selects the live slot from a step on.
func (w *workload) addService(name, step string, like *object) {
	made := map[string]any{"apiVersion": "v1", "kind": "Service"}
	metadata := plainMetadata(digMap(like.fields, "metadata"))
	metadata["name"], metadata["namespace"] = name, w.namespace
	spec := map[string]any{}
	for key, value := range digMap(like.fields, "spec") {
		spec[key] = value
	}
	if name != like.name {
		// A copy is for routes within the cluster.
		for _, key := range []string{"type", "clusterIP", "clusterIPs", "externalTrafficPolicy", "healthCheckNodePort", "loadBalancerIP", "loadBalancerClass", "loadBalancerSourceRanges", "externalIPs"} {
			delete(spec, key)
		}
		delete(metadata, "annotations")
		spec["ports"] = withoutNodePorts(spec["ports"])
	}
	made["metadata"], made["spec"] = metadata, spec
	w.services = append(w.services, service{step: step, object: made})
	like.taken = true
}

func withoutNodePorts(ports any) any {
	list, _ := ports.([]any)
	made := make([]any, 0, len(list))
	for _, port := range list {
		fields := map[string]any{}
		for key, value := range digMap(port) {
			if key != "nodePort" {
				fields[key] = value
			}
		}
		made = append(made, fields)
	}
	return made
}

// addSteps adds the Services of the steps, which routes weigh, beside the one that has all requests in the end.
func (w *workload) addSteps(stable *object) {
	if w.mirror != nil {
		w.mirror.service = mirrorName(stable.name)
		for _, slot := range []string{"blue", "green"} {
			name := w.mirror.service + "-" + slot
			if len(name) > 63 {
				w.words.refuse(w.mirror.node, "the name %s is too long for a Service, which copies of requests need: give %s a shorter one", name, stable)
			}
			w.addService(name, stepMirror, stable)
			w.services[len(w.services)-1].slot = slot
		}
	}
	for _, s := range w.steps {
		w.addService(stable.name+"-step-"+s.name(), s.name(), stable)
	}
	w.addService(stable.name, stepAll, stable)
}

// addRoute takes an object over that weighs the Services; one that two workloads have is with the first.
func (w *workload) addRoute(o *object) {
	if !o.taken {
		o.taken = true
		w.routes = append(w.routes, o.fields)
	}
}

// backend is a Service and the part of the requests that it has.
type backend struct {
	name   string
	weight int
}

// backends are what a route has in place of the Service that has all requests: each step is one,
// with what it adds, so that a step is a change of one Service's selector.
func (w *workload) backends(stable string) (list []backend) {
	previousWeight := 0
	for _, s := range w.steps {
		list = append(list, backend{stable + "-step-" + s.name(), s.weight - previousWeight})
		previousWeight = s.weight
	}
	return append(list, backend{stable, 100 - previousWeight})
}

// setParts says how many pods each step adds, so that their share beside all of the old ones is
// its weight, rounded up. Steps that add none, as all above one half, are taken together.
func (w *workload) setParts() (joined []int) {
	previousPods := 0
	var steps []step
	for _, s := range w.steps {
		pods := w.replicas
		if s.weight < 50 {
			pods = min(w.replicas, (s.weight*w.replicas+99-s.weight)/(100-s.weight))
		}
		if pods == previousPods {
			joined = append(joined, s.weight)
			if last := len(steps) - 1; last >= 0 {
				steps[last].soak += s.soak
				w.held = w.held || s.held
			}
			continue
		}
		steps = append(steps, s)
		w.parts = append(w.parts, part{s.name(), pods - previousPods})
		previousPods = pods
	}
	if w.steps = steps; previousPods < w.replicas {
		w.parts = append(w.parts, part{stepAll, w.replicas - previousPods})
	}
	return joined
}
