package canaries

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer"
)

const argoGroup = ".argoproj.io"

// readRollouts reads all of Argo Rollouts.
func (r *reading) readRollouts() {
	for _, o := range r.objects {
		if o.kind == "Rollout"+argoGroup {
			r.readRollout(o)
		}
	}
	for _, o := range r.objects {
		w := words{reading: r, object: o, feature: ofAnalysis}
		switch kind := strings.TrimSuffix(o.kind, argoGroup); {
		case o.taken || kind == o.kind:
		case kind == "Experiment":
			w.leave(o.node, o.String(), "Lehr runs no pods for a time: a second slot is beside the first while a release goes on, and validations compare them (docs/use/models.md)")
		case kind == "AnalysisRun":
			w.list(o.node, o.String(), "it is what a controller made of a template", false)
		case kind == "AnalysisTemplate" || kind == "ClusterAnalysisTemplate":
			w.leave(o.node, o.String(), "no Rollout that was read names it")
		default:
			w.list(o.node, o.String(), "it is not of Argo Rollouts: lehr import argocd reads Applications", false)
		}
		if strings.HasSuffix(o.kind, argoGroup) {
			o.taken = true
		}
	}
}

// rolloutReading is the reading of one Rollout.
type rolloutReading struct {
	words
	*workload
	selectorNode, templateNode, workloadRef, strategy *yaml.Node
	// analyses of the strategy, read once its pauses are known.
	background, before, after *yaml.Node
	inline                    []*yaml.Node
	traffic                   *yaml.Node
	canaryService             string
	stableService             string
	surge                     map[string]any
	antiAffinity              *yaml.Node
	alternatives              [][]header
	// isAll: a step had the weight 100; nextHeld: a person lets the next step begin.
	isAll, nextHeld bool
}

// header is one by which requests go to the version that comes.
type header struct {
	name, kind, value string
}

func (r *reading) readRollout(o *object) {
	w := words{reading: r, object: o, feature: ofWorkload}
	spec := child(o.node, "spec")
	if spec == nil {
		w.refuse(o.node, "%s has no spec", o)
		return
	}
	x := &rolloutReading{words: w, workload: r.newWorkload(o, o.name, w), surge: map[string]any{}}
	x.slotLabel, x.patience = podHash, 10*time.Minute
	x.readSpec(spec)
	x.readPods(o)
	if x.strategy == nil {
		w.refuse(spec, "%s has no strategy", o)
		return
	}
	x.readStrategy()
	if len(r.problems) == 0 {
		x.finish(o)
	}
}

func (x *rolloutReading) readSpec(spec *yaml.Node) {
	abort := false
	x.eachKey(spec, "spec", map[string]reader{
		"replicas":             x.count(&x.replicas),
		"selector":             func(node *yaml.Node) { x.selectorNode = node; x.keep(node) },
		"template":             func(node *yaml.Node) { x.templateNode = node; x.keep(node) },
		"workloadRef":          func(node *yaml.Node) { x.workloadRef = node },
		"strategy":             func(node *yaml.Node) { x.strategy = node },
		"minReadySeconds":      x.deploymentField("minReadySeconds"),
		"revisionHistoryLimit": x.deploymentField("revisionHistoryLimit"),
		"progressDeadlineSeconds": func(node *yaml.Node) {
			x.while(&x.patience)(node)
			x.deployment["progressDeadlineSeconds"] = int(x.patience.Seconds())
		},
		"progressDeadlineAbort": x.truth(&abort),
		"paused":                x.truth(&x.isHeld),
		"restartAt":             x.left("restartAt", "it is a wish of a moment: kubectl rollout restart does it"),
		"rollbackWindow":        x.left("rollbackWindow", "going back to what was found good needs no steps in any case: lehr rollout rollback goes at once while a run is under way"),
		"analysis":              x.left("analysis", "there are no AnalysisRuns to keep: verdicts are kept as long as ended pushes are"),
	})
	if !abort {
		x.addHint("a Rollout whose pods do not become ready is only told of where progressDeadlineAbort is not set; Lehr goes back after patience. Write on_bad: stop where a person is to decide")
	}
}

// deploymentField is a field that a Deployment has, too.
func (x *rolloutReading) deploymentField(name string) reader {
	return func(node *yaml.Node) {
		n := 0
		x.count(&n)(node)
		x.deployment[name] = n
	}
}

