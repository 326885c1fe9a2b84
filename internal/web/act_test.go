package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// form is the form of an act's page, as it was shown.
func (w *world) form(path string) url.Values {
	w.Helper()
	values := url.Values{}
	for _, match := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(w.shows(path, `method="post"`), -1) {
		values.Set(match[1], match[2])
	}
	return values
}

// send sends a form as a page of this origin does.
func (w *world) send(path string, values url.Values) (status int, text string) {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), "POST", w.base+path, strings.NewReader(values.Encode()))
	w.must(err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", w.pages.URL)
	answer, err := w.browser.Do(request)
	w.must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	return answer.StatusCode, string(body)
}

// acts loads an act's page, fills its form in and sends it.
func (w *world) acts(path string, entered ...string) string {
	w.Helper()
	values := w.form(path)
	for i := 0; i < len(entered); i += 2 {
		values.Set(entered[i], entered[i+1])
	}
	status, text := w.send(path, values)
	if status != http.StatusOK {
		w.Fatalf("%s answered %d:\n%s", path, status, text)
	}
	return text
}

// TestActs: what a form says comes about in the store, by whom and why.
func TestActs(t *testing.T) {
	w := newWorld(t)
	w.three()
	waiting := waits("web/b", intent.WaitApproval, "needs approval")
	waiting.PlanDigest, waiting.Effective = intent.Digest{1, 2, 3, 4, 5}, w.effective("web/b")
	waiting.Plan = intent.Plan{Action: intent.ActionReplace, Changes: []intent.FieldChange{{Path: "table", Current: "payments", Reason: "it goes", Destructive: true}}}
	w.report(waiting)

	// A page offers what can be done, and none of it is done when it is looked at.
	w.shows("/partition/shop/asset/web/b", "Approve this plan, once", "Hold it", "Pin it", "Try it now")
	w.shows("/partition/shop", "Stop it")
	w.shows("/partition/shop/act/hold?asset=web/b", "No push of this asset begins")
	if holds, err := w.store.Holds(t.Context(), "shop"); err != nil || len(holds) > 0 {
		t.Fatalf("looking at a form held %v, %v", holds, err)
	}

	w.acts("/partition/shop/act/hold?asset=web/b", "reason", "a leak <b>", "for", "2h")
	holds, err := w.store.Holds(t.Context(), "shop")
	w.must(err)
	if len(holds) != 1 || holds[0].Asset != "web/b" || holds[0].Reason != "a leak <b>" || holds[0].Owner.Origin != "page" {
		t.Fatalf("held are %+v", holds)
	}
	if left := time.Until(holds[0].Until); left < time.Hour || left > 2*time.Hour {
		t.Errorf("the hold ends in %s, want 2 h", left)
	}
	w.shows("/partition/shop/asset/web/b", "End the hold")
	w.acts("/partition/shop/act/unhold?asset=web/b", "reason", "mended")
	if holds, _ := w.store.Holds(t.Context(), "shop"); len(holds) > 0 {
		t.Errorf("still held are %+v", holds)
	}

	text := w.acts("/partition/shop/act/pin?asset=db", "reason", "slow", "incarnation", "shop@1", "for", "")
	if !strings.Contains(words(text), "db is pinned to shop@1.") || !strings.Contains(text, "act/unpin?asset=db") {
		t.Errorf("after a pin the page says %s", words(text))
	}
	pins, err := w.store.Pins(t.Context(), "shop")
	w.must(err)
	if len(pins) != 1 || pins[0].Asset != "db" || pins[0].Incarnation.Sequence != 1 {
		t.Errorf("pinned are %+v", pins)
	}

	// What is destroyed is shown, and the approval is of exactly that.
	w.shows("/partition/shop/act/approve?asset=web/b", "payments", "destructive")
	// A link to another plan than there is now opens no form.
	if text := w.shows("/partition/shop/act/approve?asset=web/b&plan=abc"); strings.Contains(text, `method="post"`) || !strings.Contains(text, "another plan now than the link is about") {
		t.Errorf("a link to another plan shows %s", words(text))
	}
	w.acts("/partition/shop/act/approve?asset=web/b", "reason", "it is empty")
	consents, err := w.store.Consents(t.Context(), "shop")
	w.must(err)
	if len(consents.Approvals) != 1 || consents.Approvals[0].Asset != "web/b" || consents.Approvals[0].By.Origin != "page" {
		t.Errorf("approved are %+v", consents.Approvals)
	}

	w.acts("/partition/shop/act/stop", "reason", "a fire")
	if stops, err := w.store.Stops(t.Context()); err != nil || len(stops) != 1 || stops[0].Partition != "shop" || stops[0].Reason != "a fire" {
		t.Errorf("stopped are %+v, %v", stops, err)
	}
	w.shows("/partition/shop", "Resume it", "a fire")
	w.acts("/partition/shop/act/resume", "reason", "it is out")
	if stops, err := w.store.Stops(t.Context()); err != nil || len(stops) > 0 {
		t.Errorf("still stopped are %+v, %v", stops, err)
	}
}

