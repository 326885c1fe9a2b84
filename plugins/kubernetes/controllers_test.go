package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// controlled is a cluster whose objects controllers and a kubelet act on.
type controlled struct {
	*cluster
	kubelet *plane.Kubelet
	hints   *hints
}

// TestWithControllers: how workloads and Jobs fare by what a real controller manager and
// scheduler make of them, with a kubelet that fails on purpose.
func TestWithControllers(t *testing.T) {
	p := plane.Start(t)
	kubelet := p.StartControllers()
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	for name, part := range map[string]func(controlled){
		"failing-pods": failingPods, "quota": quotaOnPods, "unschedulable": unschedulable, "deadline": deadline, "tasks": tasks, "finalizer": stuckOnFinalizer, "scaling": scalingAgainstAutoscaler,
	} {
		t.Run(name, func(t *testing.T) {
			own := c.with(t, name)
			part(controlled{own, kubelet, own.watched()})
		})
	}
}

// awaitHealth waits until an asset's health says something; each look is one that a hint asked
// for, but for the first.
func (c controlled) awaitHealth(asset serve.Intent, state intent.HealthState, want string) serve.Difference {
	c.Helper()
	var d serve.Difference
	last := -1
	c.plane.Wait("the health "+want, func() error {
		hinted := c.hints.of("thing")
		if hinted == last {
			return fmt.Errorf("no hint since it was %v %s", d.Health.State, d.Health.Reason)
		}
		last = hinted
		if d = c.diff(asset); d.Health.State != state || !strings.Contains(d.Health.Reason, want) {
			return fmt.Errorf("it is %v %s, %v %s", d.Outcome, d.Reason, d.Health.State, d.Health.Reason)
		}
		return nil
	})
	return d
}

// carry pushes what differs; it need not be in sync then. What a controller writes meanwhile
// makes a push stale, and it is planned again, as Lehr does.
func (c controlled) carry(asset serve.Intent) {
	c.Helper()
	c.plane.Wait("the push", func() error {
		d := c.diff(asset)
		if d.Outcome != serve.Differs {
			return fmt.Errorf("nothing to push: %v %s", d.Outcome, d.Reason)
		}
		if outcome := c.push(asset, d, permits{}); outcome.Ending != serve.Pushed {
			return fmt.Errorf("the push ended %s: %s", outcome.Ending, outcome.Reason)
		}
		return nil
	})
}

// knownDiff waits until the object is not written between a look and its dry run: a controller
// that writes it many times a second makes a difference unknown for a moment.
func (c controlled) knownDiff(asset serve.Intent) serve.Difference {
	c.Helper()
	var d serve.Difference
	c.plane.Wait("a known difference", func() error {
		if d = c.diff(asset); d.Outcome == serve.Unknown {
			return fmt.Errorf("it is unknown: %s", d.Reason)
		}
		return nil
	})
	return d
}

func imageOf(namespace, image string) string {
	return strings.Replace(deployment(namespace, `"replicas":1,`), "shop/web:v1", image, 1)
}

// failingPods: the reason is the worst pod's, and each change of it is hinted.
func failingPods(c controlled) {
	c.kubelet.SetFault("bad:pull", plane.Fault{NoImage: "rpc error: manifest unknown: no bad:pull here"})
	c.kubelet.SetFault("bad:crash", plane.Fault{ExitCode: 3, Log: "starting\ncannot reach the store, token=ghp_0123456789abcdefABCDEF0123456789abcdefABCDEF\n"})
	c.kubelet.SetFault("bad:probe", plane.Fault{Unready: true})
	for image, want := range map[string]string{
		"bad:pull":  "ImagePullBackOff: rpc error: manifest unknown: no bad:pull here",
		"bad:crash": "CrashLoopBackOff, it ended with exit code 3 (Error), 3 restarts; it wrote at last: cannot reach the store",
		"bad:probe": "readiness probe has not passed",
	} {
		asset := c.asset(object(c.T, imageOf("failing-pods", image)))
		c.carry(asset)
		if d := c.awaitHealth(asset, serve.Unhealthy, want); strings.Contains(d.Health.Reason, "ghp_") {
			c.Errorf("a log's secret is shown: %s", d.Health.Reason)
		}
	}
	c.kubelet.SetFault("bad:probe", plane.Fault{})
	good := c.asset(object(c.T, imageOf("failing-pods", "good:v7")))
	c.carry(good)
	if d := c.awaitHealth(good, serve.Healthy, ""); d.Outcome != serve.InSync || d.Health.ObservedVersion != "v7" || d.Impacts[0].Current != 1 {
		c.Errorf("in the end it is %v %+v %v", d.Outcome, d.Health, d.Impacts)
	}
}

