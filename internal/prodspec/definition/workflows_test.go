package definition_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

const workflowHead = "lehr: v1\npartition: shop\nsources: {s: {files: a}}\ngenerate: {}\n"

func TestWorkflowsAreRead(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(workflowHead+"workflows:\n  promote: {file: promote.yaml}\n  drain:\n    file: ./flows/drain.yml\n"), schema.Builtin())
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if want := []definition.Workflow{{Name: "drain", File: "flows/drain.yml", Line: 7}, {Name: "promote", File: "promote.yaml", Line: 6}}; !slices.Equal(d.Workflows, want) {
		t.Errorf("workflows are %+v, want %+v", d.Workflows, want)
	}
	source := d.Workflows[0].Source()
	if name, ok := definition.WorkflowOf(source.Name); !ok || name != "drain" || !slices.Equal(source.Files, []string{"flows/drain.yml"}) {
		t.Errorf("its source is %+v", source)
	}
	if name, ok := definition.WorkflowOf("drain"); ok {
		t.Errorf("a source of the definition's own is the workflow %s", name)
	}
}

// TestWorkflowsOfThePageAreRead: the sample of docs/use/workflows.md is taken.
func TestWorkflowsOfThePageAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/use/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := 0
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		if !strings.HasPrefix(text, "# lehr.yaml\n") {
			continue
		}
		samples++
		d, findings := definition.Parse("lehr.yaml", []byte(workflowHead+text), schema.Builtin())
		if len(findings) > 0 || len(d.Workflows) == 0 {
			t.Errorf("%+v, %+v in\n%s", d.Workflows, findings, text)
		}
	}
	if samples != 1 {
		t.Errorf("%d samples", samples)
	}
}

// What is wrong is told at its place, with what to write.
func TestWorkflowsAreRefused(t *testing.T) {
	many := "workflows:\n"
	for i := range 51 {
		many += fmt.Sprintf("  w%d: {file: w%d.yaml}\n", i, i)
	}
	for text, want := range map[string]struct {
		line    int
		field   string
		message string
		hint    string
	}{
		"workflows: {promote: {files: promote.yaml}}":                  {5, "workflows.promote.files", "unknown field workflows.promote.files", "did you mean file?"},
		"workflow: {promote: {file: promote.yaml}}":                    {5, "workflow", "unknown field workflow", "did you mean workflows?"},
		"workflows: {promote: {}}":                                     {5, "workflows.promote.file", "workflows.promote.file is missing", "file: promote.yaml"},
		"workflows: {promote: promote.yaml}":                           {5, "workflows.promote", "must be a mapping", ""},
		"workflows:\n  Promote: {file: promote.yaml}":                  {6, "workflows.Promote", `"Promote" is not a name`, "use a-z"},
		"workflows: {promote: {file: ../promote.yaml}}":                {5, "workflows.promote.file", "not a .yaml file in this folder", "beside lehr.yaml"},
		"workflows: {promote: {file: /etc/promote.yaml}}":              {5, "workflows.promote.file", "not a .yaml file in this folder", "beside lehr.yaml"},
		"workflows: {promote: {file: promote.json}}":                   {5, "workflows.promote.file", "not a .yaml file in this folder", "beside lehr.yaml"},
		"workflows: {promote: {file: \"*.yaml\"}}":                     {5, "workflows.promote.file", "not a .yaml file in this folder", "beside lehr.yaml"},
		"workflows: {promote: {file: a.yaml, source: s}}":              {5, "workflows.promote.source", "unknown field", "allowed: file"},
		"workflows: {" + strings.Repeat("p", 64) + ": {file: a.yaml}}": {5, "workflows." + strings.Repeat("p", 64), "is not a name", "at most 63"},
		many: {6, "workflows", "51 workflows, at most 50", "several partitions"},
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(workflowHead+text+"\n"), schema.Builtin())
		if len(findings) != 1 {
			t.Errorf("%.80s: %+v", text, findings)
			continue
		}
		f := findings[0]
		if f.Line != want.line || f.Field != want.field || !strings.Contains(f.Message, want.message) || !strings.Contains(f.Hint, want.hint) {
			t.Errorf("%.80s: %+v, want %+v", text, f, want)
		}
	}
}
