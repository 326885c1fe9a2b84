package prodspec_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/validate"
)

// TestWhatIsNotAnsweredIsHeld: no answer from outside is neither a pass nor a
// rejection, and what is found of one candidate may change.
func TestWhatIsNotAnsweredIsHeld(t *testing.T) {
	const silent, no, yes = 0, 1, 2
	var says atomic.Int32
	w := newWorld(t, "web")
	w.outside = func(_ context.Context, questions []validate.Question) []validate.Reply {
		replies := make([]validate.Reply, len(questions))
		for i := range replies {
			switch says.Load() {
			case silent:
				replies[i].Err = errors.New("it is on holiday")
			default:
				replies[i].Answer = rule.Answer{Exit: int(yes - says.Load())}
			}
		}
		return replies
	}
	w.start()
	w.served(1)
	w.replace("lehr.yaml", "  shrink:", "  rules: [{id: licensed, where: type == \"Job\", command: [/bin/license], must: answer.exit == 0}]\n  shrink:")
	if f := w.refused(prodspec.Held, 1); !strings.Contains(f.Message, "it is on holiday") || f.Severity != intent.Holding {
		t.Errorf("%+v", f)
	}
	held := w.pipeline.Status().Candidate
	stored := func() intent.Candidate {
		t.Helper()
		candidate, err := w.store.Candidate(t.Context(), "shop", held.Digest.String())
		if err != nil {
			t.Fatal(err)
		}
		return candidate
	}
	says.Store(no)
	w.replace("lehr.yaml", "lehr: v1", "lehr: v1 # looked at again")
	if f := w.refused(prodspec.Rejected, 1); f.Rule != "rules.licensed" || w.pipeline.Status().Candidate != held {
		t.Errorf("%+v", f)
	}
	if got := stored(); got.State != intent.CandidateRejected || strings.Contains(got.Findings[0].Message, "holiday") {
		t.Errorf("%+v", got)
	}
	says.Store(silent)
	w.replace("lehr.yaml", "looked at again", "and again")
	w.refused(prodspec.Held, 1)
	if got := stored(); got.State != intent.CandidateHeld || !strings.Contains(got.Findings[0].Message, "holiday") {
		t.Errorf("%+v", got)
	}
	if err := w.store.Acknowledge(t.Context(), held, "we know it", person); err != nil {
		t.Fatal(err)
	}
	w.served(2)
	if incarnation, err := w.store.Incarnation(t.Context(), w.pipeline.Status().Head); err != nil || incarnation.Acknowledger.Name != person.Name || len(incarnation.Labels) != 0 {
		t.Errorf("%+v %v", incarnation, err)
	}
	// It holds again for what changes, until there is an answer.
	w.replace("service.yaml", "version: ", "version: x")
	w.refused(prodspec.Held, 2)
	says.Store(yes)
	w.replace("lehr.yaml", "and again", "at last")
	w.served(3)
}