// quotaOnPods: pods that a quota refuses are told with the quota's name, also of a StatefulSet,
// of which only events say it.
func quotaOnPods(c controlled) {
	c.byHand("/api/v1/namespaces/quota/resourcequotas", http.MethodPost, `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"few"},"spec":{"hard":{"count/pods":"0"}}}`)
	c.plane.Wait("the quota to be counted", func() error {
		quota := c.byHand("/api/v1/namespaces/quota/resourcequotas/few", http.MethodGet, "")
		if used, _ := quota["status"].(map[string]any)["hard"].(map[string]any); used == nil {
			return errors.New("not yet")
		}
		return nil
	})
	web := c.asset(object(c.T, imageOf("quota", "good:1")))
	c.carry(web)
	c.awaitHealth(web, serve.Unhealthy, "exceeded quota: few")
	store := strings.NewReplacer(`"Deployment"`, `"StatefulSet"`, `"name":"web","namespace"`, `"name":"store","namespace"`).Replace(imageOf("quota", "good:1"))
	asset := c.asset(object(c.T, store))
	c.carry(asset)
	c.plane.Wait("the quota to be told of the StatefulSet", func() error {
		if d := c.diff(asset); !strings.Contains(d.Health.Reason, "exceeded quota: few") {
			return errors.New(d.Health.Reason)
		}
		return nil
	})
}

func unschedulable(c controlled) {
	manifest := strings.Replace(imageOf("unschedulable", "good:1"), `"name":"web","ports"`, `"name":"web","resources":{"requests":{"cpu":"64"}},"ports"`, 1)
	asset := c.asset(object(c.T, manifest))
	c.carry(asset)
	c.awaitHealth(asset, serve.Unhealthy, "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu")
}

// deadline: that a workload does not get on within its own deadline is told beside the reason.
func deadline(c controlled) {
	c.kubelet.SetFault("bad:late", plane.Fault{NoImage: "not there"})
	asset := c.asset(object(c.T, strings.Replace(imageOf("deadline", "bad:late"), `"replicas":1,`, `"progressDeadlineSeconds":1,"replicas":1,`, 1)))
	c.carry(asset)
	d := c.awaitHealth(asset, serve.Unhealthy, "its progress deadline is exceeded")
	if !strings.Contains(d.Health.Reason, "ImagePullBackOff: not there") {
		c.Errorf("it is %s", d.Health.Reason)
	}
}

// tasks: a Job tells how it ended and what it wrote; one that has ended is replaced without an
// approval.
func tasks(c controlled) {
	job := func(image string) serve.Intent {
		return c.asset(object(c.T, strings.Replace(jobManifest("tasks", "once", ""), "a:1", image, 1)))
	}
	c.kubelet.SetFault("task:bad", plane.Fault{ExitCode: 7, Log: "migrating\nno table ships\n"})
	c.kubelet.SetFault("task:good", plane.Fault{Log: "migrating\n12 tables done, password=hunter2hunter2\n"})
	c.kubelet.SetFault("task:held", plane.Fault{Held: true})
	c.carry(job("task:bad"))
	c.awaitHealth(job("task:bad"), serve.Unhealthy, "it failed: BackoffLimitExceeded")
	d := c.knownDiff(job("task:bad"))
	if want := "ended with exit code 7 (Error); it wrote at last: migrating\nno table ships"; d.Outcome != serve.Pending || !strings.Contains(d.Reason, want) {
		c.Errorf("when it has failed it is %v %s", d.Outcome, d.Reason)
	}
	replaced := c.knownDiff(job("task:good"))
	if replaced.Plan.Action != serve.ActionUpdate || replaced.Plan.Destructive() || !strings.Contains(notes(replaced), "the Job has ended, and is made anew") {
		c.Errorf("the plan is %v %s\n%s", replaced.Outcome, replaced.Reason, changes(replaced))
	}
	c.await(job("task:good"))
	d = c.awaitHealth(job("task:good"), serve.Healthy, "it ended well")
	if want := "ended with exit code 0 (Completed); it wrote at last: migrating\n12 tables done"; d.Outcome != serve.InSync || !strings.Contains(d.Health.Reason, want) || strings.Contains(d.Health.Reason, "hunter2") {
		c.Errorf("when it has ended it is %v %s", d.Outcome, d.Health.Reason)
	}
	if pods := c.byHand("/api/v1/namespaces/tasks/pods", http.MethodGet, "")["items"].([]any); len(pods) == 0 {
		c.Error("no pod ran it")
	}
	c.await(job("task:held"))
	if d := c.knownDiff(job("task:held")); d.Outcome != serve.Pending || !strings.Contains(d.Reason, "has not ended") {
		c.Errorf("while it runs it is %v %s", d.Outcome, d.Reason)
	}
	if d := c.knownDiff(job("task:good")); d.Plan.Action != serve.ActionReplace || !d.Plan.Destructive() {
		c.Errorf("to replace it while it runs is %v, destructive: %v", d.Outcome, d.Plan.Destructive())
	}
	c.kubelet.SetFault("task:held", plane.Fault{})
	c.awaitHealth(job("task:held"), serve.Healthy, "it ended well")
}

