package main

import (
	"os"
	"path/filepath"
	"strings"
)

// withMirror has the page's Rollout send copies of requests once a person lets them begin, until a person lets the first step begin.
var withMirror = strings.NewReplacer("namespace: shop", "namespace: copies", "shop.example.com", "copies.example.com", "      steps:\n",
	"      steps:\n        - pause: {}\n        - setMirrorRoute: {name: copies, percentage: 30, match: [{method: {exact: GET}, path: {prefix: /}}]}\n        - pause: {duration: 2s}\n        - pause: {}\n        - setMirrorRoute: {name: copies}\n")

// takeOverMirror is the story of a Rollout that sends copies of requests: none in the first run; then those of a release have
// them while a person is asked, none with requests, and what fails by its copies never has a request.
func (r *releasedWorkload) takeOverMirror() {
	r.Helper()
	r.makeArgoProduction()
	r.awaitShare("7", 1, 1)
	if said, err := r.run("import", "argo-rollouts", "argo", "--cluster", "eu", "--to", "copies"); err != nil {
		r.Fatalf("%v: %s", err, said)
	}
	full := r.bind()
	r.traffic.forget()
	startServer(r.T, r.folder, r.lehr, "1s", "--external-checks", filepath.Join(filepath.Dir(r.folder), "outside.yaml"))
	r.says("get assets", "service/web-mirror-green")
	r.define(removeJudging(full))
	r.letThrough()
	r.says("rollout status web", "run 1: done")
	r.awaitSelectors("blue", "web", "web-canary", "web-step-10", "web-step-50", "web-mirror-blue")
	r.awaitSelectors("none", "web-mirror-green")
	r.define(full)
	text, err := os.ReadFile(filepath.Join(r.folder, "workloads/web.yaml"))
	if err != nil {
		r.Fatal(err)
	}
	r.write("workloads/web.yaml", strings.Replace(string(text), "  active: false\n", "  active: true\n", 1))
	r.says("rollout status web", "run 2: done")
	r.awaitCopies("8", 0, 0)
	r.remove(r.collection(argoGroup, "rollouts")+"/web", "Orphan")
	r.remove(r.collection(appsGroup, "replicasets")+"/web-"+hash, "Background")
	r.awaitShare("7", 1, 1)

	ended := r.plane.Follow(r.services())
	r.release("green", "8")
	r.beginCopies("green")
	r.awaitFirstPause()
	r.awaitCopies("8", 0.25, 0.35)
	r.beginRequests()
	r.awaitPause("8")
	r.awaitCopies("", 0, 0)
	r.letThrough()
	r.says("rollout status web", "run 3: done")
	r.awaitShare("8", 1, 1)
	r.awaitCopies("", 0, 0)
	r.checkSwitches(ended(), "green", "web-canary", "web-mirror-green", "web-step-10", "web-step-50", "web")

	r.release("blue", "10")
	r.beginCopies("blue")
	r.awaitFirstPause()
	r.beginRequests()
	r.awaitSelectors("blue", "web-step-10")
	r.says("rollout rollback web --reason it-was-wrong", "")
	r.awaitSelectors("green", "web", "web-step-10", "web-step-50", "web-mirror-green")
	r.awaitSelectors("none", "web-mirror-blue")
	r.awaitCopies("", 0, 0)
	r.awaitShare("8", 1, 1)

	ended = r.plane.Follow(r.services())
	r.release("blue", "9")
	r.beginCopies("blue")
	r.awaitCopies("9", 0.25, 0.35)
	r.says("rollout status web", "run 5: rolled-back", "success-rate")
	r.awaitCopies("", 0, 0)
	r.awaitShare("8", 1, 1)
	r.checkSwitches(ended(), "blue", "web-canary", "web-mirror-blue")
	r.checkAnswers()
}

const firstStep = "kubernetes/eu/copies/service/web-step-10"

// awaitFirstPause waits until the release waits for a person before its first requests.
func (r *releasedWorkload) awaitFirstPause() {
	r.Helper()
	r.says("why "+firstStep, firstStep+" waits (condition): check pause")
}

func (r *releasedWorkload) beginRequests() {
	r.Helper()
	if said, err := r.run("override", firstStep, "--check", "pause", "--reason", "looked-at-it"); err != nil {
		r.Fatalf("%v: %s", err, said)
	}
}

// beginCopies says once, of the Service of the slot that becomes live, what a person says before there are copies.
func (r *releasedWorkload) beginCopies(slot string) {
	r.Helper()
	service := "kubernetes/eu/copies/service/web-mirror-" + slot
	r.says("why "+service, service+" waits (condition): check pause")
	r.awaitCopies("", 0, 0)
	if said, err := r.run("override", service, "--check", "pause", "--reason", "looked-at-it"); err != nil {
		r.Fatalf("%v: %s", err, said)
	}
}

func (r *releasedWorkload) awaitCopies(version string, least, most float64) {
	r.Helper()
	r.traffic.awaitCopies(r.T, r.plane, r.namespace, "registry.example.com/web:"+version, least, most, func() string {
		said, _ := r.run("rollout", "status", "web")
		return said
	})
}
