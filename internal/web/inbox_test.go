package web_test

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestInbox: what waits for people is on one page, and each is done from there.
func TestInbox(t *testing.T) {
	w := newWorld(t)
	if text := words(w.shows("/inbox")); !strings.Contains(text, "Nothing waits for anybody, in 1 partition.") {
		t.Errorf("an empty inbox says %s", text)
	}
	w.three()
	waiting := waits("web/b", intent.WaitApproval, "needs approval")
	waiting.PlanDigest, waiting.Plan, waiting.Effective = intent.Digest{1, 2, 3, 4, 5}, intent.Plan{Action: intent.ActionReplace}, w.effective("web/b")
	w.report(waiting)
	now := time.Now()
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "db", Owner: ann, Reason: "racks", Created: now, Until: now.Add(time.Hour)}))
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "api", Owner: ann, Reason: "for long", Created: now, Until: now.Add(100 * time.Hour)}))
	text := w.shows("/inbox", `href="partition/shop/act/approve?asset=web%2Fb"`, "held by ann: racks")
	if strings.Contains(text, "for long") {
		t.Errorf("what ends in four days is told:\n%s", words(text))
	}
	w.acts("/partition/shop/act/approve?asset=web/b", "reason", "it is empty")
	w.acts("/partition/shop/act/stop", "reason", "a fire")
	w.shows("/inbox", "stopped", "a fire")
	w.shows("/", `href="inbox"`)
}
