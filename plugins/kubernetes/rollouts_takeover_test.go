package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

// answerCounts are how often each pod answered what, as the metrics of a gateway.
type answerCounts struct {
	mutex  sync.Mutex
	counts map[string]int
}

// answer is what a pod says: one of version 9 fails.
func (a *answerCounts) answer(pod plane.Pod) (status int) {
	status = http.StatusOK
	if strings.HasSuffix(pod.Image, ":9") {
		status = http.StatusInternalServerError
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.counts[fmt.Sprintf(`requests_total{pod=%q,code="%d"}`, pod.Name, status)]++
	return status
}

// ServeHTTP answers a Prometheus.
func (a *answerCounts) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.counts)) {
		fmt.Fprintf(w, "%s %d\n", name, a.counts[name])
	}
}

// releasedWorkload is a workload that another controller released before, behind a gateway that follows its route.
type releasedWorkload struct {
	served
	traffic   *traffic
	namespace string
	// slotLabel is on pods and in selectors, with the slot as its value.
	slotLabel string
	gate      *releaseGate
}

// releaseGate is a service that lets the last step of a release begin once somebody opened it.
type releaseGate struct{ isOpen atomic.Bool }

// ServeHTTP answers a protection.
func (g *releaseGate) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	result := "wait"
	if g.isOpen.Load() {
		result = "pass"
	}
	fmt.Fprintf(w, `{"result":%q}`, result)
}

var (
	pageBlock = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	pageFile  = regexp.MustCompile(`^# (\S+\.yaml)\n`)
)

// TestReleasesAreTakenOver does what docs/use/from-argo-rollouts.md tells, with the files that it shows and shorter times: what
// the controllers of Argo Rollouts and Flagger left behind goes on serving, to each request, while Lehr takes it over; then
// a release takes its steps, judged by a real Prometheus with the query that was imported.
func TestReleasesAreTakenOver(t *testing.T) {
	short := []*strings.Replacer{shortTimes}
	takeOver(t, map[string]releaseTakeover{
		"argo-rollouts": {"shop", "rollouts-pod-template-hash", short, (*releasedWorkload).takeOverArgo},
		"mirror":        {"copies", "rollouts-pod-template-hash", append(short, withMirror), (*releasedWorkload).takeOverMirror},
		"growing":       {"growth", "rollouts-pod-template-hash", append(short, withGrowth), (*releasedWorkload).takeOverGrowing},
		"flagger":       {"store", "lehr.dev/slot", short, (*releasedWorkload).takeOverFlagger},
	})
}

// releaseTakeover is what one tool left behind, and what becomes of it.
type releaseTakeover struct {
	namespace, slotLabel string
	// edits of the files that the page shows.
	edits []*strings.Replacer
	story func(*releasedWorkload)
}

