package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/building"
)

// accessManifests are what the partition has, by the names of their files.
var accessManifests = map[string]string{
	"kinds":   `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"berths.harbour.example"},"spec":{"group":"harbour.example","names":{"kind":"Berth","plural":"berths"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"length":{"type":"integer"}},"type":"object"}},"type":"object"}},"served":true,"storage":true}]}}`,
	"berth":   `{"apiVersion":"harbour.example/v1","kind":"Berth","metadata":{"name":"north","namespace":"shop"},"spec":{"length":9}}`,
	"web":     deployment("shop", `"replicas":2,`),
	"secret":  `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pilot","namespace":"shop"},"type":"Opaque"}`,
	"old":     `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"lehr.dev/turndown":"not needed"},"name":"old","namespace":"shop"}}`,
	"role":    `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"reads","namespace":"shop"},"rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["get"]}]}`,
	"binding": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"views","namespace":"shop"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"shop"}]}`,
}

// order in which they are pushed.
var order = []string{"kinds", "berth", "web", "secret", "role", "binding"}

const account = "system:serviceaccount:lehr:shop"

// accessPartition is a partition, and a cluster that allows what lehr kubernetes rbac prints.
type accessPartition struct {
	*cluster
	folder, lehr string
}

func newAccessPartition(t *testing.T) *accessPartition {
	p := plane.Start(t)
	a := &accessPartition{folder: t.TempDir()}
	a.lehr = filepath.Join(a.folder, "lehr")
	list := filepath.Join(a.folder, "clusters.yaml")
	entry := "{kubeconfig: %q, partitions: [shop], observe: %v, impersonate: {user: %q}}"
	text := "kubernetes-clusters: v1\nclusters:\n  real: " + fmt.Sprintf(entry, p.Kubeconfig, false, account) + "\n  looking: " + fmt.Sprintf(entry, p.Kubeconfig, true, "looker") + "\n"
	definition := "lehr: v1\npartition: shop\nsources: {m: {dir: manifests, files: ['*.yaml']}}\nmodels: [lehr.kubernetes.v1.Object]\n" +
		"generate: {plain: {render: kubernetes, from: [m], with: {cluster: real}}}\n"
	err := errors.Join((building.Program{Of: "../../cmd/lehr"}).At(a.lehr), os.Mkdir(filepath.Join(a.folder, "manifests"), 0o700),
		os.WriteFile(list, []byte(text), 0o600), os.WriteFile(filepath.Join(a.folder, "lehr.yaml"), []byte(definition), 0o600))
	for name, manifest := range accessManifests {
		err = errors.Join(err, os.WriteFile(filepath.Join(a.folder, "manifests", name+".yaml"), []byte(manifest), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	a.cluster = &cluster{T: t, plane: p, list: list, kind: kindOf(t, list)}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	for _, namespace := range []string{"shop", "lehr"} {
		a.byHand("/api/v1/namespaces", http.MethodPost, fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, namespace))
	}
	a.byHand("/api/v1/namespaces/shop/configmaps", http.MethodPost, accessManifests["old"])
	return a
}

// manifests that lehr kubernetes rbac prints.
func (a *accessPartition) manifests(arguments ...string) (manifests []map[string]any) {
	a.Helper()
	command := exec.CommandContext(a.Context(), a.lehr, append([]string{"kubernetes", "rbac", "-p", "lehr.yaml", "-o", "json"}, arguments...)...)
	command.Dir = a.folder
	command.Env = append(os.Environ(), "LEHR_SERVER=", "LEHR_STORE=")
	output, err := command.Output()
	if err != nil {
		a.Fatalf("%v: %s%s", err, output, stderr(err))
	}
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal(output, &list); err != nil {
		a.Fatal(err)
	}
	return list.Items
}

func stderr(err error) string {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(failed.Stderr)
	}
	return ""
}

// allow has the cluster hold a role or a binding.
func (a *accessPartition) allow(manifest map[string]any) {
	a.Helper()
	metadata := manifest["metadata"].(map[string]any)
	path := "/apis/rbac.authorization.k8s.io/v1/"
	if namespace, ok := metadata["namespace"].(string); ok {
		path += "namespaces/" + namespace + "/"
	}
	path += strings.ToLower(manifest["kind"].(string)) + "s/" + metadata["name"].(string)
	text, err := json.Marshal(manifest)
	if err == nil {
		_, err = a.plane.Ask(http.MethodPatch, path+"?fieldManager=admin&force=true", "application/apply-patch+yaml", text)
	}
	if err != nil {
		a.Fatal(err)
	}
}

// may reports whether a user may do something, by the server's own answer.
func (a *accessPartition) may(user, verb, group, resource, namespace, name string) bool {
	a.Helper()
	answer := a.byHand("/apis/authorization.k8s.io/v1/subjectaccessreviews", http.MethodPost, fmt.Sprintf(
		`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":%q,"groups":["system:authenticated"],"resourceAttributes":{"verb":%q,"group":%q,"resource":%q,"namespace":%q,"name":%q}}}`,
		user, verb, group, resource, namespace, name))
	allowed, _ := answer["status"].(map[string]any)["allowed"].(bool)
	return allowed
}

