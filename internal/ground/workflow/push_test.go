package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const pushed = `workflow: v1
name: drain
inputs: {name: string}
machines:
  drain:
    initial: draining
    states:
      draining: {action: {tell: {url: "/drain?by=${inputs.name}"}, runs: at-least-once, leaves: drained}}
      asking: {action: {ask: {endpoint: pager, url: /}, runs: at-least-once}}
      drained: {end: success}
      failed: {end: failure, accepts: drained}
    transitions:
      - {from: draining, to: asking, on: done}
      - {from: asking, to: drained, on: done}
      - {from: [draining, asking], to: failed, on: failed}
`

func TestReadForPush(t *testing.T) {
	d, findings := ReadForPush("test.yaml", []byte(pushed))
	if d == nil || len(findings) > 0 {
		t.Fatalf("it is not read: %v", findings)
	}
	// A cancel would leave what no state accepts: a push has none.
	if report := d.Check(DefaultLimit); len(report.Findings) > 0 || !report.Complete {
		t.Errorf("it has findings: %v", report.Findings)
	}
	if uses := d.Endpoints(); len(uses) != 1 || uses[0].Name != "pager" || uses[0].Place != "drain/asking" {
		t.Errorf("endpoints %v", uses)
	}
	if top, _ := Read("test.yaml", []byte(strings.ReplaceAll(strings.ReplaceAll(pushed, `"/drain`, `"https://x/drain`), "{endpoint: pager, url: /}", "{url: 'https://x/'}"))); top == nil || top.Digest() == d.Digest() {
		t.Error("the same for a partition is not read, or has the same digest")
	}
}

// TestRefusedInPush: what has no place in a push is told with its line and with what to do instead.
func TestRefusedInPush(t *testing.T) {
	const tell = `{tell: {url: "/drain?by=${inputs.name}"}, runs: at-least-once, leaves: drained}`
	for name, c := range map[string]struct {
		old, new string
		line     int
		want     string
	}{
		"an edit":            {tell, `{edit: {document: d, field: /f, value: v}, runs: at-least-once, leaves: drained}`, 8, "edit has no place in a push"},
		"a task":             {tell, `{task: {asset: task/a}, runs: at-least-once, leaves: drained}`, 8, "let the asset depend on the task"},
		"a person":           {tell, `{person: {question: "?", roles: [approver]}}`, 8, "the addon Approval"},
		"a bare person":      {tell, `{person: {}}`, 8, "the addon Approval"},
		"facts":              {"inputs:", "facts: {a: {asset: b, when: 'true'}}\ninputs:", 3, "facts has no place"},
		"signals":            {"inputs:", "signals: [go]\ninputs:", 3, "signals has no place"},
		"a retreat":          {"failed: {end: failure", "failed: {retreat: true, end: failure", 11, "never cancelled"},
		"a cancel":           {"on: done}\n      - {from: asking", "on: done, when: '!cancelled'}\n      - {from: asking", 13, "reads cancelled"},
		"a host":             {`"/drain?by=${inputs.name}"`, "https://example.com/drain", 8, "does not begin with /"},
		"a way out":          {`"/drain?by=${inputs.name}"`, "/../other/drain", 8, "a part . or .."},
		"a way out, escaped": {`"/drain?by=${inputs.name}"`, "/%2E%2e/other", 8, "a part . or .."},
		"a key at the top":   {"{endpoint: pager", "{endpiont: pager", 9, "is endpoint meant?"},
	} {
		_, findings := ReadForPush("test.yaml", []byte(strings.Replace(pushed, c.old, c.new, 1)))
		if len(findings) == 0 || !slices.ContainsFunc(findings, func(f Finding) bool {
			return f.Line == c.line && strings.Contains(f.Message+"; "+f.Hint, c.want)
		}) {
			t.Errorf("%s: %v, want line %d: %s", name, findings, c.line, c.want)
		}
		// Of what has no place here, nothing is to be mended but that.
		if strings.Contains(fmt.Sprint(findings), "no roles") || strings.Contains(fmt.Sprint(findings), "how often it runs") {
			t.Errorf("%s: advice about what is refused: %v", name, findings)
		}
	}
	// A partition's workflow names no endpoint, and learns how the other kind is read.
	_, findings := Read("test.yaml", []byte(pushed))
	if text := fmt.Sprint(findings); !strings.Contains(text, "no key \"endpoint\"") || !strings.Contains(text, "--for-push") {
		t.Errorf("for a partition: %v", findings)
	}
}

func TestPathProblem(t *testing.T) {
	for path, fine := range map[string]bool{
		"/": true, "/a": true, "/a/b?c=d/../e": true, "/...": true, "/a%20b": true,
		"": false, "a": false, "/..": false, "/a/./b": false, "/a/%2e%2E/b": false, "/a%2fb": false, "/a%5Cb": false, "/a b": false, "/a#b": false, `/a\b`: false, "/a\nb": false,
	} {
		if problem := PathProblem(path); (problem == "") != fine {
			t.Errorf("%q: %q", path, problem)
		}
	}
}

func TestInputsOfPush(t *testing.T) {
	d, _ := ReadForPush("test.yaml", []byte(pushed))
	if _, err := d.CheckInputs(nil); err == nil || !strings.Contains(fmt.Sprintf("%+v", err), "needs input name") {
		t.Errorf("without it: %v", err)
	}
	inputs, err := d.CheckInputs(map[string]string{"name": "s1"})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := d.FillInputs("to ${inputs.name}", inputs); text != "to s1" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := d.FillInputs("${inputs.nmae}", inputs); err == nil {
		t.Error("a placeholder of nothing is filled")
	}
}
