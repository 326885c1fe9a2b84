package scenario

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// accidents of a run, and digests, say nothing about the form.
var accidents = regexp.MustCompile(`"(?:20[0-9T:.-]+Z|[0-9a-f]{64})"`)

// TestWhyInJSONIsStable: programs read lehr why -o json, of an asset and of a group.
func TestWhyInJSONIsStable(t *testing.T) {
	const golden = "testdata/why.json"
	story, err := play(t, `start
until settled
hold job/a --reason "looking at a crash"
write intent.yaml two.yaml
until record/www waits order
tick 1m
lehr why record/www -o json
lehr why shop -o json
-- intent.yaml --
job/a: {version: v1, group: shop/a, owner: jobs}
record/www: {text: a, after: [job/a], group: shop/b}
-- two.yaml --
job/a: {version: v2, group: shop/a, owner: jobs}
record/www: {text: b, after: [job/a], group: shop/b}
`)
	if err != nil {
		t.Fatalf("%v\n%s", err, story)
	}
	var got strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^ +\| (.*)$`).FindAllStringSubmatch(story, -1) {
		if !strings.HasPrefix(line[1], "Holding") {
			got.WriteString(accidents.ReplaceAllString(line[1], `"…"`) + "\n")
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("it is not as in %s any more: add fields, change none, then run with -update\n%s", golden, got.String())
	}
}
