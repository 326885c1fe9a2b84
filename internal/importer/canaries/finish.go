package canaries

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// finish makes of what a Rollout says its Services, routes and validations.
func (x *rolloutReading) finish(o *object) {
	x.held = x.held || x.nextHeld
	x.readAntiAffinity()
	r, pause := x.reading, x.longestPause()
	if x.background != nil {
		x.during = append(x.during, r.readAnalysis(x.words, x.background, o, x.id, pause)...)
	}
	for _, node := range x.inline {
		x.during = append(x.during, r.readAnalysis(x.words, node, o, x.id, pause)...)
		x.list(node, "steps: analysis", "each step is judged by it, not one", false)
	}
	if x.before != nil {
		x.workload.before = r.readAnalysis(x.words, x.before, o, x.id+"-preview", pause)
	}
	if x.after != nil {
		x.during = append(x.during, r.readAnalysis(x.words, x.after, o, x.id, pause)...)
	}
	x.words = x.as(ofTraffic)
	isRouted := x.traffic != nil && x.readTraffic(o)
	if x.traffic != nil && !isRouted {
		x.shares = byReplicas
	}
	x.checkMirror()
	x.takeAutoscaler(r, "Rollout"+argoGroup)
	x.takeScale()
	x.takeServices(o, isRouted)
	if x.shares != byServices {
		return
	}
	x.deployment["strategy"] = rollingUpdate(x.surge)
}

func rollingUpdate(surge map[string]any) map[string]any {
	if len(surge) == 0 {
		return map[string]any{"type": "RollingUpdate"}
	}
	return map[string]any{"type": "RollingUpdate", "rollingUpdate": surge}
}

// takeServices has the Services of the Rollout select slots.
func (x *rolloutReading) takeServices(o *object, isRouted bool) {
	stable, canary := x.service(o, x.stableService), x.service(o, x.canaryService)
	switch x.shares {
	case atOnce:
		x.deployment["strategy"] = rollingUpdate(x.surge)
	case byReplicas:
		if joined := x.setParts(); len(joined) > 0 {
			x.list(x.strategy, "steps: setWeight", fmt.Sprintf("%v: of %d pods they are no step of their own, for all pods of the version that serves stay until the end, and the share is at most one half. A gateway weighs requests", joined, x.replicas), false)
		}
		if len(x.surge) > 0 {
			x.list(x.strategy, "canary: maxSurge, maxUnavailable", "the pods of each step come beside all of those that serve", false)
		}
		x.deployment["strategy"] = rollingUpdate(nil)
		if canary != nil && len(x.parts) > 0 {
			x.addService(canary.name, x.parts[0].Step, canary)
		}
		if stable != nil && x.traffic == nil {
			x.addService(stable.name, stepAll, stable)
		}
	case byServices:
		if canary != nil && canary != stable {
			x.addService(canary.name, stepCandidate, canary)
		}
		if stable != nil {
			x.addSteps(stable)
		}
	}
}

// service finds one that the Rollout names; without it nobody could tell what it selects.
func (x *rolloutReading) service(o *object, name string) *object {
	if name == "" {
		return nil
	}
	found := x.find("Service", o.namespace, name)
	if found == nil {
		x.refuse(x.strategy, "there is no Service %s/%s in what was read, which the strategy of %s names", o.namespace, name, o)
	}
	return found
}

// takeAutoscaler gives each slot an autoscaler of its own.
func (w *workload) takeAutoscaler(r *reading, kind string) {
	for _, o := range r.objects {
		if o.kind != "HorizontalPodAutoscaler.autoscaling" && o.kind != "ScaledObject.keda.sh" || o.namespace != w.namespace {
			continue
		}
		target := digMap(o.fields, "spec", "scaleTargetRef")
		group, _, _ := strings.Cut(digText(target, "apiVersion"), "/")
		targetKind := digText(target, "kind") + "." + group
		if digText(target, "name") != w.name || targetKind != kind && (targetKind != "." || o.kind != "ScaledObject.keda.sh") {
			continue
		}
		o.taken = true
		place := fmt.Sprintf("%s:%d: %s", o.file, o.node.Line, o)
		switch w.shares {
		case byReplicas:
			r.leftOut(place, "shares of pods are shares of requests, and an autoscaler would change them: the number of pods is fixed. Have a gateway weigh the requests, and import again", true)
		case atOnce:
			target["apiVersion"], target["kind"] = "apps/v1", "Deployment"
			o.taken = false
			w.autoscaler = o.fields
		default:
			w.autoscaler = o.fields
			r.addHint(fmt.Sprintf("%s: the slot that becomes live begins with one pod, and its autoscaler needs time: write soak in the rollout %s-pods", w.id, w.id))
		}
		return
	}
}

// readAntiAffinity keeps pods of the slots from each other's machines.
func (x *rolloutReading) readAntiAffinity() {
	if x.antiAffinity == nil {
		return
	}
	weight, isRequired := 0, false
	x.eachKey(x.antiAffinity, "antiAffinity", map[string]reader{
		"preferredDuringSchedulingIgnoredDuringExecution": func(node *yaml.Node) {
			x.eachKey(node, "preferred", map[string]reader{"weight": x.count(&weight)})
		},
		"requiredDuringSchedulingIgnoredDuringExecution": func(node *yaml.Node) { isRequired = true; x.keep(node) },
	})
	labels := map[string]any{}
	for key, value := range digMap(x.selector, "matchLabels") {
		labels[key] = value
	}
	x.affinity = &affinity{labels: labels, weight: weight, isRequired: isRequired}
}

// distinct names, each once.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
