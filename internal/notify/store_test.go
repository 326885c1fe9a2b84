package notify

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// TestWhatChangedIsStored: of many assets the shares of those that did, and of a
// notification that is no more, nothing is left.
func TestWhatChangedIsStored(t *testing.T) {
	waits := &intentpb.Notification{Name: "waits", When: `report.state == "waiting"`, To: []string{"chat"}}
	b := newBench(t, waits)
	for i := range 5000 {
		b.is(fmt.Sprintf("asset/%d", i), "stop")
	}
	b.restart()
	if len(b.Active["waits"]) != 5000 || len(b.rows) != shares+1 {
		t.Fatalf("%d assets, in %d rows", len(b.Active["waits"]), len(b.rows))
	}
	whole := 0
	for _, row := range b.rows {
		whole += len(row)
	}
	b.is("asset/7", "in-sync")
	rows, err := b.Rows()
	changed := 0
	for _, row := range rows {
		changed += len(row)
	}
	if err != nil || len(rows) != 2 || changed > whole/20 {
		t.Errorf("%d rows of %d bytes are written of %d, for one asset: %v", len(rows), changed, whole, err)
	}
	b.restart()
	if b.Active["waits"]["asset/7"].Left.IsZero() || !b.Active["waits"]["asset/8"].Left.IsZero() {
		t.Error("what is so is not as it was")
	}
	b.policy()
	b.restart()
	if len(b.rows) != 1 || len(b.Active) != 0 {
		t.Errorf("%d rows are left of a notification that is no more", len(b.rows))
	}
}

// TestWhatWasStoredInOneIsRead: as it was before, and then anew.
func TestWhatWasStoredInOneIsRead(t *testing.T) {
	b := newBench(t, &intentpb.Notification{Name: "waits", When: `report.state == "waiting"`, To: []string{"chat"}})
	b.is("a", "stop")
	old, err := pack(*b.State)
	if err != nil {
		t.Fatal(err)
	}
	before := b.Active
	b.rows = rows{BlobName: old}
	if b.State, err = Load(t.Context(), b.rows, "shop"); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if diff := cmp.Diff(before, b.Active); diff != "" || len(b.rows) != 2 {
		t.Errorf("%d rows, %s", len(b.rows), diff)
	}
	for name := range b.rows {
		damaged := rows{}
		for other, row := range b.rows {
			damaged[other] = row
		}
		damaged[name] = []byte("damaged")
		if _, err := Load(t.Context(), damaged, "shop"); !errors.Is(err, errUnreadable) {
			t.Errorf("%s is damaged: %v", name, err)
		}
		if delete(damaged, name); name == BlobName {
			continue
		}
		if _, err := Load(t.Context(), damaged, "shop"); !errors.Is(err, errUnreadable) {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	if _, err := Load(t.Context(), rows{}, intent.PartitionID("shop")); err != nil {
		t.Error(err)
	}
}
