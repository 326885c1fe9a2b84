package keel

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/validate"
)

// whole has each word of the format that this package knows.
const whole = `application: shop
serviceAccount: shop@example.com
artifacts:
- {type: docker, name: shop/web, reference: web, tagVersionStrategy: branch-job-commit-by-job}
- {type: deb, name: shop-api, statuses: [RELEASE, FINAL], vmOptions: {baseOs: bionic, regions: [us-west-2]}}
- {type: docker, name: shop/jobs, from: {branch: {name: main}}}
environments:
- name: test
  locations: {account: test, regions: [{name: us-west-2}]}
  resources:
  - {kind: titus/cluster@v1, spec: {moniker: {app: shop, stack: test}, container: {reference: web}, env: {API_TOKEN: hunter2hunter2x}}}
  - {kind: ec2/cluster@v1.1, spec: {moniker: {app: shop, stack: test}, artifactReference: shop-api}}
  - {kind: titus/cluster@v1, spec: {moniker: {app: shop, stack: jobs}, container: {reference: shop/jobs}}}
  verifyWith:
  - {type: test-container, image: "shop/tests:stable"}
  - {type: test-container, image: "shop/load:stable"}
  postDeploy: [{type: tag-ami}]
  notifications: [{type: slack, address: "#shop"}]
- name: prod
  constraints:
  - {type: manual-judgement, timeout: PT24H}
  - {type: pipeline, pipelineId: 7a1e, retries: 1, timeout: PT2H, parameters: {size: small}}
  - {type: depends-on, environment: test}
  - type: allowed-times
    windows: [{days: "mon-wed,fri", hours: 22-2}]
    tz: Europe/London
    maxDeploysPerWindow: 2
  resources:
  - {kind: titus/cluster@v1, spec: {moniker: {app: shop, stack: prod}, container: {reference: web}, deployWith: {strategy: red-black, rollbackOnFailure: true}}}
previewEnvironments: [{branch: {startsWith: feature/}, baseEnvironment: test}]
`

