package kargo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/validate"
)

// whole has the words that public projects use, and those that have no place.
const whole = `apiVersion: kargo.akuity.io/v1alpha1
kind: ProjectConfig
metadata: {name: shop, namespace: shop}
spec:
  promotionPolicies:
  - {stageSelector: {name: "glob:t*"}, autoPromotionEnabled: true}
  - {stageSelector: {matchLabels: {tier: early}}, autoPromotionEnabled: true}
  - {stageSelector: {name: "regex:^frozen$", matchExpressions: [{key: tier, operator: Exists}]}, autoPromotionEnabled: false}
  webhookReceivers: [{name: hub, github: {secretRef: {name: hook}}}]
---
apiVersion: v1
kind: Secret
metadata: {name: manifests, namespace: shop}
stringData: {repoURL: "https://git.example.com/team/gitops.git", username: bot, password: hunter2hunter2x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {image: registry.example.com/shop/web}
---
apiVersion: kargo.akuity.io/v1alpha1
kind: Warehouse
metadata: {name: web, namespace: shop}
spec:
  interval: 5m0s
  subscriptions:
  - image: {repoURL: registry.example.com/shop/web, constraint: ^1.26.0, strictSemvers: true, discoveryLimit: 10, ignoreTags: [1.27.1]}
---
apiVersion: kargo.akuity.io/v1alpha1
kind: Warehouse
metadata: {name: nightly, namespace: shop}
spec:
  freightCreationPolicy: Manual
  freightCreationCriteria: {expression: "true"}
  subscriptions:
  - image: {repoURL: shop/jobs, imageSelectionStrategy: Lexical, allowTags: '^nightly-(\d{8})-[a-f0-9]{7}$'}
  - git: {repoURL: "https://git.example.com/team/config.git", includePaths: [jobs]}
  - chart: {repoURL: "oci://registry.example.com/charts/jobs", semverConstraint: "~1.2"}
---
apiVersion: kargo.akuity.io/v1alpha1
kind: PromotionTask
metadata: {name: promote, namespace: shop}
spec:
  vars: [{name: repository, value: "${{ secret('manifests').repoURL }}"}, {name: image, value: "${{ configMap('settings').image }}"}, {name: openPR, value: "false"}]
  steps:
  - uses: git-clone
    config: {repoURL: "${{ vars.repository }}", checkout: [{branch: main, path: ./src}]}
  - uses: kustomize-set-image
    as: update
    config: {path: "./src/stages/${{ ctx.stage }}", images: [{image: "${{ vars.image }}", tag: "${{ imageFrom(vars.image).Tag }}", digest: "${{ imageFrom(vars.image).Digest }}"}]}
  - uses: git-commit
    config: {path: ./src, message: "${{ task.outputs.update.commitMessage }}"}
  - uses: git-push
    as: push
    config: {path: ./src, generateTargetBranch: "${{ vars.openPR == 'true' }}"}
  - uses: git-open-pr
    as: open
    if: ${{ vars.openPR == 'true' }}
    config: {repoURL: "${{ vars.repository }}", sourceBranch: "${{ task.outputs.push.branch }}", targetBranch: main}
  - uses: git-wait-for-pr
    if: ${{ vars.openPR == 'true' }}
    config: {repoURL: "${{ vars.repository }}", prNumber: "${{ task.outputs.open.prNumber }}"}
  - {uses: argocd-update, config: {apps: [{name: "web-${{ ctx.stage }}"}]}}
  - {uses: http, as: tell, if: "${{ failure() }}", config: {url: "https://chat.example.com"}}
---
apiVersion: kargo.akuity.io/v1alpha1
kind: Stage
metadata: {name: test, namespace: shop, annotations: {kargo.akuity.io/color: red}}
spec:
  requestedFreight: [{origin: {kind: Warehouse, name: web}, sources: {direct: true}}]
  promotionTemplate: {spec: {steps: [{task: {name: promote}}]}}
  verification: {analysisTemplates: [{name: smoke}, {name: load}], args: [{name: a, value: b}]}
---
apiVersion: kargo.akuity.io/v1alpha1
kind: Stage
metadata: {name: perf, namespace: shop, labels: {tier: early}}
spec:
  requestedFreight: [{origin: {kind: Warehouse, name: web}, sources: {stages: [test]}}]
  promotionTemplate:
    spec:
      steps:
      - task: {name: promote}
      - {uses: http, as: ask, config: {url: "https://perf.example.com"}}
---
apiVersion: kargo.akuity.io/v1alpha1
kind: Stage
metadata: {name: gate, namespace: shop}
spec:
  requestedFreight: [{origin: {kind: Warehouse, name: web}, sources: {stages: [test, perf], availabilityStrategy: All, requiredSoakTime: 1h}}]
---
apiVersion: kargo.akuity.io/v1alpha1
kind: Stage
metadata: {name: production, namespace: shop}
spec:
  vars: [{name: openPR, value: "true"}]
  requestedFreight: [{origin: {kind: Warehouse, name: web}, sources: {stages: [gate]}}]
  promotionTemplate:
    spec:
      steps:
      - {uses: jira, as: ticket, config: {issue: A-1}}
      - task: {name: promote}
---
apiVersion: kargo.akuity.io/v1alpha1
kind: Stage
metadata: {name: tasks, namespace: shop}
spec:
  requestedFreight: [{origin: {kind: Warehouse, name: nightly}, sources: {direct: true}}]
  promotionTemplate:
    spec:
      steps:
      - uses: git-clone
        config: {repoURL: "https://git.example.com/team/gitops.git", checkout: [{branch: jobs, path: ./in}, {branch: rendered, create: true, path: ./out}]}
      - {uses: git-clear, config: {path: ./out}}
      - {uses: yaml-update, config: {path: ./in/jobs/values.yaml, updates: [{key: image.tag, value: "${{ imageFrom('shop/jobs').Tag }}"}]}}
      - {uses: helm-template, config: {path: ./in/jobs, outPath: ./out, token: hunter2hunter2hunter2x}}
      - {uses: git-commit, config: {path: ./out, message: render}}
      - {uses: git-push, config: {path: ./out}}
---
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: smoke, namespace: shop}
spec: {metrics: [{name: smoke, provider: {web: {method: POST, url: "https://smoke.example.com/run", timeoutSeconds: 60}}}]}
---
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: load, namespace: shop}
spec: {metrics: [{name: load, provider: {job: {spec: {template: {spec: {containers: [{name: load, image: load}]}}}}}}]}
`

