package query_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
)

func (w *world) blame(of intent.IncarnationID, asset intent.AssetID, field string) query.Blame {
	w.Helper()
	b, err := w.reader.Blame(w.Context(), of, asset, field)
	w.must(err)
	return b
}

// What is not retained is not told as if it were known, and changes of others
// cost nothing.
func TestBlameGoesBackByTheChangesOfTheAsset(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, job(t, "a", 1), job(t, "b", 1))
	for i := range 10 {
		w.publish(nil, job(t, "b", 10+i))
	}
	w.publish(nil, job(t, "a", 2)) // shop@12
	for i := range 10 {
		w.publish(nil, job(t, "b", 20+i))
	}
	head := id(w.head)
	w.bodies.Store(0)
	b := w.blame(head, "a", "payload.replicas")
	if b.Since != id(12) || b.Before != id(11) || !b.Exact || b.Cut || b.Value != "2" || b.Was != "1" || !b.Unknown || b.Published.IsZero() {
		t.Errorf("%+v", b)
	}
	if read := w.bodies.Load(); read != 2 {
		t.Errorf("%d contents were read, want 2", read)
	}
	if b := w.blame(head, "a", "payload.binary"); b.Since != id(1) || !b.Exact || !b.Before.IsZero() {
		t.Errorf("the binary: %+v", b)
	}
	if b := w.blame(id(11), "a", "payload.replicas"); b.Since != id(1) || b.Value != "1" {
		t.Errorf("as of shop@11: %+v", b)
	}

	w.must(w.SetLabel(t.Context(), id(3), "keep", "it", "a try", ann))
	collect := func() {
		t.Helper()
		_, err := w.Collect(t.Context(), w.lease, store.Retention{Incarnations: 1}, time.Now().AddDate(1, 0, 0))
		w.must(err)
	}
	collect()
	if b := w.blame(head, "a", "payload.replicas"); b.Since != id(12) || b.Before != id(3) || b.Exact || b.Was != "1" || !b.Published.IsZero() {
		t.Errorf("with shop@3 and head retained: %+v", b)
	}
	w.must(w.SetLabel(t.Context(), id(3), "keep", "", "a try", ann))
	collect()
	if b := w.blame(head, "a", "payload.replicas"); b.Since != id(12) || !b.Before.IsZero() || b.Exact {
		t.Errorf("with head retained: %+v", b)
	}
}

func TestBlameOfWhatWasGone(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, job(t, "a", 1), job(t, "b", 1))
	w.publish([]intent.AssetID{"a"})
	w.publish(nil, job(t, "a", 1))
	if b := w.blame(id(3), "a", ""); b.Since != id(3) || b.Before != id(2) || !b.Exact {
		t.Errorf("%+v", b)
	}
	for asset, field := range map[intent.AssetID]string{"c": "", "a": "payload.replica"} {
		_, err := w.reader.Blame(t.Context(), id(3), asset, field)
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s %s: %v", asset, field, err)
		}
	}
	_, err := w.reader.Blame(t.Context(), id(3), "a", "payload.replica")
	if e, ok := errors.AsType[*fault.Error](err); !ok || !strings.Contains(e.Hint, "payload.replicas") {
		t.Errorf("%v does not say what there is", err)
	}
}

// One call looks back no further than it may cost.
func TestBlameIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 210 {
		w.publish(nil, job(t, "a", i))
	}
	if b := w.blame(id(210), "a", "payload.name"); !b.Cut || b.Exact || b.Since != id(10) {
		t.Errorf("%+v", b)
	}
	if b := w.blame(id(210), "a", "payload.replicas"); b.Since != id(210) || b.Was != fmt.Sprint(208) {
		t.Errorf("%+v", b)
	}
}