// takeOver plays the stories, each with the files of the page in a namespace of its own.
func takeOver(t *testing.T, stories map[string]releaseTakeover) {
	t.Helper()
	p := plane.Start(t)
	kubelet := p.StartControllers()
	definition, err := os.ReadFile("testdata/gateway/httproute.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(definition, false); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/use/from-argo-rollouts.md")
	if err != nil {
		t.Fatal(err)
	}
	for tool, one := range stories {
		t.Run(tool, func(t *testing.T) {
			t.Parallel() // Each waits for most of its time.
			replies := &answerCounts{counts: map[string]int{}}
			metrics := httptest.NewServer(replies)
			t.Cleanup(metrics.Close)
			prometheus := startPrometheus(t, p, metrics.Listener.Addr().String())
			r := &releasedWorkload{served: served{ferry: &ferry{T: t, plane: p.For(t), folder: t.TempDir()}, kubelet: kubelet},
				namespace: one.namespace, slotLabel: one.slotLabel, gate: &releaseGate{},
				traffic: &traffic{requests: map[int64]map[string]int{}, failures: map[int64]map[string]int{}, images: map[string]map[string]int{}}}
			r.lehr = filepath.Join(r.folder, "lehr")
			if err := errors.Join((building.Program{Of: "../../cmd/lehr"}).At(r.lehr), (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(r.lehr+"-kubernetes")); err != nil {
				t.Fatal(err)
			}
			for _, block := range pageBlock.FindAllStringSubmatch(string(page), -1) {
				if name := pageFile.FindStringSubmatch(block[2]); name != nil {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(r.folder, name[1])), 0o700); err != nil {
						t.Fatal(err)
					}
					text := block[2]
					for _, edit := range one.edits {
						text = edit.Replace(text)
					}
					r.write(name[1], text)
				}
			}
			gate := httptest.NewServer(r.gate)
			t.Cleanup(gate.Close)
			r.write("outside.yaml", fmt.Sprintf("external-checks: v1\nmonitoring:\n  - {name: main, kind: prometheus, url: %q, partitions: ['*']}\n"+
				"  - {name: may-serve-all, kind: protection, url: %q, partitions: ['*']}\n", prometheus, gate.URL))
			r.write("clusters.yaml", fmt.Sprintf("kubernetes-clusters: v1\nclusters: {eu: {kubeconfig: %q, partitions: ['*']}}\n", p.Kubeconfig))
			r.create("/api/v1/namespaces", "kubectl", plane.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": plane.Object{"name": r.namespace}})
			gateway := r.plane.StartGateway(r.namespace, replies.answer)
			gateway.SetCopied(r.traffic.countCopy)
			r.traffic.send(t, gateway.URL, r.namespace)
			one.story(r)
		})
	}
}

// shortTimes has the page's times be those of a test.
var shortTimes = strings.NewReplacer("duration: 5m", "duration: 2s", "interval: 1m", "interval: 1s", "interval: 30s", "interval: 5s", "[1m]", "[5s]",
	"    canary:\n", "    canary:\n      scaleDownDelaySeconds: 1\n")

// create makes an object, as a field manager, and returns it as the server has it.
func (r *releasedWorkload) create(collection, manager string, object plane.Object) plane.Object {
	r.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		r.Fatal(err)
	}
	var made []byte
	r.plane.Wait("a "+fmt.Sprint(object["kind"])+" to be made", func() (err error) {
		made, err = r.plane.Ask(http.MethodPost, collection+"?fieldManager="+manager, "application/json", text)
		return err
	})
	return r.plane.Parse(made)
}

// patch changes an object as a controller does.
func (r *releasedWorkload) patch(path, manager, patch string) {
	r.Helper()
	if _, err := r.plane.Ask(http.MethodPatch, path+"?fieldManager="+manager, "application/merge-patch+json", []byte(patch)); err != nil {
		r.Fatal(err)
	}
}

// remove does what kubectl delete does, with --cascade=orphan or background.
func (r *releasedWorkload) remove(path, cascade string) {
	r.Helper()
	if _, err := r.plane.Ask(http.MethodDelete, path, "application/json", fmt.Appendf(nil, `{"propagationPolicy":%q}`, cascade)); err != nil {
		r.Fatal(err)
	}
}

// documents of a file of the page.
func (r *releasedWorkload) documents(name string) (all []plane.Object) {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil {
		r.Fatal(err)
	}
	for _, one := range strings.Split(string(text), "\n---\n") {
		all = append(all, r.plane.Parse([]byte(one)))
	}
	return all
}

// Groups of APIs that a workload has objects of.
const (
	coreGroup    = "/api/v1"
	appsGroup    = "/apis/apps/v1"
	gatewayGroup = "/apis/gateway.networking.k8s.io/v1"
	argoGroup    = "/apis/argoproj.io/v1alpha1"
	flaggerGroup = "/apis/flagger.app/v1beta1"
	// hash is that of the pods of the release that is done.
	hash = "7d4b9c8f5d"
)

// collection is the path of the objects of a kind in the namespace.
func (r *releasedWorkload) collection(group, plural string) string {
	return group + "/namespaces/" + r.namespace + "/" + plural
}

func (r *releasedWorkload) services() string { return r.collection(coreGroup, "services") }

func (r *releasedWorkload) pods() string { return r.collection(coreGroup, "pods") }

