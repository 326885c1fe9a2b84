package keel

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/prodspec/definition"
)

// read reads a config, and requires that its definition can be loaded.
func read(t *testing.T, text string) importer.Import {
	t.Helper()
	made, err := Read("f.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\n"+made.Definition), schema.Builtin()); len(findings) > 0 {
		t.Fatalf("%+v in\n%s", findings, made.Definition)
	}
	return made
}

// text is all that the import writes, in a form that ignores how it is broken into lines.
func text(made importer.Import) string {
	all := made.Definition
	for _, file := range []string{"resources.json", "documents/knobs.json"} {
		all += string(made.Files[file])
	}
	if made.ForOperator != nil {
		for _, file := range made.ForOperator("shop") {
			all += string(file)
		}
	}
	return strings.Join(strings.Fields(all), " ")
}

const cluster = "{kind: titus/cluster@v1, spec: {moniker: {app: shop, stack: a}, container: {reference: web}%s}}"

// configWith is a config with one environment, of these keys.
func configWith(keys, spec string) string {
	return "application: shop\nserviceAccount: shop@example.com\nartifacts: [{type: docker, name: shop/web, reference: web, tagVersionStrategy: increasing-tag}]\nenvironments:\n- name: prod\n" + keys +
		"  resources:\n  - " + strings.Replace(cluster, "%s", spec, 1) + "\n"
}