func read(t *testing.T, text string, checkouts map[string]string) importer.Import {
	t.Helper()
	made, err := Read([]File{{"shop.yaml", []byte(text)}}, checkouts)
	if err != nil {
		t.Fatal(err)
	}
	d, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\n"+made.Definition), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v in\n%s", findings, made.Definition)
	}
	if problems := validate.CheckDeliveries(schema.Builtin(), d.Policy); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
	for _, spec := range d.Policy.GetDeliveries() {
		if _, err := promotion.New(spec); err != nil {
			t.Errorf("%s: %v", spec.GetName(), err)
		}
	}
	return made
}

// environment is one of lehr.yaml, as YAML with sorted keys.
func environment(t *testing.T, made importer.Import, application, name string) string {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(made.Definition), &content); err != nil {
		t.Fatal(err)
	}
	environments := content["delivery"].(map[string]any)[application].(map[string]any)["environments"].(map[string]any)
	text, err := yaml.Marshal(environments[name])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestWhatAProjectSays(t *testing.T) {
	made := read(t, whole, nil)
	for _, c := range []struct{ application, name, want string }{
		{"web", "test", `assets: id == "stage/test" constraints: ignored: deny: - reason: the Warehouse ignored this tag version: 1.27.1 on_bad: stay ` +
			`set: digest: /images/0/digest document: stages-test-kustomization field: /images/0/newTag verify: load: command: - /usr/local/bin/run-job - '{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"load-","namespace":"shop"},"spec":{"template":{"spec":{"containers":[{"image":"load","name":"load"}]}},"ttlSecondsAfterFinished":3600}}' timeout: 1h smoke: http: https://smoke.example.com/run timeout: 60s`},
		{"web", "perf", `constraints: depends-on: depends_on: - test ignored:`},
		{"web", "perf", `verify: ask: command: - /usr/local/bin/send-request - --method - GET - --url - https://perf.example.com`},
		{"web", "production", `constraints: depends-on: depends_on: - test - perf stable: 1h ignored: deny: - reason: the Warehouse ignored this tag version: 1.27.1 promotion: judgement: 1 ticket: verdict: outside`},
		{"web", "production", `field: /images/0/newTag pull_request: gitops`},
		{"nightly-jobs", "tasks", `constraints: freight-criteria: verdict: outside promotion: judgement: 1 on_bad: stay set: digest: /tasks/nightly-jobs/digest document: knobs field: /tasks/nightly-jobs/version`},
	} {
		if got := environment(t, made, c.application, c.name); !strings.Contains(got, c.want) {
			t.Errorf("%s of %s is\n%s\nwithout\n%s", c.name, c.application, got, c.want)
		}
	}
	for _, text := range []string{
		"every: 5m0s", "limit: 10", "registry: https://registry-1.docker.io/shop/jobs", "match: nightly-([0-9]{8})-[0-9a-f]{7}", "by: number", "git_commits: https://git.example.com/team/config.git",
		"charts: oci://registry.example.com/charts/jobs", "by: build", "document: stages/production/kustomization.yaml", "regexp: (?:.*(?:",
	} {
		if !strings.Contains(made.Definition, text) {
			t.Errorf("%q is not in\n%s", text, made.Definition)
		}
	}
	if strings.Contains(made.Definition, "gate") {
		t.Error("a Stage without steps is an environment")
	}
	steps := string(made.Files["stages.json"])
	if !strings.Contains(steps, "helm-template") || !strings.Contains(steps, "git-push") || strings.Contains(steps, "kustomize-set-image") {
		t.Error(steps)
	}
	for name, text := range made.Files {
		if strings.Contains(string(text), "hunter2") {
			t.Errorf("%s has a secret", name)
		}
	}
}

