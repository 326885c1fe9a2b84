package branchpreview_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func commit(c string) string { return strings.Repeat(c, 40) }

func branchRule(atMost uint32) branchpreview.Rule {
	return branchpreview.New(&intentpb.PreviewRule{
		Name: "review", Before: "preview/", After: "/", Generator: "review", Source: "shop", Branches: []string{"feature/*"},
		Expires: durationpb.New(time.Hour), Every: durationpb.New(time.Minute), AtMost: atMost, Link: "https://{preview}.example.com",
	})
}

// apply is what the document has after a decision, by way of its bytes.
func apply(t interface{ Fatal(...any) }, entries branchpreview.Entries, d branchpreview.Decision) branchpreview.Entries {
	content, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	operations, err := branchpreview.Operations(d.Changes)
	if err != nil {
		t.Fatal(err)
	}
	if len(operations) == 0 {
		return entries
	}
	if content, err = document.Apply(content, operations); err != nil {
		t.Fatal(err)
	}
	next, err := branchpreview.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func kinds(d branchpreview.Decision) string {
	var list []string
	for _, c := range d.Changes {
		text := string(c.Kind) + " " + c.Name
		if c.Kind == branchpreview.Ended {
			text += " " + string(c.Entry.Ending.Cause)
		}
		list = append(list, text)
	}
	for _, w := range d.Waiting {
		list = append(list, "waiting "+w.Branch.Name+" "+string(w.Cause))
	}
	return strings.Join(list, "; ")
}

// TestLifeOfAPreview: it is made, renewed, ends with its branch, and is removed once nothing of it is
// left. A branch that comes back while it ends waits for another one.
func TestLifeOfAPreview(t *testing.T) {
	rule, entries, expired := branchRule(3), branchpreview.Entries{}, map[branchpreview.Key]string(nil)
	feature := func(c string) []branchpreview.Branch {
		return []branchpreview.Branch{{Name: "main", Commit: commit("0")}, {Name: "feature/Login_Form", Commit: commit(c)}}
	}
	main := feature("1")[:1]
	for i, step := range []struct {
		at     time.Duration
		listed []branchpreview.Branch
		silent bool
		gone   bool
		want   string
	}{
		{at: 0, silent: true, want: ""},
		{at: 0, listed: feature("1"), want: "made feature-login-form"},
		{at: time.Minute, listed: feature("1"), want: ""},
		{at: 50 * time.Minute, listed: feature("2"), want: "renewed feature-login-form"},
		{at: 65 * time.Minute, listed: feature("2"), want: ""},
		{at: 3 * time.Hour, silent: true, want: ""},
		{at: 3 * time.Hour, listed: feature("2"), want: "ended feature-login-form expired; waiting feature/Login_Form ending"},
		{at: 4 * time.Hour, listed: feature("2"), gone: true, want: "removed feature-login-form; waiting feature/Login_Form expired"},
		{at: 5 * time.Hour, listed: feature("2"), want: "waiting feature/Login_Form expired"},
		{at: 5 * time.Hour, listed: feature("3"), want: "made feature-login-form"},
		{at: 5 * time.Hour, silent: true, want: ""},
		{at: 5 * time.Hour, listed: main, want: "ended feature-login-form branch-gone"},
		{at: 5 * time.Hour, listed: feature("4"), want: "waiting feature/Login_Form ending"},
		{at: 5 * time.Hour, silent: true, gone: true, want: "removed feature-login-form"},
		{at: 5 * time.Hour, listed: feature("4"), want: "made feature-login-form"},
	} {
		d := branchpreview.Decide(branchpreview.Facts{
			Rule: rule, Now: noon.Add(step.at), Entries: entries, Listed: step.listed, IsListed: !step.silent,
			Gone: map[string]bool{"feature-login-form": step.gone}, Expired: expired,
		})
		if got := kinds(d); got != step.want {
			t.Fatalf("step %d: %q, want %q", i, got, step.want)
		}
		entries, expired = apply(t, entries, d), d.Expired
	}
	if e := entries["feature-login-form"]; e.URL != "https://feature-login-form.example.com" || e.Commit != commit("4") {
		t.Errorf("%+v", e)
	}
}

// TestWhatWaits: what has no preview is listed with why.
func TestWhatWaits(t *testing.T) {
	rule := branchRule(2)
	branch := func(name string) branchpreview.Branch {
		return branchpreview.Branch{Name: name, Commit: commit("a")}
	}
	d := branchpreview.Decide(branchpreview.Facts{Rule: rule, Now: noon, IsListed: true, Listed: []branchpreview.Branch{
		branch("feature/d"), branch("feature/a"), branch("feature/b"), branch("feature/c"), {Name: "feature/0", Commit: commit("a"), Fork: true}, {Name: "feature/1"}, branch("other"),
	}, Occupied: func(name string) (intent.AssetID, bool) { return "preview/feature-b/db", name == "feature-b" }})
	want := "made feature-a; made feature-c; waiting feature/0 fork; waiting feature/1 no-commit; waiting feature/b occupied; waiting feature/d at-most"
	if got := kinds(d); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	requests := branchRule(9)
	requests.Source = ""
	d = branchpreview.Decide(branchpreview.Facts{Rule: requests, Now: noon, IsListed: true, Listed: []branchpreview.Branch{
		{Name: "x", Commit: commit("a"), PullRequest: 12, Link: "https://hub/12"}, {Name: "x", Commit: commit("a"), PullRequest: 7},
	}})
	if got := kinds(d); got != "made pr-7; made pr-12" {
		t.Error(got)
	}
	entries := apply(t, branchpreview.Entries{}, d)
	d = branchpreview.Decide(branchpreview.Facts{Rule: requests, Now: noon, Entries: entries, IsListed: true, Listed: []branchpreview.Branch{{Name: "renamed", Commit: commit("a"), PullRequest: 12}}})
	if got := kinds(d); got != "ended pr-7 pull-request-closed" {
		t.Error(got)
	}
}

// TestNamesOfBranches: they are safe, and two branches whose safe names are alike have two.
func TestNamesOfBranches(t *testing.T) {
	rule := branchRule(100)
	rule.Branches = []string{"**"}
	listed := []branchpreview.Branch{}
	for _, name := range []string{"a/b", "a-b", "A_b", "ü", "--", strings.Repeat("long/", 20), "42"} {
		listed = append(listed, branchpreview.Branch{Name: name, Commit: commit("a")})
	}
	d := branchpreview.Decide(branchpreview.Facts{Rule: rule, Now: noon, IsListed: true, Listed: listed})
	names := map[string]string{}
	for _, c := range d.Changes {
		if err := branchpreview.CheckName(c.Name); err != nil || names[c.Name] != "" {
			t.Errorf("%q of %q: %v, also of %q", c.Name, c.Entry.Branch, err, names[c.Name])
		}
		names[c.Name] = c.Entry.Branch
	}
	if len(names) != len(listed) || names["42"] != "42" || names["a-b"] == "" {
		t.Errorf("%v; %v", names, d.Waiting)
	}
}

// TestRulesNameWhatAPreviewMade: by the prefix, the whole of the name, and what follows it.
func TestRulesNameWhatAPreviewMade(t *testing.T) {
	open := branchRule(1)
	whole := branchpreview.New(&intentpb.PreviewRule{Name: "w", Before: "web-", Whole: true, Generator: "g"})
	for _, c := range []struct {
		rule branchpreview.Rule
		id   intent.AssetID
		want string
	}{
		{open, "preview/pr-7/web", "pr-7"}, {open, "preview/pr-7/web/x", "pr-7"}, {open, "preview/pr-7/", ""}, {open, "preview/pr-7", ""},
		{open, "preview/Shared/web", ""}, {open, "preview/pr-7_x/web", ""}, {open, "other/pr-7/web", ""}, {open, "preview/-x/web", ""}, {open, "preview//web", ""},
		{open, intent.AssetID("preview/" + strings.Repeat("a", 41) + "/web"), ""},
		{whole, "web-pr-7", "pr-7"}, {whole, "web-pr-7/x", ""}, {whole, "web-", ""},
	} {
		got, ok := c.rule.NameOf(c.id)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: %q, %t, want %q", c.id, got, ok, c.want)
		}
	}
}