// await waits until the server says so: it learns of roles a moment later.
func (a *accessPartition) await(want bool, user, verb, group, resource, namespace, name string) {
	a.Helper()
	a.plane.Wait(verb+" of "+resource, func() error {
		if a.may(user, verb, group, resource, namespace, name) != want {
			return errors.New("it is not so yet")
		}
		return nil
	})
}

// TestAPartitionNeedsWhatRBACPrints: with the roles that are printed, and no others, a
// partition is kept, and nothing more is allowed.
func TestAPartitionNeedsWhatRBACPrints(t *testing.T) {
	a := newAccessPartition(t)
	manifests := a.manifests("--clusters", a.list)
	for _, manifest := range manifests {
		a.allow(manifest)
	}
	a.await(true, account, "patch", "apps", "deployments", "shop", "web")
	for _, name := range order {
		asset := a.asset(object(t, accessManifests[name]))
		if name == "berth" {
			a.plane.Wait("the kind to be there", func() error {
				a.kind = kindOf(t, a.list)
				for _, change := range a.diff(asset).Plan.Changes {
					if change.Reason != "" {
						return errors.New(change.Reason)
					}
				}
				return nil
			})
		}
		if d := a.diff(asset); d.Outcome != serve.Differs || notes(d) != "" {
			t.Fatalf("%s is %v %s %s", name, d.Outcome, d.Reason, notes(d))
		}
		a.mustPush(asset)
	}
	down := a.asset(object(t, accessManifests["old"]), &intentpb.Turndown{Reason: "not needed"})
	d := a.diff(down)
	if d.Plan.Action != serve.ActionDelete || notes(d) != "" {
		t.Fatalf("what is turned down is %v %s\n%s %s", d.Outcome, d.Reason, changes(d), notes(d))
	}
	if outcome := a.push(down, d, permits{}); outcome.Ending != serve.Pushed {
		t.Fatalf("the turndown ended %s: %s", outcome.Ending, outcome.Reason)
	}
	a.nothingMore()
	t.Run("without", func(t *testing.T) { a.with(t).withoutOne(manifests) })
	t.Run("observing", func(t *testing.T) { a.with(t).onlyObserving() })
}

func (a *accessPartition) with(t *testing.T) *accessPartition {
	own, inner := *a, *a.cluster
	inner.T = t
	own.cluster = &inner
	return &own
}

// notes beside a plan.
func notes(d serve.Difference) string {
	var notes []string
	for _, change := range d.Plan.Changes {
		if change.Reason != "" {
			notes = append(notes, change.Reason)
		}
	}
	return strings.Join(notes, "; ")
}

