package kargo

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lehr.dev/internal/importer"
)

// analysis is a template of these metrics.
func analysis(metrics string) string {
	return "---\napiVersion: argoproj.io/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: check, namespace: shop}\nspec: {args: [{name: size}, {name: shape, value: round}], metrics: [" + metrics + "]}\n"
}

// verified is a Stage that has the template verify it, with arguments.
func verified(args string) string {
	return stageText("test", direct, sync) + "  verification: {analysisTemplates: [{name: check}]" + args + "}\n"
}

// TestWhatProgramsRun: jobs and requests are run by a program that the import writes.
func TestWhatProgramsRun(t *testing.T) {
	const job = "{name: load, provider: {job: {metadata: {labels: {a: b}}, spec: {backoffLimit: 1, template: {spec: {restartPolicy: Never, containers: [{name: load, image: load, args: [\"{{args.size}}\", \"{{ args.shape }}\"]}]}}}}}}"
	for name, sample := range map[string]struct {
		text string
		want []string
	}{
		"a job": {head + analysis(job) + verified(`, args: [{name: size, value: "a \"big\" one"}]`), []string{
			"verify: check: command: - /usr/local/bin/run-job", `"metadata":{"generateName":"check-","labels":{"a":"b"},"namespace":"shop"}`, `"args":["a \"big\" one","round"]`, "timeout: 1h",
		}},
		"a request": {head + analysis("{name: get, count: 1, provider: {web: {url: \"https://t.example.com/{{args.shape}}\", headers: [{key: Accept, value: text/plain}], timeoutSeconds: 9}}}") + verified(""), []string{
			"check: command: - /usr/local/bin/send-request - --method - GET - --url - https://t.example.com/round - --header - Accept=text/plain - --timeout - \"9\" timeout: 9s",
		}},
		"a body": {head + analysis("{name: post, provider: {web: {method: POST, url: \"https://t.example.com/\", jsonBody: {size: \"{{args.shape}}\"}}}}") + verified(""), []string{
			`- --body - '{"size":"round"}' - --header - Content-Type=application/json`,
		}},
		"two metrics": {head + analysis(job+", {name: post, provider: {web: {method: POST, url: \"https://t.example.com/run\"}}}") + verified(", args: [{name: size, value: big}]"), []string{
			"check-load: command: - /usr/local/bin/run-job", "check-post: http: https://t.example.com/run",
		}},
		"a step before the push": {head + stageText("test", direct, `{uses: http, as: ask, config: {method: POST, url: "https://t.example.com", timeout: 5s, headers: [{name: Content-Type, value: application/json}], body: '${{ quote({"text": "web:" + imageFrom("r.example.com/web").Tag}) }}'}}, `+sync), []string{
			`constraints: ask: command: - /usr/local/bin/send-request - --method - POST - --url - https://t.example.com - --timeout - "5" - --header - Content-Type=application/json - --body - '{"text":"web:{version}"}' timeout: 1m`,
		}},
		"a wait for what makes an environment good": {head + stageText("test", direct, "{uses: git-clone, config: {repoURL: \"https://git.example.com/a.git\", checkout: [{branch: main, path: ./s}]}}, {uses: git-push, config: {path: ./s}}, {uses: argocd-wait, config: {apps: [{name: a, waitFor: [health, sync]}]}}"), []string{
			"on_bad: stay set:",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			made := read(t, sample.text, nil)
			if len(made.LeftOut) > 0 {
				t.Errorf("left out are %+v", made.LeftOut)
			}
			got := strings.Join(strings.Fields(made.Definition), " ")
			for _, want := range sample.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%s", want, got)
				}
			}
			if strings.Contains(got, "verify: wait") || strings.Contains(got, "argocd-wait") {
				t.Errorf("what makes an environment good is verified once more:\n%s", got)
			}
			if strings.Contains(got, "/usr/local/bin/") != (made.ForOperator != nil) {
				t.Error("the operator is not told of the programs")
			}
		})
	}
}

