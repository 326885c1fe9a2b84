package prodspec_test

import (
	"os"
	"strings"
	"testing"
)

// The generator of docs/use/delivery-tasks.md makes the task that the page describes, and none before its first run.
func TestTheTaskOfThePageIsBuilt(t *testing.T) {
	page, err := os.ReadFile("../../docs/use/delivery-tasks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, ok := strings.Cut(string(page), "```python\n")
	sample, _, _ = strings.Cut(sample, "```")
	if !ok {
		t.Fatal("the page has no generator")
	}
	w := newWorld(t, "web")
	w.write("lehr.yaml", "lehr: v1\npartition: shop\nowner: a@example.com\nsources:\n  knobs: {dir: knobs, files: [knobs.json]}\ngenerate:\n  web: {starlark: page.star, from: [knobs]}\n")
	w.write("page.star", sample)
	w.write("knobs/knobs.json", `{"migrate": {"version": "1.3.0"}}`)
	if none := payloads(t, w.build(), "version"); len(none) != 0 {
		t.Errorf("before the first run there is %v", none)
	}
	w.write("knobs/knobs.json", `{"migrate": {"version": "1.4.0", "parameters": {"run": "1.4.0/1", "reason": "before it comes to production", "previous": "1.3.0"}}}`)
	built := w.build()
	if version := payloads(t, built, "version"); version["task/migrate"] != "1.4.0" {
		t.Errorf("%v", version)
	}
	if rerun := payloads(t, built, "rerun")["task/migrate"]; !strings.Contains(rerun, "1.4.0/1") || !strings.Contains(rerun, "before it comes to production") {
		t.Errorf("rerun is %s", rerun)
	}
	if command := payloads(t, built, "command")["task/migrate"]; !strings.Contains(command, "--from 1.3.0 --to 1.4.0") {
		t.Errorf("it runs %s", command)
	}
}