// makeArgoProduction makes what the controller of Argo Rollouts has in a cluster once a release is done: pods in a ReplicaSet of the
// Rollout's own, and Services and a route that it leads there.
func (r *releasedWorkload) makeArgoProduction() {
	r.Helper()
	r.plane.ServeKind("argoproj.io", "v1alpha1", "Rollout", "rollouts")
	r.plane.ServeKind("argoproj.io", "v1alpha1", "AnalysisTemplate", "analysistemplates")
	written := r.documents("argo/web.yaml")
	rollout := r.create(r.collection(argoGroup, "rollouts"), "kubectl", written[0])
	r.create(r.collection(argoGroup, "analysistemplates"), "kubectl", written[1])
	labels := plane.Object{"app": "web", "rollouts-pod-template-hash": hash}
	template := rollout["spec"].(plane.Object)["template"].(plane.Object)
	r.create(r.collection(appsGroup, "replicasets"), "rollouts-controller", plane.Object{
		"apiVersion": "apps/v1", "kind": "ReplicaSet",
		"metadata": plane.Object{"name": "web-" + hash, "labels": labels, "ownerReferences": []any{plane.Object{
			"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": rollout["metadata"].(plane.Object)["uid"], "controller": true, "blockOwnerDeletion": true,
		}}},
		"spec": plane.Object{"replicas": 4, "selector": plane.Object{"matchLabels": labels}, "template": plane.Object{"metadata": plane.Object{"labels": labels}, "spec": template["spec"]}},
	})
	for _, object := range r.documents("argo/services.yaml") {
		if object["kind"] == "HTTPRoute" {
			r.create(r.collection(gatewayGroup, "httproutes"), "kubectl", object)
			continue
		}
		r.create(r.services(), "kubectl", object)
		r.patch(r.services()+"/"+plane.NameOf(object), "rollouts-controller", `{"spec":{"selector":{"rollouts-pod-template-hash":"`+hash+`"}}}`)
	}
	r.patch(r.collection(gatewayGroup, "httproutes")+"/web", "gatewayapi", `{"spec":{"rules":[{"backendRefs":[{"name":"web","port":80,"weight":100},{"name":"web-canary","port":80,"weight":0}]}]}}`)
}

// takeOverArgo is the story of a Rollout.
func (r *releasedWorkload) takeOverArgo() {
	r.Helper()
	r.makeArgoProduction()
	r.awaitShare("7", 1, 1)
	if said, err := r.run("import", "argo-rollouts", "argo", "--cluster", "eu", "--to", "shop"); err != nil {
		r.Fatalf("%v: %s", err, said)
	}
	full := r.bind()
	r.comparePlan("10", "50")
	old := r.uidsOf(r.pods())

	// The page's steps.
	ended := r.plane.Follow(r.pods())
	r.traffic.forget()
	startServer(r.T, r.folder, r.lehr, "1s", "--external-checks", filepath.Join(filepath.Dir(r.folder), "outside.yaml"))
	r.says("get assets", "service/web-step-10")
	r.define(removeJudging(full))
	r.letThrough()
	r.says("rollout status web", "run 1: done")
	r.awaitSelectors("blue", "web", "web-canary", "web-step-10", "web-step-50")
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
	r.remove(r.collection(argoGroup, "rollouts")+"/web", "Orphan")
	r.remove(r.collection(appsGroup, "replicasets")+"/web-"+hash, "Background")
	r.awaitShare("7", 1, 1)
	r.checkAnswers()

	ended = r.plane.Follow(r.services())
	r.release("green", "8")
	r.awaitPause("8")
	r.letThrough()
	r.says("rollout status web", "run 2: done")
	r.awaitShare("8", 1, 1)
	r.checkAnswers()
	r.checkSwitches(ended(), "green", "web-canary", "web-step-10", "web-step-50", "web")

	r.release("blue", "10")
	r.awaitSelectors("blue", "web-step-10")
	began := time.Now()
	r.says("rollout rollback web --reason it-was-wrong", "")
	r.awaitSelectors("green", "web", "web-step-10", "web-step-50")
	r.Logf("takeover_abort %.2f s", time.Since(began).Seconds())
	r.awaitShare("8", 1, 1)
	r.checkAnswers()

	ended = r.plane.Follow(r.services())
	r.release("blue", "9")
	r.says("rollout status web-pods", "run 4: done")
	r.says("rollout status web", "run 4: rolled-back", "success-rate")
	r.awaitSelectors("green", "web", "web-step-10", "web-step-50")
	r.awaitShare("8", 1, 1)
	r.checkSwitches(ended(), "blue", "web-canary", "web-step-10")
}