// TestWhatNoProgramRuns: what cannot be run is handed in, as before, and listed.
func TestWhatNoProgramRuns(t *testing.T) {
	const secret = "hunter2hunter2hunter2x"
	for name, sample := range map[string]struct{ text, want, listed string }{
		"a metric":                 {head + analysis("{name: rate, successCondition: \"result[0] < 1\", provider: {prometheus: {query: up}}}") + verified(""), "verify: check: null", "by a validation"},
		"a request that is judged": {head + analysis("{name: get, successCondition: result.ok, provider: {web: {url: \"https://t.example.com\", jsonPath: \"{$}\"}}}") + verified(""), "verify: check: null", "AnalysisTemplate check"},
		"a job that runs often":    {head + analysis("{name: load, interval: 1m, provider: {job: {spec: {template: {}}}}}") + verified(""), "verify: check: null", "AnalysisTemplate check"},
		"a job with a secret": {head + analysis("{name: load, provider: {job: {spec: {template: {spec: {containers: [{name: a, image: a, env: [{name: API_TOKEN, value: "+secret+"}]}]}}}}}}") + verified(""),
			"verify: check: null", "AnalysisTemplate check"},
		"an argument of a promotion": {head + analysis("{name: load, provider: {job: {spec: {template: {spec: {containers: [{name: a, image: \"{{args.size}}\"}]}}}}}}") +
			verified(", args: [{name: size, value: \"${{ imageFrom('r.example.com/web').Tag }}\"}]"), "verify: check: null", "an argument of it has no value"},
		"a step that judges": {head + stageText("test", direct, "{uses: http, as: ask, config: {url: \"https://t.example.com\", successExpression: response.status == 200}}, "+sync), "ask: verdict: outside", "lehr delivery verdict test ask good|bad"},
		"a header of a secret": {head + stageText("test", direct, "{uses: http, as: ask, config: {url: \"https://t.example.com\", headers: [{name: Authorization, value: \"Bearer ${{ secrets.a.token }}\"}]}}, "+sync),
			"--url - https://t.example.com timeout: 1m", "/etc/lehr/send-request.json"},
		"a wait for what is not well": {head + stageText("test", direct, "{uses: git-push, config: {path: ./s}}, {uses: argocd-wait, as: wait, config: {apps: [{name: a, waitFor: [degraded]}]}}"), "verify: wait: null", "lehr delivery verdict test wait good|bad"},
	} {
		t.Run(name, func(t *testing.T) {
			made := read(t, sample.text, nil)
			if got := strings.Join(strings.Fields(made.Definition), " "); !strings.Contains(got, sample.want) || strings.Contains(got, secret) {
				t.Errorf("%q is not in\n%s", sample.want, got)
			}
			listed := ""
			for _, left := range made.LeftOut {
				listed += left.What + ": " + left.Why + "\n"
			}
			if !strings.Contains(listed, sample.listed) {
				t.Errorf("%q is not listed in\n%s", sample.listed, listed)
			}
		})
	}
}

// TestWhatStandsInAssets: a step that a program runs elsewhere stands in the Stage's asset; by the second
// count it is not carried over.
func TestWhatStandsInAssets(t *testing.T) {
	made := read(t, head+stageText("test", direct, "{uses: jira, as: ticket, config: {issue: SHOP-1, project: SHOP, summary: a release}}, "+sync), nil)
	if !strings.Contains(string(made.Files["stages.json"]), "SHOP-1") {
		t.Errorf("%s", made.Files["stages.json"])
	}
	if got := sharesOf(t, made); got[0] != 100 || got[1] >= 90 {
		t.Errorf("%v: %s", got, made.Read[1])
	}
}

var percentage = regexp.MustCompile(`\((\d+) %\)`)

// sharesOf are the two that an import prints.
func sharesOf(t *testing.T, made importer.Import) (list []int) {
	t.Helper()
	for _, found := range percentage.FindAllStringSubmatch(made.Read[1], -1) {
		share, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, share)
	}
	return list
}

// TestTheShareOfProjectsInPublicShapes: projects in the shapes that are published are carried over by
// 90 % at least, by both counts.
func TestTheShareOfProjectsInPublicShapes(t *testing.T) {
	const check = "{name: test, provider: {job: {metadata: null, spec: {backoffLimit: 1, template: {spec: {containers: [{name: test, image: alpine, command: [sleep, \"20\"]}], restartPolicy: Never}}}}}}"
	const verify = "  verification: {analysisTemplates: [{name: check}]}\n"
	project := "apiVersion: kargo.akuity.io/v1alpha1\nkind: ProjectConfig\nmetadata: {name: shop, namespace: shop}\nspec: {promotionPolicies: [{stageSelector: {name: test}, autoPromotionEnabled: true}]}\n---\n" + head
	update := "{uses: argocd-update, config: {apps: [{name: \"shop-${{ ctx.stage }}\", sources: [{repoURL: \"https://git.example.com/a.git\", kustomize: {images: [{repoURL: r.example.com/web, tag: \"${{ imageFrom('r.example.com/web').Tag }}\"}]}}]}]}}"
	metadata := "{uses: set-metadata, config: {updates: [{kind: Stage, name: \"${{ ctx.stage }}\", values: {lastPromotedBy: kargo}}]}}"
	for name, text := range map[string]string{
		"Argo CD is told":   project + analysis(check) + stageText("test", direct, update) + verify + stageText("uat", from("test"), update) + verify,
		"metadata is set":   project + analysis(check) + stageText("test", direct, metadata+", "+update) + verify,
		"a channel is told": project + stageText("test", direct, `{uses: http, config: {method: POST, url: "https://chat.example.com", headers: [{name: Content-Type, value: application/json}], body: '${{ quote({"text": imageFrom("r.example.com/web").Tag}) }}'}}`),
		"every word":        whole,
	} {
		made := read(t, text, nil)
		if got := sharesOf(t, made); len(got) != 2 || got[0] < 90 || got[1] < 90 {
			t.Errorf("%s: %s; left out are %+v", name, made.Read[1], made.LeftOut)
		}
	}
}
