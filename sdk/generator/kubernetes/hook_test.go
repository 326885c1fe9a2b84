package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator/kubernetes"
)

// hooked is an object with annotations, as NAME=VALUE.
func hooked(kind, name string, annotations ...string) string {
	text := "apiVersion: v1\nkind: " + kind + "\nmetadata:\n  name: " + name + "\n"
	if kind == "Job" {
		text = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + name + "\n"
	}
	if len(annotations) > 0 {
		text += "  annotations:\n"
	}
	for _, annotation := range annotations {
		key, value, _ := strings.Cut(annotation, "=")
		text += fmt.Sprintf("    %s: %q\n", key, value)
	}
	return text + "---\n"
}

// orderOf says what comes before each object, by names.
func orderOf(objects []kubernetes.Object) string {
	short := func(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }
	var lines []string
	for _, o := range objects {
		var before []string
		for _, message := range o.Addons {
			if dependencies, ok := message.(*intentpb.Dependencies); ok {
				for _, d := range dependencies.Dependencies {
					before = append(before, short(d.On))
				}
			}
		}
		slices.Sort(before)
		lines = append(lines, short(o.ID)+":"+strings.Join(before, ","))
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// TestHookOrder: hooks and waves are edges, in the order of phases and weights, and never in a circle.
func TestHookOrder(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"Helm": {
			hooked("ConfigMap", "last", "helm.sh/hook=post-install,post-upgrade") + hooked("ConfigMap", "web") + hooked("Job", "two", "helm.sh/hook=pre-upgrade", "helm.sh/hook-weight=5") +
				hooked("Job", "one", "helm.sh/hook=pre-install,pre-upgrade", "helm.sh/hook-weight=-5"),
			"last:web one: two:one web:two",
		},
		"Argo CD": {
			hooked("ConfigMap", "b", "argocd.argoproj.io/sync-wave=1") + hooked("ConfigMap", "a", "argocd.argoproj.io/sync-wave=-1") + hooked("ConfigMap", "web") +
				hooked("Job", "first", "argocd.argoproj.io/hook=PreSync") + hooked("Job", "last", "argocd.argoproj.io/hook=PostSync") + hooked("Job", "with", "argocd.argoproj.io/hook=Sync"),
			"a:first b:web,with first: last:b web:a with:a",
		},
		"nothing to order": {hooked("ConfigMap", "a") + hooked("ConfigMap", "b", "helm.sh/hook-weight=3"), "a: b:"},
		// The Job needs the map, which has no hook: both come together, and no circle is made.
		"what it needs comes later": {
			strings.Replace(hooked("Job", "one", "helm.sh/hook=pre-install"), "---\n", "spec: {template: {spec: {containers: [{name: a, image: a, envFrom: [{configMapRef: {name: web}}]}]}}}\n---\n", 1) + hooked("ConfigMap", "web"),
			"one:web web:",
		},
	} {
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "m.yaml", Text: []byte(test.text)}}, kubernetes.Settings{Cluster: "eu", Namespace: "shop", Hooks: kubernetes.HooksIncluded})
		if got := orderOf(objects); got != test.want {
			t.Errorf("%s: the order is %q, want %q", name, got, test.want)
		}
		if slices.ContainsFunc(findings, func(f kubernetes.Finding) bool { return !f.Warning || f.Line == 0 }) {
			t.Errorf("%s: it is said %+v", name, findings)
		}
	}
}

// TestHooksThatCannotBe: they are told of by line, are no objects, and what is served of them does not
// leave for it.
func TestHooksThatCannotBe(t *testing.T) {
	for annotation, message := range map[string]string{
		"helm.sh/hook=pre-rollback":             "Job x is a hook of Helm for pre-rollback",
		"helm.sh/hook=test":                     "for test",
		"helm.sh/hook=pre-delete,post-delete":   "for pre-delete, post-delete",
		"helm.sh/hook=pre-install,post-instal":  "",
		"helm.sh/hook=pre-install,post-install": "for both before and after",
		"argocd.argoproj.io/hook=SyncFail":      "a hook of Argo CD for SyncFail",
		"argocd.argoproj.io/hook=Skip":          "for Skip",
		"argocd.argoproj.io/sync-wave=soon":     "argocd.argoproj.io/sync-wave of Job x is no number",
	} {
		text := hooked("ConfigMap", "web") + hooked("Job", "x", annotation)
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "m.yaml", Text: []byte(text)}}, kubernetes.Settings{Cluster: "eu", Namespace: "shop", Hooks: kubernetes.HooksIncluded})
		if message == "" { // One of the two can be said, and the other is told of.
			if len(objects) != 2 || len(findings) != 1 || !strings.Contains(findings[0].Message, "it is none for post-instal") {
				t.Errorf("%s: %d objects, %+v", annotation, len(objects), findings)
			}
			continue
		}
		if len(objects) != 1 || len(findings) != 1 || !findings[0].LeftOut || findings[0].ID != "kubernetes/eu/shop/job.batch/x" || findings[0].Line != 6 || !strings.Contains(findings[0].Message, message) {
			t.Errorf("%s: %d objects, %+v", annotation, len(objects), findings)
		}
	}
	// Nobody asked for hooks: all are left out; of a cluster they are what they are.
	text := []byte(hooked("Job", "x", "argocd.argoproj.io/hook=PreSync", "helm.sh/hook-weight=1"))
	for hooks, count := range map[kubernetes.Hooks]int{kubernetes.HooksLeftOut: 0, kubernetes.HooksAreObjects: 1, kubernetes.HooksIncluded: 1} {
		if objects, _ := kubernetes.Read([]kubernetes.Manifest{{File: "m.yaml", Text: text}}, kubernetes.Settings{Cluster: "eu", Namespace: "shop", Hooks: hooks}); len(objects) != count {
			t.Errorf("with hooks %d there are %d objects, want %d", hooks, len(objects), count)
		}
	}
}

