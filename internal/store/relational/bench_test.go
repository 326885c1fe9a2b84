package relational_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/storetest"
)

// BenchmarkPush admits and closes pushes durably: one operation is one push.
// Its callers hand in slices, as pushers do. Some count under rate limits: of
// the asset, of one of four scopes, and of the partition.
func BenchmarkPush(b *testing.B) {
	for _, c := range []struct{ callers, slice, rates int }{
		{1, 1, 0}, {1, 1, 3}, {64, 1, 0}, {1, 16, 0}, {8, 16, 0}, {8, 16, 3}, {1, 128, 0}, {1, 128, 3}, {2, 128, 0},
	} {
		b.Run(fmt.Sprintf("callers=%d/slice=%d/rates=%d", c.callers, c.slice, c.rates), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "lehr.db"))
			lease := storetest.Register(b, s)
			published := storetest.Publish(b, s, lease, []store.Entry{storetest.Text("a", "x")})
			p, err := s.Partition(b.Context(), "shop")
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			var group sync.WaitGroup
			for caller := range c.callers {
				group.Go(func() {
					for first := 0; first < b.N/c.callers; first += c.slice {
						count := min(c.slice, b.N/c.callers-first)
						admissions, closings := slice(caller, first, count, published.ID, p.Revision, c.rates)
						refusals, err := s.Admit(b.Context(), lease, admissions)
						if err == nil {
							err = s.ClosePushes(b.Context(), lease, closings)
						}
						for _, refusal := range refusals {
							if refusal != nil {
								b.Error(refusal.Waiting.Reason)
							}
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pushes/s")
		})
	}
}

// BenchmarkPushPlan admits and closes slices of pushes that keep no plan, and such as keep
// one, by turns in one store, and says how many of each go through in a second.
func BenchmarkPushPlan(b *testing.B) {
	const size = 16
	for _, changes := range []int{1, 3, 40} {
		b.Run(fmt.Sprint("changes=", changes), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "lehr.db"))
			lease := storetest.Register(b, s)
			published := storetest.Publish(b, s, lease, []store.Entry{storetest.Text("a", "x")})
			p, err := s.Partition(b.Context(), "shop")
			if err != nil {
				b.Fatal(err)
			}
			plan := intent.Plan{Action: intent.ActionUpdate}
			for i := range changes {
				plan.Changes = append(plan.Changes, intent.FieldChange{
					Path: fmt.Sprintf("spec.containers[%d].image", i), Current: fmt.Sprintf("registry.example/shop/web:%d", 100+i), Target: fmt.Sprintf("registry.example/shop/web:%d", 101+i),
				})
			}
			var took [2]time.Duration
			b.ResetTimer()
			for turn := range b.N {
				for kind, detail := range []intent.Plan{{}, plan} {
					admissions, closings := slice(kind, turn*size, size, published.ID, p.Revision, 0)
					for i := range admissions {
						admissions[i].PlanDetail = detail
					}
					began := time.Now()
					refusals, err := s.Admit(b.Context(), lease, admissions)
					if err == nil {
						err = s.ClosePushes(b.Context(), lease, closings)
					}
					took[kind] += time.Since(began)
					if err != nil || refusals[0] != nil {
						b.Fatal(refusals, err)
					}
				}
			}
			for kind, unit := range []string{"pushes/s-without", "pushes/s-with"} {
				b.ReportMetric(float64(b.N*size)/took[kind].Seconds(), unit)
			}
		})
	}
}

func slice(caller, first, count int, target intent.IncarnationID, revision uint64, rates int) (admissions []store.Admission, closings []store.Closing) {
	now := time.Now()
	for i := first; i < first+count; i++ {
		asset := fmt.Sprintf("service-%d/job-%d", caller, i%10_000)
		push := intent.PushID(fmt.Sprintf("%016x-%d-%d", i*2654435761, caller, i))
		admissions = append(admissions, store.Admission{
			Push: push, Asset: intent.AssetID(asset), Target: target, Effective: intent.Digest{1}, Plan: intent.Digest{2},
			ResourceKey: intent.ResourceKey(asset), Revision: revision, ValidUntil: now.Add(time.Minute), At: now,
			Budgets: []store.BudgetUse{{Key: fmt.Sprintf("cluster/%d", i%4), Limit: 100_000}},
			Checks:  []string{"order", "hold", "approval"},
			Grounds: []intent.Ground{
				{Check: "target", Fact: target.String() + ", which is head"}, {Check: "order", Fact: "service-7/db in sync", Until: now.Add(time.Minute)},
				{Check: "errors", Fact: "error_ratio 0.004 < 0.02, 8 s old", Until: now.Add(time.Minute)},
			},
		})
		for _, key := range []string{"hourly asset=" + asset, fmt.Sprint("slowly scope cluster=", i%4), "daily partition="}[:rates] {
			a := &admissions[len(admissions)-1]
			a.Rates = append(a.Rates, store.RateUse{Key: key, Limit: 1000, Period: time.Nanosecond})
		}
		closings = append(closings, store.Closing{Push: push, Ending: "pushed", At: now})
	}
	return admissions, closings
}

