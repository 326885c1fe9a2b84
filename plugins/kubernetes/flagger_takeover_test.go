package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"lehr.dev/plugins/kubernetes/plane"
)

// makeFlaggerProduction makes what Flagger has in a cluster once a Canary is initialized: a copy of the Deployment, which runs
// in its place, three Services, and a route to the copy.
func (r *releasedWorkload) makeFlaggerProduction() {
	r.Helper()
	r.plane.ServeKind("flagger.app", "v1beta1", "Canary", "canaries")
	r.plane.ServeKind("flagger.app", "v1beta1", "MetricTemplate", "metrictemplates")
	written := r.documents("flagger/web.yaml")
	canary := r.create(r.collection(flaggerGroup, "canaries"), "kubectl", written[0])
	r.create(r.collection(flaggerGroup, "metrictemplates"), "kubectl", written[1])
	deployments := r.collection(appsGroup, "deployments")
	target := r.create(deployments, "kubectl", written[2])
	metadata := func(name string, labels plane.Object) plane.Object {
		return plane.Object{"name": name, "labels": labels, "ownerReferences": []any{plane.Object{
			"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web", "uid": canary["metadata"].(plane.Object)["uid"], "controller": true, "blockOwnerDeletion": true,
		}}}
	}
	app := func(value string) plane.Object { return plane.Object{"app": value} }
	spec := target["spec"].(plane.Object)
	r.create(deployments, "flagger", plane.Object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web-primary", app("web-primary")),
		"spec": plane.Object{"replicas": spec["replicas"], "selector": plane.Object{"matchLabels": app("web-primary")}, "template": plane.Object{
			"metadata": plane.Object{"labels": app("web-primary"), "annotations": plane.Object{"flagger-id": "6ad1e3b2"}}, "spec": spec["template"].(plane.Object)["spec"],
		}},
	})
	for name, selected := range map[string]string{"web": "web-primary", "web-primary": "web-primary", "web-canary": "web"} {
		r.create(r.services(), "flagger", plane.Object{
			"apiVersion": "v1", "kind": "Service", "metadata": metadata(name, app(name)),
			"spec": plane.Object{"type": "ClusterIP", "selector": app(selected), "ports": []any{plane.Object{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}}},
		})
	}
	r.patch(deployments+"/web", "flagger", `{"spec":{"replicas":0}}`)
	backend := func(name string, weight int) plane.Object {
		return plane.Object{"group": "", "kind": "Service", "name": name, "port": 80, "weight": weight}
	}
	service := written[0]["spec"].(plane.Object)["service"].(plane.Object)
	r.create(r.collection(gatewayGroup, "httproutes"), "flagger", plane.Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata("web", plane.Object{}),
		"spec": plane.Object{"parentRefs": service["gatewayRefs"], "hostnames": service["hosts"], "rules": []any{plane.Object{
			"matches": []any{plane.Object{"path": plane.Object{"type": "PathPrefix", "value": "/"}}}, "backendRefs": []any{backend("web-primary", 100), backend("web-canary", 0)},
		}}},
	})
}

