package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// TestTop: a row for what moves to an incarnation, and one for each cause, in
// 80 columns, each whole, with how many assets, since when, and one of them.
func TestTop(t *testing.T) {
	at := func(ago time.Duration) *time.Time {
		then := time.Unix(1_700_000_000, 0).Add(-ago)
		return &then
	}
	views := []view{{
		Partition: "shop", Head: "shop@12", Mode: "enforce", States: map[string]int64{"waiting": 1204, "pushing": 3, "in-sync": 98793},
		Refused:  "candidate shop@~f11f01408a1b is held",
		Moving:   []moving{{Target: "shop@12", Assets: 3, Example: "web/a", Since: *at(12 * time.Second)}},
		Rollouts: []rolling{{Name: "web", Run: 3, State: "running", Brings: "shop@12", Done: 2, Assets: 40, Since: *at(9 * time.Minute), Waits: "stage rest waits for web/c, which is not healthy"}},
		Causes: []cause{
			{Sort: "waiting", Summary: "the newest sources are not served", Since: at(3 * time.Hour)},
			{Sort: "fighting", Assets: 1, Root: "hpa", Example: "hpa", Summary: "hpa: something keeps changing back replicas", Since: at(4 * time.Minute)},
			{Sort: "failing", Assets: 12, Root: "pay/1", Example: "pay/1", Summary: "each of 12 by itself, such as pay/1: the last push failed: exit status 3: no space left on device", Since: at(26 * time.Hour)},
			{Sort: "waiting", Assets: 1191, Root: "db", Example: "a/very/long/name/of/an/asset/that/says/where/it/runs", Summary: "db: ann holds it: moving racks \x1b[31m", Since: at(75 * time.Minute)},
		},
		Followed: 2000,
	}, {Partition: "new"}}
	got := drawing(func(s *session) { s.printViews(views, columns) })
	want := `shop: head shop@12, mode enforce: 98793 in-sync, 3 pushing, 1204 waiting
  the newest sources are not served: candidate shop@~f11f01408a1b is held

  WHAT      ASSETS    FOR  CAUSE (SUCH AS)
  moving         3    12s  pushed to shop@12 (web/a)
  rollout       40     9m  web run 3: stage rest waits for web/c, which is not
                           healthy; running to shop@12, 2 done
  waiting      all  3h00m  the newest sources are not served
  fighting       1     4m  hpa: something keeps changing back replicas
  failing       12 26h00m  pay/1: the last push failed: exit status 3: no space
                           left on device
  waiting     1191  1h15m  db: ann holds it: moving racks \u001b[31m
                           (a/very/long/name/of/an/asset/that/says/where/it/ru…)
Of all that wait the first 2000 were followed: the counts are of these.

new: head none, mode none: nothing was looked at
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// TestWrapped: what is too long even for some lines is cut at its end.
func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"one":                       "one",
		"one two three":             "one two|three",
		"onetwothreefour five":      "onetwoth|reefour|five",
		"12345678 x":                "12345678|x",
		"ä ö ü ä ö ü ä ö ü ä ö ü ä": "ä ö ü ä|ö ü ä ö|ü ä ö ü…",
	} {
		if got := strings.Join(wrapped(text, 8), "|"); got != want {
			t.Errorf("%q is wrapped to %q, want %q", text, got, want)
		}
	}
}

// TestTopInFull: nothing is cut where no terminal bounds a line.
func TestTopInFull(t *testing.T) {
	summary := "db: " + strings.Repeat("ann holds it ", 50)
	views := []view{{Partition: "shop", Causes: []cause{{Sort: "waiting", Assets: 2, Root: "db", Example: "web", Summary: summary}}}}
	got := drawing(func(s *session) { s.printViews(views, s.room()) }) // It is no terminal.
	if !strings.Contains(got, summary+" (web)\n") {
		t.Errorf("it prints\n%s", got)
	}
}

// TestTopIsBounded: what does not fit on a screen is counted.
func TestTopIsBounded(t *testing.T) {
	views := []view{{Partition: "shop", Causes: slices.Repeat([]cause{{Sort: "waiting", Assets: 1, Summary: "x"}}, 50)}}
	got := drawing(func(s *session) { s.printViews(views, columns) })
	if !strings.Contains(got, "… and 30 more: lehr why shop has all.") || strings.Count(got, "\n") != mostLines+4 {
		t.Errorf("it prints\n%s", got)
	}
}

// TestWhatMoves: pushes to one incarnation are told of together, by what began first.
func TestWhatMoves(t *testing.T) {
	pushing := func(asset, target string, second int64) *apipb.Report {
		return &apipb.Report{Asset: asset, Target: target, Push: "p-" + asset, At: timestamppb.New(time.Unix(second, 0))}
	}
	got := movingOf([]*apipb.Report{pushing("pinned", "shop@7", 1), pushing("a", "shop@9", 5), pushing("b", "shop@9", 3), pushing("c", "shop@9", 8)})
	if len(got) != 2 || got[0].Target != "shop@9" || got[0].Assets != 3 || got[0].Example != "b" || got[0].Push != "p-b" || got[0].Since.Unix() != 3 || got[1].Example != "pinned" {
		t.Errorf("%+v", got)
	}
}