// TestWhatEachWordBecomes: each word is carried over whole, to what the page says.
func TestWhatEachWordBecomes(t *testing.T) {
	deb := func(artifact, spec string) string {
		return "application: shop\nartifacts: [" + artifact + "]\nenvironments:\n- name: prod\n  resources:\n  - {kind: ec2/cluster@v1.1, spec: {moniker: {app: shop}, artifactReference: api" + spec + "}}\n"
	}
	for name, sample := range map[string]struct {
		config string
		want   []string
	}{
		"serviceAccount": {configWith("", ""), []string{`"service_account": "shop@example.com"`}},
		"slack": {configWith("  notifications: [{type: slack, address: \"#shop\", frequency: quiet}]\n", ""), []string{
			`prod-slack-shop: of: delivery to: - slack-shop when: delivery.environment == "prod" && delivery.event in ["waiting", "vetoed", "failed"]`,
			"name: slack-shop slack: env: SLACK_SHOP_URL partitions: - shop",
		}},
		"email": {configWith("  notifications: [{type: email, address: team@example.com, frequency: verbose}]\n", ""), []string{
			`["waiting", "vetoed", "failed", "promoted", "rolled-back"]`, "email: - team@example.com partitions: - shop",
		}},
		"test-container": {configWith("  verifyWith: [{type: test-container, image: \"shop/it:1\", location: {account: test, region: eu}, entrypoint: /run}, {type: test-container, repository: shop/load, tag: stable}]\n", ""), []string{
			"verify: test-container: command: - /usr/local/bin/run-container - --image - shop/it:1 - --entrypoint - /run - --account - test - --region - eu - --application - shop timeout: 1h",
			"test-container-2: command: - /usr/local/bin/run-container - --image - shop/load:stable", "{run: /usr/local/bin/run-container, partitions: [shop]}",
		}},
		"pipeline": {configWith("  constraints: [{type: pipeline, pipelineId: 7a1e, retries: 2, timeout: PT2H, parameters: {size: small, count: 3}}]\n", ""), []string{
			`pipeline: command: - /usr/local/bin/run-spinnaker-pipeline - --application - shop - --pipeline - 7a1e - --user - shop@example.com - --retries - "2" - --timeout - PT2H - --parameters - '{"count":3,"size":"small"}' every: 30s timeout: 1m`,
			"{run: /usr/local/bin/run-spinnaker-pipeline, partitions: [shop]}",
		}},
		"vmOptions": {deb("{type: deb, name: shop-api, reference: api, vmOptions: {baseOs: jammy, regions: [eu]}}", ""), []string{
			`"id": "prod/bakery-image-v1-api", "environment": "prod", "artifact": "api", "kind": "bakery/image@v1", "spec": "{\"artifactName\":\"shop-api\",\"baseOs\":\"jammy\",\"regions\":[\"eu\"]}"`,
			`"after": [ "prod/bakery-image-v1-api" ]`, `id in ["prod/ec2-cluster-v1-1-shop","prod/bakery-image-v1-api"]`,
		}},
		"statuses": {deb("{type: deb, name: shop-api, reference: api, statuses: [RELEASE, FINAL]}", ""), []string{"status: - RELEASE - FINAL"}},
		"branches": {deb("{type: docker, name: shop/api, reference: api, from: {branch: {startsWith: feature/}, pullRequestOnly: true}}", ""), []string{"branches: feature/.*", "pull_requests: true"}},
		"regex":    {deb("{type: docker, name: shop/api, reference: api, from: {branch: {regex: \"release-[0-9]+\"}}}", ""), []string{"branches: release-[0-9]+"}},
		"git": {"application: shop\nartifacts: [{type: git, reference: api, gitType: github, project: shop, repoName: charts, tagVersionStrategy: semver-tag}]\nenvironments:\n- name: prod\n  resources:\n  - {kind: k8s/helm@v1, spec: {artifactSpec: {ref: api}, template: {metadata: {name: api}}}}\n", []string{
			"git_tags: https://github.com/shop/charts.git",
		}},
		"no strategy": {deb("{type: docker, name: shop/api, reference: api}", ""), []string{"by: semver"}},
		"unused":      {deb("{type: docker, name: shop/api, reference: api}, {type: npm, name: other}", ""), []string{"versions-other: file: other.json order:"}},
		"old kinds": {"apiVersion: delivery.config.spinnaker.netflix.com/v1\napplication: shop\nartifacts: [{type: deb, name: api}]\nenvironments:\n- name: prod\n  resources:\n" +
			"  - {apiVersion: bakery.spinnaker.netflix.com/v1, kind: image, spec: {artifactName: api, baseOs: jammy}}\n  - {apiVersion: ec2.spinnaker.netflix.com/v1, kind: cluster, spec: {moniker: {app: shop}, imageProvider: {reference: api}}}\n", []string{
			`"kind": "ec2/cluster@v1"`, `"kind": "bakery/image@v1"`, `"after": [ "prod/bakery-image-v1" ]`,
		}},
		"postDeploy": {configWith("  postDeploy: [{type: tag-ami}]\n", ""), []string{
			`prod-post-deploy: assets: id in ["prod-post-deploy/post-deploy-tag-ami-web"] constraints: depends-on: depends_on: - prod`,
			`"kind": "post-deploy/tag-ami"`, `"prod-post-deploy": { "web": "" }`,
		}},
		"rollbackOnFailure": {configWith("", ", deployWith: {strategy: red-black, rollbackOnFailure: true}"), []string{`assets: id in ["prod/titus-cluster-v1-shop-a"] set:`, `\"strategy\":\"red-black\"`}},
		"no rollback":       {configWith("", ", deployWith: {strategy: red-black}"), []string{`on_bad: stay`}},
		"stagger": {configWith("  locations: {account: a, regions: [{name: eu}, {name: us}, {name: ap}]}\n", ", deployWith: {strategy: red-black, stagger: [{region: us, hours: 16-2, pauseTime: PT1H30M}, {region: eu, pauseTime: PT5M}]}"), []string{
			`rollouts: prod-titus-cluster-v1-shop-a: on_bad: stop select: id in ["prod/titus-cluster-v1-shop-a/ap","prod/titus-cluster-v1-shop-a/eu","prod/titus-cluster-v1-shop-a/us"]`,
			"stages: - name: us scopes: - us window: open: - Mon-Sun 16:00-24:00 - Mon-Sun 00:00-02:00 zone: America/Los_Angeles - delay: 1h30m0s name: eu scopes: - eu - delay: 5m0s rest: true",
			`\"regions\":[{\"name\":\"us\"}]`, `"region": "us"`,
		}},
		"managedRollout": {configWith("  locations: {account: a, regions: [{name: eu}, {name: us}]}\n", ", deployWith: {rollbackOnFailure: true}, managedRollout: {enabled: true, selectionStrategy: ALPHABETICAL}"), []string{
			"on_bad: rollback", "stages: - by: scope region rest: true",
		}},
		"one region": {configWith("  locations: {account: a, regions: [{name: eu}]}\n", ", managedRollout: {enabled: true, selectionStrategy: ALPHABETICAL}"), []string{`"id": "prod/titus-cluster-v1-shop-a"`}},
		"previews": {configWith("", "") + "previewEnvironments: [{branch: {startsWith: feature/}, baseEnvironment: prod}]\n", []string{
			`"previews": [ { "environment": "prod", "name": "", "starts_with": "feature/" } ]`, "previews: document: previews",
		}},
		"an object of Kubernetes": {"application: shop\nartifacts: [{type: docker, name: shop/web, reference: web, tagVersionStrategy: semver-tag}]\nenvironments:\n- name: prod\n  locations: {account: eu, regions: []}\n  resources:\n" +
			"  - {kind: k8s/resource@v1, spec: {container: {reference: web}, metadata: {application: shop}, template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: web}]}}}}}}\n" +
			"  - {kind: k8s/resource@v1, spec: {template: {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 80}]}}}}\n", []string{
			`assets: id in ["kubernetes/eu/shop/deployment.apps/web"]`, `"path": [ "spec", "template", "spec", "containers", 0, "image" ], "artifact": "web", "name": "shop/web"`, "lehr.kubernetes.v1.Object: run:",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			made := read(t, sample.config)
			if len(made.LeftOut) > 0 {
				t.Errorf("left out are %+v", made.LeftOut)
			}
			all := text(made)
			for _, want := range sample.want {
				if !strings.Contains(all, want) {
					t.Errorf("%q is not in\n%s", want, all)
				}
			}
		})
	}
	if strings.Contains(text(read(t, configWith("", ", deployWith: {rollbackOnFailure: true}"))), "on_bad: stay") {
		t.Error("a version that fails stays, and it was to be taken back")
	}
	if made := read(t, "name: Shop Config\n"+configWith("", "")); made.Name != "shop-config" {
		t.Errorf("the partition is called %q", made.Name)
	}
}

