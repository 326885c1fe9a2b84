package canaries

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const flaggerGroup = ".flagger.app"

// readFlagger reads all Canaries.
func (r *reading) readFlagger() {
	for _, o := range r.objects {
		if o.kind == "Canary"+flaggerGroup {
			r.readCanary(o)
		}
	}
	for _, o := range r.objects {
		w := words{reading: r, object: o, feature: ofAnalysis}
		switch {
		case !strings.HasSuffix(o.kind, flaggerGroup) || o.taken:
			continue
		case o.kind == "MetricTemplate"+flaggerGroup:
			w.leave(o.node, o.String(), "no Canary that was read names it")
		case o.kind == "AlertProvider"+flaggerGroup:
			w.leave(o.node, o.String(), tellsOthers)
		}
		o.taken = true
	}
}

const tellsOthers = "whom Lehr tells of rollouts is written under notifications (docs/operate/notifications.md)"

// canaryReading is the reading of one Canary.
type canaryReading struct {
	words
	*workload
	provider, metricsServer string
	ingress, route          string
	// target and autoscaler are what the Canary names.
	target   *object
	service  flaggerService
	interval time.Duration
	// shares of the requests, as they are written.
	iterations, mostWeight, weight, retries int
	weights                                 []int
	skips                                   bool
	metrics, webhooks                       *yaml.Node
	alternatives                            [][]header
	measured                                []measured
	flaggerMirror                           flaggerMirror
}

// flaggerService says which Services and routes Flagger makes.
type flaggerService struct {
	name, portName, appProtocol, timeout string
	port                                 int
	targetPort                           any
	discovers, delegates                 bool
	node                                 *yaml.Node
}

func (r *reading) readCanary(o *object) {
	w := words{reading: r, object: o, feature: ofWorkload}
	spec := child(o.node, "spec")
	o.taken = true
	kind, name := digText(o.fields, "spec", "targetRef", "kind"), digText(o.fields, "spec", "targetRef", "name")
	if spec == nil || name == "" {
		w.refuse(o.node, "%s has no targetRef", o)
		return
	}
	if kind != "Deployment" {
		w.wrong(spec, o.String(), "its target is a "+kind+", and slots are of Deployments: it stays with Flagger")
		return
	}
	target := r.find("Deployment.apps", o.namespace, name)
	if target == nil {
		w.refuse(child(spec, "targetRef"), "targetRef leads to nothing: there is no Deployment %s/%s in what was read", o.namespace, name)
		return
	}
	c := &canaryReading{words: w, workload: r.newWorkload(o, name, w), target: target, provider: r.settings.provider, interval: time.Minute, mostWeight: 100}
	target.taken = true
	c.slotLabel, c.patience, c.metadata = "lehr.dev/slot", 10*time.Minute, plainMetadata(digMap(target.fields, "metadata"))
	c.setPods(r, target, target.node, digMap(target.fields, "spec", "template"), digMap(target.fields, "spec", "selector"))
	c.readDeployment()
	c.readSpec(spec)
	if len(r.problems) == 0 {
		c.finish(o)
	}
}

// readDeployment takes the fields that a Deployment has beside its pods. Flagger scales the target to 0
// and runs a copy of it, so the copy has the number.
func (c *canaryReading) readDeployment() {
	for _, key := range []string{"minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds", "strategy"} {
		if value, ok := digMap(c.target.fields, "spec")[key]; ok {
			c.deployment[key] = value
		}
	}
	number := dig(c.target.fields, "spec", "replicas")
	if primary := c.find("Deployment.apps", c.namespace, c.name+"-primary"); primary != nil {
		primary.taken, number = true, dig(primary.fields, "spec", "replicas")
	}
	if n, err := fmt.Sscan(fmt.Sprint(number), &c.replicas); n != 1 || err != nil {
		c.replicas = 1
	}
	if c.replicas == 0 {
		c.replicas = 1
		c.addHint(fmt.Sprintf("%s is scaled to 0, and %s-primary was not read: write replicas in workloads/%s.yaml", c.target, c.name, c.id))
	}
}

func (c *canaryReading) readSpec(spec *yaml.Node) {
	analysis := func(node *yaml.Node) { c.as(ofStrategy).readAnalysis(c, node) }
	reference := func(to *string) reader {
		return func(node *yaml.Node) { *to = digTextOf(node, "name"); c.keep(node) }
	}
	c.eachKey(spec, "spec", map[string]reader{
		"provider": c.text(&c.provider), "metricsServer": c.text(&c.metricsServer),
		"targetRef": c.kept(), "autoscalerRef": c.readAutoscalerRef,
		"ingressRef": reference(&c.ingress), "routeRef": reference(&c.route),
		"upstreamRef": c.left("upstreamRef", "Gloo's upstreams are not written: requests are shared by pods"),
		"service":     func(node *yaml.Node) { c.service.node = node },
		"analysis":    analysis, "canaryAnalysis": analysis,
		"progressDeadlineSeconds": c.while(&c.patience),
		"skipAnalysis":            c.truth(&c.skips),
		"suspend":                 c.truth(&c.isHeld),
		"revertOnDeletion":        c.left("revertOnDeletion", "nothing is changed back by taking something out of the sources: docs/use/from-argo-rollouts.md says how to go back to Flagger"),
	})
	if c.service.node == nil {
		c.refuse(spec, "%s has no service", c.object)
		return
	}
	if c.provider == "" {
		c.refuse(spec, "%s names no provider: add --mesh-provider, as Flagger was started with", c.object)
	}
}

