package prodspec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
)

const previewText = `lehr: v1
partition: shop
mode: enforce
sources:
  reviews: {document: previews-review}
  base: {dir: base, files: ["*.yaml"]}
generate:
  review: {starlark: review.star, from: [reviews, base], for_each: key}
  basis: {render: assets, from: [base]}
plugins: {Job: {run: lehr-process}}
validate: {shrink: {max: 5%, floor: 0, over: 24h}}
`

const previewRules = `previews:
  review: {pull_requests: hub, assets: "preview/{preview}/*", generator: review}
`

// previewStar makes a database, and a web server after it. One whose branch begins with "small" has no
// database.
const previewStar = `def generate(ctx):
    job = lambda name: lehr.process.v1.Job(name = ctx.key + "-" + name, binary = "/bin/x", version = ctx.value["commit"], replicas = 1)
    at = "preview/" + ctx.key + "/"
    if ctx.value["branch"].startswith("small"):
        return [asset(at + "web", job("web"))]
    return [
        asset(at + "db", job("db")),
        asset(at + "web", job("web"), addons = [lehr.intent.v1.Dependencies(dependencies = [lehr.intent.v1.Dependency(on = at + "db", rule = "RULE_ORDER")])]),
    ]
`

func previewWorld(t *testing.T, rules string) *world {
	w := newWorld(t, "zones")
	w.write("lehr.yaml", previewText+rules)
	w.write("review.star", previewStar)
	w.writeJob("base", "base")
	return w
}

// preview sets entries of the document, and removes those that are nil.
func (w *world) preview(entries map[string]*branchpreview.Entry) {
	w.t.Helper()
	edit := document.Edit{Reason: "a try"}
	for name, entry := range entries {
		o := document.Operation{Path: "/" + name}
		if entry != nil {
			text, err := json.Marshal(entry)
			if err != nil {
				w.t.Fatal(err)
			}
			o.Value = text
		}
		edit.Operations = append(edit.Operations, o)
	}
	if _, err := w.store.SavePreviews(w.t.(*testing.T).Context(), w.lease, "review", edit); err != nil {
		w.t.Fatal(err)
	}
}

func previewOf(branch string, number int) *branchpreview.Entry {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return &branchpreview.Entry{Branch: branch, Commit: "abc", PullRequest: number, Created: at, Expires: at.Add(time.Hour)}
}

func endingOf(e *branchpreview.Entry) *branchpreview.Entry {
	next := *e
	next.Ending = &branchpreview.Ending{Since: e.Created, Cause: branchpreview.RequestClosed}
	return &next
}

func (w *world) turndownAt(sequence intent.Sequence, id intent.AssetID) *intentpb.Turndown {
	w.t.Helper()
	addon := &intentpb.Turndown{}
	exists, err := schema.Addon(w.content(sequence, id), addon)
	if err != nil {
		w.t.Fatal(err)
	}
	if !exists {
		return nil
	}
	return addon
}

// TestPreviewsAreMadeFromATemplate: each entry has a run of its own. What ends is turned down by the
// rule, and nothing else; it leaves once the entry does, and the shrink guard does not count it.
func TestPreviewsAreMadeFromATemplate(t *testing.T) {
	w := previewWorld(t, previewRules)
	w.start()
	w.served(1) // Without a document there is no preview.
	seven, eight := previewOf("form", 7), previewOf("cart", 8)
	w.preview(map[string]*branchpreview.Entry{"pr-7": seven, "pr-8": eight})
	w.served(2)
	w.enforce(2, false, "preview/pr-7/db", "preview/pr-7/web", "preview/pr-8/db", "preview/pr-8/web", "job/base")
	w.preview(map[string]*branchpreview.Entry{"pr-7": endingOf(seven)})
	w.served(3)
	for id, ends := range map[intent.AssetID]bool{"preview/pr-7/db": true, "preview/pr-7/web": true, "preview/pr-8/db": false, "job/base": false, intent.PolicyAsset: false} {
		addon := w.turndownAt(3, id)
		if (addon != nil) != ends || ends && (addon.GetPreview().GetPreview() != "pr-7" || !strings.Contains(addon.GetReason(), "pull request 7 (form) has ended: its pull request was closed")) {
			t.Errorf("%s has the Turndown %v", id, addon)
		}
	}
	blame := w.blame(3, "preview/pr-7/db", "addons.Turndown.reason")
	if len(blame.Origin.Derived) != 1 || blame.Origin.Derived[0].Place.File != "reviews/previews-review.json" {
		t.Errorf("blame tells %+v", blame.Origin.Derived)
	}
	w.enforce(3, true, "preview/pr-7/db", "preview/pr-7/web")
	w.preview(map[string]*branchpreview.Entry{"pr-7": nil})
	w.served(4)
	if w.has("preview/pr-7/db") || w.has("preview/pr-7/web") || !w.has("preview/pr-8/web") {
		t.Errorf("head has %v", w.assets())
	}
}

// TestATrialHasPreviews: a child reads the entries of rules as the server does, although their document is
// not named like the source.
func TestATrialHasPreviews(t *testing.T) {
	w := previewWorld(t, previewRules)
	w.start()
	w.served(1)
	w.preview(map[string]*branchpreview.Entry{"pr-7": previewOf("form", 7)})
	status := w.served(2)
	w.stop()
	tried := w.leaveMark(status.Sources)
	w.start()
	w.triedAre(tried, status.Sources)
	w.served(2)
}

