package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// pastReport is one of an asset some minutes after noon: its state, or what it waits for.
func pastReport(asset string, minute int, kind string) intent.Report {
	report := intent.Report{
		Partition: shop, Asset: intent.AssetID(asset), At: noon.Add(time.Duration(minute) * time.Minute), State: intent.State(kind),
		Plan: intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "spec.n", Current: "1", Target: "2"}}},
	}
	switch report.State {
	case intent.StateInSync, intent.StatePushing, intent.StateOff, intent.StateGone, intent.StateModel, intent.StateUnserved:
	default:
		report.State, report.Waiting = intent.StateWaiting, []intent.WaitingOn{{Kind: intent.WaitingKind(kind), Reason: "so it is"}}
	}
	return report
}

// summarize is what was kept, in short.
func summarize(reports []store.PastReport) string {
	var words []string
	for _, p := range reports {
		kind := string(p.State)
		if len(p.Waiting) > 0 {
			kind = string(p.Waiting[0].Kind)
		}
		words = append(words, fmt.Sprintf("%s@%s:%s", p.Asset, strings.TrimSuffix(p.At.Sub(noon).String(), "0s"), kind))
	}
	return strings.Join(words, " ")
}

func testPastReports(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	sick := pastReport("a", 7, "in-sync")
	sick.Health.State = intent.Unhealthy
	for _, group := range [][]intent.Report{
		{pastReport("a", 1, "in-sync"), pastReport("b", 1, "approval")},
		{pastReport("a", 2, "turn")}, // A healthy push leaves nothing here.
		{pastReport("a", 3, "pushing")},
		{pastReport("a", 4, "in-sync")},
		{pastReport("a", 5, "backoff"), pastReport("b", 5, "pushing")},
		{pastReport("a", 6, "in-sync"), pastReport("b", 6, "in-sync")},
		{sick},
		{pastReport("a", 8, "in-sync")},
		{pastReport("a", 9, "in-sync")},
		{pastReport("c", 10, "off")},
	} {
		w.must(w.SaveReports(ctx, w.lease, group))
	}
	all, err := w.ReportsAfter(ctx, shop, 0, 0)
	w.must(err)
	const want = "b@1m:approval a@5m:backoff b@5m:pushing a@6m:in-sync a@7m:in-sync a@8m:in-sync c@10m:off"
	if summarize(all) != want {
		t.Errorf("kept is %s, want %s", summarize(all), want)
	}
	for i, p := range all {
		if p.Number != uint64(i)+1 {
			t.Errorf("report %d has number %d", i+1, p.Number)
		}
	}
	short := pastReport("b", 1, "approval")
	short.Plan.Changes = nil
	if diff := cmp.Diff(store.PastReport{Number: 1, Report: short}, all[0]); diff != "" {
		t.Errorf("a past report reads differently:\n%s", diff)
	}
	last, err := w.LastReport(ctx, shop)
	w.must(err)
	if last != 7 {
		t.Errorf("the last number is %d, want 7", last)
	}
	if page, err := w.ReportsAfter(ctx, shop, 3, 2); err != nil || summarize(page) != "a@6m:in-sync a@7m:in-sync" {
		t.Errorf("after the third are %s, %v", summarize(page), err)
	}
	for _, c := range []struct {
		filter store.HistoryFilter
		want   string
	}{
		{store.HistoryFilter{Asset: "a"}, "a@8m:in-sync a@7m:in-sync a@6m:in-sync a@5m:backoff"},
		{store.HistoryFilter{Asset: "a", Until: noon.Add(6*time.Minute + time.Second), Limit: 1}, "a@6m:in-sync"},
		{store.HistoryFilter{Asset: "a", Until: noon.Add(6 * time.Minute), Limit: 1}, "a@6m:in-sync"},
		{store.HistoryFilter{Asset: "a", Until: noon}, ""},
		{store.HistoryFilter{Asset: "a", Before: 5, Limit: 1}, "a@6m:in-sync"},
		{store.HistoryFilter{Asset: "none"}, ""},
	} {
		history, err := w.ReportHistory(ctx, shop, c.filter)
		w.must(err)
		if summarize(history) != c.want {
			t.Errorf("%+v: %s, want %s", c.filter, summarize(history), c.want)
		}
	}
	if foreign, err := w.ReportsAfter(ctx, theatre, 0, 0); err != nil || len(foreign) != 0 {
		t.Errorf("another partition has %s, %v", summarize(foreign), err)
	}
	stale := w.lease
	w.register(shop)
	w.refused(w.SaveReports(ctx, stale, []intent.Report{pastReport("a", 11, "hold")}), fault.Conflict)
	if last, err = w.LastReport(ctx, shop); err != nil || last != 7 {
		t.Errorf("a stale lease keeps a report: %d, %v", last, err)
	}
}