// readPods reads the pods of the Rollout itself, or of the workload that it names.
func (x *rolloutReading) readPods(o *object) {
	if x.workloadRef == nil {
		x.setPods(x.reading, o, o.node, digMap(o.fields, "spec", "template"), digMap(o.fields, "spec", "selector"))
		return
	}
	kind, version, name, scaleDown := "", "", "", ""
	x.eachKey(x.workloadRef, "workloadRef", map[string]reader{
		"apiVersion": x.text(&version), "kind": x.text(&kind), "name": x.text(&name), "scaleDown": x.text(&scaleDown),
	})
	group, _, _ := strings.Cut(version, "/")
	target := x.find(kind+"."+group, o.namespace, name)
	if target == nil {
		x.refuse(x.workloadRef, "workloadRef leads to nothing: there is no %s %s/%s in what was read", kind, o.namespace, name)
		return
	}
	target.taken = true
	selector := digMap(target.fields, "spec", "selector")
	if own := digMap(o.fields, "spec", "selector"); len(own) > 0 {
		selector = own
	}
	x.setPods(x.reading, target, target.node, digMap(target.fields, "spec", "template"), selector)
	x.addHint(fmt.Sprintf("%s becomes the slots of %s: keep it scaled to 0, and delete it when %s-blue is well", target, x.id, x.name))
}

func (x *rolloutReading) readStrategy() {
	x.words = x.as(ofStrategy)
	kinds := 0
	x.eachKey(x.strategy, "strategy", map[string]reader{
		"canary":    func(node *yaml.Node) { kinds++; x.readCanary(node) },
		"blueGreen": func(node *yaml.Node) { kinds++; x.readBlueGreen(node) },
	})
	if kinds != 1 {
		x.refuse(x.strategy, "a strategy is canary or blueGreen")
	}
}

const (
	podsAreWhole = "the pods of a release come up as many as there are, before they have requests"
	abortedStay  = "what went back keeps its pods without requests until the next release, for whoever looks for the cause"
	noMetadata   = "pods do not change while a release goes on: tell them apart by the label " + podHash + ", whose value is the slot"
)

func (x *rolloutReading) readBlueGreen(node *yaml.Node) {
	promotes, wait := true, time.Duration(0)
	x.shares = byServices
	var active, preview string
	x.eachKey(node, "blueGreen", map[string]reader{
		"activeService": x.text(&active), "previewService": x.text(&preview),
		"autoPromotionEnabled": x.truth(&promotes), "autoPromotionSeconds": x.while(&wait),
		"scaleDownDelaySeconds":       x.while(&x.delay),
		"prePromotionAnalysis":        func(node *yaml.Node) { x.before = node },
		"postPromotionAnalysis":       func(node *yaml.Node) { x.after = node },
		"antiAffinity":                func(node *yaml.Node) { x.antiAffinity = node },
		"maxUnavailable":              x.surgeField("maxUnavailable"),
		"previewReplicaCount":         x.readPreviewCount,
		"scaleDownDelayRevisionLimit": x.left("scaleDownDelayRevisionLimit", "there are two slots, so one older version"),
		"abortScaleDownDelaySeconds":  x.left("abortScaleDownDelaySeconds", abortedStay),
		"previewMetadata":             x.left("previewMetadata", noMetadata),
		"activeMetadata":              x.left("activeMetadata", noMetadata),
	})
	x.held = !promotes
	if x.canaryService, x.stableService = preview, active; promotes {
		x.podsSoak = wait
	}
	if active == "" {
		x.refuse(node, "blueGreen has no activeService")
	}
}

func (x *rolloutReading) surgeField(name string) reader {
	return func(node *yaml.Node) {
		var value any
		if err := node.Decode(&value); err != nil || node.Kind != yaml.ScalarNode {
			x.refuse(node, "%s is a number, or a share as 25%%", name)
			return
		}
		x.surge[name] = value
		x.keep(node)
	}
}

func (x *rolloutReading) readCanary(node *yaml.Node) {
	var steps *yaml.Node
	x.eachKey(node, "canary", map[string]reader{
		"canaryService": x.text(&x.canaryService), "stableService": x.text(&x.stableService),
		"steps":                       func(node *yaml.Node) { steps = node },
		"trafficRouting":              func(node *yaml.Node) { x.traffic = node },
		"analysis":                    func(node *yaml.Node) { x.background = node },
		"antiAffinity":                func(node *yaml.Node) { x.antiAffinity = node },
		"maxSurge":                    x.surgeField("maxSurge"),
		"maxUnavailable":              x.surgeField("maxUnavailable"),
		"scaleDownDelaySeconds":       x.while(&x.delay),
		"scaleDownDelayRevisionLimit": x.left("canary: scaleDownDelayRevisionLimit", "there are two slots, so one older version"),
		"abortScaleDownDelaySeconds":  x.left("canary: abortScaleDownDelaySeconds", abortedStay),
		"dynamicStableScale":          x.left("canary: dynamicStableScale", "the slot that serves stays whole until the end, so that going back is at once"),
		"minPodsPerReplicaSet":        func(node *yaml.Node) { x.scaling.leastNode = node; x.count(&x.scaling.least)(node) },
		"replicaProgressThreshold":    x.left("canary: replicaProgressThreshold", "a step begins when all pods of the slot are ready"),
		"canaryMetadata":              x.left("canary: canaryMetadata", noMetadata),
		"stableMetadata":              x.left("canary: stableMetadata", noMetadata),
		"pingPong":                    x.readPingPong,
	})
	if steps != nil {
		x.eachItem(steps, "steps", x.readStep)
	}
	switch {
	case len(x.steps) == 0 && x.traffic == nil && steps == nil:
		x.shares = atOnce
	case x.traffic == nil:
		x.shares = byReplicas
	default:
		x.shares = byServices
	}
}