// TestHooksOfOthers reads examples that Argo CD's authors wrote.
func TestHooksOfOthers(t *testing.T) {
	corpus := os.Getenv("LEHR_CORPUS")
	if corpus == "" {
		t.Skip("LEHR_CORPUS names no folder with the corpus")
	}
	files, err := filepath.Glob(filepath.Join(corpus, "argocd-examples/pre-post-sync/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example: %v", err)
	}
	var manifests []kubernetes.Manifest
	for _, file := range append(files, filepath.Join(corpus, "argocd-examples/helm-hooks/manifests.yaml")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, kubernetes.Manifest{File: filepath.Base(file), Text: text})
	}
	settings := kubernetes.Settings{Cluster: "eu", Namespace: "shop", Hooks: kubernetes.HooksIncluded}
	last := len(manifests) - 1
	for want, read := range map[string][]kubernetes.Manifest{
		"after:before before:": manifests[:last],
		// A Deployment and a Service named frontend, between two hooks.
		"frontend:maint-page-up frontend:maint-page-up maint-page-down:frontend,frontend maint-page-up:": manifests[last:],
	} {
		objects, findings := kubernetes.Read(read, settings)
		if got := orderOf(objects); got != want {
			t.Errorf("the order is %q, want %q", got, want)
		}
		hooks := 0
		for _, f := range findings {
			if f.Warning && f.Line > 0 && strings.Contains(f.Message, "was a hook and is an object") {
				hooks++
			}
		}
		if hooks != 2 {
			t.Errorf("of %d hooks it is said what they are not, want 2: %+v", hooks, findings)
		}
	}
}

// TestHooksByContent: a Job that is a hook has another name with each content, and the same with
// the same; what is no hook, or no Job, keeps its own.
func TestHooksByContent(t *testing.T) {
	read := func(hooks kubernetes.Hooks, name, image string) (ids []string, findings []kubernetes.Finding) {
		t.Helper()
		job := strings.Replace(hooked("Job", name, "argocd.argoproj.io/hook=PreSync"), "---\n", "spec: {template: {spec: {containers: [{name: a, image: "+image+"}]}}}\n---\n", 1)
		text := job + hooked("Job", "plain") + hooked("ConfigMap", "web", "helm.sh/hook=pre-install")
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "m.yaml", Text: []byte(text)}}, kubernetes.Settings{Cluster: "eu", Namespace: "shop", Hooks: hooks})
		for _, o := range objects {
			ids = append(ids, o.ID)
			if !strings.HasSuffix(o.ID, "/"+o.Payload.Name) || !strings.Contains(o.Payload.Json, `"name":"`+o.Payload.Name+`"`) {
				t.Errorf("%s is named %s, of %s", o.ID, o.Payload.Name, o.Payload.Json)
			}
		}
		slices.Sort(ids)
		return ids, findings
	}
	first, findings := read(kubernetes.HooksByContent, "migrate", "one")
	again, _ := read(kubernetes.HooksByContent, "migrate", "one")
	second, _ := read(kubernetes.HooksByContent, "migrate", "two")
	if !slices.Equal(first, again) || len(first) != 3 || first[1] == second[1] || first[0] != second[0] || first[2] != second[2] {
		t.Errorf("the same content is %v and %v, another one %v", first, again, second)
	}
	if rest, ok := strings.CutPrefix(first[1], "kubernetes/eu/shop/job.batch/migrate-"); !ok || len(rest) != 10 || strings.Trim(rest, "0123456789abcdef") != "" {
		t.Errorf("the Job is %s", first[1])
	}
	if !slices.ContainsFunc(findings, func(f kubernetes.Finding) bool { return strings.Contains(f.Message, "when it changes, as another Job") }) {
		t.Errorf("it is said %+v", findings)
	}
	if ids, _ := read(kubernetes.HooksIncluded, "migrate", "one"); ids[1] != "kubernetes/eu/shop/job.batch/migrate" {
		t.Errorf("without it the Job is %s", ids[1])
	}
	ids, findings := read(kubernetes.HooksByContent, strings.Repeat("a", 60), "one")
	if len(ids) != 2 || !slices.ContainsFunc(findings, func(f kubernetes.Finding) bool { return f.LeftOut && strings.Contains(f.Message, "no room for a hash") }) {
		t.Errorf("a name of 60 bytes gives %v, %+v", ids, findings)
	}
}