// bind names the programs in the definition that was imported, and goes on in its folder.
func (r *releasedWorkload) bind() (full string) {
	r.Helper()
	root := r.folder
	r.folder = filepath.Join(root, r.namespace)
	text, err := os.ReadFile(filepath.Join(r.folder, "lehr.yaml"))
	if err != nil {
		r.Fatal(err)
	}
	bound := strings.Replace(string(text), "[lehr-kubernetes, --clusters, clusters.yaml]", fmt.Sprintf("[%s, --clusters, %s]", r.lehr+"-kubernetes", filepath.Join(root, "clusters.yaml")), 1)
	r.write("lehr.yaml", bound)
	return strings.NewReplacer("\nmode: observe\n", "\nmode: enforce\n", "delay: 30s", "delay: 1s").Replace(bound)
}

// comparePlan: the slots and the Services of steps are missing, Services and routes differ, and nothing else does. Selectors
// differ in some of their keys.
func (r *releasedWorkload) comparePlan(steps ...string) {
	r.Helper()
	plan := r.planOf("lehr.yaml")
	differing := map[string]string{
		"deployment.apps/web-blue": "apiVersion: ", "deployment.apps/web-green": "apiVersion: ",
		"service/web": "spec.selector", "service/web-canary": "spec.selector", "httproute.gateway.networking.k8s.io/web": "spec.rules[0].backendRefs",
	}
	for _, step := range steps {
		differing["service/web-step-"+step] = "apiVersion: "
	}
	for asset, prefix := range differing {
		id := "kubernetes/eu/" + r.namespace + "/" + asset
		// A Service also says of which release its pods are.
		isMark := func(change string) bool { return strings.HasPrefix(change, "metadata.annotations") }
		isOther := func(change string) bool { return !strings.HasPrefix(change, prefix) }
		if changes := slices.DeleteFunc(plan[id], isMark); len(changes) == 0 || prefix != "apiVersion: " && slices.ContainsFunc(changes, isOther) || isOther(changes[0]) {
			r.Errorf("of %s the plan is %v", id, changes)
		}
		delete(plan, id)
	}
	if len(plan) > 0 {
		r.Errorf("it plans more: %v", plan)
	}
}

var incarnationPattern = regexp.MustCompile(`\S+@\d+`)

// define writes the definition, and waits until it is served.
func (r *releasedWorkload) define(definition string) {
	r.Helper()
	said, _ := r.run("get", "partitions")
	before := incarnationPattern.FindString(said)
	r.write("lehr.yaml", definition)
	r.plane.Wait("the definition to be served", func() error {
		said, err := r.run("get", "partitions")
		if now := incarnationPattern.FindString(said); err == nil && (now == "" || now == before) {
			err = errors.New(said)
		}
		return err
	})
}

var (
	validationsPattern = regexp.MustCompile(`(?s)\nvalidations:\n.*?\nplugins:\n`)
	validatePattern    = regexp.MustCompile(`\n    validate:\n      - web\n`)
)

// removeJudging gives a definition whose first run nobody judges, for nothing has requests yet.
func removeJudging(definition string) string {
	return validatePattern.ReplaceAllString(validationsPattern.ReplaceAllString(definition, "\nplugins:\n"), "\n")
}