// TestApprovalIsOfTheVeryPreview: the rule approves what its Turndown names, of that preview alone,
// and another rule is no approval of it.
func TestApprovalIsOfTheVeryPreview(t *testing.T) {
	rule := branchRule(3)
	policy := &intentpb.Policy{Previews: []*intentpb.PreviewRule{rule.PreviewRule}}
	removal := rule.Removal("pr-7")
	if got, ok := branchpreview.Approval(policy, "preview/pr-7/web", removal); !ok || got.Preview != "pr-7" || got.Rule != "review" {
		t.Errorf("%+v, %t", got, ok)
	}
	for name, id := range map[string]intent.AssetID{"another preview's": "preview/pr-8/web", "what no preview made": "web", "what is named like it": "preview/pr-7_old/web"} {
		if _, ok := branchpreview.Approval(policy, id, removal); ok {
			t.Errorf("it approves %s", name)
		}
	}
	if _, ok := branchpreview.Approval(policy, "preview/pr-7/web", nil); ok {
		t.Error("it approves what no rule asked for")
	}
	for name, change := range map[string]func(*intentpb.PreviewRule){
		"name": func(r *intentpb.PreviewRule) { r.Name = "other" }, "before": func(r *intentpb.PreviewRule) { r.Before = "previe" },
		"after": func(r *intentpb.PreviewRule) { r.After = "" }, "whole": func(r *intentpb.PreviewRule) { r.Whole = true },
		"generator": func(r *intentpb.PreviewRule) { r.Generator = "other" },
	} {
		changed := branchRule(3)
		change(changed.PreviewRule)
		if _, ok := branchpreview.Approval(&intentpb.Policy{Previews: []*intentpb.PreviewRule{changed.PreviewRule}}, "preview/pr-7/web", removal); ok {
			t.Errorf("with another %s it still approves", name)
		}
	}
	fewer := branchRule(1)
	if fewer.Digest != rule.Digest {
		t.Error("a rule that allows fewer is another approval: a removal under way would wait for people")
	}
}