func digTextOf(node *yaml.Node, key string) string {
	if found := child(node, key); found != nil {
		return found.Value
	}
	return ""
}

func (c *canaryReading) readAutoscalerRef(node *yaml.Node) {
	name := ""
	c.eachKey(node, "autoscalerRef", map[string]reader{
		"apiVersion": c.kept(), "kind": c.kept(), "name": c.text(&name),
		"primaryScalerQueries":  c.left("autoscalerRef: primaryScalerQueries", "both slots have the same triggers: write them so that they count for either"),
		"primaryScalerReplicas": c.left("autoscalerRef: primaryScalerReplicas", "both slots have the same bounds"),
	})
	if c.findKinds(c.namespace, name, "HorizontalPodAutoscaler.autoscaling", "ScaledObject.keda.sh") == nil {
		c.refuse(node, "there is no autoscaler %s/%s in what was read", c.namespace, name)
	}
}

// readAnalysis reads how requests move, and by what a release is judged.
func (w words) readAnalysis(c *canaryReading, node *yaml.Node) {
	const allReady = "a step begins when all pods of the slot are ready"
	w.eachKey(node, "analysis", map[string]reader{
		"interval": w.while(&c.interval),
		"threshold": func(node *yaml.Node) {
			failures := 0
			w.count(&failures)(node)
			// The last of so many checks that fail ends the release; 0 is 1 to Flagger.
			if c.retries = max(failures-1, 0); c.retries > mostRetries {
				c.retries = mostRetries
				w.list(node, "analysis: threshold", fmt.Sprintf("a validation begins anew at most %d times in a release", mostRetries), false)
			}
		},
		"iterations": w.count(&c.iterations), "maxWeight": w.count(&c.mostWeight), "stepWeight": w.count(&c.weight),
		"stepWeights": func(list *yaml.Node) {
			w.eachItem(list, "stepWeights", func(item *yaml.Node) { n := 0; w.count(&n)(item); c.weights = append(c.weights, n) })
		},
		"match":                 func(list *yaml.Node) { w.eachItem(list, "match", func(item *yaml.Node) { c.readMatch(w, item) }) },
		"metrics":               func(node *yaml.Node) { c.metrics = node },
		"webhooks":              func(node *yaml.Node) { c.webhooks = node },
		"alerts":                w.left("analysis: alerts", tellsOthers),
		"mirror":                func(node *yaml.Node) { c.flaggerMirror.node = node; w.truth(&c.flaggerMirror.isOn)(node) },
		"mirrorWeight":          w.count(&c.flaggerMirror.weight),
		"stepWeightPromotion":   w.left("analysis: stepWeightPromotion", "nothing is promoted after the last step: the pods that were judged are those that serve"),
		"primaryReadyThreshold": w.left("analysis: primaryReadyThreshold", allReady), "canaryReadyThreshold": w.left("analysis: canaryReadyThreshold", allReady),
		"sessionAffinity": w.left("analysis: sessionAffinity", "no cookie holds a client to the version that comes: routes weigh each request"),
	})
}

// readMatch reads one alternative of headers by which requests go to the version that comes.
func (c *canaryReading) readMatch(w words, item *yaml.Node) {
	var headers []header
	w.eachKey(item, "match", map[string]reader{
		"headers": func(node *yaml.Node) {
			for i := 0; i+1 < len(node.Content); i += 2 {
				h := header{name: node.Content[i].Value}
				value := func(kind string) reader {
					return func(node *yaml.Node) { h.kind = kind; w.text(&h.value)(node) }
				}
				w.eachKey(node.Content[i+1], "headers", map[string]reader{"exact": value("exact"), "prefix": value("prefix"), "regex": value("regex")})
				headers = append(headers, h)
			}
		},
		"sourceLabels": w.left("match: sourceLabels", "requests are told apart by headers alone"),
	})
	if len(headers) > 0 {
		c.alternatives = append(c.alternatives, headers)
	}
}

// mostRetries of a validation that Lehr takes.
const mostRetries = 100

// shortestInterval is that of Flagger, whatever a Canary says.
const shortestInterval = 10 * time.Second

// setSteps makes steps of weights, or one pause of iterations.
func (c *canaryReading) setSteps() {
	c.interval = max(c.interval, shortestInterval)
	if c.skips {
		return
	}
	weights := c.weights
	if len(weights) == 0 && c.weight > 0 {
		for weight := c.weight; weight < c.mostWeight; weight += c.weight {
			weights = append(weights, weight)
		}
		weights = append(weights, c.mostWeight)
	}
	if c.iterations > 0 || c.provider == "kubernetes" {
		if c.iterations == 0 {
			c.iterations = 10 // As Flagger does with Services alone.
		}
		c.podsSoak = time.Duration(c.iterations) * c.interval
		return
	}
	const most = 20
	every, last := (len(weights)+most-1)/most, 0
	for i, weight := range weights {
		if weight >= 100 || weight <= last || i%max(every, 1) != 0 && i != len(weights)-1 {
			continue
		}
		c.steps = append(c.steps, step{weight: weight, soak: c.interval})
		last = weight
	}
	if every > 1 {
		c.list(c.object.node, "analysis: stepWeight", fmt.Sprintf("of %d steps each %dth is kept, since each is a Service", len(weights), every), false)
	}
}
