package explain

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// TestModeHint: where an addon says observe, no change of lehr.yaml is advised.
func TestModeHint(t *testing.T) {
	for _, c := range []struct {
		places    []intent.ModePlace
		says, not string
	}{
		{[]intent.ModePlace{intent.ModeOfPartition}, `set "mode: enforce" in lehr.yaml`, "addon"},
		{[]intent.ModePlace{intent.ModeOfType}, `under "modes" in lehr.yaml`, "addon"},
		{[]intent.ModePlace{intent.ModeOfAsset}, "take its addon Mode away", "lehr.yaml"},
		{[]intent.ModePlace{intent.ModeOfPartition, intent.ModeOfAsset}, `set "mode: enforce" in lehr.yaml; and take its addon Mode away`, "modes"},
		{nil, "lehr describe asset web", "take"},
	} {
		hint := hintFor(intent.Report{Asset: "web"}, intent.WaitingOn{Kind: intent.WaitMode, Modes: c.places})
		if !strings.Contains(hint, c.says) || strings.Contains(hint, c.not) {
			t.Errorf("%v: %s", c.places, hint)
		}
	}
}
