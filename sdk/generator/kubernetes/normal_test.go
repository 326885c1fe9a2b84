package kubernetes

import (
	"strings"
	"testing"
)

// contentOf what a manifest says, in the namespace shop.
func contentOf(t *testing.T, manifest string) string {
	t.Helper()
	objects, findings := Read([]Manifest{{File: "a.yaml", Text: []byte(manifest)}}, Settings{Cluster: "eu", Namespace: "shop"})
	if len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), findings)
	}
	return objects[0].Payload.Json
}

const plainDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "web:1", resources: {requests: {cpu: 500m, memory: 1Gi}}}
      volumes: [{name: scratch, emptyDir: {sizeLimit: 2Gi}}, {name: other, emptyDir: {}}]
`

// TestOneContent: what says the same is one content.
func TestOneContent(t *testing.T) {
	want := contentOf(t, plainDeployment)
	for _, change := range [][2]string{
		{"cpu: 500m", "cpu: 0.5"},
		{"cpu: 500m", `cpu: "0.5"`},
		{"cpu: 500m", "cpu: 500000u"},
		{"memory: 1Gi", "memory: 1024Mi"},
		{"memory: 1Gi", "memory: 1048576Ki"},
		{"memory: 1Gi}", "memory: 1Gi}, limits: {}"},
		{"sizeLimit: 2Gi", "sizeLimit: 2048Mi"},
		{"labels: {app: web}}", "labels: {app: web}, creationTimestamp: null}"},
		{"labels: {app: web}}", "labels: {app: web}, annotations: {}}"},
		{"metadata: {name: web}", "metadata: {name: web, creationTimestamp: null, labels: {}, annotations: {}}"},
		{"  selector:", "  strategy: {}\n  selector:"},
		{"      volumes:", "      securityContext: {}\n      volumes:"},
		{"  selector:", "  selector:"},
	} {
		if !strings.Contains(plainDeployment, change[0]) {
			t.Fatalf("the deployment has no %q", change[0])
		}
		if got := contentOf(t, strings.Replace(plainDeployment, change[0], change[1], 1)); got != want {
			t.Errorf("with %s it is another content:\n%s\n%s", change[1], got, want)
		}
	}
	if !strings.Contains(want, `"emptyDir":{}`) || !strings.Contains(want, `"cpu":"500m","memory":"1Gi"`) {
		t.Errorf("the content is %s", want)
	}
}

// TestOtherContent: what only looks alike, and what is no quantity, stays as it is written.
func TestOtherContent(t *testing.T) {
	for _, test := range []struct{ manifest, holds string }{
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {cpu: \"0.5\", limits: 1024Mi}\n", `"data":{"cpu":"0.5","limits":"1024Mi"}`},
		{"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {podSelector: {}, ingress: [{}]}\n", `"spec":{"ingress":[{}],"podSelector":{}}`},
		// Another's kind has fields of its own.
		{"apiVersion: example.com/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {resources: {limits: {cpu: \"0.5\"}}}\n", `"cpu":"0.5"`},
		{strings.Replace(plainDeployment, "cpu: 500m", "cpu: 1GiB", 1), `"cpu":"1GiB"`},
		{strings.Replace(plainDeployment, "resources:", "securityContext: {}, resources:", 1), `"securityContext":{}`},
		{"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {resources: {requests: {storage: 10240Mi}}}\n", `"storage":"10Gi"`},
		{"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: a}\nspec: {hard: {pods: 10, requests.cpu: 4000m}}\n", `"hard":{"pods":"10","requests.cpu":"4"}`},
		{"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {metrics: [{type: Pods, pods: {target: {type: AverageValue, averageValue: 1000m}}}]}\n", `"averageValue":"1"`},
		{"apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\nspec: {limits: [{type: Container, default: {cpu: 1.5}}]}\n", `"cpu":"1500m"`},
	} {
		if got := contentOf(t, test.manifest); !strings.Contains(got, test.holds) {
			t.Errorf("%s\nhas not %s", got, test.holds)
		}
	}
}
