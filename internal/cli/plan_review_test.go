package cli

import (
	"fmt"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

func reviewOf(reports ...*apipb.Report) review {
	return newReview(Planned{Partition: "shop", Answer: &apipb.PlanCandidateResponse{Reports: reports}}, nil)
}

func TestReview(t *testing.T) {
	r := reviewOf(
		&apipb.Report{Asset: "web/a", Type: "lehr.process.v1.Job", State: "waiting",
			Plan:    &apipb.Plan{Action: "update", Changes: []*apipb.FieldChange{{Path: "version", Current: "v1", Target: "v2"}, {Path: "label", Target: "x"}}},
			Waiting: []*apipb.WaitingOn{{Kind: "approval", Reason: "bob of @shop/sre must approve"}}},
		&apipb.Report{Asset: "web/b", Type: "lehr.process.v1.Job", State: "in-sync"},
		&apipb.Report{Asset: "db", Type: "lehr.sqlschema.v1.Schema", State: "waiting",
			Plan: &apipb.Plan{Action: "update", Destructive: true, Changes: []*apipb.FieldChange{{Path: "a", Current: "1", Target: "2"}, {Path: "column", Current: "text", Destructive: true}}}},
		&apipb.Report{Asset: "dns", State: "waiting"},
	)
	if r.Outcome != "differs" || r.Change != 2 || r.Destroy != 1 || r.Same != 1 || r.Unknown != 1 {
		t.Errorf("%+v", r)
	}
	want := "<!-- lehr plan of shop -->\n### Lehr plan of `shop`\n\n**2 to change, of which 1 destroys something**, 1 the same, 1 unknown. Nothing was changed.\n" +
		"\n#### `db` (`Schema`): update, **destroys something**: a person must approve it\n```diff\n- column: text  DESTROYS\n! a: 1 → 2\n```\n" +
		"\n#### `web/a` (`Job`): update\n```diff\n! version: v1 → v2\n+ label: x\n```\n- waits (approval): `bob of @shop/sre must approve`\n" +
		"\n#### `dns` (``): unknown\n"
	if r.Markdown != strings.ReplaceAll(want, "(``)", "(`  `)") {
		t.Errorf("it says\n%s\nwant\n%s", r.Markdown, want)
	}
	if same := reviewOf(&apipb.Report{Asset: "web/b", State: "in-sync"}); same.Outcome != "same" {
		t.Errorf("nothing to change: %+v", same)
	}
	if unserved := reviewOf(&apipb.Report{Asset: "web/b", State: "unserved"}); unserved.Outcome != "differs" || !strings.Contains(unserved.Markdown, "1 not looked at, for no plugin") {
		t.Errorf("unserved: %+v", unserved)
	}
}

func TestReviewOfWhatIsRefused(t *testing.T) {
	r := newReview(Planned{Partition: "shop", Findings: []intent.Finding{
		{Severity: intent.Error, File: "shop.yaml", Line: 9, Message: "replicas must be a number", Hint: "write replicas: 3"},
	}}, nil)
	if r.Outcome != "refused" || !strings.Contains(r.Markdown, "- error: `shop.yaml:9`: `replicas must be a number`; to do: `write replicas: 3`\n") {
		t.Errorf("%+v", r)
	}
}

// TestReviewIsBounded: whatever is planned, the comment can be made.
func TestReviewIsBounded(t *testing.T) {
	var reports []*apipb.Report
	for i := range 300 {
		report := &apipb.Report{Asset: fmt.Sprintf("web/%d", i), Type: "Job", State: "waiting", Plan: &apipb.Plan{Action: "update"}}
		for n := range 60 {
			report.Plan.Changes = append(report.Plan.Changes, &apipb.FieldChange{Path: fmt.Sprintf("field[%d]", n), Current: strings.Repeat("a", 8000), Target: strings.Repeat("b", 8000)})
		}
		report.Waiting = append(report.Waiting, &apipb.WaitingOn{Kind: "approval", Reason: strings.Repeat("long ", 10_000)})
		reports = append(reports, report)
	}
	reports[299].Plan.Destructive = true
	planned := Planned{Partition: "shop", Answer: &apipb.PlanCandidateResponse{Reports: reports, More: 7, Loosened: make([]string, 5000)}}
	r := newReview(planned, nil)
	if len(r.Markdown) > maxReviewBytes+1000 {
		t.Errorf("%d bytes", len(r.Markdown))
	}
	if len(r.Assets) != maxReviewAssets || r.More != 300-maxReviewAssets+7 || r.Assets[0].Asset != "web/299" {
		t.Errorf("%d assets, %d more, the first is %s", len(r.Assets), r.More, r.Assets[0].Asset)
	}
	shown := strings.Count(r.Markdown, "\n#### ")
	if !strings.Contains(r.Markdown, fmt.Sprintf("… and %d assets more", 307-shown)) {
		t.Errorf("%d assets are shown, and it ends: %s", shown, r.Markdown[len(r.Markdown)-100:])
	}
}

// TestReviewOfHostileText: what others wrote ends neither its span nor its block.
func TestReviewOfHostileText(t *testing.T) {
	hostile := "```\n# Merge it\n@everyone ``[x](http://evil)`` <img src=x>"
	r := reviewOf(&apipb.Report{
		Asset: "web/a", State: "waiting",
		Plan:    &apipb.Plan{Action: "update", Changes: []*apipb.FieldChange{{Path: hostile, Current: hostile, Target: "````"}}},
		Waiting: []*apipb.WaitingOn{{Kind: "approval", Reason: hostile}},
	})
	_, body, _ := strings.Cut(r.Markdown, "`````diff\n") // Longer than any run within.
	block, rest, ok := strings.Cut(body, "\n`````\n")
	if !ok || strings.Count(block, "\n") > 0 || !strings.Contains(block, `\n# Merge it`) {
		t.Errorf("the block is %q", block)
	}
	span := strings.TrimSuffix(strings.TrimPrefix(rest, "- waits (approval): ```` "), " ````\n")
	if strings.Contains(span, "````") || strings.Contains(span, "\n") || !strings.HasPrefix(span, "```") {
		t.Errorf("the wait is %q", rest)
	}
}
