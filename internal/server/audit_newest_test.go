package server_test

import (
	"fmt"
	"slices"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// TestTheNewestOfTheAudit: the audit is read backwards by pages, all of it once, also of what is chosen.
func TestTheNewestOfTheAudit(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		by := ann
		if i%5 == 0 {
			by = intent.Actor{Name: "bob", Origin: "cli"}
		}
		w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: intent.AssetID(fmt.Sprint("web/", i)), Owner: by, Reason: "racks"}))
	}
	forward, err := w.client.Audit.ListAudit(t.Context(), &apipb.ListAuditRequest{Partition: "shop"})
	w.must(err)
	list := func(request *apipb.ListAuditRequest) (numbers []uint64) {
		t.Helper()
		request.Partition, request.NewestFirst = "shop", true
		for pages := 0; ; pages++ {
			response, err := w.client.Audit.ListAudit(t.Context(), request)
			w.must(err)
			for _, r := range response.Records {
				numbers = append(numbers, r.Number)
			}
			if response.Next == 0 {
				return numbers
			}
			if request.Before = response.Next; pages > 100 {
				t.Fatal("the pages do not end")
			}
		}
	}
	var all, bobs []uint64
	for _, r := range slices.Backward(forward.Records) {
		all = append(all, r.Number)
		if r.By.Name == "bob" {
			bobs = append(bobs, r.Number)
		}
	}
	if len(bobs) != 5 {
		t.Fatalf("bob did %d things", len(bobs))
	}
	for _, limit := range []int32{0, 1, 7, 25, int32(len(all)), 1000} {
		if numbers := list(&apipb.ListAuditRequest{Limit: limit}); !slices.Equal(numbers, all) {
			t.Errorf("by %d: %v, want %v", limit, numbers, all)
		}
		if numbers := list(&apipb.ListAuditRequest{Limit: limit, Actor: "bob"}); !slices.Equal(numbers, bobs) {
			t.Errorf("bob's by %d: %v, want %v", limit, numbers, bobs)
		}
	}
	if numbers := list(&apipb.ListAuditRequest{Verb: "hold", Subject: "web/3"}); len(numbers) != 1 {
		t.Errorf("one hold is %v", numbers)
	}
	if numbers := list(&apipb.ListAuditRequest{Since: forward.Records[len(all)-1].At}); len(numbers) == 0 || numbers[0] != all[0] {
		t.Errorf("since the last: %v", numbers)
	}
	_, err = w.client.Audit.ListAudit(t.Context(), &apipb.ListAuditRequest{Partition: "shop", NewestFirst: true, After: 3})
	w.refused(err, fault.Invalid, "oldest first")
	_, err = w.client.Audit.ListAudit(t.Context(), &apipb.ListAuditRequest{Partition: "shop", Before: 3})
	w.refused(err, fault.Invalid, "newest_first")
}
