package canaries

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// scaling is how many pods of the version that comes are there at each step. It holds from where a
// Rollout says it until it says something else.
type scaling struct {
	// pods, or a share of all of them in percent; neither: the share that the requests have.
	pods, share *int
	// least pods of a share.
	least int
	// first are those that come before any request does; most is what any step so far needs.
	first, most int
	// said are the values that said so, by their lines; none: all pods come before the first step.
	said      []scaled
	leastNode *yaml.Node
	// isListed: it was listed already that pods only grow.
	isListed bool
}

// scaled is a value that says how many pods there are.
type scaled struct {
	what string
	node *yaml.Node
}

// readScale reads a step that says how many pods there are from here on.
func (x *rolloutReading) readScale(node *yaml.Node) {
	pods, share, isMatched := -1, -1, false
	x.eachKey(node, "setCanaryScale", map[string]reader{
		"replicas": x.count(&pods), "weight": x.count(&share), "matchTrafficWeight": x.truth(&isMatched),
	})
	if share > 100 {
		x.refuse(node, "setCanaryScale: the weight is %d, at most 100 is a share of the pods", share)
	}
	s := &x.scaling
	s.said = append(s.said, scaled{"steps: setCanaryScale", node})
	s.pods, s.share = nil, nil
	switch {
	case isMatched:
		x.growPods(nil) // The next weight says whether there are fewer from here on.
		return
	case pods >= 0:
		s.pods = &pods
	case share >= 0:
		s.share = &share
	}
	x.growPods(node)
}

// readPreviewCount reads how many pods there are before all requests go to them.
func (x *rolloutReading) readPreviewCount(node *yaml.Node) {
	x.scaling.said = append(x.scaling.said, scaled{"previewReplicaCount", node})
	x.count(&x.scaling.first)(node)
}

// growPods has the step that the reading is at have the pods that hold for it. What cannot be so is
// listed with the node, if there is one.
func (x *rolloutReading) growPods(node *yaml.Node) {
	s, at := &x.scaling, len(x.steps)-1
	isMatched := s.pods == nil && s.share == nil
	if x.isAll || at < 0 && isMatched {
		return // All pods come before they have all requests, and no request needs no pod.
	}
	var pods int
	switch {
	case s.pods != nil:
		pods = *s.pods
	case s.share != nil:
		pods = max(s.least, shareOf(x.replicas, *s.share))
	default:
		pods = max(s.least, shareOf(x.replicas, x.steps[at].weight))
	}
	if there := min(max(pods, s.most, 1), x.replicas); there != pods && node != nil && len(s.said) > 0 && !s.isListed {
		s.isListed = true
		x.list(node, "steps: setCanaryScale", fmt.Sprintf("pods only grow while a release goes on, from 1 to %d, as replicas says: there are %d, and not %d", x.replicas, there, pods), false)
	}
	if s.most = max(s.most, min(pods, x.replicas)); at < 0 {
		s.first = max(s.first, pods)
	} else {
		x.steps[at].pods = max(x.steps[at].pods, pods)
	}
}

// shareOf is a percentage of pods, rounded up.
func shareOf(pods, percent int) int { return (pods*percent + 99) / 100 }

// takeScale has pods come step by step where a Rollout says how many, and lists it where they cannot.
func (x *rolloutReading) takeScale() {
	s := &x.scaling
	switch {
	case len(s.said) > 0 && x.shares == byServices && x.autoscaler == nil:
		x.setGrowth()
		return
	case x.shares != byServices:
		x.leaveScale("shares of pods are shares of requests here: each step has the pods that its weight needs")
	case x.autoscaler != nil:
		x.leaveScale("the slot that becomes live begins with one pod, and its autoscaler brings the others")
	}
	if s.leastNode != nil {
		x.leaveValue("canary: minPodsPerReplicaSet", s.leastNode, podsAreWhole)
	}
}

// setGrowth has pods come with the steps that need them: each of these is a Deployment of each slot, in place of
// one Deployment whose pods all come before the first step.
func (w *workload) setGrowth() {
	there := 0
	bring := func(step string, pods int) {
		if pods = min(max(pods, 1), w.replicas); pods > there {
			w.parts = append(w.parts, part{step, pods - there})
			there = pods
		}
	}
	first := w.scaling.first
	if first == 0 && len(w.steps) > 0 {
		first = w.steps[0].pods
	}
	bring(stepCandidate, first)
	for _, s := range w.steps {
		bring(s.name(), s.pods)
	}
	bring(stepAll, w.replicas)
	if len(w.parts) == 1 {
		w.parts = nil // All of them come at once.
	}
}

func (x *rolloutReading) leaveScale(why string) {
	for _, said := range x.scaling.said {
		x.leaveValue(said.what, said.node, why)
	}
}

// leaveValue lists a value of the strategy that was counted as carried over when it was read.
func (x *rolloutReading) leaveValue(what string, node *yaml.Node, why string) {
	x.carried[ofStrategy] -= countValues(node)
	x.list(node, what, why, false)
}
