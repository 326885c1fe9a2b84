package web_test

import (
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// TestCalendar: the windows of all checks are shown by week and by month, and what opens next.
func TestCalendar(t *testing.T) {
	w := newWorld(t)
	if said := words(w.shows("/calendar")); !strings.Contains(said, "No check of 0 partitions has a calendar") {
		t.Errorf("without calendars it says %s", said)
	}
	tomorrow := time.Now().UTC().AddDate(0, 0, 1)
	check := &intentpb.Check{Name: "office", Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{
		Zone: "UTC", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: tomorrow.Format("Mon") + " 09:00-17:00"}}},
	}}}
	set := schema.Builtin()
	packed, err := set.Pack(&intentpb.Policy{Checks: []*intentpb.Check{check}})
	w.must(err)
	body, digest, err := set.Encode(intent.Asset{ID: intent.PolicyAsset, Payload: packed})
	w.must(err)
	parent := intent.IncarnationID{Partition: "shop"}
	w.must(w.store.Stage(t.Context(), w.lease, parent, []store.Entry{{
		Asset: intent.PolicyAsset, Body: body, Member: intent.Member{Asset: intent.PolicyAsset, Type: packed.Type, Digest: digest, Effective: digest, Since: 1},
	}}))
	_, err = w.store.Publish(t.Context(), w.lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: "shop", Sequence: 1}, Parent: parent, Schema: set.Digest(), Created: time.Now(), Author: ann, Added: 1, Count: 1, Policy: digest,
	})
	w.must(err)
	day := tomorrow.Format("2006-01-02")
	said := words(w.shows("/calendar?from="+day, `class="day-part">open 09:00–17:00`))
	if !strings.Contains(said, "office of shop opens") || !strings.Contains(said, "What opens next") {
		t.Errorf("the week says %s", said)
	}
	said = words(w.shows("/calendar?view=month&from="+day, `class="day-closed"`, `class="day-part">open 09:00–17:00`))
	if !strings.Contains(said, "Calendar of "+tomorrow.Format("January 2006")) {
		t.Errorf("the month says %s", said)
	}
	if status, _ := w.get("/calendar?from=soon"); status != 400 {
		t.Errorf("a day that is none is answered %d", status)
	}
}