// TestAnActIsRefused: each refusal says why, and nothing is done.
func TestAnActIsRefused(t *testing.T) {
	w := newWorld(t)
	w.three()
	plan := waits("web/b", intent.WaitApproval, "needs approval")
	plan.PlanDigest, plan.Plan, plan.Effective = intent.Digest{1, 2, 3, 4, 5}, intent.Plan{Action: intent.ActionReplace}, w.effective("web/b")
	w.report(plan)

	approve := "/partition/shop/act/approve?asset=web/b"
	values := w.form(approve)
	status, text := w.send(approve, values)
	if status != http.StatusBadRequest || !strings.Contains(text, "a reason is needed") || !strings.Contains(text, `method="post"`) {
		t.Errorf("without a reason it answered %d:\n%s", status, words(text))
	}
	// Another plan than the one that was read.
	plan.PlanDigest = intent.Digest{9, 9, 9, 9, 9}
	w.report(plan)
	values.Set("reason", "it is empty")
	status, text = w.send(approve, values)
	if status != http.StatusConflict || !strings.Contains(text, `value="it is empty"`) {
		t.Errorf("of another plan it answered %d:\n%s", status, words(text))
	}
	if consents, err := w.store.Consents(t.Context(), "shop"); err != nil || len(consents.Approvals) > 0 {
		t.Errorf("approved are %+v, %v", consents.Approvals, err)
	}
	for path, want := range map[string]int{
		"/partition/shop/act/none":                    http.StatusNotFound,
		"/partition/shop/act/hold":                    http.StatusBadRequest,
		"/partition/none/act/stop":                    http.StatusNotFound,
		"/partition/shop/act/acknowledge?candidate=x": http.StatusBadRequest,
	} {
		if status, text := w.get(path); status != want {
			t.Errorf("%s answered %d, want %d:\n%s", path, status, want, words(text))
		}
		values.Set("once", path)
		if status, text := w.send(path, values); status != want {
			t.Errorf("POST %s answered %d, want %d:\n%s", path, status, want, words(text))
		}
	}
	// There is nothing to approve, resume or unpin.
	w.shows("/partition/shop/act/resume", "is not stopped by a stop of its own")
	w.shows("/partition/shop/act/unpin?asset=db", "db is not pinned")
	values = w.form("/partition/shop/act/hold?asset=db")
	values.Set("reason", "x")
	values.Set("for", "soon")
	if status, text := w.send("/partition/shop/act/hold?asset=db", values); status != http.StatusBadRequest || !strings.Contains(text, "is no period") {
		t.Errorf("for a while it answered %d:\n%s", status, words(text))
	}
}

// TestAFormActsOnce: a double click, and a page that is loaded again, act once.
func TestAFormActsOnce(t *testing.T) {
	w := newWorld(t)
	w.three()
	path := "/partition/shop/act/retry?asset=db"
	values := w.form(path)
	values.Set("reason", "twice")
	var clicks sync.WaitGroup
	for range 5 {
		clicks.Go(func() {
			if status, text := w.send(path, values); status != http.StatusOK || !strings.Contains(text, "db is tried now.") {
				t.Errorf("answered %d:\n%s", status, text)
			}
		})
	}
	clicks.Wait()
	records, err := w.store.AuditRecords(t.Context(), "shop", 0, 100)
	w.must(err)
	count := 0
	for _, record := range records {
		if record.Reason == "twice" {
			count++
		}
	}
	if count != 1 {
		t.Errorf("five clicks acted %d times", count)
	}
}

// effective is the digest of an asset's content in head.
func (w *world) effective(asset intent.AssetID) intent.Digest {
	w.Helper()
	member, err := w.store.Member(w.Context(), w.head(), asset)
	w.must(err)
	return member.Effective
}

