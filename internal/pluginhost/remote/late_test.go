package remote

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
)

// TestAPushThatComesLateIsAskedFor: between the owner's look and the push this
// process was held up, and the newest permit request, which counts from when
// it was taken out of the buffer, is younger than the look (S2, S18).
func TestAPushThatComesLateIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, heldUp := range map[string]bool{"held up": true, "at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child, dir, push := troubled(t, "apply-loop")
			link := child.session.pushes.Load()
			newest := func() (uint64, time.Time) {
				link.mutex.Lock()
				defer link.mutex.Unlock()
				return link.request, link.received
			}
			if eventually(t, "the plugin has asked", func() bool { request, _ := newest(); return request > 0 }); heldUp {
				push.Checked = time.Now()
				eventually(t, "it has asked again", func() bool { _, received := newest(); return received.After(push.Checked) })
			}
			push.Permit = func(context.Context, string) error { return errors.New("a stop is on") }
			result := child.Push(t.Context(), push)
			if result.Ending != plugin.Stopped || !strings.Contains(result.Reason, "a stop is on") {
				t.Errorf("%+v", result)
			}
			if _, effects := notes(t, dir, "effect"); (len(effects) == 0) != heldUp {
				t.Errorf("%d effects", len(effects))
			}
		})
	}
}
