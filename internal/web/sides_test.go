package web_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// TestSides: what is desired, what is the target and what is current stand beside each other,
// each field with where it comes from, and one below the other where that is asked for.
func TestSides(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "one\ntwo\nthree"), w.command("db", "x", "web"))
	target := w.head()
	w.publish(1, w.command("web", "one\n2\nthree"))
	report := waits("web", intent.WaitHold, "ann holds it")
	report.Target, report.Pinned = target, "person"
	report.Plan = intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{
		{Path: "input", Current: "zero\ntwo\nthree", Target: "one\ntwo\nthree", Reason: "it drifted", Destructive: true},
		{Path: "mode", Current: strings.Repeat("long ", 200), Target: "0644"},
	}}
	report.Unmanaged = []intent.FieldChange{{Path: "replicas", Current: "7", Reason: "the autoscaler's"}}
	w.report(report)
	text := words(w.shows("/partition/shop/asset/web", "<details><summary>1 line, 1\u202f000 bytes</summary>", `href="partition/shop/provenance/web?field=payload.input"`))
	for _, want := range []string{
		"desired target current", "it drifted one 2 three one two three zero two three", "left to production left to production 7", "side by side · unified",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the asset's page does not say %q:\n%s", want, text)
		}
	}
	text = w.shows("/partition/shop/asset/web?diff=unified")
	for _, want := range []string{
		`<span class="gone">- zero`, `<span class="comes">&#43; one`, `<span class="equal">  two`, "then, with what is desired", `<span class="comes">&#43; 2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the unified form does not say %q:\n%s", want, text)
		}
	}
}

// TestProvenancePage: each field leads to where it comes from, and what was not kept is said.
func TestProvenancePage(t *testing.T) {
	w := newWorld(t)
	w.three()
	text := words(w.shows("/partition/shop/provenance/web/a", `href="partition/shop/provenance/web/a?field=payload.input"`, "lehr blame web/a --partition shop"))
	if !strings.Contains(text, "unchanged since shop@1") || !strings.Contains(text, "was not kept then") {
		t.Errorf("where an asset comes from is %s", text)
	}
	text = words(w.shows("/partition/shop/provenance/web/a?field=payload.input", "lehr blame web/a payload.input --partition shop"))
	if !strings.Contains(text, `value "v2"`) {
		t.Errorf("where a field comes from is %s", text)
	}
}

// TestGraphsOfAnAsset: reasons and references are drawn, and said in words.
func TestGraphsOfAnAsset(t *testing.T) {
	w := newWorld(t)
	w.three()
	text := w.shows("/partition/shop/asset/web/a", `aria-label="Why web/a is as it is: `, `class="box root"`, `<title>db, hold, the root cause</title>`)
	if said := words(text); !strings.Contains(said, "web/a waiting ; because of api api order ; because of db") || !strings.Contains(said, "web/a waiting ; refers to api") {
		t.Errorf("the graphs in words are %s", said)
	}
	said := words(w.shows("/partition/shop/references/db", "lehr get assets --uses db --partition shop"))
	if !strings.Contains(said, "web/a uses it in 2 steps ; refers to api") {
		t.Errorf("the uses in words are %s", said)
	}
	if said := words(w.shows("/partition/shop/references/web/b")); !strings.Contains(said, "nothing refers to it") {
		t.Errorf("who is alone is shown as %s", said)
	}
}