func TestPatterns(t *testing.T) {
	for pattern, want := range map[string]string{"feature/*": "feature/a", "**": "feature/a feature/a/b main", "*": "main", "feature/**": "feature/a feature/a/b", "*/a*": "feature/a"} {
		rule := branchRule(1)
		rule.Branches = []string{pattern}
		var got []string
		for _, branch := range []string{"feature/a", "feature/a/b", "main"} {
			if rule.Matches(branch) {
				got = append(got, branch)
			}
		}
		if strings.Join(got, " ") != want || branchpreview.CheckPattern(pattern) != nil {
			t.Errorf("%s matches %v, want %s", pattern, got, want)
		}
	}
	for _, pattern := range []string{"", "a[b", "a b", "/", "*/", "a?", "a\\b"} {
		if branchpreview.CheckPattern(pattern) == nil {
			t.Errorf("%q is a pattern", pattern)
		}
	}
}

// TestDamagedDocuments: nothing of a document counts that is damaged.
func TestDamagedDocuments(t *testing.T) {
	good := `"branch": "b", "commit": "c", "created_at": "2026-11-30T12:00:00Z", "expires_at": "2026-11-30T13:00:00Z"`
	if entries, err := branchpreview.Parse([]byte(`{"a": {` + good + `}}`)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, content := range []string{``, `[]`, `{"a": 1}`, `{"a": {}}`, `{"A": {` + good + `}}`, `{"a": {` + good + `, "more": 1}}`, `{"a": {` + good + `, "ending": {"cause": "x"}}}`} {
		if _, err := branchpreview.Parse([]byte(content)); err == nil {
			t.Errorf("%s is read", content)
		}
	}
}

// TestNothingEndsByWhatIsMissing: whatever is listed, and whenever nobody answers: an entry ends only
// by a complete list, ends for good, and is removed only when nothing of it is there; there are never
// more than the rule allows; and all that is listed and matches has a preview or waits.
func TestNothingEndsByWhatIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atMost := rapid.Uint32Range(1, 4).Draw(t, "at most")
		rule, entries, expired, now := branchRule(atMost), branchpreview.Entries{}, map[branchpreview.Key]string(nil), noon
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "minutes")) * time.Minute)
			f := branchpreview.Facts{Rule: rule, Now: now, Entries: entries, IsListed: rapid.Bool().Draw(t, "answers"), Gone: map[string]bool{}, Expired: expired}
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"feature/a", "feature/A", "feature/b", "feature/c", "other", "feature/d"}), func(s string) string { return s }).Draw(t, "listed") {
				f.Listed = append(f.Listed, branchpreview.Branch{Name: name, Commit: commit(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "commit"))})
			}
			for name := range entries {
				f.Gone[name] = rapid.Bool().Draw(t, "gone")
			}
			d := branchpreview.Decide(f)
			next := apply(t, entries, d)
			for name, before := range entries {
				after, ok := next[name]
				removed := slices.ContainsFunc(d.Changes, func(c branchpreview.Change) bool { return c.Name == name && c.Kind == branchpreview.Removed })
				switch {
				case removed && (before.Ending == nil || !f.Gone[name]):
					t.Fatalf("%s is removed: %+v, gone %t", name, before, f.Gone[name])
				case !removed && !ok:
					t.Fatalf("%s is lost", name)
				case !removed && before.Ending != nil && (after.Ending == nil || *after.Ending != *before.Ending):
					t.Fatalf("%s ended, and now: %+v", name, after)
				case before.Ending == nil && after.Ending != nil && !f.IsListed:
					t.Fatalf("%s ends, and nobody answered", name)
				}
				if before.Ending == nil && after.Ending != nil {
					at := slices.IndexFunc(f.Listed, func(b branchpreview.Branch) bool { return b.Name == before.Branch })
					if at >= 0 && (f.Listed[at].Commit != before.Commit || now.Before(before.Expires)) {
						t.Fatalf("%s ends, and its branch is listed: %+v", name, f.Listed[at])
					}
				}
			}
			if len(next) > max(int(atMost), len(entries)) {
				t.Fatalf("there are %d", len(next))
			}
			seen := map[branchpreview.Key]bool{}
			for name, e := range next {
				if seen[e.Key()] {
					t.Fatalf("%s has two previews", e.Branch)
				}
				seen[e.Key()] = true
				if err := branchpreview.CheckName(name); err != nil {
					t.Fatal(err)
				}
			}
			if f.IsListed {
				for _, b := range f.Listed {
					waits := slices.ContainsFunc(d.Waiting, func(w branchpreview.Waiting) bool { return w.Branch == b })
					if rule.Matches(b.Name) && !waits && !seen[b.Key()] {
						t.Fatalf("%s has no preview, and does not wait", b.Name)
					}
				}
			}
			entries, expired = next, d.Expired
		}
	})
}

// TestAThousandBranches: the limit holds, and the others wait.
func TestAThousandBranches(t *testing.T) {
	listed := make([]branchpreview.Branch, 1000)
	for i := range listed {
		listed[i] = branchpreview.Branch{Name: fmt.Sprintf("feature/%d", i), Commit: commit("b")}
	}
	d := branchpreview.Decide(branchpreview.Facts{Rule: branchRule(20), Now: noon, IsListed: true, Listed: listed})
	if len(d.Changes) != 20 || len(d.Waiting) != 980 {
		t.Errorf("%d changes, %d wait", len(d.Changes), len(d.Waiting))
	}
}
