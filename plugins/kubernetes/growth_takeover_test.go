package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// withGrowth has the page's Rollout have as many pods of what comes as the weight says.
var withGrowth = strings.NewReplacer("namespace: shop", "namespace: growth", "shop.example.com", "growth.example.com",
	"      steps:\n", "      steps:\n        - setCanaryScale: {matchTrafficWeight: true}\n")

// takeOverGrowing is the story of a Rollout with a setCanaryScale: pods come with the steps, one word of a person is enough, and going back
// takes them away after their Services. Nobody judges it.
func (r *releasedWorkload) takeOverGrowing() {
	r.Helper()
	r.makeArgoProduction()
	r.awaitShare("7", 1, 1)
	if said, err := r.run("import", "argo-rollouts", "argo", "--cluster", "eu", "--to", "growth"); err != nil {
		r.Fatalf("%v: %s", err, said)
	}
	full := r.bind()
	r.traffic.forget()
	startServer(r.T, r.folder, r.lehr, "1s", "--external-checks", filepath.Join(filepath.Dir(r.folder), "outside.yaml"))
	r.says("get assets", "service/web-step-10")
	r.define(removeJudging(full))
	r.says("rollout status web", "run 1: done") // What it creates waits for nobody.
	r.awaitSelectors("blue", "web", "web-canary", "web-step-10", "web-step-50")
	for part, pods := range []float64{1, 1, 2} {
		r.awaitReplicasIn(r.namespace, fmt.Sprintf("web-blue-%d", part+1), pods)
	}
	r.remove(r.collection(argoGroup, "rollouts")+"/web", "Orphan")
	r.remove(r.collection(appsGroup, "replicasets")+"/web-"+hash, "Background")
	r.awaitShare("7", 1, 1)
	r.checkAnswers()

	ended := r.plane.Follow(r.services())
	r.release("green", "8")
	last := "kubernetes/eu/growth/deployment.apps/web-green-3"
	r.says("why "+last, "the release pauses before this step")
	r.awaitShare("8", 0.45, 0.55)
	r.awaitReplicasIn(r.namespace, "web-green-1", 1)
	r.awaitReplicasIn(r.namespace, "web-green-2", 1)
	r.awaitReplicasIn(r.namespace, "web-green-3", 0)
	r.awaitSelectors("blue", "web")
	if said, err := r.run("override", last, "--check", "pause", "--reason", "looked-at-it"); err != nil {
		r.Fatalf("%v: %s", err, said)
	}
	r.says("rollout status web", "run 2: done")
	r.awaitShare("8", 1, 1)
	r.checkAnswers()
	r.checkSwitches(ended(), "green", "web-canary", "web-step-10", "web-step-50", "web")
	for part := range 3 {
		r.awaitReplicasIn(r.namespace, fmt.Sprintf("web-blue-%d", part+1), 0)
	}
	r.says("rollout status web-old", "run 2: done") // Else that is not known to be good, and going back would go further.

	r.release("blue", "10")
	r.awaitSelectors("blue", "web-step-10", "web-step-50")
	r.awaitReplicasIn(r.namespace, "web-blue-2", 1)
	r.says("rollout rollback web --reason it-was-wrong", "")
	r.awaitSelectors("green", "web", "web-step-10", "web-step-50")
	r.awaitReplicasIn(r.namespace, "web-blue-2", 0)
	r.awaitReplicasIn(r.namespace, "web-blue-1", 1)
	r.awaitShare("8", 1, 1)
	r.checkAnswers()
}
