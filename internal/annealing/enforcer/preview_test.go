package enforcer

import (
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/intent"
)

func previewRule() *intentpb.PreviewRule {
	return &intentpb.PreviewRule{Name: "review", Before: "preview-", After: "/", Generator: "review"}
}

// ended is a job that a preview made, and whose preview has ended.
func ended(id intent.AssetID, preview string, dependencies ...*intentpb.Dependency) thing {
	th := job(id, 1, "1", dependencies...)
	th.word = ""
	th.addons = append(th.addons, &intentpb.Turndown{Reason: "the preview has ended", Preview: branchpreview.New(previewRule()).Removal(preview)})
	return th
}

// TestAnEndedPreviewRemovesWhatItMade: in the reverse order of dependencies, with no approval of
// people, and the audit names the rule.
func TestAnEndedPreviewRemovesWhatItMade(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Previews = []*intentpb.PreviewRule{previewRule()}
		w.publish(job("preview-a/db", 1, "1"), job("preview-a/web", 1, "1", comesAfter("preview-a/db")), job("other", 1, "1"))
		w.inSync(job("preview-a/db", 1, "1"), job("preview-a/web", 1, "1"), job("other", 1, "1"))
		w.publish(ended("preview-a/db", "a"), ended("preview-a/web", "a", comesAfter("preview-a/db")), job("other", 1, "1"))
		w.eventually("removed", func() bool { return w.production.word("preview-a/db")+w.production.word("preview-a/web") == "" })
		order := w.production.order()
		if n := len(order); !slices.Equal(order[n-2:], []intent.AssetID{"preview-a/web", "preview-a/db"}) || w.production.word("other") == "" {
			t.Errorf("pushed %v", order)
		}
		if detail := w.lastAdmission("preview-a/db"); !strings.Contains(detail, "; approval of rule review ") || strings.Contains(detail, "approved by") {
			t.Errorf("the audit says %q", detail)
		}
	})
}

// TestAPreviewRemovesNothingThatItDidNotMake: what was there before, or is another preview's, or
// whose rule is not in force, is for people to decide.
func TestAPreviewRemovesNothingThatItDidNotMake(t *testing.T) {
	for name, c := range map[string]struct {
		there   bool
		preview string
		without bool
		says    string
	}{
		"it was there in sync":  {there: true, preview: "a", says: "the preview a did not make what is there"},
		"of another preview":    {preview: "b", says: "needs the approval"},
		"the rule is not there": {preview: "a", without: true, says: "needs the approval"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				if !c.without {
					w.policy.Previews = []*intentpb.PreviewRule{previewRule()}
				}
				if c.there {
					w.production.set("preview-a/web", job("preview-a/web", 1, "1").word)
				}
				w.publish(job("preview-a/web", 1, "1"))
				w.inSync(job("preview-a/web", 1, "1"))
				w.publish(ended("preview-a/web", c.preview))
				if waiting := w.waitsOn("preview-a/web", intent.WaitApproval); !strings.Contains(waiting.Reason, c.says) {
					t.Errorf("it says %q", waiting.Reason)
				}
				w.pass(time.Hour)
				if w.production.word("preview-a/web") == "" {
					t.Fatal("removed without an approval (S9)")
				}
				w.approve("preview-a/web")
				w.eventually("removed", func() bool { return w.production.word("preview-a/web") == "" })
			})
		})
	}
}
