package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// push admits and ends a push of an asset in head, by the plan.
func (w *world) push(id intent.PushID, asset intent.AssetID, plan intent.Plan) {
	w.Helper()
	w.beginPush(id, asset, plan)
	w.closePush(id)
}

func (w *world) beginPush(id intent.PushID, asset intent.AssetID, plan intent.Plan) {
	w.Helper()
	partition, err := w.store.Partition(w.Context(), "shop")
	w.must(err)
	refusals, err := w.store.Admit(w.Context(), w.lease, []store.Admission{{
		Push: id, Asset: asset, Target: partition.Head, Effective: intent.Digest{1}, Plan: plan.Digest(), PlanDetail: plan, Revision: partition.Revision,
		Budgets: []store.BudgetUse{{Key: "zone a", Limit: 1}}, Checks: []string{"order"}, At: time.Now(),
	}})
	w.must(err)
	if refusals[0] != nil {
		w.Fatalf("push %s was refused: %s", id, refusals[0].Waiting.Reason)
	}
}

func (w *world) closePush(id intent.PushID) {
	w.Helper()
	w.must(w.store.ClosePushes(w.Context(), w.lease, []store.Closing{{Push: id, Ending: "pushed", At: time.Now()}}))
}

// TestAPushSaysWhatItChanged: its page has the plan as a table, the asset's page and its timeline in a
// line; what plugins wrote is text and nothing else, and no secret is shown.
func TestAPushSaysWhatItChanged(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("api", "v2"), w.command("db", "v2"), w.command("web", "v2"))
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	w.push("shop/1-1", "api", intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{
		{Path: "replicas", Current: "3", Target: "5", Reason: "somebody scaled it", Writer: "kubectl"},
		{Path: "zone", Current: "<script>alert(1)</script>", Target: "b\x1b[2J\u202e", Destructive: true},
		{Path: "token", Current: secret, Target: "(redacted)"},
	}})
	text := words(w.shows("/partition/shop/push/shop/1-1", "&lt;script&gt;alert(1)", `class="destructive"`))
	for _, want := range []string{"What it was to change update destructive", "replicas changes 3 5 kubectl somebody scaled it", "token changes (redacted) (redacted)", "by test", "budgets zone a"} {
		if !strings.Contains(text, want) {
			t.Errorf("the push's page does not say %q: %s", want, text)
		}
	}
	w.shows("/partition/shop/asset/api", "<code>replicas</code> <bdi>3</bdi> → <bdi>5</bdi>", "&lt;script&gt;alert(1)&lt;/script&gt; → b", "&#43;2 more, 1 destructive")
	w.shows("/partition/shop/timeline/api", "&#43;2 more, 1 destructive")
	for _, path := range []string{"/partition/shop/push/shop/1-1", "/partition/shop/asset/api", "/partition/shop/timeline/api"} {
		if _, page := w.get(path); strings.Contains(page, "<script>alert") || strings.ContainsAny(page, "\x1b\u202e") || strings.Contains(page, "ghp_") {
			t.Errorf("%s shows what a plugin wrote as it is", path)
		}
	}

	var many intent.Plan
	many.Action = intent.ActionReplace
	for i := range 1000 {
		many.Changes = append(many.Changes, intent.FieldChange{Path: fmt.Sprintf("field-%04d", i), Current: fmt.Sprint(i*7919%104729, "x", i*i), Target: fmt.Sprint("y", i*104729%7919), Destructive: i%2 == 0})
	}
	w.push("shop/1-2", "db", many)
	w.shows("/partition/shop/push/shop/1-2", "field-0000", "of them destructive: more than is kept")
	w.shows("/partition/shop/asset/db", "<code>field-0004</code>", "and 997 more")

	w.push("shop/1-3", "web", intent.Plan{}) // As a push of before plans were kept is read.
	w.shows("/partition/shop/push/shop/1-3", "It was not kept then.")
	w.shows("/partition/shop/asset/web", "not kept")
	w.shows("/partition/shop/timeline/web", "what it changed was not kept")
}

// TestAPushUnderWayTellsItsLines on its page and on that of its asset, as text, the newest first, until it ends.
func TestAPushUnderWayTellsItsLines(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.beginPush("shop/1-1", "api", intent.Plan{Action: intent.ActionUpdate})
	w.report(intent.Report{Asset: "api", Type: "lehr.command.v1.Command", State: intent.StatePushing, Target: w.head(), Push: "shop/1-1"})
	paths := []string{"/partition/shop/asset/api", "/partition/shop/push/shop/1-1"}
	for _, path := range paths {
		w.shows(path, "It is in the memory of the server that admitted the push: <bdi>test</bdi>")
	}
	w.pushLog.Open("shop/1-1")
	for _, path := range paths {
		w.shows(path, "What the plugin tells of push shop/1-1", "Nothing yet.")
	}
	for i := range 201 {
		w.pushLog.Add("shop/1-1", fmt.Sprint("step ", i, " "), time.Now())
	}
	for _, text := range hostile {
		w.pushLog.Add("shop/1-1", text, time.Now())
	}
	w.pushLog.Add("shop/1-1", "\xff\xfe token ghp_0123456789abcdefghijklmnopqrstuvwxyz "+strings.Repeat("<b>", 1<<19), time.Now())
	for _, path := range paths {
		page := w.shows(path, "8 lines before these are not kept", "token (redacted) &lt;b&gt;")
		if strings.Index(page, "step 200 ") > strings.Index(page, "step 199 ") {
			t.Errorf("%s does not tell the newest first", path)
		}
		for _, live := range []string{"<script>document", "<img", "<b>", "\x1b", "\u202e", "ghp_"} {
			if strings.Contains(page, live) {
				t.Errorf("%s holds %q", path, live)
			}
		}
		if n := strings.Count(page, "<b>") + strings.Count(page, "&lt;b&gt;"); n > 1400 {
			t.Errorf("%s holds a line of 1 MB: %d", path, n)
		}
	}
	w.closePush("shop/1-1")
	for _, path := range paths {
		if _, page := w.get(path); strings.Contains(page, "What the plugin tells") {
			t.Errorf("%s tells of a push that has ended", path)
		}
	}
}