func testPastReportsAreForgotten(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(entry("a", "x"), entry("b", "x"))
	for minute := range 1200 {
		kind := "backoff"
		if minute%2 == 1 {
			kind = "pushing"
		}
		group := []intent.Report{pastReport("a", minute, kind)}
		if minute == 3 {
			group = append(group, pastReport("b", minute, "hold"), pastReport("gone", minute, "hold"))
		}
		w.must(w.SaveReports(ctx, w.lease, group))
	}
	remaining := func(asset string) string {
		history, err := w.ReportHistory(ctx, shop, store.HistoryFilter{Asset: intent.AssetID(asset), Limit: 10_000})
		w.must(err)
		if len(history) > 3 {
			return fmt.Sprintf("%d from %s", len(history), summarize(history[len(history)-1:]))
		}
		return summarize(history)
	}
	collect := func(keep store.Retention, minute int) {
		t.Helper()
		keep.Incarnations = 1
		_, err := w.Collect(ctx, w.lease, keep, noon.Add(time.Duration(minute)*time.Minute))
		w.must(err)
	}
	// What an asset still was when the period began stays, of those that there are.
	collect(store.Retention{History: time.Hour}, 70)
	for asset, want := range map[string]string{"a": "1191 from a@9m:pushing", "b": "b@3m:hold", "gone": ""} {
		if remaining(asset) != want {
			t.Errorf("of %s is left %q, want %q", asset, remaining(asset), want)
		}
	}
	collect(store.Retention{History: time.Hour, Reports: 2}, 70)
	if remaining("a") != "a@19h59m:pushing a@19h58m:backoff" || remaining("b") != "b@3m:hold" {
		t.Errorf("of a is left %s, of b %s", remaining("a"), remaining("b"))
	}
	// Numbers are not given again.
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{pastReport("a", 1300, "hold")}))
	if last, err := w.LastReport(ctx, shop); err != nil || last != 1203 {
		t.Errorf("the last number is %d, %v, want 1203", last, err)
	}
}

func testArrivals(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	for i := range 3 {
		text := fmt.Sprint(i)
		w.publish(entry("a", text), entry("b", text), entry("c", text), entry("d", text))
	}
	for _, p := range []struct {
		id, asset string
		target    int
		ending    string
	}{{"p1", "a", 3, "failed"}, {"p2", "a", 3, "pushed"}, {"p3", "a", 3, "pushed"}, {"p4", "b", 3, "failed"}} {
		w.admitted(w.admission(p.id, p.asset, at(p.target)))
		w.closePush(p.id, p.ending)
	}
	_, err := w.SaveEnforced(ctx, w.lease, []store.Enforced{
		{Asset: "a", Type: job, Incarnation: at(3), At: noon.Add(time.Hour)},
		{Asset: "c", Type: job, Incarnation: at(1), At: noon},
		{Asset: "d", Type: job, Incarnation: at(3), At: noon},
	})
	w.must(err)
	for sequence, want := range map[int]string{
		1: "a@12:00 by p2 with shop@3 c@12:00 by  with shop@1 d@12:00 by  with shop@3",
		3: "a@12:00 by p2 with shop@3 d@12:00 by  with shop@3",
	} {
		arrivals, err := w.Arrivals(ctx, at(sequence), []intent.AssetID{"a", "b", "c", "d"})
		w.must(err)
		var words []string
		for asset, a := range arrivals {
			words = append(words, fmt.Sprintf("%s@%s by %s with %s", asset, a.At.Format("15:04"), a.Push, a.Incarnation))
		}
		slices.Sort(words)
		if got := strings.Join(words, " "); got != want {
			t.Errorf("arrivals of %d: %s, want %s", sequence, got, want)
		}
	}
}
