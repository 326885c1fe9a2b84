package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// chain of three, with a branch, and words that a drawing must not take for its own.
func chain(at time.Time) *apipb.WhyResponse {
	return &apipb.WhyResponse{
		Subject: "asset", Asset: "web/a", State: "waiting",
		Reasons: []*apipb.Reason{
			{Kind: "order", Asset: "web/a", Text: "must come after db " + strings.Repeat("and many a word more ", 8), Causes: []*apipb.Reason{
				{Kind: "hold", Asset: "db", Text: `ann holds it: "<b>|#1 & more"`, Hint: "lehr unhold db", Owner: "ann", Responsible: "data", Until: timestamppb.New(at.Add(time.Hour))},
			}},
			{Kind: "pin", Asset: "web/a", Text: "pinned \x1b[31m"},
		},
	}
}

func drawing(draw func(*session)) string {
	var out bytes.Buffer
	at := time.Unix(1_700_000_000, 0)
	s := &session{Terminal: Terminal{Out: &out}, now: func() time.Time { return at }}
	draw(s)
	return out.String()
}

// TestGraphFitsATerminal: every line has its place in the tree, and fits into 80
// columns.
func TestGraphFitsATerminal(t *testing.T) {
	got := drawing(func(s *session) { s.printGraph(chain(time.Unix(1_700_000_000, 0))) })
	for line := range strings.Lines(got) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{
		"web/a: waiting\n├─ order: must come after db and many", "\n│  └─ db, hold: ann holds it", "(by ann; owner: data; ends in 1h00m)\n", "→ lehr unhold db\n",
		"\n└─ pin: pinned \\u001b[31m\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestMermaidTakesTextAsText: what people and plugins wrote is no part of the drawing.
func TestMermaidTakesTextAsText(t *testing.T) {
	got := drawing(func(s *session) { s.printMermaid(chain(time.Unix(1_700_000_000, 0))) })
	for _, want := range []string{
		"flowchart TD\n  n1[\"web/a<br/>waiting\"]\n", "  n1 -->|order| n2\n", "  n2 -->|hold| n3\n", "  n1 -->|pin| n4\n",
		`n3["db<br/>ann holds it: #quot;#lt;b#gt;#124;#35;1 #amp; more#quot;"]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestRolledIsTold: causes with what they hold up, and what of them was followed.
func TestRolledIsTold(t *testing.T) {
	w := chain(time.Unix(1_700_000_000, 0))
	w.Subject, w.Summary, w.Followed, w.States = "group", "shop: 5000 of 9000 wait", 2000, map[string]int64{"waiting": 5000, "in-sync": 4000}
	w.Causes = []*apipb.Cause{
		{Sort: "failing", Summary: "db: it fails", Root: w.Reasons[0].Causes[0], Assets: 12, Names: []string{"web/a", "web/b"}, Example: "web/a", Chain: w.Reasons},
		{Sort: "waiting", Summary: "stopped", Root: &apipb.Reason{Kind: "stop"}},
	}
	got := drawing(func(s *session) { s.printRolled(w) })
	for _, want := range []string{
		"shop: 5000 of 9000 wait\n", "4000 in-sync, 5000 waiting", "\n1. 12 assets, failing: db: it fails\n   → lehr unhold db\n",
		"holds up web/a, web/b and 10 more\n", "such as web/a:\n", "\n2. all, waiting: stopped\n", "the first 2000 were followed",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestWhyARolloutFailedIsToldOnce, by whatever is asked.
func TestWhyARolloutFailedIsToldOnce(t *testing.T) {
	const bad = "the validation web of the stage canary: slowest failed"
	rollout := &apipb.Reason{Kind: kindRollout, Text: "the rollout web (run 2) is rolled-back, for what it brought is bad: " + bad, Hint: "bring something else"}
	asset := &apipb.WhyResponse{
		Subject: "asset", Asset: "web/b", State: "in-sync", Summary: "web/b is not let go on: " + rollout.Text, Root: rollout,
		Reasons: []*apipb.Reason{{Kind: "behind", Asset: "web/b", Text: "it is as shop@1 says", Causes: []*apipb.Reason{rollout}}},
	}
	partition := &apipb.WhyResponse{
		Subject: "partition", Asset: "shop", Summary: "partition shop: all 3 are in sync: " + rollout.Text,
		Causes: []*apipb.Cause{{Sort: "waiting", Root: rollout, Summary: rollout.Text}},
	}
	run := &apipb.RolloutRun{
		Run: 2, State: "rolled-back", Bad: bad, Verdicts: []*apipb.RolloutVerdict{{Validation: "web", Stage: "canary", Result: "bad", Reason: "slowest failed"}},
		Events: []*apipb.RolloutEvent{{Kind: "bad", Text: bad}, {Kind: "back", Text: "all are at shop@1"}},
	}
	for name, text := range map[string]string{
		"why asset": drawing(func(s *session) { s.printWhy(asset) }), "why partition": drawing(func(s *session) { s.printRolled(partition) }),
		"status": drawing(func(s *session) {
			b := board{session: s, out: s.Out.(*bytes.Buffer)}
			b.waits(&apipb.Rollout{Name: "web", Run: run})
			b.verdicts(run)
			b.events(run)
		}),
	} {
		if n := strings.Count(text, "slowest failed"); n != 1 {
			t.Errorf("%s tells it %d times:\n%s", name, n, text)
		}
	}
	if len(asset.Reasons[0].Causes[0].Text) < 20 {
		t.Error("what was answered is changed")
	}
}

// TestUsesAreATree with the fields, and what is told elsewhere.
func TestUsesAreATree(t *testing.T) {
	got := drawing(func(s *session) {
		printUses(s, &apipb.GetAssetResponse{MoreUses: true, Uses: []*apipb.Use{
			{Asset: "web/a", Fields: []string{"payload.db", "addons.x"}, Depth: 1}, {Asset: "db", Fields: []string{"f"}, Depth: 2, Again: true},
		}})
	})
	if want := "\nreferred to by, also through others:\n  web/a (payload.db, addons.x)\n    db (f, told elsewhere)\n  and others: these are the first 2\n"; got != want {
		t.Errorf("it prints %q, want %q", got, want)
	}
}
