package kargo

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// head is a Warehouse; Stages follow in the tests.
const head = `apiVersion: kargo.akuity.io/v1alpha1
kind: Warehouse
metadata: {name: web, namespace: shop}
spec: {subscriptions: [{image: {repoURL: r.example.com/web}}]}
`

// stageText is a Stage with a requested freight and steps.
func stageText(name, request, steps string) string {
	return "---\napiVersion: kargo.akuity.io/v1alpha1\nkind: Stage\nmetadata: {name: " + name + ", namespace: shop}\nspec:\n  requestedFreight: [" + request + "]\n  promotionTemplate: {spec: {steps: [" + steps + "]}}\n"
}

const (
	direct = "{origin: {kind: Warehouse, name: web}, sources: {direct: true}}"
	sync   = "{uses: argocd-update, config: {apps: [{name: a}]}}"
)

func from(stages string) string {
	return "{origin: {kind: Warehouse, name: web}, sources: {stages: [" + stages + "]}}"
}

func TestProjectsThatAreRefused(t *testing.T) {
	for name, sample := range map[string]struct{ text, want string }{
		"not YAML":              {"a: [", "f.yaml is not YAML"},
		"random":                {"\x00\xff\x17", "f.yaml is not YAML"},
		"empty":                 {"", "there is no Stage of Kargo"},
		"another's":             {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", "there is no Stage of Kargo"},
		"an alias":              {"kind: &a Stage\nname: *a", "f.yaml:2: an alias"},
		"no such Warehouse":     {head + stageText("test", strings.Replace(direct, "web", "wob", 1), sync), `f.yaml:10: the Stage test requests freight of the Warehouse "wob"`},
		"no such Stage":         {head + stageText("test", from("tset"), sync), `f.yaml:10: the Stage test takes freight from the Stage "tset"`},
		"a circle":              {head + stageText("a", from("b"), sync) + stageText("b", from("a"), sync), "f.yaml:17: the Stage b takes freight from a, which waits for it: a circle"},
		"itself":                {head + stageText("a", from("a"), sync), "the Stage a takes freight from a, which waits for it"},
		"two of a name":         {head + stageText("a", direct, sync) + stageText("a", direct, sync), "there are two of the kind Stage with the name a"},
		"two written alike":     {head + stageText("a.b", direct, sync) + stageText("a-b", direct, sync), "the Stages a.b and a-b would be one environment"},
		"two projects":          {head + strings.Replace(stageText("a", direct, sync), "namespace: shop", "namespace: mail", 1), "is of the project mail, and others are of shop"},
		"neither":               {head + stageText("a", "{origin: {kind: Warehouse, name: web}, sources: {}}", sync), "no version would ever come"},
		"another's freight":     {head + "---\n" + strings.ReplaceAll(strings.Replace(head, "name: web,", "name: api,", 1), "example.com/web", "example.com/api") + stageText("a", strings.Replace(direct, "web", "api", 1), sync) + stageText("b", from("a"), sync), "takes freight of web from a, which does not request it"},
		"no such task":          {head + stageText("a", direct, "{task: {name: promote}}"), `f.yaml:11: the Stage a uses the PromotionTask "promote", which is not in what was read`},
		"an unknown condition":  {head + stageText("a", direct, `{uses: git-open-pr, if: "${{ now() > vars.then }}"}`), "whether the step git-open-pr runs in the Stage a cannot be said"},
		"an open expression":    {head + stageText("a", direct, `{uses: git-open-pr, if: "${{ vars.a"}`), "cannot be said: ${{ without }}"},
		"another image":         {head + stageText("a", direct, "{uses: kustomize-set-image, config: {path: a, images: [{image: b}]}}"), "sets the image b, which no Warehouse"},
		"NUL":                   {"kind: \"\\0\"", "f.yaml:1: a text has the character NUL"},
		"an index of charts":    {strings.Replace(head, "image: {repoURL: r", "chart: {repoURL: \"https://r\"}}, {image: {repoURL: r", 1) + stageText("a", direct, sync), "has no name, or no address"},
		"no image":              {strings.Replace(head, "r.example.com/web", "\"a b\"", 1) + stageText("a", direct, sync), "is no repository of images"},
		"before 1.0":            {head + "---\napiVersion: kargo.akuity.io/v1alpha1\nkind: Stage\nmetadata: {name: a, namespace: shop}\nspec: {subscriptions: {warehouse: web}}\n", "written for Kargo before 1.0"},
		"an unknown strategy":   {strings.Replace(head, "r.example.com/web", "a, imageSelectionStrategy: Newest", 1) + stageText("a", direct, sync), `the strategy "Newest"`},
		"an unknown constraint": {strings.Replace(head, "r.example.com/web", "a, constraint: newest", 1) + stageText("a", direct, sync), "f.yaml:4: the constraint of a cannot be carried over"},
		"letters":               {strings.Replace(head, "r.example.com/web", "a, imageSelectionStrategy: Lexical", 1) + stageText("a", direct, sync), "the strategy Lexical of a"},
		"another kind":          {strings.Replace(head, "image:", "bucket:", 1) + stageText("a", direct, sync), `subscribes to "bucket"`},
		"soak in no steps":      {head + stageText("a", direct, "") + stageText("b", "{origin: {kind: Warehouse, name: web}, sources: {stages: [a], requiredSoakTime: 1h}}", sync), "has freight soak in a, which has no steps"},
		"no length of time":     {head + stageText("b", "{origin: {kind: Warehouse, name: web}, sources: {direct: true, requiredSoakTime: long}}", sync), `requiredSoakTime: "long" is no length of time`},
		"a key twice":           {head + stageText("a", direct+", "+direct, sync), "requests freight of the Warehouse web twice"},
		"a policy of all":       {head + stageText("a", direct, sync) + "---\napiVersion: kargo.akuity.io/v1alpha1\nkind: ProjectConfig\nmetadata: {name: shop}\nspec: {promotionPolicies: [{autoPromotionEnabled: true}]}\n", "selects no Stage"},
	} {
		_, err := Read([]File{{"f.yaml", []byte(sample.text)}}, nil)
		if err == nil || !strings.Contains(err.Error(), sample.want) || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatCannotBeWritten: what is not certain becomes a field of Lehr's own, and is listed.
func TestWhatCannotBeWritten(t *testing.T) {
	const clone = `{uses: git-clone, config: {repoURL: "https://h/r.git", checkout: [{branch: main, path: ./s}]}}`
	const push = `{uses: git-commit, config: {path: ./s}}, {uses: git-push, config: {path: ./s}}`
	for name, c := range map[string]struct{ step, what, why string }{
		"an unknown variable": {`{uses: yaml-update, config: {path: "./s/${{ vars.lost }}", updates: [{key: a, value: b}]}}`, "f.yaml:11: step yaml-update: path", "it is nothing in what was read"},
		"an unknown function": {`{uses: yaml-update, config: {path: ./s/a, updates: [{key: a, value: "${{ lost() }}"}]}}`, "step yaml-update: value", "unknown name lost"},
		"a secret":            {`{uses: yaml-update, config: {path: ./s/a, updates: [{key: a, value: "${{ secret('x').token }}"}]}}`, "step yaml-update: value", "it is nothing in what was read"},
		"more than it":        {`{uses: yaml-update, config: {path: ./s/a, updates: [{key: a, value: "web:${{ imageFrom('r.example.com/web').Tag }}"}]}}`, "step yaml-update of a", "more than the version"},
		"an unknown step":     {`{uses: kustomise-set-image, config: {a: b}}`, "step kustomise-set-image of a", "did you mean kustomize-set-image?"},
	} {
		made := read(t, strings.ReplaceAll(head+stageText("a", direct, clone+", "+c.step+", "+push), "shop.yaml", "f.yaml"), nil)
		found := false
		for _, left := range made.LeftOut {
			found = found || strings.Contains(strings.Replace(left.What, "shop.yaml", "f.yaml", 1), c.what) && strings.Contains(left.Why, c.why) && left.Wrong
		}
		if !found {
			t.Errorf("%s: %+v", name, made.LeftOut)
		}
		if got := environment(t, made, "web", "a"); !strings.Contains(got, "document: knobs") || !strings.Contains(got, "promotion: judgement: 1") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestPullRequestsThatLehrCannotOpen: where people merged what was rendered, a person decides.
func TestPullRequestsThatLehrCannotOpen(t *testing.T) {
	const policy = "---\napiVersion: kargo.akuity.io/v1alpha1\nkind: ProjectConfig\nmetadata: {name: shop}\nspec: {promotionPolicies: [{stageSelector: {name: a}, autoPromotionEnabled: true}]}\n"
	const steps = `{uses: git-clone, config: {repoURL: "https://h/r.git", checkout: [{branch: main, path: ./s}, {branch: out, path: ./o}]}}, {uses: git-clear, config: {path: ./o}},
    {uses: kustomize-set-image, config: {path: ./s, images: [{image: r.example.com/web}]}}, {uses: kustomize-build, config: {path: ./s, outPath: ./o}}, {uses: git-commit, config: {path: ./o}},
    {uses: git-push, as: push, config: {path: ./o, generateTargetBranch: true}}, {uses: git-open-pr, config: {repoURL: "https://h/r.git", sourceBranchFromStep: push, targetBranch: out}}`
	made := read(t, head+policy+stageText("a", direct, steps), nil)
	if got := environment(t, made, "web", "a"); !strings.Contains(got, "promotion: judgement: 1") || strings.Contains(got, "pull_request") {
		t.Error(got)
	}
	if steps := string(made.Files["stages.json"]); !strings.Contains(steps, "git-open-pr") || !strings.Contains(steps, "kustomize-build") {
		t.Error(steps)
	}
}

// TestAnyOfStages: one of several is enough, also through a Stage without steps.
func TestAnyOfStages(t *testing.T) {
	made := read(t, head+stageText("a", direct, sync)+stageText("b", direct, sync)+stageText("c", direct, sync)+stageText("both", from("a, b"), "")+stageText("p", from("both, c"), sync), nil)
	if got := environment(t, made, "web", "p"); !strings.Contains(got, "depends-on: any: true depends_on: - a - b - c promotion:") {
		t.Error(got)
	}
}

// TestAnyValueAnywhere: whatever stands in the place of a value, the project is refused as invalid,
// or becomes a definition that can be read.
func TestAnyValueAnywhere(t *testing.T) {
	var documents []*yaml.Node
	var nodes []*yaml.Node
	var collect func(node *yaml.Node)
	collect = func(node *yaml.Node) {
		nodes = append(nodes, node)
		for _, child := range node.Content {
			collect(child)
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(whole))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			break
		}
		documents = append(documents, &document)
		collect(document.Content[0])
	}
	odds := []string{"{name: {name: [1]}}"}
	if !testing.Short() {
		odds = append(odds, "null", ".nan", "\"é/ ~${{ vars }}\"")
	}
	imported, refused, seen, builtin := 0, 0, map[string]bool{}, schema.Builtin()
	for _, odd := range odds {
		var value yaml.Node
		if err := yaml.Unmarshal([]byte(odd), &value); err != nil {
			t.Fatal(err)
		}
		for i, node := range nodes {
			if testing.Short() && i%5 != 0 {
				continue
			}
			kept := *node
			*node = *value.Content[0]
			var text strings.Builder
			isText := true
			for _, document := range documents {
				part, err := yaml.Marshal(document)
				isText = isText && err == nil
				text.WriteString("---\n" + string(part))
			}
			*node = kept
			if !isText {
				continue // It is no value that YAML can write here.
			}
			made, err := Read([]File{{"f.yaml", []byte(text.String())}}, nil)
			if err != nil {
				refused++
				if !fault.Is(err, fault.Invalid) {
					t.Errorf("%v of\n%s", err, text.String())
				}
				continue
			}
			if imported++; seen[made.Definition] {
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
