package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

const besideDefinition = `lehr: v1
partition: shop
mode: enforce
sources:
  shop: {dir: ., files: [shop.yaml]}
  till: {dir: ., files: [till.yaml]}
  depot: {dir: ., files: [depot.yaml]}
  kiosk: {dir: ., files: [kiosk.yaml]}
  sizes: {dir: ., files: [sizes.yaml]}
  front: {dir: ., files: [front.yaml]}
  orders: {dir: ., files: [orders.yaml]}
  report: {dir: ., files: [report.yaml]}
generate:
  plain: {model: kubernetes-web-service, from: [front]}
  stages: {model: kubernetes-pipeline, from: [orders]}
  nightly: {model: kubernetes-cron, from: [report]}
  web: {model: kubernetes-web-service, from: [shop]}
  tills: {model: kubernetes-web-service, from: [till]}
  depots: {model: kubernetes-web-service, from: [depot]}
  kiosks: {model: kubernetes-web-service, from: [kiosk]}
  same: {starlark: same.star, from: [sizes]}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
`

// besideRollouts are written once the service is there: what is there then is known to be good in time, so that the
// first release has something to be compared with, and to go back to.
const besideRollouts = `rollouts:
  shop-pods:
    select: labels.service == "shop" && labels.step == "candidate"
    stages: [{rest: true, soak: 1s}]
  shop:
    select: labels.service == "shop" && !(labels.step in ["candidate", "old"])
    after: shop-pods
    stages:
      - {name: "20", where: labels.step == "20"}
      - {name: "50", where: labels.step == "50"}
      - {name: all, where: labels.step == "100", soak: 2s}
    validate: [errors]
  shop-old:
    select: labels.service == "shop" && labels.step == "old"
    after: shop
    stages: [{rest: true}]
  till-pods:
    select: labels.service == "till" && labels.step == "candidate"
    stages: [{rest: true, soak: 1s}]
  till:
    select: labels.service == "till" && labels.step == "100"
    after: till-pods
    newer: held
    stages: [{rest: true, soak: 1s}]
  till-old:
    select: labels.service == "till" && labels.step == "old"
    after: till
    newer: held
    stages: [{rest: true}]
  depot:
    select: labels.service == "depot"
    stages:
      - {name: "20", where: labels.step == "20"}
      - {name: "50", where: labels.step == "50"}
      - {name: old, rest: true}
    validate: [errors]
  kiosk-pods:
    select: labels.service == "kiosk" && labels.step == "candidate"
    stages: [{rest: true, soak: 1s}]
  kiosk:
    select: labels.service == "kiosk" && !(labels.step in ["candidate", "old"])
    after: kiosk-pods
    stages:
      - {name: mirror, where: labels.step == "mirror"}
      - {name: "50", where: labels.step == "50"}
      - {name: all, where: labels.step == "100", soak: 2s}
    validate: [errors]
  kiosk-old:
    select: labels.service == "kiosk" && labels.step == "old"
    after: kiosk
    stages: [{rest: true}]
  same:
    select: labels.tier == "same"
    stages: [{name: first, where: payload.name == "a", soak: 1s}, {name: others, rest: true, soak: 1s}]
validations:
  errors:
    warm_up: 1s
    interval: 10s
    step: 1s
    compare: control
    metrics:
      errors: {http: gateway, kind: events, tolerance: 0.01, matters: 0.05, critical: true}
`

// besideService is a release in fifteen lines, whose second pod comes with the second step: %[1]s is live, and the slots have the versions %[2]s and %[3]s.
const besideService = `service: shop
image: registry.example.com/shop:{version}
host: shop.example.com
gateway: {name: public}
clusters: [{name: real, replicas: 2}]
network: {callers: [gateways]}
canary:
  live: %[1]s
  blue: {version: %[2]q}
  green: {version: %[3]q}
  steps: [20, 50]
  pods: [50, 100]
  headers: {X-Canary: always}
`

