package enforcer

import (
	"context"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// TestAStalePushKeepsItsApprovalUsed: what its plugin says of it may be wrong, so the
// approval is used, and the journal and the report say so and why.
func TestAStalePushKeepsItsApprovalUsed(t *testing.T) {
	simulate(t, func(w *world) {
		stale := plugin.PushResult{Ending: plugin.Stale, Reason: "the plan moved"}
		w.production.does("web", behaviour{destructive: true, push: func(context.Context, func(), plugin.Push) plugin.PushResult { return stale }})
		w.publish(web)
		w.waitsOn("web", intent.WaitApproval)
		w.approve("web")
		w.eventually("the push ends", func() bool {
			pushes, err := w.store.Pushes(w.ctx, shop, "web", 1)
			w.must(err)
			return len(pushes) == 1 && pushes[0].Ending == string(plugin.Stale)
		})
		w.waitsOn("web", intent.WaitApproval)
		pushes, err := w.store.Pushes(w.ctx, shop, "web", 1)
		w.must(err)
		for what, text := range map[string]string{"the journal": pushes[0].Reason, "the report": w.report("web").PushNote} {
			if !strings.Contains(text, "the plan moved. The approval that it used stays used") {
				t.Errorf("%s says %q", what, text)
			}
		}
		w.unpushed("web", "its approval is used")
	})
}
