package check

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

func TestNothingIsPushedBesideAVerification(t *testing.T) {
	head := intent.IncarnationID{Partition: "shop", Sequence: 7}
	v := &intent.Verification{Name: "smoke", Environment: "test", Application: "web", Version: intent.VersionName{Name: "1.1.0"}, Head: head, Until: time.Unix(60, 0)}
	if got := verification(Facts{Head: head}); got.Answer != intent.Pass {
		t.Errorf("without one: %+v", got)
	}
	got := verification(Facts{Head: head, Verification: v})
	if got.Answer != intent.Wait || got.Waiting.Kind != intent.WaitVerification || !strings.Contains(got.Waiting.Reason, "the verification smoke of version 1.1.0") {
		t.Errorf("with one: %+v", got)
	}
	head.Sequence++
	if got = verification(Facts{Head: head, Verification: v}); !strings.Contains(got.Waiting.Reason, "is new") {
		t.Errorf("with one of an older head: %+v", got)
	}
}