// takeOverFlagger is the story of a Canary.
func (r *releasedWorkload) takeOverFlagger() {
	r.Helper()
	r.makeFlaggerProduction()
	r.awaitShare("7", 1, 1)
	r.writeLive("live.json")
	root, full := r.folder, ""
	for _, from := range []string{"live.json", "flagger"} {
		r.folder = root
		if err := os.RemoveAll(filepath.Join(root, r.namespace)); err != nil {
			r.Fatal(err)
		}
		if said, err := r.run("import", "flagger", from, "--cluster", "eu", "--to", r.namespace); err != nil {
			r.Fatalf("%v: %s", err, said)
		}
		full = r.bind()
		r.comparePlan("25", "50")
	}
	old := r.uidsOf(r.pods())

	// The page's steps.
	ended := r.plane.Follow(r.pods())
	r.traffic.forget()
	startServer(r.T, r.folder, r.lehr, "1s", "--external-checks", filepath.Join(filepath.Dir(r.folder), "outside.yaml"))
	r.says("get assets", "service/web-step-25")
	r.define(removeJudging(full))
	r.awaitGate()
	r.gate.isOpen.Store(true)
	r.says("rollout status web", "run 1: done")
	r.gate.isOpen.Store(false)
	r.awaitSelectors("blue", "web", "web-canary", "web-step-25", "web-step-50")
	for _, e := range ended() {
		if name := plane.NameOf(e.Object); old[name] != "" && e.Type == "DELETED" {
			r.Errorf("the pod %s ended", name)
		}
	}
	before := r.uidsOf(r.services())
	r.define(full)
	if after := r.uidsOf(r.services()); !maps.Equal(before, after) {
		r.Errorf("the Services changed: from %v to %v", before, after)
	}
	r.removeFlagger()
	delete(before, "web-primary")
	if after := r.uidsOf(r.services()); !maps.Equal(before, after) {
		r.Errorf("the Services changed with the Canary: from %v to %v", before, after)
	}
	r.awaitShare("7", 1, 1)
	r.checkAnswers()

	// All requests of the bad version fail, so the query has no series. The first check that fails is no end: threshold is 2.
	ended = r.plane.Follow(r.services())
	r.release("green", "9")
	r.says("rollout status web-pods", "run 2: done")
	r.says("rollout status web", "run 2: rolled-back", "success-rate", "no number", "begins anew, number 1 in this run")
	r.awaitSelectors("blue", "web", "web-step-25", "web-step-50")
	r.awaitShare("7", 1, 1)
	r.checkSwitches(ended(), "green", "web-canary", "web-step-25")

	r.traffic.forget()
	ended = r.plane.Follow(r.services())
	r.release("green", "8")
	r.awaitGate()
	r.awaitShare("8", 0.45, 0.55)
	r.gate.isOpen.Store(true)
	r.says("rollout status web", "run 3: done")
	r.awaitShare("8", 1, 1)
	r.checkAnswers()
	r.checkSwitches(ended(), "green", "web-canary", "web-step-25", "web-step-50", "web")
}

// writeLive writes what kubectl get prints of the namespace.
func (r *releasedWorkload) writeLive(name string) {
	r.Helper()
	var all []any
	for _, kind := range []struct{ group, plural, version, kind string }{
		{flaggerGroup, "canaries", "flagger.app/v1beta1", "Canary"}, {flaggerGroup, "metrictemplates", "flagger.app/v1beta1", "MetricTemplate"},
		{appsGroup, "deployments", "apps/v1", "Deployment"}, {coreGroup, "services", "v1", "Service"},
		{gatewayGroup, "httproutes", "gateway.networking.k8s.io/v1", "HTTPRoute"},
	} {
		for _, item := range r.plane.Parse(mustGet(r.T, r.plane, r.collection(kind.group, kind.plural)))["items"].([]any) {
			object := item.(plane.Object)
			object["apiVersion"], object["kind"] = kind.version, kind.kind
			all = append(all, object)
		}
	}
	text, err := json.Marshal(plane.Object{"apiVersion": "v1", "kind": "List", "items": all})
	if err != nil {
		r.Fatal(err)
	}
	r.write(name, string(text))
}

// awaitGate waits until the release waits for the gate, before its last step.
func (r *releasedWorkload) awaitGate() {
	r.Helper()
	r.says("why kubernetes/eu/"+r.namespace+"/service/web", "may-serve-all")
}

// removeFlagger takes what Flagger left behind, as the page says, and waits until nothing belongs to the Canary.
func (r *releasedWorkload) removeFlagger() {
	r.Helper()
	r.remove(r.collection(flaggerGroup, "canaries")+"/web", "Orphan")
	r.plane.Wait("the Canary to let go of what it made", func() error {
		for _, path := range []string{r.services(), r.collection(gatewayGroup, "httproutes"), r.collection(appsGroup, "deployments")} {
			if text := string(mustGet(r.T, r.plane, path)); strings.Contains(text, `"kind":"Canary"`) {
				return fmt.Errorf("of %s some do", path)
			}
		}
		if _, err := r.plane.Ask(http.MethodGet, r.collection(flaggerGroup, "canaries")+"/web", "", nil); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	for _, name := range []string{"web", "web-primary"} {
		r.remove(r.collection(appsGroup, "deployments")+"/"+name, "Background")
	}
	r.remove(r.services()+"/web-primary", "Background")
}
