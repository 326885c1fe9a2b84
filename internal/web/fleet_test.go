package web_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// fleetPolicy is what each partition of a fleet says of itself: an owner, and the office hours of that owner's team.
func (w *world) fleetPolicy(owner string) intent.Asset {
	w.Helper()
	freeze := time.Now().UTC().AddDate(0, 0, 7)
	hours := &intentpb.Calendar{
		Zone: "Europe/Berlin", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "Mon-Fri 09:00-17:00"}}}, Holidays: "DE",
		Freezes: []*intentpb.Freeze{{From: timestamppb.New(freeze.Truncate(time.Hour)), Until: timestamppb.New(freeze.Add(24 * time.Hour).Truncate(time.Hour)), Reason: "the sale of " + owner}},
	}
	payload, err := schema.Builtin().Pack(&intentpb.Policy{Owner: owner, Checks: []*intentpb.Check{{Name: "office", Kind: &intentpb.Check_Calendar{Calendar: hours}}}})
	w.must(err)
	return intent.Asset{ID: intent.PolicyAsset, Payload: payload}
}

// fleet adds partitions beside the world's own, each with a policy, assets that are in sync, and a hold that ends soon
// in every tenth. In every fiftieth an asset waits for an approval.
func (w *world) fleet(partitions, assets int) {
	w.Helper()
	for i := range partitions {
		id := intent.PartitionID(fmt.Sprintf("part-%03d", i))
		w.must(w.store.AddPartition(w.Context(), id, "/lehr.yaml", "a try", ann))
		lease, err := w.store.Acquire(w.Context(), id, "test")
		w.must(err)
		content := []intent.Asset{w.fleetPolicy(fmt.Sprintf("team-%d", i%7))}
		var reports []intent.Report
		for n := range assets {
			asset := intent.AssetID(fmt.Sprintf("web/%s/%04d", id, n))
			content = append(content, w.command(asset, "x"))
			report := intent.Report{Asset: asset, Partition: id, At: time.Now(), Type: "lehr.command.v1.Command", State: intent.StateInSync}
			if i%50 == 0 && n == 0 {
				report = waits(asset, intent.WaitApproval, "needs approval")
				report.Partition, report.At, report.PlanDigest, report.Effective = id, time.Now(), intent.Digest{1}, intent.Digest{2}
			}
			reports = append(reports, report)
		}
		w.publishIn(lease, 0, content...)
		w.must(w.store.SaveReports(w.Context(), lease, reports))
		if i%10 == 0 {
			now := time.Now()
			w.must(w.store.SetHold(w.Context(), id, intent.Hold{Asset: reports[0].Asset, Owner: ann, Reason: "racks", Created: now, Until: now.Add(time.Hour)}))
		}
	}
}

// TestPagesOfManyPartitionsReadAlike: what the pages that are about all partitions ask of the store does not grow with
// how many there are.
func TestPagesOfManyPartitionsReadAlike(t *testing.T) {
	c := &counted{}
	w := newWorldOver(t, c.open(t))
	w.fleet(500, 3)
	for _, page := range []struct {
		path, says string
		most       int64
	}{
		{"/", "published", 40},
		{"/inbox", "web/part-490/0000", 30},
		{"/search?q=0002", "web/part-099/0002", 40},
		{"/search?q=part-321/0001", "web/part-321/0001", 40},
		{"/search?q=ann&kind=person", "holds web/part-000/0000", 30},
		{"/calendar", "and 69 other partitions", 10},
		{"/calendar?from=" + time.Now().UTC().AddDate(0, 0, 7).Format("2006-01-02"), "the sale of team-6", 10},
	} {
		w.shows(page.path, page.says) // What was published since is read at the first look.
		c.reset()
		w.shows(page.path)
		if queries := c.queries.Load(); queries > page.most {
			t.Errorf("%s of 500 partitions asks the store %d times, at most %d are enough", page.path, queries, page.most)
		} else {
			t.Logf("%s: %d queries, %d rows", page.path, queries, c.rows.Load())
		}
	}
}