// nothingMore: what others have, what the partition does not, and what nobody asked for.
func (a *accessPartition) nothingMore() {
	a.Helper()
	for _, denied := range [][5]string{
		{"get", "", "secrets", "shop", "other"}, {"list", "", "secrets", "shop", ""}, {"patch", "", "secrets", "shop", "other"}, {"create", "", "secrets", "shop", "other"},
		{"delete", "", "secrets", "shop", "pilot"}, {"delete", "apps", "deployments", "shop", "web"}, {"delete", "", "configmaps", "shop", "other"},
		{"patch", "", "configmaps", "shop", "old"}, {"get", "apps", "deployments", "elsewhere", "web"}, {"patch", "apps", "statefulsets", "shop", "web"},
		{"patch", "apiextensions.k8s.io", "customresourcedefinitions", "", "others.harbour.example"}, {"create", "", "pods", "shop", "x"}, {"get", "", "pods", "shop", "x"},
		{"patch", "", "namespaces", "", "shop"}, {"escalate", "rbac.authorization.k8s.io", "roles", "shop", "reads"},
		{"bind", "rbac.authorization.k8s.io", "clusterroles", "shop", "cluster-admin"}, {"impersonate", "", "users", "", "admin"}, {"update", "apps", "deployments", "shop", "web"},
	} {
		if a.may(account, denied[0], denied[1], denied[2], denied[3], denied[4]) {
			a.Errorf("it may %v", denied)
		}
	}
	const credentials = "credentials"
	if a.may(credentials, "impersonate", "", "serviceaccounts", "lehr", "shop") {
		a.Error("anybody may ask as the account")
	}
	a.allow(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "asks", "namespace": "lehr"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lehr-shop-impersonate"},
		"subjects": []any{map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": credentials}}})
	a.await(true, credentials, "impersonate", "", "serviceaccounts", "lehr", "shop")
	if a.may(credentials, "impersonate", "", "serviceaccounts", "lehr", "other") || a.may(credentials, "impersonate", "", "users", "", "admin") {
		a.Error("the credentials may ask as others, too")
	}
}

// missing is a verb that an identity does not have, and what the diff of an asset then says.
type missing struct {
	verb, group, resource, name, says string
	asset                             func() serve.Intent
}

// less is a role without the verb.
func (m missing) less(role map[string]any) map[string]any {
	rules, ok := role["rules"].([]any)
	if !ok {
		return role
	}
	less := maps.Clone(role)
	var kept []any
	for _, one := range rules {
		rule := maps.Clone(one.(map[string]any))
		resources, _ := rule["resources"].([]any)
		verbs, _ := rule["verbs"].([]any)
		if slices.Contains(resources, any(m.resource)) {
			rule["verbs"] = slices.DeleteFunc(slices.Clone(verbs), func(verb any) bool { return verb == any(m.verb) })
		}
		if left := rule["verbs"].([]any); len(left) > 0 {
			kept = append(kept, rule)
		}
	}
	less["rules"] = kept
	return less
}

// withoutOne: a verb that is taken away is named by the diff, before a push.
func (a *accessPartition) withoutOne(manifests []map[string]any) {
	old := func() serve.Intent {
		return a.asset(object(a.T, accessManifests["old"]), &intentpb.Turndown{Reason: "not needed"})
	}
	changed := func() serve.Intent {
		return a.asset(object(a.T, strings.Replace(accessManifests["web"], "shop/web:v1", "shop/web:v2", 1)))
	}
	fresh := func() serve.Intent {
		return a.asset(object(a.T, strings.ReplaceAll(accessManifests["web"], `"name":"web","namespace"`, `"name":"fresh","namespace"`)))
	}
	// No garbage collector runs here, which lets go what was deleted in the foreground.
	a.byHand("/api/v1/namespaces/shop/configmaps/old", http.MethodPatch, `{"metadata":{"finalizers":null}}`)
	a.byHand("/api/v1/namespaces/shop/configmaps", http.MethodPost, accessManifests["old"])
	for _, without := range []missing{
		{"get", "apps", "deployments", "web", `cannot get resource "deployments"`, changed},
		{"patch", "apps", "deployments", "web", `cannot patch resource "deployments"`, changed},
		{"create", "apps", "deployments", "fresh", `cannot create resource "deployments"`, fresh},
		{"delete", "", "configmaps", "old", `cannot delete resource "configmaps"`, old},
	} {
		for _, manifest := range manifests {
			a.allow(without.less(manifest))
		}
		a.await(false, account, without.verb, without.group, without.resource, "shop", without.name)
		a.kind = kindOf(a.T, a.list)
		if d := a.diff(without.asset()); !strings.Contains(d.Reason+notes(d), without.says) {
			a.Errorf("without %s of %s it is %v: %s; %s", without.verb, without.resource, d.Outcome, d.Reason, notes(d))
		}
		for _, manifest := range manifests {
			a.allow(manifest)
		}
		a.await(true, account, without.verb, without.group, without.resource, "shop", without.name)
	}
}

// onlyObserving: to compare needs no right to write, and gets none.
func (a *accessPartition) onlyObserving() {
	for _, manifest := range a.manifests("--observe", "--user", "looker", "--name", "looking") {
		a.allow(manifest)
	}
	a.await(true, "looker", "get", "apps", "deployments", "shop", "web")
	edited := object(a.T, strings.Replace(accessManifests["web"], "shop/web:v1", "shop/web:v2", 1))
	edited.Cluster = "looking"
	if d := a.diff(a.asset(edited)); d.Outcome != serve.Differs || !strings.Contains(changes(d), `"shop/web:v1" → "shop/web:v2"`) {
		a.Errorf("observed it is %v %s\n%s", d.Outcome, d.Reason, changes(d))
	}
	for _, verb := range []string{"create", "patch", "update", "delete", "deletecollection"} {
		for _, resource := range []string{"deployments.apps", "secrets", "configmaps", "customresourcedefinitions.apiextensions.k8s.io", "berths.harbour.example"} {
			plural, group, _ := strings.Cut(resource, ".")
			if a.may("looker", verb, group, plural, "shop", "web") {
				a.Errorf("it may %s %s", verb, resource)
			}
		}
	}
}
