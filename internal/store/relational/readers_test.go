package relational_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// TestManyFirstReadsAtOnce: many more readers than connections, each with a
// statement that nobody prepared yet, while others hold connections and want
// one too. They used to wait for each other for ever.
func TestManyFirstReadsAtOnce(t *testing.T) {
	for range 20 {
		db, err := sqlite.Memory()
		if err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		by := intent.Actor{Name: "tester"}
		if err := s.AddPartition(t.Context(), "shop", "/shop/lehr.yaml", "a try", by); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		head := intent.IncarnationID{Partition: "shop", Sequence: 1}
		reads := []func(){
			func() { _, _ = s.Partition(ctx, "shop") },
			func() { _, _ = s.Member(ctx, head, "web") },
			func() { _, _ = s.Pins(ctx, "shop") },
			func() { _, _ = s.OpenPushes(ctx, "shop") },
			func() { _, _ = s.Consents(ctx, "shop") },
			func() { _, _ = s.ListReports(ctx, "shop", store.ReportFilter{}) },
			func() { _, _ = s.EnforcedPage(ctx, "shop", "", 10) },
			func() { _, _ = s.AuditRecords(ctx, "shop", 0, 10) },
		}
		var running sync.WaitGroup
		begin := make(chan struct{})
		for i := range 16 * len(reads) {
			running.Go(func() {
				<-begin
				reads[i%len(reads)]()
			})
		}
		close(begin)
		running.Wait()
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("readers waited for each other: %w", ctx.Err()))
		}
		cancel()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
}