// BenchmarkPublishOneChange publishes one changed asset of many, and reports
// how many bytes the log grew by for each.
func BenchmarkPublishOneChange(b *testing.B) {
	for _, count := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("assets=", count), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "lehr.db"))
			lease := storetest.Register(b, s)
			delta := make([]store.Entry, count)
			for i := range delta {
				asset := fmt.Sprintf("service-%d/job-%d", i%100, i)
				delta[i] = storetest.Text(asset, "content of "+asset)
				delta[i].References = []intent.Reference{{Field: "balancer", To: "lb"}}
				delta[i].Fields = []intent.Field{
					{Path: "Owner"}, {Path: "Owner.owner", Value: "sre"}, {Path: "ImpactedScope"}, {Path: "ImpactedScope.scopes", Value: "cluster-a"},
					{Path: "Job.name", Value: asset}, {Path: "Job.version", Value: "1.2.3"},
				}
			}
			started := time.Now()
			storetest.Publish(b, s, lease, delta)
			first := time.Since(started)
			before := s.RowsWritten()
			b.ResetTimer()
			for i := range b.N {
				changed := delta[i%count]
				changed = storetest.Text(string(changed.Asset), fmt.Sprint("change ", i))
				changed.References, changed.Fields = delta[i%count].References, delta[i%count].Fields
				storetest.Publish(b, s, lease, []store.Entry{changed})
			}
			b.ReportMetric(float64(s.RowsWritten()-before)/float64(b.N), "rows/op")
			b.ReportMetric(first.Seconds(), "s-first-publish")
		})
	}
}

// BenchmarkRead reads what plugins and pages ask for, among 20 000 assets.
func BenchmarkRead(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "lehr.db"))
	lease := storetest.Register(b, s)
	const count = 20_000
	delta := make([]store.Entry, count)
	for i := range delta {
		delta[i] = storetest.Text(fmt.Sprintf("asset/%05d", i), fmt.Sprint("content ", i))
		delta[i].References = []intent.Reference{{Field: "on", To: "asset/00000"}}
		delta[i].Fields = []intent.Field{{Path: "scope", Value: fmt.Sprint("cluster-", i%2)}, {Path: "addon"}}
	}
	head := storetest.Publish(b, s, lease, delta).ID
	b.Run("member-and-body", func(b *testing.B) {
		for i := range b.N {
			m, err := s.Member(b.Context(), head, delta[i%count].Asset)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Body(b.Context(), m.Digest); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("content", func(b *testing.B) {
		for i := range b.N {
			if _, _, err := s.Content(b.Context(), head, delta[i%count].Asset); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, filter := range map[string]store.AssetFilter{
		"page": {}, "page-by-addon": {Field: "addon"}, "page-by-value": {Field: "scope", Value: "cluster-1"}, "page-by-reference": {RefersTo: "asset/00000"},
	} {
		b.Run(name, func(b *testing.B) {
			filter.Limit = 100
			for i := range b.N {
				filter.After = delta[i%(count-200)].Asset
				page, err := s.Members(b.Context(), head, filter)
				if err != nil || len(page) != 100 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}

// BenchmarkOrphans counts and lists them among 100 000 enforced assets, when
// few and when all have left head.
func BenchmarkOrphans(b *testing.B) {
	const count = 100_000
	for _, left := range []int{0, 100, count} {
		s := open(b, filepath.Join(b.TempDir(), "lehr.db"))
		lease := storetest.Register(b, s)
		delta := make([]store.Entry, count)
		records := make([]store.Enforced, count)
		gone := make([]store.Entry, left)
		for i := range delta {
			delta[i] = storetest.Text(fmt.Sprintf("asset/%06d", i), "x")
			records[i] = store.Enforced{
				Asset: delta[i].Asset, Type: "t", Effective: delta[i].Member.Effective, At: time.Now(),
				Incarnation: intent.IncarnationID{Partition: "shop", Sequence: 1}, ResourceKey: intent.ResourceKey(delta[i].Asset),
			}
		}
		for i := range gone {
			gone[i] = store.Entry{Asset: delta[i*(count/left)].Asset, Removed: true}
		}
		storetest.Publish(b, s, lease, delta)
		started := time.Now()
		if _, err := s.SaveEnforced(b.Context(), lease, records); err != nil {
			b.Fatal(err)
		}
		saved := float64(count) / time.Since(started).Seconds()
		storetest.Publish(b, s, lease, gone)
		b.Run(fmt.Sprintf("count/left=%d", left), func(b *testing.B) {
			for range b.N {
				if orphans, err := s.OrphanCount(b.Context(), "shop"); err != nil || orphans != left {
					b.Fatal(orphans, err)
				}
			}
			b.ReportMetric(saved, "records-saved/s")
		})
		b.Run(fmt.Sprintf("page/left=%d", left), func(b *testing.B) {
			for range b.N {
				if page, err := s.Orphans(b.Context(), "shop", "asset/01", 100); err != nil || len(page) != min(100, left*9/10) {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}
