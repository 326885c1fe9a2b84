package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubeobject"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/plugins/kubernetes/storagemark"
	"lehr.dev/sdk/serve"
)

// cluster is a real API server, and the plugin's kind over it.
type cluster struct {
	*testing.T
	plane *plane.Plane
	list  string
	kind  serve.Kind
	// state is the file of how far storages had come; empty: none is kept.
	state string
}

// with is the cluster as a subtest sees it, with a namespace of its own.
func (c *cluster) with(t *testing.T, namespace string) *cluster {
	t.Helper()
	own := *c
	own.T, own.plane = t, c.plane.For(t)
	own.kind = kindOf(t, c.list)
	own.byHand("/api/v1/namespaces", http.MethodPost, fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, namespace))
	return &own
}

func kindOf(t *testing.T, list string) serve.Kind {
	t.Helper()
	return kindWith(t, list, "")
}

func kindWith(t *testing.T, list, state string) serve.Kind {
	t.Helper()
	file, err := clusterfile.Read(list)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := storagemark.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	return kubeobject.New(file, marks)
}

func writeList(t *testing.T, p *plane.Plane) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "clusters.yaml")
	text := fmt.Sprintf(`kubernetes-clusters: v1
clusters:
  real: {kubeconfig: %[1]q, partitions: [shop]}
  looking: {kubeconfig: %[1]q, partitions: [shop], observe: true, impersonate: {user: looker, groups: [lookers]}}
  adopting: {kubeconfig: %[1]q, partitions: [shop], adopt: [kubectl-client-side-apply, argocd-controller]}
  judging: {kubeconfig: %[1]q, partitions: [shop], health: {ConfigMap: 'object.data.a == "1" ? "" : "a is " + object.data.a'}}
  mayread: {kubeconfig: %[1]q, partitions: [shop], impersonate: {user: mayread}}
  weak: {kubeconfig: %[1]q, partitions: [shop], impersonate: {user: nobody}}
`, p.Kubeconfig)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// byHand is what a person does with kubectl.
func (c *cluster) byHand(path, method, body string) map[string]any {
	c.Helper()
	content := "application/json"
	if method == http.MethodPatch {
		content = "application/merge-patch+json"
	}
	answer, err := c.plane.Ask(method, path, content, []byte(body))
	if err != nil {
		c.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(answer, &object); err != nil {
		c.Fatal(err)
	}
	return object
}

// object is the payload of a manifest.
func object(t *testing.T, manifest string) *kubernetespb.Object {
	t.Helper()
	var parsed struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct{ Name, Namespace string }
	}
	if err := json.Unmarshal([]byte(manifest), &parsed); err != nil {
		t.Fatalf("%v in %s", err, manifest)
	}
	return &kubernetespb.Object{
		ApiVersion: parsed.APIVersion, Kind: parsed.Kind, Namespace: parsed.Metadata.Namespace, Name: parsed.Metadata.Name, Cluster: "real", Json: manifest,
	}
}

// asset of a manifest, with addons.
func (c *cluster) asset(o *kubernetespb.Object, addons ...proto.Message) serve.Intent {
	c.Helper()
	message := func(m proto.Message) serve.Message {
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			c.Fatal(err)
		}
		return serve.Message{Type: serve.TypeName(m.ProtoReflect().Descriptor().FullName()), Bytes: encoded}
	}
	asset := intent.Asset{ID: "thing", Payload: message(o)}
	for _, addon := range addons {
		asset.Addons = append(asset.Addons, message(addon))
	}
	return serve.Intent{Asset: asset, Incarnation: serve.IncarnationID{Partition: "shop", Sequence: 1}}
}

func (c *cluster) diff(asset serve.Intent) serve.Difference {
	c.Helper()
	return c.kind.Diff(c.Context(), []serve.Intent{asset})[0]
}

// permits grants everything, after it did what a test does in between.
type permits struct{ before func() }

func (p permits) Effect(context.Context) error {
	if p.before != nil {
		p.before()
	}
	return nil
}
func (p permits) Cover(context.Context, string) error { return nil }

func (c *cluster) push(asset serve.Intent, d serve.Difference, p permits) serve.Outcome {
	c.Helper()
	return c.kind.Push(c.Context(), serve.Push{ID: "push", Asset: asset, Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {}}, p)
}

// mustPush pushes what differs, and wants it in sync then.
func (c *cluster) mustPush(asset serve.Intent) {
	c.Helper()
	d := c.diff(asset)
	if d.Outcome != serve.Differs {
		c.Fatalf("nothing to push: %v %s", d.Outcome, d.Reason)
	}
	if outcome := c.push(asset, d, permits{}); outcome.Ending != serve.Pushed {
		c.Fatalf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if d := c.diff(asset); d.Outcome != serve.InSync {
		c.Fatalf("after the push it is %v %s %s", d.Outcome, d.Reason, changes(d))
	}
}

// changes are the plan as text: the action, and a line for each field.
func changes(d serve.Difference) string {
	lines := []string{string(d.Plan.Action)}
	for _, change := range d.Plan.Changes {
		line := fmt.Sprintf("%s: %s → %s", change.Path, change.Current, change.Target)
		if change.Writer != "" {
			line += " by " + change.Writer
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// unmanaged leaves a field to production.
func unmanaged(path string) proto.Message {
	return &intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: path, Reason: "an autoscaler's"}}}
}

// finalize is what the garbage collector of a controller manager does at the end of a
// deletion in the foreground: it lets objects go that wait for it alone.
func finalize(ctx context.Context, p *plane.Plane, path string) {
	for ctx.Err() == nil {
		answer, err := p.Ask(http.MethodGet, path, "", nil)
		if err == nil && strings.Contains(string(answer), "deletionTimestamp") {
			_, _ = p.Ask(http.MethodPatch, path, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// writeAll lists the cluster for every partition.
func writeAll(t testing.TB, p *plane.Plane, name string) {
	t.Helper()
	if err := os.WriteFile(name, fmt.Appendf(nil, "kubernetes-clusters: v1\nclusters: {real: {kubeconfig: %q, partitions: ['*']}}\n", p.Kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
}