// TestHomeKnowsCausesOfWhatDidNotMove: causes are read again of a partition that moved, and of it alone.
func TestHomeKnowsCausesOfWhatDidNotMove(t *testing.T) {
	c := &counted{}
	w := newWorldOver(t, c.open(t))
	w.fleet(200, 2)
	w.shows("/", "part-150")
	c.reset()
	w.shows("/", "part-150")
	quiet := c.queries.Load()
	w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: "part-150", Owner: ann, Reason: "the cellar is flooded", Since: time.Now()}))
	c.reset()
	w.shows("/", "the cellar is flooded")
	if moved := c.queries.Load() - quiet; moved <= 0 || moved > 30 {
		t.Errorf("one partition of 200 that moved is read by %d queries", moved)
	}
}

// BenchmarkFleet asks for the pages that are about all partitions, of 500 partitions with 100 000 assets, and counts
// what they ask of the store.
func BenchmarkFleet(b *testing.B) {
	const partitions, assets = 500, 200
	c := &counted{}
	w := newWorldOver(b, c.open(b))
	w.fleet(partitions, assets)
	for _, page := range []struct{ name, path string }{
		{"home", "/"}, {"inbox", "/inbox"}, {"search", "/search?q=0042"}, {"search of one asset", "/search?q=part-321/0042"}, {"calendar", "/calendar"},
	} {
		b.Run(page.name, func(b *testing.B) {
			w.shows(page.path)
			c.reset()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				w.shows(page.path)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(c.queries.Load())/float64(b.N), "queries/page")
			b.ReportMetric(float64(c.rows.Load())/float64(b.N), "rows/page")
		})
	}
}

// BenchmarkBoard asks for the board of 500 partitions that deliver an application to three environments each.
func BenchmarkBoard(b *testing.B) {
	const partitions = 500
	c := &counted{}
	w := newWorldOver(b, c.open(b))
	for i := range partitions {
		w.delivering(intent.PartitionID(fmt.Sprintf("part-%03d", i)))
	}
	w.shows("/board", "part-050", "next page")
	b.ResetTimer()
	c.reset()
	for b.Loop() {
		w.shows("/board")
	}
	b.ReportMetric(float64(c.queries.Load())/float64(b.N), "queries/op")
}

// delivering adds a partition that delivers an application.
func (w *world) delivering(id intent.PartitionID) {
	w.Helper()
	w.must(w.store.AddPartition(w.Context(), id, "/lehr.yaml", "a try", ann))
	lease, err := w.store.Acquire(w.Context(), id, "test")
	w.must(err)
	_, err = w.store.CreateDocument(w.Context(), id, "knobs", []byte(`{"test":"1.0.0","staging":"1.0.0","production":"1.0.0"}`), "a try", ann)
	w.must(err)
	delivery := &intentpb.Delivery{Name: "web", Versions: "images", Order: &intentpb.VersionOrder{By: intentpb.VersionOrder_BY_SEMVER}}
	content := []intent.Asset{{}}
	for _, name := range []string{"test", "staging", "production"} {
		delivery.Environments = append(delivery.Environments, &intentpb.DeliveryEnvironment{Name: name, Document: "knobs", Pointer: "/" + name, Assets: `id == "web/` + name + `"`, Attempts: 3})
		content = append(content, w.command(intent.AssetID("web/"+name), "1.0.0"))
	}
	payload, err := schema.Builtin().Pack(&intentpb.Policy{Owner: "shop", Deliveries: []*intentpb.Delivery{delivery}})
	w.must(err)
	content[0] = intent.Asset{ID: intent.PolicyAsset, Payload: payload}
	w.publishIn(lease, 0, content...)
	w.must(w.store.SaveVersions(w.Context(), lease, "images", []intent.Version{{VersionName: intent.VersionName{Name: "1.0.0"}}, {VersionName: intent.VersionName{Name: "1.1.0"}}}))
}