// TestTheOrderOfConstraints: what needs nobody is asked first, as in Keel.
func TestTheOrderOfConstraints(t *testing.T) {
	all := text(read(t, configWith("  constraints: [{type: manual-judgement}, {type: pipeline, pipelineId: x}, {type: allowed-times, windows: [{hours: 9-17}], tz: UTC}]\n", "")))
	if times, people, pipeline := strings.Index(all, "allowed-times:"), strings.Index(all, "manual-judgement:"), strings.Index(all, "pipeline:"); times < 0 || times > people || people > pipeline {
		t.Errorf("the windows are at %d, people at %d and the pipeline at %d", times, people, pipeline)
	}
}

// TestWhatIsListed: what is not carried over is listed with its line, and does not count.
func TestWhatIsListed(t *testing.T) {
	for name, sample := range map[string]struct{ config, what, why string }{
		"a canary": {configWith("  constraints: [{type: canary, canaryConfigId: c1, lifetime: PT1H, regions: [eu]}]\n", ""),
			"f.yml:6: the constraint canary", "lehr delivery verdict prod canary good"},
		"a verification of a plugin": {configWith("  verifyWith: [{type: acme/check@v1, level: 3}]\n", ""), "f.yml:6: verification acme-check-v1", "lehr delivery verdict prod acme-check-v1 good|bad"},
		"another way to be told":     {configWith("  notifications: [{type: pager, address: x, frequency: quiet}]\n", ""), "f.yml:6: notification pager", "webhook, chat or mail"},
		"an address with a secret":   {configWith("  notifications: [{type: slack, address: \"https://hooks.example.com/T1\", frequency: quiet}]\n", ""), "f.yml:6: notification slack", "no channel"},
		"an unknown frequency":       {configWith("  notifications: [{type: slack, address: \"#a\", frequency: hourly}]\n", ""), "f.yml:6: notification slack", `no frequency "hourly"`},
		"off peak": {configWith("  locations: {account: a, regions: [{name: eu}, {name: us}]}\n", ", managedRollout: {enabled: true, selectionStrategy: OFF_PEAK}"),
			"f.yml:8: managedRollout: selectionStrategy", "the order of a plugin"},
		"what judges a preview":  {configWith("", "") + "previewEnvironments: [{branch: {name: x}, baseEnvironment: prod, verifyWith: [{type: test-container, image: a}]}]\n", "previewEnvironments: verifyWith", "nothing is promoted"},
		"a pattern of previews":  {configWith("", "") + "previewEnvironments: [{branch: {regex: x.*}, baseEnvironment: prod}]\n", "previewEnvironments: branch: regex", "knows no regular expressions"},
		"a secret of a pipeline": {configWith("  constraints: [{type: pipeline, pipelineId: x, parameters: {api_token: hunter2hunter2x}}]\n", ""), "f.yml:6: a value of the spec", "looks like a secret"},
		"an object with secrets": {configWith("  locations: {account: eu}\n", "") + "  - {kind: k8s/resource@v1, spec: {template: {apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: aHVudGVyMg==}}}}\n", "f.yml:9: the resource k8s-resource-v1-secret-s", "no secret is copied"},
	} {
		t.Run(name, func(t *testing.T) {
			made := read(t, sample.config)
			if len(made.LeftOut) != 1 || !strings.Contains(made.LeftOut[0].What, sample.what) || !strings.Contains(made.LeftOut[0].Why, sample.why) {
				t.Errorf("%+v", made.LeftOut)
			}
			if shares(t, made)[0] == 100 {
				t.Errorf("it counts as carried over: %s", made.Read)
			}
			for _, secret := range []string{"hunter2", "aHVudGVyMg"} {
				if strings.Contains(text(made), secret) {
					t.Errorf("a secret is in\n%s", text(made))
				}
			}
		})
	}
}

