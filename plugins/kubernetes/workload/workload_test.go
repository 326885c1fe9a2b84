package workload

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lehr.dev/sdk/serve"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = object.UnmarshalJSON(encoded) // As an answer of a server is read.
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}

// deployment of one replica whose status is as a controller writes it while no pod is ready.
func deployment(t *testing.T, conditions string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, generation: 2}, spec: {replicas: 1, progressDeadlineSeconds: 600, selector: {matchLabels: {app: web, tier: front}},
template: {spec: {containers: [{name: web, image: "shop/web:v2"}]}}}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, unavailableReplicas: 1, conditions: [`+conditions+`]}}`)
}

// pod with the workload's image, or another.
func pod(t *testing.T, name, image, status string) unstructured.Unstructured {
	t.Helper()
	return *parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: `+name+`, namespace: shop}, spec: {containers: [{name: web, image: "`+image+`"}]}, status: `+status+`}`)
}

// container is the status of a pod with one container.
func container(state string) string {
	return `{phase: Running, containerStatuses: [{name: web, image: a, imageID: "", ready: false, restartCount: 3, ` + state + `}]}`
}

const (
	pulls    = `state: {waiting: {reason: ImagePullBackOff, message: "manifest unknown: no shop/web:v2"}}`
	crashing = `state: {waiting: {reason: CrashLoopBackOff, message: "back-off 40s"}}, lastState: {terminated: {exitCode: 3, reason: Error, startedAt: null, finishedAt: null}}`
	unready  = `state: {running: {startedAt: "2026-11-26T10:00:00Z"}}`
	creates  = `state: {waiting: {reason: CreateContainerConfigError, message: "configmap \"settings\" not found"}}`
	nowhere  = `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available: 3 Insufficient cpu"}]}`
)