func TestWhatAConfigSays(t *testing.T) {
	made, err := Read("shop.yml", []byte(whole))
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
	places := map[string]int{}
	for _, spec := range d.Policy.GetDeliveries() {
		if _, err := promotion.New(spec); err != nil {
			t.Errorf("%s: %v", spec.GetName(), err)
		}
		places[spec.GetName()] = len(spec.GetEnvironments())
	}
	if len(places) != 3 || places["web"] != 3 || places["shop-api"] != 2 || places["shop-jobs"] != 2 {
		t.Errorf("%v", places)
	}
	for _, text := range []string{
		"Mon,Tue,Wed,Fri 22:00-24:00", "Mon,Tue,Wed,Fri 00:00-02:00", "at_most: 2", "judgement: 1",
		`match: master-h(\d+).*`, "by: debian", "by: created", "branch: main",
	} {
		if !strings.Contains(made.Definition, text) {
			t.Errorf("%q is not in\n%s", text, made.Definition)
		}
	}
	head, _, _ := strings.Cut(made.Definition, "manual-judgement:")
	if !strings.Contains(head, "depends_on:") {
		t.Error("people are asked before the environment that is depended on has the version")
	}
	for name, text := range made.Files {
		if strings.Contains(string(text), "hunter2") {
			t.Errorf("%s has a secret", name)
		}
	}
	listed := ""
	for _, left := range made.LeftOut {
		listed += left.What + "\n"
	}
	for _, text := range []string{
		"shop.yml:11: a value of the spec", "shop.yml:21: manual-judgement: timeout",
	} {
		if !strings.Contains(listed, text) {
			t.Errorf("%q is not listed in\n%s", text, listed)
		}
	}
	if len(made.LeftOut) != 2 {
		t.Errorf("left out are\n%s", listed)
	}
	// The page says these figures.
	if !strings.Contains(made.Read[1], "(96 %)") || !strings.Contains(made.Read[1], "(95 %)") {
		t.Error(made.Read)
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	cluster := func(name string) string {
		return "\n  resources: [{kind: titus/cluster@v1, spec: {moniker: {app: a, stack: " + name + "}, container: {reference: web}}}]"
	}
	const head = "application: a\nartifacts: [{type: docker, name: web, tagVersionStrategy: semver-tag}]\nenvironments:\n"
	for name, sample := range map[string]struct{ text, want string }{
		"not YAML":             {"a: [", "f.yml is not YAML"},
		"no mapping":           {"- a", "it is no mapping"},
		"empty":                {"", "it is no mapping"},
		"random":               {"\x00\xff\x17", "f.yml is not YAML"},
		"no artifacts":         {"application: a", "has artifacts and environments"},
		"an alias":             {"application: &a b\nname: *a", "f.yml:2: an alias"},
		"an unknown artifact":  {head + "- name: test\n  resources: [{kind: k, spec: {container: {reference: wob}}}]", `f.yml:5: the resource k names the artifact "wob"`},
		"an unknown type":      {"artifacts: [{type: rpm, name: web}]\nenvironments: []", `the type "rpm"`},
		"a dangling name":      {head + "- name: prod\n  constraints: [{type: depends-on, environment: tets}]" + cluster("prod"), `f.yml:5: prod depends on the environment "tets"`},
		"a circle":             {head + "- name: a\n  constraints: [{type: depends-on, environment: b}]" + cluster("a") + "\n- name: b\n  constraints: [{type: depends-on, environment: a}]" + cluster("b"), "f.yml:8: b depends on a, which waits for it: a circle"},
		"itself":               {head + "- name: a\n  constraints: [{type: depends-on, environment: a}]" + cluster("a"), "a depends on a, which waits for it"},
		"no such day":          {head + "- name: a\n  constraints: [{type: allowed-times, windows: [{days: mun, hours: 9-17}]}]" + cluster("a"), `f.yml:5: "mun" names no days`},
		"no such hour":         {head + "- name: a\n  constraints: [{type: allowed-times, windows: [{hours: 9-47}]}]" + cluster("a"), `"9-47" names no hours`},
		"two of a name":        {head + "- name: a" + cluster("a") + "\n- name: A" + cluster("a"), `another environment has the name "A"`},
		"a key twice":          {head + "- name: a\n  name: b" + cluster("a"), `f.yml:5: the environment has the key "name" twice`},
		"several branches":     {"artifacts: [{type: docker, name: web, from: {branch: {name: a, regex: .*}}}]\nenvironments: []", "one of name, startsWith and regex"},
		"a pattern":            {"artifacts: [{type: docker, name: web, from: {branch: {regex: (}}}]\nenvironments: []", "is no regular expression"},
		"requests, a word":     {"artifacts: [{type: docker, name: web, from: {pullRequestOnly: maybe}}]\nenvironments: []", "pullRequestOnly is true or false"},
		"another format":       {"apiVersion: v1\n" + head + "- name: a" + cluster("a"), `f.yml:1: the apiVersion "v1" is not that of a delivery config`},
		"a name that is none":  {"name: \"###\"\n" + head + "- name: a" + cluster("a"), `the name "###" is none that a partition can have`},
		"an old kind":          {head + "- name: a\n  resources: [{apiVersion: apps/v1, kind: cluster, spec: {moniker: {app: a}}}]", `the apiVersion "apps/v1" and the kind "cluster"`},
		"a repository":         {"artifacts: [{type: git, reference: web, gitType: svn, project: a, repoName: b}]\nenvironments: []", "nothing says where its tags are"},
		"no pipeline":          {head + "- name: a\n  constraints: [{type: pipeline}]" + cluster("a"), "f.yml:5: the pipeline has no pipelineId"},
		"a pipeline's time":    {head + "- name: a\n  constraints: [{type: pipeline, pipelineId: x, timeout: 2h}]" + cluster("a"), `"2h" is no duration as PT30M`},
		"a region":             {head + "- name: a\n  locations: {regions: [a, b]}\n  resources: [{kind: k, spec: {container: {reference: web}, deployWith: {stagger: [{region: c, hours: 9-17}]}}}]", `stagger names the region "c"`},
		"a region's hours":     {head + "- name: a\n  locations: {regions: [a, b]}\n  resources: [{kind: k, spec: {container: {reference: web}, deployWith: {stagger: [{region: b, hours: 9-47}]}}}]", `"9-47" names no hours`},
		"a region's pause":     {head + "- name: a\n  locations: {regions: [a, b]}\n  resources: [{kind: k, spec: {container: {reference: web}, deployWith: {stagger: [{region: b, pauseTime: P99D}]}}}]", `"P99D" is longer than 30 days`},
		"two after it":         {head + "- name: a\n  postDeploy: [{type: tag-ami}, {type: tag-ami}]" + cluster("a"), "does tag-ami twice"},
		"a name after it":      {head + "- name: a\n  postDeploy: [{type: tag-ami}]" + cluster("a") + "\n- name: a-post-deploy" + cluster("b"), "which there is already"},
		"a preview of nothing": {head + "- name: a" + cluster("a") + "\npreviewEnvironments: [{branch: {name: x}, baseEnvironment: b}]", `f.yml:6: a preview is of the environment "b"`},
		"two artifacts":        {"application: a\nartifacts: [{type: npm, name: x}, {type: npm, name: y}]\nenvironments:\n- name: a\n  resources: [{kind: k, spec: {container: {references: [x, y]}}}]", "has several artifacts"},
		"constraints, a text":  {head + "- name: a\n  constraints: none" + cluster("a"), "f.yml:5: constraints is no list"},
		"two of a constraint":  {head + "- name: a\n  constraints: [{type: manual-judgement}, {type: manual-judgement}]" + cluster("a"), "two constraints of the type manual-judgement"},
		"an unknown strategy":  {"artifacts: [{type: docker, name: web, tagVersionStrategy: newest}]\nenvironments: []", `the tagVersionStrategy "newest"`},
		"an artifact not here": {head + "- name: t\n- name: p\n  constraints: [{type: depends-on, environment: t}]" + cluster("p"), `p depends on t, where no resource has the artifact "web"`},
	} {
		_, err := Read("f.yml", []byte(sample.text))
		if err == nil || !strings.Contains(err.Error(), sample.want) || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatKeelDoesNotKnow: an unknown key is listed, and an unknown constraint holds.
func TestWhatKeelDoesNotKnow(t *testing.T) {
	made, err := Read("f.yml", []byte(`application: a
artifacts: [{type: npm, name: web}]
environments:
- name: test
  constriants: []
  constraints: [{type: audit-office, level: 3}]
  resources: [{kind: k, spec: {artifactReference: web}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(made.LeftOut) != 2 || made.LeftOut[0].What != "f.yml:5: the environment: constriants" || !made.LeftOut[0].Wrong ||
		made.LeftOut[1].What != "f.yml:6: the constraint audit-office" {
		t.Errorf("%+v", made.LeftOut)
	}
	if !strings.Contains(made.Definition, "audit-office:\n            verdict: outside") {
		t.Error(made.Definition)
	}
}

// TestAnyValueAnywhere: whatever stands in the place of a value, the config is refused as
// invalid, or becomes a definition that can be read.
func TestAnyValueAnywhere(t *testing.T) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(whole), &root); err != nil {
		t.Fatal(err)
	}
	var nodes []*yaml.Node
	var collect func(node *yaml.Node)
	collect = func(node *yaml.Node) {
		nodes = append(nodes, node)
		for _, child := range node.Content {
			collect(child)
		}
	}
	collect(root.Content[0])
	odds := []string{".nan", "{name: {name: [1]}}"}
	if !testing.Short() {
		odds = append(odds, "null", "[]", "{a: 1, a: 2}", "\"\\0é/ ~\"")
	}
	imported, refused, seen := 0, 0, map[string]bool{}
	builtin := schema.Builtin()
	for _, odd := range odds {
		var value yaml.Node
		if err := yaml.Unmarshal([]byte(odd), &value); err != nil {
			t.Fatal(err)
		}
		for _, node := range nodes {
			kept := *node
			*node = *value.Content[0]
			text, err := yaml.Marshal(&root)
			*node = kept
			if err != nil {
				continue // It is no value that YAML can write here.
			}
			made, err := Read("f.yml", text)
			if err != nil {
				refused++
				if !fault.Is(err, fault.Invalid) {
					t.Errorf("%v of\n%s", err, text)
				}
				continue
			}
			imported++
			if seen[made.Definition] {
				continue
			}
			seen[made.Definition] = true
			if _, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\n"+made.Definition), builtin); len(findings) > 0 {
				t.Errorf("%s at line %d: %+v", odd, node.Line, findings[0])
			}
		}
	}
	if imported == 0 || refused == 0 {
		t.Errorf("%d are imported and %d refused", imported, refused)
	}
}