// TestAnothersRejectionIsTakenBack: the form offers whose there are, and the act ends theirs alone.
func TestAnothersRejectionIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/partition/shop/act/overrule?asset=web/b", "nobody&#39;s rejection of web/b is in force")
	waiting := waits("web/b", intent.WaitRejected, "rejected")
	waiting.PlanDigest, waiting.Effective = intent.Digest{1, 2, 3, 4, 5}, w.effective("web/b")
	w.report(waiting)
	bob := intent.Actor{Name: "bob <b>", Origin: "cli"}
	w.must(w.store.Reject(t.Context(), intent.Rejection{Partition: "shop", Asset: "web/b", Effective: waiting.Effective, Plan: waiting.PlanDigest, By: bob, Reason: "not now", Created: time.Now()}))
	w.shows("/partition/shop/asset/web/b", "Take another&#39;s back")
	w.shows("/partition/shop/act/overrule?asset=web/b", "bob &lt;b&gt;", "not now")
	if said := words(w.acts("/partition/shop/act/overrule?asset=web/b", "of", bob.Name, "reason", "bob is away")); !strings.Contains(said, "The rejections of web/b by bob <b> are taken back.") {
		t.Errorf("it says %s", said)
	}
	w.shows("/partition/shop/act/overrule?asset=web/b", "nobody&#39;s rejection of web/b is in force")
}

// TestPlansAreApprovedTogether: each is shown and bound to its own plan, what destroys something first; one that changed meanwhile is
// refused and named, and the others are approved.
func TestPlansAreApprovedTogether(t *testing.T) {
	w := newWorld(t)
	w.three()
	form := "/partition/shop/act/approve-together"
	w.shows(form, "no plan waits for approval")
	plan := func(asset intent.AssetID, digest intent.Digest, isDestructive bool) {
		waiting := waits(asset, intent.WaitApproval, "needs approval")
		waiting.PlanDigest, waiting.Effective, waiting.Target = digest, w.effective(asset), intent.IncarnationID{Partition: "shop", Sequence: 1}
		waiting.Plan = intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "table", Current: "rows of " + string(asset), Reason: "it goes", Destructive: isDestructive}}}
		w.report(waiting)
	}
	plan("web/a", intent.Digest{1, 2, 3, 4, 5}, false)
	w.shows("/inbox", "web/a")
	if text := w.shows("/inbox"); strings.Contains(text, "approve-together") {
		t.Error("one plan can be approved together with others")
	}
	plan("web/b", intent.Digest{2, 2, 3, 4, 5}, true)
	w.shows("/inbox", `href="partition/shop/act/approve-together"`)
	text := w.shows(form, `name="plan:web/a"`, `name="plan:web/b"`, "rows of web/a", "rows of web/b", "web/b, destructive", `type="checkbox"`)
	if strings.Index(text, "rows of web/b") > strings.Index(text, "rows of web/a") {
		t.Error("what destroys something does not come first")
	}
	w.shows(form+"?incarnation=shop@9", "no plan waits for approval")
	w.shows(form+"?incarnation=shop@1", "rows of web/a")
	bound := func() url.Values {
		values := w.form(form)
		for _, check := range regexp.MustCompile(`name="(plan:[^"]+)" value="([0-9a-f]+)"`).FindAllStringSubmatch(w.shows(form), -1) {
			values.Set(check[1], check[2])
		}
		values.Set("reason", "the week")
		return values
	}
	values := bound()
	values.Del("plan:web/a")
	values.Del("plan:web/b")
	if status, text := w.send(form, values); status != http.StatusBadRequest || !strings.Contains(text, "no plan is ticked") {
		t.Errorf("nothing ticked is answered %d: %s", status, words(text))
	}
	values = bound()
	plan("web/b", intent.Digest{9, 2, 3, 4, 5}, true)
	status, text := w.send(form, values)
	if said := words(text); status != http.StatusOK || !strings.Contains(said, "Approved, once each: web/a.") || !strings.Contains(said, "Not approved: web/b:") {
		t.Errorf("answered %d: %s", status, said)
	}
	consents, err := w.store.Consents(t.Context(), "shop")
	w.must(err)
	approvals := consents.Approvals
	if len(approvals) != 1 || approvals[0].Asset != "web/a" || approvals[0].Effective != w.effective("web/a") || approvals[0].Reason != "the week" {
		t.Errorf("approved are %+v", approvals)
	}
}

// TestManyPlansAreApprovedByParts: a form has fifty plans, and says how many more wait.
func TestManyPlansAreApprovedByParts(t *testing.T) {
	w := newWorld(t)
	content := []intent.Asset{}
	for i := range 53 {
		content = append(content, w.command(intent.AssetID(fmt.Sprintf("web/%02d", i)), "x"))
	}
	w.publish(0, content...)
	for _, asset := range content {
		waiting := waits(asset.ID, intent.WaitApproval, "needs approval")
		waiting.PlanDigest, waiting.Effective = intent.Digest{1}, w.effective(asset.ID)
		w.report(waiting)
	}
	text := w.shows("/partition/shop/act/approve-together", "up to 3 more plans wait")
	if ticked := strings.Count(text, `type="checkbox"`); ticked != 50 {
		t.Errorf("the form has %d plans", ticked)
	}
}