func TestWhatIsListed(t *testing.T) {
	made := read(t, whole, nil)
	listed := ""
	for _, left := range made.LeftOut {
		listed += left.What + ": " + left.Why + "\n"
		if strings.Contains(left.What+left.Why, "hunter2") {
			t.Error(left)
		}
	}
	for _, text := range []string{
		"shop.yaml:9: webhookReceivers: ", "shop.yaml:11: Secret manifests", "freightCreationCriteria: Lehr asks no expression", "its 3 artifacts go together in Kargo", "paths of a subscription",
		"step tell: it runs when a promotion has failed", "Stage test: annotations",
		"step jira of production", "lehr delivery verdict production ticket good|bad", "message of commits", "a value of the step helm-template: it looks like a secret",
	} {
		if !strings.Contains(listed, text) {
			t.Errorf("%q is not listed in\n%s", text, listed)
		}
	}
	if len(made.Read) != 3 || !strings.Contains(made.Read[1], " values are carried over; without the ") || !strings.Contains(made.Read[2], "Warehouse 21 of 23 (91 %)") {
		t.Error(made.Read)
	}
}

// TestCheckouts: an image is found by its name, and one that is not there is told.
func TestCheckouts(t *testing.T) {
	folder := t.TempDir()
	write := func(stage, text string) {
		if err := os.MkdirAll(filepath.Join(folder, "stages", stage), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "stages", stage, "kustomization.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, stage := range []string{"test", "perf", "production"} {
		write(stage, "images: [{name: other, newTag: a}, {name: registry.example.com/shop/web, newTag: 1.26.0}]\n")
	}
	checkouts := map[string]string{repositoryKey("https://git.example.com/team/GitOps"): folder}
	made := read(t, whole, checkouts)
	if got := environment(t, made, "web", "test"); !strings.Contains(got, "digest: /images/1/digest") || !strings.Contains(got, "field: /images/1/newTag") {
		t.Error(got)
	}
	for _, hint := range made.Hints {
		if strings.Contains(hint, "see that") {
			t.Error(hint)
		}
	}
	write("test", "images: []\n")
	if _, err := Read([]File{{"shop.yaml", []byte(whole)}}, checkouts); err == nil || !strings.Contains(err.Error(), "stages/test/kustomization.yaml has no entry registry.example.com/shop/web under images") {
		t.Error(err)
	}
}