// release writes the pods of a slot, and makes it live.
func (r *releasedWorkload) release(slot, version string) {
	r.Helper()
	edit := func(name string, pattern *regexp.Regexp, with string) {
		r.Helper()
		text, err := os.ReadFile(filepath.Join(r.folder, name))
		if err != nil {
			r.Fatal(err)
		}
		r.write(name, pattern.ReplaceAllString(string(text), with))
	}
	edit("slots/web/"+slot+".yaml", regexp.MustCompile(`/web:\d+`), "/web:"+version)
	edit("workloads/web.yaml", regexp.MustCompile(`(?m)^live: .*$`), "live: "+slot)
}

// letThrough waits until the release pauses, and says what a person says then.
func (r *releasedWorkload) letThrough() {
	r.Helper()
	last := "kubernetes/eu/" + r.namespace + "/service/web"
	r.says("why "+last, "the release pauses before this step")
	if said, err := r.run("override", last, "--check", "pause", "--reason", "looked-at-it"); err != nil {
		r.Fatalf("%v: %s", err, said)
	}
}

// awaitPause waits until the release has its half of the requests, and a person is asked.
func (r *releasedWorkload) awaitPause(version string) {
	r.Helper()
	r.says("why kubernetes/eu/"+r.namespace+"/service/web", "the release pauses before this step")
	r.awaitShare(version, 0.45, 0.55)
}

// awaitShare waits until, of at least 100 requests that came one after another, a version had a share within bounds.
func (r *releasedWorkload) awaitShare(version string, least, most float64) {
	r.Helper()
	r.traffic.take(r.namespace)
	counts, total, before := map[string]int{}, 0, errors.New("nothing was replies")
	r.plane.Wait(fmt.Sprintf("version %s to have a share of %v to %v", version, least, most), func() error {
		for image, count := range r.traffic.take(r.namespace) {
			counts[image[strings.LastIndex(image, ":")+1:]] += count
			total += count
		}
		if total < 100 {
			return fmt.Errorf("%d requests so far; before, %w", total, before)
		}
		if share := float64(counts[version]) / float64(total); share < least || share > most {
			said, _ := r.run("rollout", "status", "web")
			before = fmt.Errorf("the versions had %v requests, and the rollout says %s", counts, said)
			counts, total = map[string]int{}, 0
			return before
		}
		return nil
	})
}

// checkAnswers: since somebody forgot what was before, each request was answered, and well.
func (r *releasedWorkload) checkAnswers() {
	r.Helper()
	if refused, failed := r.traffic.troubles(); refused+failed > 0 {
		r.Errorf("%d requests had no pod, and %d an error", refused, failed)
	}
}

// uidsOf gives those of the objects of a collection, by name.
func (r *releasedWorkload) uidsOf(collection string) map[string]string {
	r.Helper()
	all := map[string]string{}
	for _, item := range r.plane.Parse(mustGet(r.T, r.plane, collection))["items"].([]any) {
		all[plane.NameOf(item.(plane.Object))] = fmt.Sprint(item.(plane.Object)["metadata"].(plane.Object)["uid"])
	}
	return all
}

func (r *releasedWorkload) slotOf(service plane.Object) string {
	selector, _ := service["spec"].(plane.Object)["selector"].(plane.Object)
	return fmt.Sprint(selector[r.slotLabel])
}

// awaitSelectors waits until Services lead to a slot.
func (r *releasedWorkload) awaitSelectors(slot string, names ...string) {
	r.Helper()
	r.plane.Wait("Services to lead to "+slot, func() error {
		for _, name := range names {
			answer, err := r.plane.Ask(http.MethodGet, r.services()+"/"+name, "", nil)
			if err != nil {
				return err
			}
			if got := r.slotOf(r.plane.Parse(answer)); got != slot {
				return fmt.Errorf("%s leads to %s", name, got)
			}
		}
		return nil
	})
}

// checkSwitches: exactly these Services came to lead to a slot, in this order.
func (r *releasedWorkload) checkSwitches(events []plane.Event, slot string, want ...string) {
	r.Helper()
	var got []string
	for _, e := range events {
		if name := plane.NameOf(e.Object); r.slotOf(e.Object) == slot && !slices.Contains(got, name) {
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		r.Errorf("these led to %s: %v, want %v", slot, got, want)
	}
}
