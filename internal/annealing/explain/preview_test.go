package explain

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestThePreviewIsNamedLast: which preview an asset is of is told, and is never what it waits for.
func TestThePreviewIsNamedLast(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	head := intent.IncarnationID{Partition: "shop", Sequence: 2}
	f := Facts{
		Partition: "shop", Head: head, Asset: "preview/pr-7/web", Now: at,
		Reports: map[intent.AssetID]intent.Report{"preview/pr-7/web": {Partition: "shop", Asset: "preview/pr-7/web", State: intent.StateInSync, Target: head, At: at}},
		Preview: &Preview{Rule: "review", Name: "pr-7", Subject: "pull request 7 (form)", Link: "https://hub/7", Expires: at.Add(time.Hour)},
	}
	answer := Explain(f)
	last := answer.Reasons[len(answer.Reasons)-1]
	if answer.Root.Kind == KindPreview || last.Kind != KindPreview || !last.Until.Equal(at.Add(time.Hour)) ||
		!strings.Contains(last.Text, "the preview pr-7 (rule review) of pull request 7 (form), https://hub/7, which expires at 2026-11-30T13:00:00Z") {
		t.Errorf("%+v", answer)
	}
	f.Preview.Ending, f.Preview.Since = "its pull request was closed or merged", at
	answer = Explain(f)
	if last := answer.Reasons[len(answer.Reasons)-1]; !strings.Contains(last.Text, "which ends: its pull request was closed or merged") || last.Hint == "" {
		t.Errorf("%+v", last)
	}
}