var percentage = regexp.MustCompile(`\((\d+) %\)`)

// shares are the two that an import prints.
func shares(t *testing.T, made importer.Import) (list []int) {
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

// TestTheShareOfConfigsInPublicShapes: configs in the shapes that are published are carried over by
// 90 % at least, by both counts.
func TestTheShareOfConfigsInPublicShapes(t *testing.T) {
	const group = "  - {apiVersion: ec2.spinnaker.netflix.com/v1, kind: security-group, spec: {moniker: {app: shop, stack: db}, description: the database, inboundRules: [{protocol: TCP, name: shop, portRange: {startPort: 5432, endPort: 5432}}]}}\n"
	old := func(stack, deploy string) string {
		return "  - {apiVersion: ec2.spinnaker.netflix.com/v1, kind: cluster, spec: {imageProvider: {reference: shop}, moniker: {app: shop, stack: " + stack + "}, deployWith: {" + deploy + "}, capacity: {min: 1, max: 1, desired: 1}}}\n" + group
	}
	const notify = "  notifications: [{type: slack, address: \"#shop\", frequency: quiet}]\n"
	for name, config := range map[string]string{
		"three environments, in the old form": "name: shop-config\napplication: shop\nserviceAccount: shop@example.com\nartifacts: [{name: shop, type: deb, reference: shop}]\nenvironments:\n" +
			"- name: test\n  constraints: []\n" + notify + "  resources:\n  - {apiVersion: bakery.spinnaker.netflix.com/v1, kind: image, spec: {artifactName: shop, baseOs: jammy, regions: [eu], storeType: EBS}}\n" + old("test", "strategy: highlander") +
			"- name: staging\n  constraints: [{type: depends-on, environment: test}]\n" + notify + "  resources:\n" + old("staging", "strategy: red-black, resizePreviousToZero: true") +
			"- name: prod\n  constraints: [{type: depends-on, environment: staging}, {type: manual-judgement, timeout: P5D}, {type: pipeline, pipelineId: 7a1e}]\n" + notify + "  resources:\n" +
			old("prod", "strategy: red-black, rollbackOnFailure: true, maxServerGroups: 2, delayBeforeDisable: PT0S"),
		"a first one":       "name: first\napplication: shop\nartifacts: []\nenvironments:\n- name: test\n  constraints: []\n  notifications: []\n  resources:\n" + group,
		"a test container":  "application: shop\nartifacts: [{name: web, type: docker, reference: web}]\nenvironments:\n- name: test\n  locations: {account: test, regions: [{name: eu}]}\n  resources: [{kind: ec2/cluster@v1.1, spec: {moniker: {app: shop}, container: {reference: web}}}]\n  verifyWith: [{type: test-container, repository: shop/it, tag: stable, location: {account: test, region: eu}}]\n",
		"no artifact":       "application: shop\nserviceAccount: shop@example.com\nartifacts: []\nenvironments:\n- name: test\n  locations: {account: test, regions: [{name: eu}, {name: us}]}\n  resources: [{kind: titus/cluster@v1, spec: {moniker: {app: shop}, container: {organization: shop, image: web, digest: \"sha:9\"}, resources: {memory: 2048, cpu: 4}}}]\n",
		"two kinds":         "application: shop\nartifacts: [{name: shop, type: deb, reference: shop, vmOptions: {baseLabel: RELEASE, baseOs: jammy, regions: [eu], storeType: EBS}}, {name: shop/web, type: docker, reference: shop/web, tagVersionStrategy: branch-job-commit-by-job}]\nenvironments:\n- name: test\n  constraints: [{type: manual-judgement}]\n  notifications: []\n  postDeploy: []\n  verifyWith: []\n  resources: [{kind: ec2/cluster@v1.1, metadata: {}, spec: {moniker: {app: shop}, artifactReference: shop, locations: {account: test, regions: [{name: eu}]}}}]\n",
		"Kubernetes":        "name: demo\napplication: shop\nserviceAccount: shop@example.com\nartifacts: [{name: shop/web, type: docker, reference: web, tagVersionStrategy: semver-tag}]\nenvironments:\n- name: test\n  locations: {account: eu, regions: []}\n  resources: [{kind: k8s/resource@v1, spec: {container: {reference: web}, metadata: {application: shop}, template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: web}]}}}}}}]\n",
		"a chart in git":    "name: demo\napplication: shop\nserviceAccount: shop@example.com\nartifacts: [{type: git, reference: charts, tagVersionStrategy: semver-tag, repoName: charts, project: shop, gitType: github, secretRef: git-repo}]\nenvironments:\n- name: test\n  locations: {account: eu, regions: []}\n  resources: [{kind: k8s/helm@v1, spec: {artifactSpec: {ref: charts}, metadata: {application: shop}, template: {metadata: {name: proxy, namespace: flux-system}, spec: {releaseName: proxy, chart: {spec: {chart: proxy}}, interval: 1m}}}}]\n",
		"previews":          "name: shop\napplication: shop\nartifacts: [{type: docker, name: shop/web, reference: main, from: {branch: {name: main}}}]\nenvironments:\n- name: test\n  resources: [{kind: titus/cluster@v1, spec: {moniker: {app: shop}, container: {reference: main}}}]\npreviewEnvironments: [{branch: {name: feature/infra}, baseEnvironment: test}]\n",
		"nearly every word": whole,
	} {
		made := read(t, config)
		if got := shares(t, made); len(got) != 2 || got[0] < 90 || got[1] < 90 {
			t.Errorf("%s: %s; left out are %+v", name, made.Read[1], made.LeftOut)
		}
	}
}
