package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// insiders are words that nobody needs to know who is on call.
var insiders = regexp.MustCompile(`(?i)\b(epoch|revision|effective|digest|lease|admission|admitted|permit|fencing|canonical|enforcer|verdict|sweep|in doubt|compare-and-set)\b`)

// TestSituations: twenty and more situations in which the root cause is some steps
// away. Each script says the root, the chain in its order, and what would end it; here
// it is seen that whoever reads the summary and the way out needs no insiders' words.
func TestSituations(t *testing.T) {
	scripts, err := filepath.Glob("testdata/why/*.txtar")
	if err != nil || len(scripts) < 20 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			story, err := play(t, string(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, story)
			}
			answers := toldIn(story)
			if len(answers) == 0 {
				t.Errorf("nothing was asked:\n%s", story)
			}
			for _, answer := range answers {
				if found := insiders.FindString(answer); found != "" {
					t.Errorf("%q is no word for whoever is on call: %s", found, answer)
				}
			}
		})
	}
}

// toldIn lists the summaries in a story, each with the way out below it.
func toldIn(story string) []string {
	asked := regexp.MustCompile(`(?m)^ *\S+  why.*\n((?: +\| \S.*\n)(?: +\|   \S.*\n)*)`)
	var answers []string
	for _, found := range asked.FindAllStringSubmatch(story, -1) {
		answers = append(answers, found[1])
	}
	return answers
}
