package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

const besideDefinition = `lehr: v1
partition: shop
mode: enforce
sources:
  shop: {dir: ., files: [shop.yaml]}
  sizes: {dir: ., files: [sizes.yaml]}
  front: {dir: ., files: [front.yaml]}
  orders: {dir: ., files: [orders.yaml]}
  report: {dir: ., files: [report.yaml]}
generate:
  plain: {model: kubernetes-web-service, from: [front]}
  stages: {model: kubernetes-pipeline, from: [orders]}
  nightly: {model: kubernetes-cron, from: [report]}
  web: {model: kubernetes-web-service, from: [shop]}
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

// besideService is a release in fifteen lines: %[1]s is live, and the slots have the versions %[2]s and %[3]s.
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
  headers: {X-Canary: always}
`

// The other models, each with all that it makes of built-in kinds.
const (
	besideFront = `service: front
image: registry.example.com/front:{version}
version: "1"
host: front.example.com
network: {callers: [gateways/proxy], calls: [shop/shop], outside: [{cidr: 10.0.0.0/8, port: 5432}]}
clusters: [{name: real, namespace: shop, replicas: 2, most_replicas: 4}]
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

// traffic is what clients saw through a gateway, second by second.
type traffic struct {
	mutex sync.Mutex
	// counts of requests and of errors by the second and the Deployment that answered; the latest image.
	requests, failures map[int64]map[string]int
	images             map[string]int
	unanswered         int
	// held is a Service: while it is named, there are no metrics of what it brought, so that its stage goes on for as
	// long as a test counts requests.
	held string
}

func (s *traffic) hold(service string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.held = service
}

func (s *traffic) add(at time.Time, workload, image string, status int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if workload == "" {
		s.unanswered++
		return
	}
	for _, counts := range []map[int64]map[string]int{s.requests, s.failures} {
		if counts[at.Unix()] == nil {
			counts[at.Unix()] = map[string]int{}
		}
	}
	s.requests[at.Unix()][workload]++
	if status != http.StatusOK {
		s.failures[at.Unix()][workload]++
	}
	s.images[image]++
}

// take returns how many requests each image had since the last call, and how many nobody answered.
func (s *traffic) take() (images map[string]int, unanswered int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	images, unanswered = s.images, s.unanswered
	s.images, s.unanswered = map[string]int{}, 0
	return images, unanswered
}

// ServeHTTP answers Lehr's questions for metrics: of the workload that the scopes of a side name.
func (s *traffic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Side       string
		Assets     []string
		Scopes     map[string][]string
		Start, End time.Time
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	workloads := asked.Scopes["candidate"]
	if asked.Side == "control" {
		workloads = asked.Scopes["stable"]
	}
	type sample struct {
		At    time.Time `json:"at"`
		Value int       `json:"value"`
		Of    int       `json:"of"`
	}
	samples := []sample{}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	isHeld := s.held != "" && asked.Side == "experiment" && slices.Contains(asked.Assets, "kubernetes/real/shop/service/"+s.held)
	for at := asked.Start.Unix(); at < asked.End.Unix(); at++ {
		one := sample{At: time.Unix(at, 0)}
		for _, workload := range workloads {
			one.Value += s.failures[at][workload]
			one.Of += s.requests[at][workload]
		}
		if one.Of > 0 && !isHeld && !one.At.Before(asked.Start) {
			samples = append(samples, one)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"samples": samples})
}

// send sends requests until the test ends.
func (s *traffic) send(t *testing.T, url string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-t.Context().Done():
				return
			case <-ticker.C:
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				return
			}
			request.Host = "shop.example.com"
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				continue
			}
			response.Body.Close()
			pod := response.Header.Get("X-Pod")
			workload := ""
			if parts := strings.Split(pod, "-"); len(parts) > 2 {
				workload = strings.Join(parts[:len(parts)-2], "-")
			}
			s.add(time.Now(), workload, response.Header.Get("X-Image"), response.StatusCode)
		}
	}()
	t.Cleanup(func() { <-ended })
}

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
		traffic: &traffic{requests: map[int64]map[string]int{}, failures: map[int64]map[string]int{}, images: map[string]int{}}}
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
	b.write("front.yaml", besideFront)
	b.write("orders.yaml", besideOrders)
	b.write("report.yaml", besideReport)
	b.write("same.star", sameProgram)
	b.write("sizes.yaml", "cpu: 100m\n")
	startServer(t, b.folder, b.lehr, "1s", "--external-checks", outside)
	b.traffic.send(t, b.gateway.URL)
	return b
}

// awaitShare waits until, of at least 100 requests that came one after another, an image had a share
// within bounds.
func (b *beside) awaitShare(image string, least, most float64) {
	b.Helper()
	image = "registry.example.com/shop:" + image
	b.traffic.take()
	counts, total, before := map[string]int{}, 0, errors.New("nothing was counted")
	b.plane.Wait(fmt.Sprintf("%s to have a share of %v to %v", image, least, most), func() error {
		images, unanswered := b.traffic.take()
		total += unanswered
		for name, count := range images {
			counts[name] += count
			total += count
		}
		if total < 100 {
			return fmt.Errorf("%d requests so far; before, %w", total, before)
		}
		share := float64(counts[image]) / float64(total)
		if share < least || share > most {
			said, _ := b.run("rollout", "status", "shop")
			before = fmt.Errorf("of %d requests its share is %.3f, and the rollout says %s", total, share, said)
			counts, total = map[string]int{}, 0
			return before
		}
		return nil
	})
}

// awaitReplicas waits until a Deployment is there and asks for a number of replicas.
func (b *beside) awaitReplicas(name string, want float64) {
	b.Helper()
	b.plane.Wait(fmt.Sprintf("%s to have %v replicas", name, want), func() error {
		answer, err := b.plane.Ask(http.MethodGet, deployments+"shop/deployments/"+name, "", nil)
		if err != nil {
			return err
		}
		object := b.plane.Parse(answer)
		if got := object["spec"].(plane.Object)["replicas"]; got != want {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// TestCanaryBesideTheStableWorkload: a release takes its share of the requests step by step, through a gateway that
// follows the HTTPRoute, while the version before serves the rest, and that is scaled down at the end; a release that
// answers errors is found bad by the judge, which compares the two, and then all requests go back
// at once.
func TestCanaryBesideTheStableWorkload(t *testing.T) {
	b := newBeside(t)
	b.otherModels()
	b.awaitShare("one", 1, 1)
	b.awaitReplicas("shop-green", 0)
	b.write("lehr.yaml", b.definition+besideRollouts)
	b.says("get rollouts", "shop-pods", "shop-old", "same")

	b.traffic.hold("shop-step-20")
	b.write("shop.yaml", fmt.Sprintf(besideService, "green", "one", "two"))
	b.awaitShare("two", 0.15, 0.25)
	b.traffic.hold("shop-step-50")
	b.awaitShare("two", 0.45, 0.55)
	b.awaitReplicas("shop-blue", 2)
	b.traffic.hold("")
	b.awaitShare("two", 1, 1)
	b.awaitReplicas("shop-blue", 0)
	b.says("rollout status shop", "done")
	b.sameContent()

	b.traffic.take()
	b.write("shop.yaml", fmt.Sprintf(besideService, "blue", "bad", "two"))
	b.header("bad")
	b.says("rollout status shop", "rolled-back", "errors")
	b.awaitShare("two", 1, 1)
	b.awaitReplicas("shop-green", 2)
	selector := b.plane.Parse(mustGet(t, b.plane, "/api/v1/namespaces/shop/services/shop-step-20"))["spec"].(plane.Object)["selector"].(plane.Object)
	if selector["lehr.dev/slot"] != "green" {
		t.Errorf("the Service of the first step selects %v", selector)
	}
}

// otherModels: what the models make is taken by a real API server as it is, a pipeline stage by stage.
func (b *beside) otherModels() {
	b.Helper()
	for _, path := range []string{
		"/apis/apps/v1/namespaces/shop/deployments/front", "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/front",
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
}

// header: whoever asks by the header gets the version that comes.
func (b *beside) header(version string) {
	b.Helper()
	b.plane.Wait("an answer of "+version, func() error {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.gateway.URL, nil)
		if err != nil {
			return err
		}
		request.Host = "shop.example.com"
		request.Header.Set("X-Canary", "always")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if image := response.Header.Get("X-Image"); !strings.HasSuffix(image, ":"+version) {
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
