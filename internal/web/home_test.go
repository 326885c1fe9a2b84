package web_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestHome: the first page says what needs its reader, what is wrong, what moves, what happened.
func TestHome(t *testing.T) {
	w := newWorld(t)
	text := words(w.shows("/"))
	for _, want := range []string{"Nothing waits for you.", "Nothing is in the way of anything.", "Nothing moves.", "Nothing was published or pushed."} {
		if !strings.Contains(text, want) {
			t.Errorf("a quiet home does not say %q: %s", want, text)
		}
	}
	w.three()
	waiting := waits("web/b", intent.WaitApproval, "needs approval")
	waiting.PlanDigest, waiting.Plan, waiting.Effective = intent.Digest{1, 2, 3, 4, 5}, intent.Plan{Action: intent.ActionReplace}, w.effective("web/b")
	w.report(waiting, intent.Report{Asset: "api", Type: "lehr.command.v1.Command", State: intent.StatePushing, Target: w.head()})
	now := time.Now()
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "db", Owner: intent.Actor{Name: "local user", Origin: "page"}, Reason: "racks", Created: now, Until: now.Add(time.Hour)}))
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "api", Owner: ann, Reason: "hers", Created: now, Until: now.Add(time.Hour)}))
	page := w.shows("/", `href="partition/shop/act/approve?asset=web%2Fb"`, `href="partition/shop?state=pushing"`, `data-at="`)
	text = words(page)
	for _, want := range []string{"What needs you 3", "yours ends soon db", "1 asset being pushed", "published shop@1", "hold ann holds it: moving racks"} {
		if !strings.Contains(text, want) {
			t.Errorf("home does not say %q: %s", want, text)
		}
	}
}

// TestHomeOfOneOwner: the address chooses the partitions of one owner.
func TestHomeOfOneOwner(t *testing.T) {
	w := newWorld(t)
	w.three()
	if text := w.shows("/?owner=" + url.QueryEscape("nobody")); strings.Contains(text, `id="row:shop"`) {
		t.Error("partitions of others are shown")
	}
}

// TestInboxHasDeliveries: a version that waits for a person's word is in the inbox and on the
// first page, with the form to give it.
func TestInboxHasDeliveries(t *testing.T) {
	w := newWorld(t)
	w.deliver()
	for _, path := range []string{"/inbox", "/"} {
		w.shows(path, "1.1.0 of web in production", `href="partition/shop/act/delivery-approve?application=web&amp;constraint=people&amp;digest=sha256%3Ab&amp;environment=production&amp;version=1.1.0"`)
	}
}