// readPingPong reads two Services that take turns: here each step has one, and one has all requests in the end.
func (x *rolloutReading) readPingPong(node *yaml.Node) {
	x.eachKey(node, "pingPong", map[string]reader{"pingService": x.text(&x.stableService), "pongService": x.text(&x.canaryService)})
}

// readStep reads a step of a canary. Pauses are of the weight before them.
func (x *rolloutReading) readStep(node *yaml.Node) {
	if node.Kind != yaml.MappingNode || len(node.Content) != 2 {
		x.refuse(node, "a step has one key")
		return
	}
	x.eachKey(node, "steps", map[string]reader{
		"setWeight":      x.readWeight,
		"pause":          x.readPause,
		"analysis":       func(node *yaml.Node) { x.inline = append(x.inline, node) },
		"setCanaryScale": x.readScale,
		"setHeaderRoute": x.readHeaderRoute,
		"setMirrorRoute": x.readMirrorRoute,
		"experiment":     x.left("steps: experiment", "Lehr runs no pods for a time: validations compare the slots with compare: control (docs/use/validation.md)"),
		"plugin": func(node *yaml.Node) {
			x.refuse(node, "a step by a plugin cannot be run by Lehr: take it out, and ask its service as a metric (http) of a validation")
		},
	})
}

func (x *rolloutReading) readWeight(node *yaml.Node) {
	weight := 0
	x.count(&weight)(node)
	last := 0
	if n := len(x.steps); n > 0 {
		last = x.steps[n-1].weight
	}
	switch {
	case weight > 100:
		x.refuse(node, "setWeight is %d, at most 100 is a share", weight)
	case weight == 100 || weight == 0 && last == 0 || weight == last:
		x.isAll = x.isAll || weight == 100 // The last step, which every release has; or no change.
	case weight < last || x.isAll:
		x.list(node, "steps: setWeight", "weights only grow: the share stays at what it was", false)
	default:
		x.steps = append(x.steps, step{weight: weight, held: x.nextHeld})
		x.nextHeld = false
		x.growPods(node)
	}
}

func (x *rolloutReading) readPause(node *yaml.Node) {
	d := time.Duration(0)
	if node.Kind == yaml.MappingNode && len(node.Content) > 0 {
		x.eachKey(node, "pause", map[string]reader{"duration": x.while(&d)})
	} else {
		x.keep(node)
	}
	switch n := len(x.steps); {
	case d == 0 && x.isAll:
		x.list(node, "steps: pause", "all requests go to the new version already: nothing is left to wait for", false)
	case d == 0:
		x.nextHeld = true
	case x.isAll:
		x.soak += d
	case n == 0 && x.mirror != nil:
		x.mirror.soak += d
	case n == 0:
		x.podsSoak += d
	default:
		x.steps[n-1].soak += d
	}
}

func (x *rolloutReading) readHeaderRoute(node *yaml.Node) {
	name := ""
	var headers []header
	x.eachKey(node, "setHeaderRoute", map[string]reader{
		"name": x.text(&name),
		"match": func(list *yaml.Node) {
			x.eachItem(list, "match", func(item *yaml.Node) {
				var h header
				x.eachKey(item, "match", map[string]reader{
					"headerName": x.text(&h.name),
					"headerValue": func(node *yaml.Node) {
						x.eachKey(node, "headerValue", map[string]reader{
							"exact": x.headerValue(&h, "exact"), "prefix": x.headerValue(&h, "prefix"), "regex": x.headerValue(&h, "regex"),
						})
					},
				})
				headers = append(headers, h)
			})
		},
	})
	if len(headers) == 0 {
		return // It ends a route, which ends by itself with the release.
	}
	x.alternatives = append(x.alternatives, headers)
	x.list(node, "steps: setHeaderRoute", "requests with the header go to the version that comes from its first pod on, until it has all", false)
}

func (x *rolloutReading) headerValue(h *header, kind string) reader {
	return func(node *yaml.Node) {
		h.kind = kind
		x.text(&h.value)(node)
	}
}

// longestPause of the steps, for as long a background analysis looks.
func (w *workload) longestPause() time.Duration {
	longest := max(w.podsSoak, w.soak)
	for _, s := range w.steps {
		longest = max(longest, s.soak)
	}
	if w.mirror != nil {
		longest = max(longest, w.mirror.soak)
	}
	return longest
}

// leftOut adds what a service or a route could not take over.
func (r *reading) leftOut(what, why string, isWrong bool) {
	r.LeftOut = append(r.LeftOut, importer.LeftOut{What: what, Why: why, Wrong: isWrong})
}