// besideTill is a service that goes from one slot to the other at once, when a person says so.
const besideTill = `service: till
image: registry.example.com/till:{version}
host: till.example.com
gateway: {name: public}
clusters: [{name: real, namespace: shop, replicas: 2}]
network: {callers: [gateways]}
canary: {live: %[1]s, blue: {version: one}, green: {version: two}}
`

// besideDepot is a service whose shares are those of its pods: 1 of 5, then 4 of 8.
const besideDepot = `service: depot
image: registry.example.com/depot:{version}
host: depot.example.com
gateway: {name: public}
clusters: [{name: real, namespace: shop, replicas: 4}]
network: {callers: [gateways]}
canary: {live: %[1]s, blue: {version: one}, green: {version: %[2]s}, steps: [20, 50], by_replicas: true}
`

// besideKiosk is a service whose new version gets copies of half of the requests before it has any: %[1]s is live, and the
// slots have the versions %[2]s and %[3]s.
const besideKiosk = `service: kiosk
image: registry.example.com/kiosk:{version}
host: kiosk.example.com
gateway: {name: public}
clusters: [{name: real, namespace: shop, replicas: 2}]
network: {callers: [gateways]}
canary: {live: %[1]s, blue: {version: %[2]s}, green: {version: %[3]s}, steps: [50], mirror: {percent: 50, methods: [GET]}}
`

// The other models, each with all that it makes of built-in kinds.
const (
	besideFront = `service: front
image: registry.example.com/front:{version}
host: front.example.com
network: {callers: [gateways/proxy], calls: [shop/shop], outside: [{cidr: 10.0.0.0/8, port: 5432}]}
`
	besideOrders = `service: orders
image: registry.example.com/orders:{version}
version: "7"
clusters: [{name: real, namespace: shop}]
stages:
  - {name: schema, command: [/orders, migrate]}
  - {name: load, command: [/orders, load], cron: "0 4 * * *"}
  - {name: serve, command: [/orders, serve], replicas: 2}
`
	besideReport = `service: report
image: registry.example.com/report:{version}
version: "3"
cron: 30 2 * * 1-5
zone: Europe/London
clusters: [{name: real, namespace: shop}]
`
)

// sameProgram makes two Deployments that differ between incarnations in how a quantity is written, which is nothing
// to an API server.
const sameProgram = `def generate(ctx):
    cpu = yaml("sizes.yaml")["cpu"]
    return [asset("kubernetes/real/shop/deployment.apps/" + name, lehr.kubernetes.v1.Object(
        api_version = "apps/v1", kind = "Deployment", namespace = "shop", name = name, cluster = "real",
        json = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"%s","namespace":"shop"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"%s"}},"template":{"metadata":{"labels":{"app":"%s"}},"spec":{"containers":[{"image":"same:1","name":"same","resources":{"requests":{"cpu":"%s"}}}]}}}}' % (name, name, name, cpu),
    ), addons = [lehr.intent.v1.Labels(labels = {"tier": "same"})]) for name in ["a", "b"]]
`

// beside is a service with a canary in a cluster with a gateway.
type beside struct {
	served
	gateway    *plane.Gateway
	traffic    *traffic
	definition string
}

