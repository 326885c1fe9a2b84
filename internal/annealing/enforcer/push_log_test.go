package enforcer

import (
	"context"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// TestAPushUnderWayHasALog: what its plugin tells is kept until the push has ended, and no longer; what comes
// afterwards, or under another lease, is of nobody.
func TestAPushUnderWayHasALog(t *testing.T) {
	simulate(t, func(w *world) {
		end, afterwards := make(chan struct{}), make(chan func(string), 1)
		w.production.does("web", behaviour{push: func(_ context.Context, effect func(), push plugin.Push) plugin.PushResult {
			push.Log("step 1\nlogin with ghp_0123456789abcdefghijklmnopqrstuvwxyz")
			push.Progress("login with ghp_0123456789abcdefghijklmnopqrstuvwxyz")
			<-end
			push.Log("step 3")
			afterwards <- push.Log
			effect()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web)
		w.eventually("it is pushed", func() bool { return w.report("web").State == intent.StatePushing })
		push := w.report("web").Push
		kept, ok := w.pushLog.Read(push)
		if !ok || len(kept.Lines) != 2 || kept.Lines[1].Text != "login with (redacted)" || kept.Lines[1].At.IsZero() {
			t.Errorf("while it is under way is kept %+v, %t", kept, ok)
		}
		w.eventually("its report has the last line", func() bool { return w.report("web").PushNote == "login with (redacted)" })
		close(end)
		w.inSync(web)
		(<-afterwards)("step 4")
		if kept, ok := w.pushLog.Read(push); ok {
			t.Errorf("after its end is kept %+v", kept)
		}
		w.pushLog.Open("shop/0-9")
		w.restart(func() {})
		w.publish(webV2)
		w.inSync(webV2)
		if _, ok := w.pushLog.Read("shop/0-9"); ok {
			t.Error("the next lease has the logs of the one before")
		}
	})
}