// await pushes until there is nothing to push: a replacement's deletion may take a while.
func (c controlled) await(asset serve.Intent) {
	c.Helper()
	c.plane.Wait("the push", func() error {
		d := c.diff(asset)
		if d.Outcome == serve.Differs {
			outcome := c.push(asset, d, permits{})
			return fmt.Errorf("a push ended %s %s", outcome.Ending, outcome.Reason)
		}
		if d.Outcome == serve.Unknown || strings.Contains(d.Reason, "being deleted") {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
}

// stuckOnFinalizer: a namespace that cannot go is pending, and says which objects keep it with
// which finalizers.
func stuckOnFinalizer(c controlled) {
	namespace := object(c.T, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"stuck"}}`)
	c.mustPush(c.asset(namespace))
	c.byHand("/api/v1/namespaces/stuck/configmaps", http.MethodPost, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept","finalizers":["example.com/clean"]}}`)
	down := c.asset(namespace, &intentpb.Turndown{Reason: "gone"})
	c.plane.Wait("the deletion to be accepted", func() error { // The namespace's status is being written.
		if outcome := c.push(down, c.diff(down), permits{}); outcome.Ending != serve.Pushed {
			return fmt.Errorf("the push ended %s: %s", outcome.Ending, outcome.Reason)
		}
		return nil
	})
	c.plane.Wait("what keeps the namespace to be told", func() error {
		if d := c.diff(down); d.Outcome != serve.Pending || !strings.Contains(d.Reason, "example.com/clean in 1 resource instances") {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
	c.byHand("/api/v1/namespaces/stuck/configmaps/kept", http.MethodPatch, `{"metadata":{"finalizers":null}}`)
	c.plane.Wait("the end of the namespace", func() error {
		if d := c.diff(down); d.Outcome != serve.InSync || len(d.Current) > 0 {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
}

// scalingAgainstAutoscaler: kubectl's scale is the autoscaler's to correct, and pushes of other
// fields never reset the number: no moment has fewer replicas than the autoscaler asks for.
func scalingAgainstAutoscaler(c controlled) {
	version := func(v string) serve.Intent {
		return c.asset(object(c.T, strings.Replace(imageOf("scaling", "web:"+v), `"replicas":1,`, `"replicas":3,`, 1)), unmanaged("json.spec.replicas"))
	}
	const path = deployments + "scaling/deployments/web"
	c.carry(version("v1"))
	c.byHand("/apis/autoscaling/v2/namespaces/scaling/horizontalpodautoscalers", http.MethodPost, `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"web"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"minReplicas":4,"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`)
	replicas := func(want float64) {
		c.Helper()
		c.plane.Wait(fmt.Sprint(want, " replicas"), func() error {
			if got := c.byHand(path, http.MethodGet, "")["spec"].(map[string]any)["replicas"]; got != want {
				return fmt.Errorf("there are %v", got)
			}
			return nil
		})
	}
	replicas(4)
	fewest := c.plane.Fewest(path)
	c.carry(version("v2"))
	c.byHand(path+"/scale?fieldManager=kubectl", http.MethodPatch, `{"spec":{"replicas":9}}`)
	if d := c.knownDiff(version("v2")); d.Outcome != serve.InSync {
		c.Errorf("scaled by hand it is %v %s %s", d.Outcome, d.Reason, changes(d))
	}
	replicas(5)
	// Intent that leaves the number to nobody is told who sets it, and that the two would fight.
	claimed := c.asset(object(c.T, strings.Replace(imageOf("scaling", "web:v2"), `"replicas":1,`, `"replicas":3,`, 1)))
	if d := c.knownDiff(claimed); !slices.ContainsFunc(d.Plan.Changes, func(f serve.FieldChange) bool {
		return f.Path == "spec.replicas" && strings.Contains(f.Reason, "the HorizontalPodAutoscaler web in the cluster sets it, too") && strings.Contains(f.Reason, "lehr.dev/unmanaged: spec.replicas")
	}) {
		c.Errorf("beside an autoscaler it is %v %s %+v", d.Outcome, d.Reason, d.Plan.Changes)
	}
	c.carry(version("v3"))
	if got := c.byHand(path, http.MethodGet, "")["spec"].(map[string]any)["replicas"]; got != 5.0 {
		c.Errorf("after a push there are %v replicas", got)
	}
	if got := fewest(); got < 4 {
		c.Errorf("for a moment there were %d replicas", got)
	}
}
