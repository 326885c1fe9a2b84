package relational_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/storetest"
)

// BenchmarkGroups reads one group of 100 000 members, one of 100, and the list of
// all groups, with every tenth asset waiting.
func BenchmarkGroups(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "lehr.db"))
	lease := storetest.Register(b, s)
	const count = 200_000
	delta, reports := make([]store.Entry, count), make([]intent.Report, count)
	for i := range delta {
		asset, service := fmt.Sprintf("asset/%06d", i), "large"
		if i%2 == 1 {
			service = fmt.Sprintf("small-%04d", i/200)
		}
		delta[i] = storetest.Text(asset, "content of "+asset)
		delta[i].Fields = []intent.Field{{Path: intent.GroupServiceField, Value: service}, {Path: intent.GroupInstanceField, Value: fmt.Sprint(i % 20)}}
		reports[i] = intent.Report{Asset: intent.AssetID(asset), State: intent.StateInSync, At: time.Now(), ResourceKey: intent.ResourceKey("resource of " + asset)}
		if i%20 < 2 {
			reports[i].State, reports[i].Waiting = intent.StateWaiting, []intent.WaitingOn{{Kind: intent.WaitApproval, Reason: "it is destructive, and needs the approval of one of you"}}
		}
	}
	head := storetest.Publish(b, s, lease, delta).ID
	if err := s.SaveReports(b.Context(), lease, reports); err != nil {
		b.Fatal(err)
	}
	list := func(filter store.GroupFilter, want int) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				groups, err := s.ListGroups(b.Context(), head, filter)
				if err != nil || len(groups) != want {
					b.Fatal(len(groups), err)
				}
			}
		}
	}
	b.Run("count/members=100000", list(store.GroupFilter{Of: intent.Group{Service: "large"}}, 10))
	b.Run("count/members=10000", list(store.GroupFilter{Of: intent.Group{Service: "large", Instance: "2"}}, 1))
	b.Run("count/members=100", list(store.GroupFilter{Of: intent.Group{Service: "small-0007"}}, 10))
	b.Run("page/services=100", list(store.GroupFilter{After: "large", Limit: 100}, 1000))
	worst := func(service string, want int) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				found, err := s.ListReports(b.Context(), "shop", store.ReportFilter{
					Group: intent.Group{Service: service}, State: intent.StateWaiting, Limit: 1000})
				if err != nil || len(found) != want {
					b.Fatal(len(found), err)
				}
			}
		}
	}
	b.Run("worst/members=100000", worst("large", 1000))
	b.Run("worst/members=100", worst("small-0007", 10))
}
