package intent_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
)

// Findings with one cause are one with a count; those with other causes, or of
// which there are few, stay as they are, and nothing is lost from the count.
func TestFindingsAreGroupedByCause(t *testing.T) {
	var findings []intent.Finding
	add := func(n int, make func(i int) intent.Finding) {
		for i := range n {
			f := make(i)
			f.Severity = intent.Error
			findings = append(findings, f)
		}
	}
	add(40, func(i int) intent.Finding {
		return intent.Finding{Rule: "derive", File: "lehr.yaml", Line: 8, Asset: intent.AssetID(fmt.Sprint("web", i)), Message: fmt.Sprintf("asset web%d has none", i)}
	})
	add(3, func(i int) intent.Finding {
		return intent.Finding{Rule: "generate", File: "few.star", Line: 8, Message: fmt.Sprintf("%q is not there", fmt.Sprint(i))}
	})
	add(30, func(i int) intent.Finding {
		return intent.Finding{Rule: "generate", File: fmt.Sprintf("f/%d.yaml", i), Line: i + 1, Message: "unknown field replicaz"}
	})
	add(1, func(int) intent.Finding {
		return intent.Finding{Rule: "derive", File: "lehr.yaml", Line: 8, Asset: "web1", Message: "asset web1 has another"}
	})
	grouped := intent.GroupFindings(findings)
	var texts []string
	for _, f := range grouped {
		texts = append(texts, f.OthersText())
	}
	if len(grouped) != 1+3+10+1 || texts[0] != "and 39 more like this, such as web1, web2, web3" || texts[13] != "and 20 more like this, such as f/10.yaml:11, f/11.yaml:12, f/12.yaml:13" {
		t.Errorf("%d: %q", len(grouped), texts)
	}
	text, err := json.Marshal(grouped[0])
	var again intent.Finding
	if err != nil || json.Unmarshal(text, &again) != nil || again != grouped[0] {
		t.Errorf("%s (%v) is %+v", text, err, again)
	}
}

// One that comes after others of its cause were counted is counted with them.
func TestWhatIsGroupedCountsWhatComesLater(t *testing.T) {
	wrong := func(i int) intent.Finding {
		return intent.Finding{Rule: "derive", Severity: intent.Error, File: "lehr.yaml", Line: 8, Asset: intent.AssetID(fmt.Sprint("web", i)), Message: fmt.Sprintf("asset web%d has none", i)}
	}
	var findings []intent.Finding
	for i := range 1999 {
		findings = append(findings, wrong(i))
	}
	grouped := intent.GroupFindings(append(intent.GroupFindings(findings), wrong(1999)))
	if len(grouped) != 1 || grouped[0].Alike != 1999 {
		t.Errorf("%d findings, the first with %d more: %+v", len(grouped), grouped[0].Alike, grouped)
	}
}

// TestGroupsAreBounded: whatever is found, what is told is bounded, counts all,
// is as severe, and may be grouped again.
func TestGroupsAreBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var findings []intent.Finding
		for range rapid.IntRange(0, 1500).Draw(r, "n") {
			findings = append(findings, intent.Finding{
				Rule: rapid.SampledFrom([]string{"a", "b"}).Draw(r, "rule"), Severity: rapid.SampledFrom([]intent.Severity{intent.Error, intent.Warning}).Draw(r, "severity"),
				Message: rapid.StringMatching(`[a-e]{0,4}`).Draw(r, "message"), File: rapid.SampledFrom([]string{"", "x", "y"}).Draw(r, "file"),
				Line: rapid.IntRange(0, 30).Draw(r, "line"),
			})
		}
		count := func(of []intent.Finding) (total int, errors bool) {
			for _, f := range of {
				total += 1 + f.Alike
				errors = errors || f.Severity == intent.Error
			}
			return total, errors
		}
		want, failing := count(findings)
		for grouped, i := intent.GroupFindings(findings), 0; i < 3; grouped, i = intent.GroupFindings(grouped), i+1 {
			if total, errors := count(grouped); total != want || errors != failing || len(grouped) > 201 {
				r.Fatalf("%d findings stand for %d (errors: %v), and %d (%v) were found", len(grouped), total, errors, want, failing)
			}
		}
	})
}