func newBeside(t *testing.T) *beside {
	p := plane.Start(t)
	b := &beside{served: served{ferry: &ferry{T: t, plane: p, folder: t.TempDir()}, kubelet: p.StartControllers()},
		traffic: &traffic{requests: map[int64]map[string]int{}, failures: map[int64]map[string]int{}, images: map[string]map[string]int{}}}
	definition, err := os.ReadFile("testdata/gateway/httproute.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range [][]byte{definition, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")} {
		p.Wait("the cluster to be prepared", func() error {
			_, err := p.Apply(manifest, false)
			return err
		})
	}
	b.gateway = p.StartGateway("shop", func(pod plane.Pod) int {
		if strings.HasSuffix(pod.Image, ":bad") {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	b.gateway.SetCopied(b.traffic.measureCopy)
	metrics := httptest.NewServer(b.traffic)
	t.Cleanup(metrics.Close)
	b.lehr = filepath.Join(b.folder, "lehr")
	plugin, clusters, outside := filepath.Join(b.folder, "lehr-kubernetes"), filepath.Join(b.folder, "clusters.yaml"), filepath.Join(b.folder, "outside.yaml")
	if err := errors.Join((building.Program{Of: "../../cmd/lehr"}).At(b.lehr), (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(plugin)); err != nil {
		t.Fatal(err)
	}
	writeAll(t, p, clusters)
	b.write("outside.yaml", fmt.Sprintf("external-checks: v1\nmonitoring: [{name: gateway, kind: metrics, url: %q, partitions: [shop]}]\n", metrics.URL))
	b.definition = fmt.Sprintf(besideDefinition, plugin, clusters)
	b.write("lehr.yaml", b.definition)
	b.write("shop.yaml", fmt.Sprintf(besideService, "blue", "one", "one"))
	b.write("till.yaml", fmt.Sprintf(besideTill, "blue"))
	b.write("depot.yaml", fmt.Sprintf(besideDepot, "blue", "two"))
	b.write("kiosk.yaml", fmt.Sprintf(besideKiosk, "blue", "one", "one"))
	b.writeFront("1", "replicas: 3")
	b.write("orders.yaml", besideOrders)
	b.write("report.yaml", besideReport)
	b.write("same.star", sameProgram)
	b.write("sizes.yaml", "cpu: 100m\n")
	startServer(t, b.folder, b.lehr, "1s", "--external-checks", outside)
	b.traffic.send(t, b.gateway.URL, "shop", "depot")
	return b
}

// awaitShare waits until, of at least 100 requests for a service that came one after another, a version had a share
// within bounds.
func (b *beside) awaitShare(service, version string, least, most float64) {
	b.Helper()
	image := "registry.example.com/" + service + ":" + version
	b.traffic.take(service)
	counts, total, before := map[string]int{}, 0, errors.New("nothing was counted")
	b.plane.Wait(fmt.Sprintf("%s to have a share of %v to %v", image, least, most), func() error {
		for name, count := range b.traffic.take(service) {
			counts[name] += count
			total += count
		}
		if total < 100 {
			return fmt.Errorf("%d requests so far; before, %w", total, before)
		}
		share := float64(counts[image]) / float64(total)
		if share < least || share > most {
			said, _ := b.run("rollout", "status", service)
			before = fmt.Errorf("of %d requests its share is %.3f, and the rollout says %s", total, share, said)
			counts, total = map[string]int{}, 0
			return before
		}
		return nil
	})
}

// awaitReplicas waits until a Deployment is there and asks for a number of replicas.
func (s *served) awaitReplicas(name string, want float64) {
	s.Helper()
	s.awaitReplicasIn("shop", name, want)
}

func (s *served) awaitReplicasIn(namespace, name string, want float64) {
	s.Helper()
	s.plane.Wait(fmt.Sprintf("%s to have %v replicas", name, want), func() error {
		answer, err := s.plane.Ask(http.MethodGet, deployments+namespace+"/deployments/"+name, "", nil)
		if err != nil {
			return err
		}
		object := s.plane.Parse(answer)
		if got := object["spec"].(plane.Object)["replicas"]; got != want {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// TestCanaryBesideTheStableWorkload: a release takes its share of the requests step by step, through a gateway that
// follows the HTTPRoute, or by the number of its pods, while the version before serves the rest, and that is scaled down
// at the end; or all of them at once. A release that answers errors is found bad by the judge, which compares the
// two, and then all requests go back at once.
func TestCanaryBesideTheStableWorkload(t *testing.T) {
	b := newBeside(t)
	b.otherModels()
	b.awaitShare("shop", "one", 1, 1)
	b.awaitReplicas("shop-green-1", 0)
	b.awaitReplicas("shop-green-2", 0)
	b.awaitShare("depot", "one", 1, 1)
	b.write("lehr.yaml", b.definition+besideRollouts)
	b.says("get rollouts", "shop-pods", "shop-old", "till", "depot", "same")

	b.traffic.hold("service/shop-step-20", "deployment.apps/depot-green-1")
	b.write("shop.yaml", fmt.Sprintf(besideService, "green", "one", "two"))
	b.write("depot.yaml", fmt.Sprintf(besideDepot, "green", "two"))
	b.blueGreen()
	b.awaitShare("shop", "two", 0.15, 0.25)
	b.awaitShare("depot", "two", 0.15, 0.25) // 1 of 5 pods.
	b.awaitReplicas("shop-green-1", 1)
	b.awaitReplicas("shop-green-2", 0)
	b.traffic.hold("service/shop-step-50", "deployment.apps/depot-green-2")
	b.awaitShare("shop", "two", 0.45, 0.55)
	b.awaitShare("depot", "two", 0.45, 0.55) // 4 of 8 pods: all of the old version are there until the end.
	b.awaitReplicas("shop-green-2", 1)
	b.awaitReplicas("shop-blue-1", 1)
	b.awaitReplicas("shop-blue-2", 1)
	b.awaitReplicas("depot-blue-1", 1)
	b.awaitReplicas("depot-blue-2", 3)
	b.traffic.hold()
	b.awaitShare("shop", "two", 1, 1)
	b.awaitShare("depot", "two", 1, 1)
	b.awaitReplicas("shop-blue-1", 0)
	b.awaitReplicas("shop-blue-2", 0)
	b.awaitReplicas("depot-blue-2", 0)
	b.says("rollout status shop", "done")
	b.sameContent()
	b.badRelease()
	b.mirrored()
}

// mirrored: a new version gets copies of some requests, while all clients have answers of the version before, and none any more
// when it has requests. One that fails is found bad by the copies, and has no request ever.
func (b *beside) mirrored() {
	b.Helper()
	b.traffic.send(b.T, b.gateway.URL, "kiosk")
	b.awaitShare("kiosk", "one", 1, 1)
	b.traffic.hold("service/kiosk-mirror-green")
	b.write("kiosk.yaml", fmt.Sprintf(besideKiosk, "green", "one", "two"))
	b.awaitCopies("two", 0.45, 0.55)
	b.traffic.hold("service/kiosk-step-50")
	b.awaitShare("kiosk", "two", 0.45, 0.55)
	b.awaitCopies("", 0, 0)
	b.traffic.hold()
	b.awaitShare("kiosk", "two", 1, 1)
	b.awaitReplicas("kiosk-blue", 0)
	b.says("rollout status kiosk", "done")
	b.awaitCopies("", 0, 0)

	b.write("kiosk.yaml", fmt.Sprintf(besideKiosk, "blue", "bad", "two"))
	b.awaitCopies("bad", 0.45, 0.55)
	b.says("rollout status kiosk", "rolled-back", "errors")
	b.awaitCopies("", 0, 0)
	b.awaitShare("kiosk", "two", 1, 1)
	if count := b.traffic.answersOf("registry.example.com/kiosk:bad"); count > 0 {
		b.Errorf("%d requests had an answer of the bad version", count)
	}
}

func (b *beside) awaitCopies(version string, least, most float64) {
	b.Helper()
	b.traffic.awaitCopies(b.T, b.plane, "kiosk", "registry.example.com/kiosk:"+version, least, most, func() string {
		said, _ := b.run("rollout", "status", "kiosk")
		return said
	})
}

// badRelease: what answers errors gets no more than the first share, and then none.
func (b *beside) badRelease() {
	b.Helper()
	b.write("shop.yaml", fmt.Sprintf(besideService, "blue", "bad", "two"))
	b.awaitAnswer("shop", "X-Canary", "bad")
	b.says("rollout status shop", "rolled-back", "errors")
	b.awaitShare("shop", "two", 1, 1)
	b.awaitReplicas("shop-green-1", 1)
	b.awaitReplicas("shop-green-2", 1)
	b.awaitReplicas("shop-blue-2", 0) // The step of these pods never began.
	selector := b.plane.Parse(mustGet(b.T, b.plane, "/api/v1/namespaces/shop/services/shop-step-50"))["spec"].(plane.Object)["selector"].(plane.Object)
	if selector["lehr.dev/slot"] != "green" {
		b.Errorf("the Service of the second step selects %v", selector)
	}
}

// blueGreen: the version that comes is there beside the other, and has no requests before a person says so; then it has
// all of them, and one word gives all of them back.
func (b *beside) blueGreen() {
	b.Helper()
	b.awaitAnswer("till", "", "one")
	b.write("till.yaml", fmt.Sprintf(besideTill, "green"))
	b.says("rollout status till-pods", "done")
	b.awaitEndpoints("till-preview", "till-green", 2)
	b.awaitEndpoints("till", "till-blue", 2)
	b.says("rollout start till --reason looked-at-the-preview", "")
	b.awaitEndpoints("till", "till-green", 2)
	b.awaitAnswer("till", "", "two")
	b.says("rollout status till", "done")
	b.awaitReplicas("till-blue", 2)
	b.says("rollout rollback till --reason it-was-wrong", "")
	b.awaitEndpoints("till", "till-blue", 2)
	b.awaitAnswer("till", "", "one")
}

// awaitEndpoints waits until a Service leads to so many pods, all of one Deployment.
func (b *beside) awaitEndpoints(service, deployment string, want int) {
	b.Helper()
	b.plane.Wait(fmt.Sprintf("%s to lead to %d pods of %s", service, want, deployment), func() error {
		answer, err := b.plane.Ask(http.MethodGet, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?labelSelector=kubernetes.io/service-name%3D"+service, "", nil)
		if err != nil {
			return err
		}
		pods, others := strings.Count(string(answer), `"name":"`+deployment+"-"), strings.Count(string(answer), `"kind":"Pod"`)
		if pods != want || others != want {
			return fmt.Errorf("it leads to %d pods, %d of these", others, pods)
		}
		return nil
	})
}

// otherModels: what the models make is taken by a real API server as it is, a pipeline stage by stage.
func (b *beside) otherModels() {
	b.Helper()
	for _, path := range []string{
		"/apis/apps/v1/namespaces/shop/deployments/front",
		"/apis/policy/v1/namespaces/shop/poddisruptionbudgets/front", "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/front",
		"/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/front", "/api/v1/namespaces/shop/services/front",
		"/apis/batch/v1/namespaces/shop/cronjobs/report", "/apis/batch/v1/namespaces/shop/jobs/orders-schema",
		"/apis/batch/v1/namespaces/shop/cronjobs/orders-load", "/apis/apps/v1/namespaces/shop/deployments/orders-serve",
	} {
		b.plane.Wait(path, func() error {
			_, err := b.plane.Ask(http.MethodGet, path, "", nil)
			return err
		})
	}
	job := b.plane.Parse(mustGet(b.T, b.plane, "/apis/batch/v1/namespaces/shop/jobs/orders-schema"))["status"].(plane.Object)
	if job["succeeded"] != 1.0 {
		b.Errorf("the stages after the Job came before it had ended: %v", job)
	}
	b.autoscaled()
}

// writeFront writes the service front with a version, and how many replicas it has.
func (b *beside) writeFront(version, replicas string) {
	b.Helper()
	b.write("front.yaml", besideFront+fmt.Sprintf("version: %q\nclusters: [{name: real, namespace: shop, %s}]\n", version, replicas))
}

// awaitFront waits until the Deployment of front has an image and an autoscaler with bounds, and Lehr finds no difference in either.
func (b *beside) awaitFront(version string, least, most float64) {
	b.Helper()
	b.plane.Wait("front to be as intended", func() error {
		for path, want := range map[string][]string{
			deployments + "shop/deployments/front":                                {`"image":"registry.example.com/front:` + version + `"`},
			"/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/front": {fmt.Sprintf(`"minReplicas":%v`, least), fmt.Sprintf(`"maxReplicas":%v`, most)},
		} {
			answer, err := b.plane.Ask(http.MethodGet, path, "", nil)
			if err != nil {
				return err
			}
			for _, text := range want {
				if !strings.Contains(string(answer), text) {
					return fmt.Errorf("no %s in %s", text, answer)
				}
			}
		}
		return nil
	})
	for _, id := range []string{"deployment.apps/front", "horizontalpodautoscaler.autoscaling/front"} {
		b.says("describe report kubernetes/real/shop/"+id+" -p shop", "in-sync")
	}
}

// autoscaled: a service with a number of replicas is given to an autoscaler. The API server takes what the model makes, the
// number is the autoscaler's from then on, with nothing to push, and there are never fewer replicas meanwhile.
func (b *beside) autoscaled() {
	b.Helper()
	const path = deployments + "shop/deployments/front"
	b.awaitReplicas("front", 3)
	fewest := b.plane.Fewest(path)
	b.writeFront("1", "replicas: 2, most_replicas: 4")
	b.awaitFront("1", 2, 4)
	// As the autoscaler does by metrics, which there are none of here; what is within its bounds it leaves.
	if _, err := b.plane.Ask(http.MethodPatch, path+"/scale?fieldManager=kube-controller-manager", "application/merge-patch+json", []byte(`{"spec":{"replicas":4}}`)); err != nil {
		b.Fatal(err)
	}
	b.writeFront("2", "replicas: 3, most_replicas: 6")
	b.awaitFront("2", 3, 6)
	b.awaitReplicas("front", 4)
	b.writeFront("2", "replicas: 5, most_replicas: 6")
	b.awaitFront("2", 5, 6)
	b.awaitReplicas("front", 5) // The real autoscaler made them.
	if got := fewest(); got < 3 {
		b.Errorf("for a moment there were %d replicas", got)
	}
}

// awaitAnswer waits until a request for a service, with a header or without, is answered by a version.
func (b *beside) awaitAnswer(service, header, version string) {
	b.Helper()
	b.plane.Wait("an answer of "+service+" "+version, func() error {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.gateway.URL, nil)
		if err != nil {
			return err
		}
		request.Host = service + ".example.com"
		if header != "" {
			request.Header.Set(header, "always")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if image := response.Header.Get("X-Image"); !strings.HasSuffix(image, service+":"+version) {
			return fmt.Errorf("%d from %q", response.StatusCode, image)
		}
		return nil
	})
}

// sameContent: an incarnation that writes objects otherwise, which is nothing to the API server, runs through its
// rollout, and nothing is pushed.
func (b *beside) sameContent() {
	b.Helper()
	version := func(name string) string {
		metadata := b.plane.Parse(mustGet(b.T, b.plane, deployments+"shop/deployments/"+name))["metadata"].(plane.Object)
		said := fmt.Sprint(metadata["generation"])
		for _, entry := range metadata["managedFields"].([]any) {
			if manager := entry.(plane.Object); manager["manager"] == "lehr" {
				said += fmt.Sprint(" ", manager["time"])
			}
		}
		return said
	}
	before := version("a") + version("b")
	pushes := b.says("get pushes")
	b.write("sizes.yaml", "cpu: \"0.1\"\n")
	said := b.says("rollout status same", "run 1: done")
	if after := version("a") + version("b"); after != before {
		b.Errorf("the Deployments were written:\n%s\n%s\n%s", before, after, said)
	}
	if now := b.says("get pushes"); strings.Count(now, "deployment.apps/a ") != strings.Count(pushes, "deployment.apps/a ") {
		b.Errorf("something was pushed:\n%s\n%s", pushes, now)
	}
}
