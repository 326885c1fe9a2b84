package kubernetes_test

import (
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// TestAnAutoscalerHasTheReplicas: what an autoscaler of the same render scales leaves the number
// to production, whether it names one or not; nothing else does.
func TestAnAutoscalerHasTheReplicas(t *testing.T) {
	objects := read(t, `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: bare, namespace: shop}, spec: {}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: other}, spec: {replicas: 3}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, namespace: shop}, spec: {replicas: 3}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: queue, namespace: shop, annotations: {lehr.dev/unmanaged: spec.paused}}, spec: {replicas: 3}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: said, namespace: shop, annotations: {lehr.dev/unmanaged: spec.replicas}}, spec: {replicas: 3}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: said, namespace: shop}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: said}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: bare, namespace: shop}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: bare}}}
---
{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: scaler, namespace: shop}, spec: {scaleTargetRef: {kind: StatefulSet, name: queue}}}
`)
	want := map[string]string{
		"kubernetes/prod/shop/deployment.apps/web":    "json.spec.replicas HorizontalPodAutoscaler web sets it; ",
		"kubernetes/prod/shop/deployment.apps/bare":   "json.spec.replicas HorizontalPodAutoscaler bare sets it; ",
		"kubernetes/prod/shop/statefulset.apps/queue": "json.spec.paused as the annotation lehr.dev/unmanaged says; json.spec.replicas ScaledObject scaler sets it; ",
		"kubernetes/prod/shop/deployment.apps/said":   "json.spec.replicas as the annotation lehr.dev/unmanaged says; ",
	}
	found := 0
	for _, o := range objects {
		text := ""
		for _, added := range o.Addons {
			if unmanaged, ok := added.(*intentpb.Unmanaged); ok {
				for _, field := range unmanaged.Fields {
					text += field.Path + " " + field.Reason + "; "
				}
			}
		}
		if text != "" {
			found++
		}
		if text != want[o.ID] {
			t.Errorf("%s leaves %q, want %q", o.ID, text, want[o.ID])
		}
	}
	if found != len(want) {
		t.Errorf("%d objects leave something, want %d", found, len(want))
	}
}
