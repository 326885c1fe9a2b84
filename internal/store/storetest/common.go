package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testCommonPolicy(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Set", func(t *testing.T) { commonPolicyIsSet(newWorld(t, open)) })
	t.Run("Admission", func(t *testing.T) { commonPolicyMovesAdmission(newWorld(t, open)) })
}

func commonPolicy(text string) store.CommonPolicy {
	return store.CommonPolicy{Body: []byte(text), Digest: intent.Sum("common", []byte(text)), Place: "/etc/lehr-policy.yaml", Revision: "r-" + text}
}

// commonPolicyIsSet: what was set is read, with what keeps its file from being used; only a
// changed body raises revisions.
func commonPolicyIsSet(w *world) {
	if none, err := w.CommonPolicy(w.t.Context()); err != nil || !cmp.Equal(none, store.CommonPolicy{}) {
		w.t.Fatalf("before anything was set: %v, %v", none, err)
	}
	set := func(policy store.CommonPolicy) store.CommonPolicy {
		w.t.Helper()
		w.must(w.SetCommonPolicy(w.t.Context(), policy, alice))
		read, err := w.CommonPolicy(w.t.Context())
		w.must(err)
		return read
	}
	first := set(commonPolicy("freeze"))
	if first.Since.IsZero() || string(first.Body) != "freeze" || first.Digest != commonPolicy("freeze").Digest || first.Revision != "r-freeze" {
		w.t.Fatalf("read %+v", first)
	}
	revision := w.revision()
	if again := set(commonPolicy("freeze")); !cmp.Equal(again, first) || w.revision() != revision {
		w.t.Fatalf("the same again: %+v, revision %d", again, w.revision())
	}
	broken := commonPolicy("freeze")
	broken.Problems = []intent.Finding{{Rule: "definition", Severity: intent.Error, File: "lehr-policy.yaml", Line: 3, Message: "unknown field chekcs"}}
	read := set(broken)
	if !cmp.Equal(read.Problems, broken.Problems) || read.ProblemsSince.IsZero() || string(read.Body) != "freeze" || read.Since != first.Since {
		w.t.Fatalf("with problems: %+v", read)
	}
	if w.revision() != revision {
		w.t.Fatal("problems of the file moved what decisions rest on")
	}
	if mended := set(commonPolicy("freeze")); !cmp.Equal(mended, first) {
		w.t.Fatalf("mended: %+v", mended)
	}
	if next := set(commonPolicy("other")); string(next.Body) != "other" || w.revision() == revision {
		w.t.Fatalf("another: %+v, revision %d", next, w.revision())
	}
}

// commonPolicyMovesAdmission: nothing is admitted that was decided before it changed.
func commonPolicyMovesAdmission(w *world) {
	w.publish(entry("a", "x"), entry("b", "x"))
	head := w.partition(shop).Head
	decided := w.admission("p/a", "a", head)
	w.must(w.SetCommonPolicy(w.t.Context(), commonPolicy("freeze"), alice))
	w.waits(decided, intent.WaitStale)
	w.admitted(w.admission("p/b", "b", head))
}