// TestReasonsInWords: what stands in the way of a workload, in the words of who knows it.
func TestReasonsInWords(t *testing.T) {
	late := `{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: "it has timed out progressing"}`
	refused := `{type: ReplicaFailure, status: "True", reason: FailedCreate, message: "pods \"web-1\" is forbidden: exceeded quota: few"}`
	for name, one := range map[string]struct {
		conditions string
		pods       []unstructured.Unstructured
		wrote      string
		warning    string
		want       []string
	}{
		"no image":          {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", container(pulls))}, want: []string{"pod web-1: container web: ImagePullBackOff: manifest unknown: no shop/web:v2"}},
		"crashes":           {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", container(crashing))}, wrote: "no table ships", want: []string{"CrashLoopBackOff, it ended with exit code 3 (Error), 3 restarts; it wrote at last: no table ships"}},
		"no log":            {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", container(crashing))}, want: []string{"exit code 3 (Error), 3 restarts"}},
		"unschedulable":     {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", nowhere)}, want: []string{"pod web-1: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu"}},
		"not ready":         {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", container(unready))}, want: []string{"runs and is not ready: its readiness probe has not passed"}},
		"no settings":       {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", container(creates))}, want: []string{`waits: CreateContainerConfigError configmap "settings" not found`}},
		"evicted":           {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", `{phase: Failed, reason: Evicted, message: "the node was low on memory"}`)}, want: []string{"failed: Evicted the node was low on memory"}},
		"quota of its own":  {conditions: refused, want: []string{"exceeded quota: few"}},
		"quota of an event": {warning: "FailedCreate: exceeded quota: few", want: []string{"; FailedCreate: exceeded quota: few"}},
		"deadline":          {conditions: late, pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v2", container(pulls))}, want: []string{"ImagePullBackOff", "; its progress deadline is exceeded"}},
		"the worst pod": {pods: []unstructured.Unstructured{
			pod(t, "web-1", "shop/web:v2", container(unready)), pod(t, "web-2", "shop/web:v2", container(crashing)), pod(t, "web-3", "shop/web:v2", container(pulls)),
		}, want: []string{"pod web-2: container web: CrashLoopBackOff"}},
		"a pod as it is now": {pods: []unstructured.Unstructured{
			pod(t, "web-1", "shop/web:v1", container(crashing)), pod(t, "web-2", "shop/web:v2", container(unready)),
		}, want: []string{"pod web-2: container web: runs and is not ready"}},
		"only one of before": {pods: []unstructured.Unstructured{pod(t, "web-1", "shop/web:v1", container(crashing))}, want: []string{"pod web-1: container web: CrashLoopBackOff"}},
	} {
		object := deployment(t, one.conditions)
		worst, _ := Worst(object, one.pods)
		health := Health(object, Evidence{Container: worst, Wrote: one.wrote, Warning: one.warning})
		for _, want := range one.want {
			if health.State != serve.Unhealthy || !strings.Contains(health.Reason, want) {
				t.Errorf("%s: it is %v %q, want %q", name, health.State, health.Reason, want)
			}
		}
	}
}

// TestInitContainers: a pod waits for its first containers, so their trouble is the pod's.
func TestInitContainers(t *testing.T) {
	waits := pod(t, "web-1", "shop/web:v2", `{phase: Pending, initContainerStatuses: [{name: migrate, image: a, imageID: "", ready: false, restartCount: 2, `+crashing+`}],
containerStatuses: [{name: web, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: PodInitializing}}}]}`)
	worst, ok := Worst(deployment(t, ""), []unstructured.Unstructured{waits})
	if !ok || worst.Name != "migrate" || !worst.Previous || !worst.Ended {
		t.Errorf("the worst is %+v, %v", worst, ok)
	}
}

// TestPodsThatAreWell: nothing is wrong with what is ready, and a container that ended well.
func TestPodsThatAreWell(t *testing.T) {
	well := pod(t, "web-1", "shop/web:v2", `{phase: Running, containerStatuses: [{name: web, image: a, imageID: "", ready: true, restartCount: 9, `+unready+`}]}`)
	ended := pod(t, "web-2", "shop/web:v2", `{phase: Succeeded, containerStatuses: [{name: web, image: a, imageID: "", ready: false, restartCount: 0, state: {terminated: {exitCode: 0, reason: Completed, startedAt: null, finishedAt: null}}}]}`)
	if worst, ok := Worst(deployment(t, ""), []unstructured.Unstructured{well, ended}); ok {
		t.Errorf("the worst is %+v", worst)
	}
}

// TestJobs: how a Job ended, and what its last pod wrote; while it runs it has not ended.
func TestJobs(t *testing.T) {
	job := func(status string) *unstructured.Unstructured {
		return parse(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {selector: {matchLabels: {job: once}}, template: {spec: {containers: [{name: main, image: "task:v1"}]}}}, status: {`+status+`}}`)
	}
	failed := job(`conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: "it failed too often"}]`)
	pods := []unstructured.Unstructured{
		pod(t, "once-1", "task:v1", `{phase: Failed, containerStatuses: [{name: main, image: a, imageID: "", ready: false, restartCount: 0, state: {terminated: {exitCode: 1, reason: Error, startedAt: null, finishedAt: "2026-11-26T10:00:00Z"}}}]}`),
		pod(t, "once-2", "task:v1", `{phase: Failed, containerStatuses: [{name: main, image: a, imageID: "", ready: false, restartCount: 0, state: {terminated: {exitCode: 7, reason: Error, startedAt: null, finishedAt: "2026-11-26T10:05:00Z"}}}]}`),
	}
	last, ok := LastEnded(pods)
	if !ok || last.Pod != "once-2" {
		t.Errorf("the last is %+v, %v", last, ok)
	}
	want := "it failed: BackoffLimitExceeded: it failed too often; pod once-2: container main: ended with exit code 7 (Error); it wrote at last: no table"
	if health := Health(failed, Evidence{Container: last, Wrote: "no table"}); health.State != serve.Unhealthy || health.Reason != want {
		t.Errorf("it is %v %q, want %q", health.State, health.Reason, want)
	}
	if health := Health(job(`conditions: [{type: Complete, status: "True"}]`), Evidence{}); health.State != serve.Healthy || health.ObservedVersion != "v1" {
		t.Errorf("one that ended well is %+v", health)
	}
	if run, ok := RunOf(job(`active: 1`)); !ok || run.Ended {
		t.Errorf("one that runs is %+v, %v", run, ok)
	}
	if _, ok := RunOf(deployment(t, "")); ok {
		t.Error("a Deployment is taken for what runs once")
	}
}

// TestWhatWorkloadsTellOfThemselves: replicas, the version of an image, and whether pods say more.
func TestWhatWorkloadsTellOfThemselves(t *testing.T) {
	live := deployment(t, "")
	live.Object["status"].(map[string]any)["readyReplicas"] = int64(1)
	target := parse(t, `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4}}`)
	for _, one := range []struct {
		live, target    *unstructured.Unstructured
		current, wanted float64
	}{{live, target, 1, 4}, {nil, target, 0, 4}, {live, nil, 1, 0}, {live, parse(t, `{apiVersion: apps/v1, kind: Deployment, spec: {}}`), 1, 1}} {
		impacts := Replicas(one.live, one.target)
		if len(impacts) != 1 || impacts[0] != (serve.Impact{Dimension: "replicas", Current: one.current, Target: one.wanted}) {
			t.Errorf("its impacts are %v, want %v and %v", impacts, one.current, one.wanted)
		}
	}
	if impacts := Replicas(parse(t, `{apiVersion: v1, kind: ConfigMap}`), nil); impacts != nil {
		t.Errorf("a ConfigMap has %v", impacts)
	}
	for image, want := range map[string]string{"shop/web:v2": "v2", "shop/web": "", "host:5000/shop/web": "", "host:5000/shop/web:v3@sha256:00": "v3", "shop/web@sha256:00": "sha256:00"} {
		if got := imageVersion(image); got != want {
			t.Errorf("the version of %s is %q, want %q", image, got, want)
		}
	}
	if selector, ok := NeedsPods(live); !ok || !strings.Contains(selector, "app=web") || !strings.Contains(selector, "tier=front") {
		t.Errorf("its pods are %q, %v", selector, ok)
	}
	if _, ok := NeedsPods(parse(t, `{apiVersion: v1, kind: Service}`)); ok {
		t.Error("a Service is asked for its pods")
	}
}

// TestWhatKeepsANamespace: which objects are left, and what these wait for, as the cluster says it.
func TestWhatKeepsANamespace(t *testing.T) {
	namespace := parse(t, `{apiVersion: v1, kind: Namespace, status: {phase: Terminating, conditions: [{type: NamespaceDeletionDiscoveryFailure, status: "False", message: all is well},
{type: NamespaceContentRemaining, status: "True", message: "Some resources are remaining: configmaps. has 1 resource instances"}, {type: NamespaceFinalizersRemaining, status: "True", message: "example.com/clean in 1 resource instances"}]}}`)
	want := "Some resources are remaining: configmaps. has 1 resource instances; example.com/clean in 1 resource instances"
	if got := KeptBy(namespace); got != want {
		t.Errorf("it is kept by %q, want %q", got, want)
	}
	if got := KeptBy(deployment(t, `{type: Available, status: "True", message: it is}`)); got != "" {
		t.Errorf("a Deployment is kept by %q", got)
	}
}