// TestEndedPreviewsTakeTheirOrphansAlong: what the template gave before and gives no more was made by
// the preview, too. It comes back with a Turndown, in order.
func TestEndedPreviewsTakeTheirOrphansAlong(t *testing.T) {
	w := previewWorld(t, previewRules)
	w.write("lehr.yaml", strings.Replace(previewText, "max: 5%, floor: 0", "max: 90%, floor: 9", 1)+previewRules)
	w.start()
	w.served(1)
	seven := previewOf("form", 7)
	w.preview(map[string]*branchpreview.Entry{"pr-7": seven})
	w.served(2)
	w.enforce(2, false, "preview/pr-7/db", "preview/pr-7/web", "job/base")
	seven.Branch = "small-form"
	w.preview(map[string]*branchpreview.Entry{"pr-7": seven})
	w.served(3)
	if w.has("preview/pr-7/db") {
		t.Fatal("the template still gives it")
	}
	w.preview(map[string]*branchpreview.Entry{"pr-7": endingOf(seven)})
	w.served(4)
	for _, id := range []intent.AssetID{"preview/pr-7/db", "preview/pr-7/web"} {
		if addon := w.turndownAt(4, id); addon.GetPreview().GetPreview() != "pr-7" {
			t.Errorf("%s has the Turndown %v", id, addon)
		}
	}
	w.enforce(4, true, "preview/pr-7/db", "preview/pr-7/web")
	w.preview(map[string]*branchpreview.Entry{"pr-7": nil})
	w.wait("without the preview", func(prodspec.Status) bool { return !w.has("preview/pr-7/db") && !w.has("preview/pr-7/web") })
}

// TestARuleOfPreviewsIsInForceOnceItIsServed: a commit that changes what a rule names removes nothing
// by it (S23): people are asked, until head has it.
func TestARuleOfPreviewsIsInForceOnceItIsServed(t *testing.T) {
	w := previewWorld(t, previewRules)
	w.start()
	w.served(1)
	seven := previewOf("form", 7)
	w.preview(map[string]*branchpreview.Entry{"pr-7": seven})
	w.served(2)
	w.preview(map[string]*branchpreview.Entry{"pr-7": endingOf(seven)})
	w.served(3)
	renamed := strings.NewReplacer("  review: {starlark", "  made: {starlark", "generator: review", "generator: made")
	w.write("lehr.yaml", renamed.Replace(previewText+previewRules))
	w.served(5) // The second follows from the first: the rule is an approval once head has it.
	for sequence, approves := range map[intent.Sequence]bool{3: true, 4: false, 5: true} {
		if addon := w.turndownAt(sequence, "preview/pr-7/db"); addon == nil || (addon.GetPreview() != nil) != approves {
			t.Errorf("in %d it has the Turndown %v", sequence, addon)
		}
	}
}

// TestWhatIsNoPreviewIsRefused: a template that names an asset as none of its preview, another
// generator that names one as a preview is named, and a Turndown that somebody wrote.
func TestWhatIsNoPreviewIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"the template names another preview's": {func(w *world) {
			w.write("review.star", strings.Replace(previewStar, `"preview/" + ctx.key + "/"`, `"preview/pr-8/"`, 1))
		}, "makes preview/pr-8/db in its run for the preview pr-7, whose assets are named preview/pr-7/*"},
		"the template names what is none": {func(w *world) {
			w.write("review.star", strings.Replace(previewStar, `"preview/" + ctx.key + "/"`, `"job/" + ctx.key + "/"`, 1))
		}, "makes job/pr-7/db in its run for the preview pr-7"},
		"another generator": {func(w *world) {
			w.write("base/pr-7.yaml", "id: preview/pr-7/cache\ntype: Job\npayload: {name: cache, binary: /bin/x, version: \"1\", replicas: 2}\n")
		}, `is named like an asset of a preview of the rule review, and is made by "basis"`},
		"a Turndown that somebody wrote": {func(w *world) {
			w.write("base/base.yaml", "id: job/base\ntype: Job\npayload: {name: base, binary: /bin/x, version: \"1\", replicas: 2}\naddons: {Turndown: {reason: old, preview: {rule: review, digest: abc, preview: pr-7}}}\n")
		}, `has a Turndown that names the preview "pr-7", which Lehr alone sets`},
	} {
		t.Run(name, func(t *testing.T) {
			w := previewWorld(t, previewRules)
			w.start()
			w.served(1)
			w.preview(map[string]*branchpreview.Entry{"pr-7": previewOf("form", 7)})
			w.served(2)
			c.change(w)
			if f := w.refused(prodspec.Rejected, 2); !strings.Contains(f.Message, c.want) || f.Hint == "" {
				t.Errorf("%+v, want %q", f, c.want)
			}
		})
	}
}

// TestOrphansOfOthersAreNoPreviews: what another generator made, and gives no more, is no preview's,
// also where it is named so.
func TestOrphansOfOthersAreNoPreviews(t *testing.T) {
	loose := strings.Replace(previewText, "max: 5%, floor: 0", "max: 90%, floor: 9", 1)
	w := previewWorld(t, "")
	w.write("lehr.yaml", loose)
	w.write("base/pr-7.yaml", "id: preview/pr-7/cache\ntype: Job\npayload: {name: cache, binary: /bin/x, version: \"1\", replicas: 2}\n")
	w.start()
	w.served(1)
	w.enforce(1, false, "preview/pr-7/cache", "job/base")
	w.remove("base/pr-7.yaml")
	w.served(2)
	w.write("lehr.yaml", loose+previewRules)
	w.served(3)
	w.preview(map[string]*branchpreview.Entry{"pr-7": endingOf(previewOf("form", 7))})
	w.served(4)
	if w.has("preview/pr-7/cache") || !w.has("preview/pr-7/web") {
		t.Errorf("head has %v", w.assets())
	}
}
