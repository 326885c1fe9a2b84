package server_test

import (
	"fmt"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// BenchmarkAnswers times what people ask for, over the wire, beside 100 000
// assets.
func BenchmarkAnswers(b *testing.B) {
	const assets = 100_000
	w := newWorld(b)
	w.fill(assets)
	for name, ask := range map[string]func(i int) error{
		"why": func(i int) error {
			_, err := w.client.Reports.Why(b.Context(), &apipb.WhyRequest{Partition: "shop", Asset: assetName(i * 7919 % assets)})
			return err
		},
		"list page": func(i int) error {
			_, err := w.client.Assets.ListAssets(b.Context(), &apipb.ListAssetsRequest{Partition: "shop", After: assetName(i * 7919 % assets)})
			return err
		},
		"reports page": func(i int) error {
			_, err := w.client.Reports.ListReports(b.Context(), &apipb.ListReportsRequest{Partition: "shop", After: assetName(i * 7919 % assets)})
			return err
		},
		"partition": func(int) error {
			_, err := w.client.Partitions.GetPartition(b.Context(), &apipb.GetPartitionRequest{Id: "shop"})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var worst time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				if err := ask(i); err != nil {
					b.Fatal(err)
				}
				worst = max(worst, time.Since(began))
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		})
	}
}

func assetName(i int) string { return fmt.Sprintf("web/%06d", i) }

// fill publishes and reports assets, each waiting for the one before.
func (w *world) fill(count int) {
	w.Helper()
	var delta []intent.Asset
	for i := range count {
		delta = append(delta, w.command(intent.AssetID(assetName(i)), "x"))
	}
	w.publish(0, delta...)
	const batch = 5000
	var reports []intent.Report
	for i := range count {
		report := intent.Report{Partition: "shop", Asset: intent.AssetID(assetName(i)), State: intent.StateWaiting, At: time.Now()}
		if i%10 != 0 {
			report.Waiting = []intent.WaitingOn{{Kind: intent.WaitOrder, Reason: "not yet", Blockers: []intent.AssetID{intent.AssetID(assetName(i - 1))}}}
		}
		if reports = append(reports, report); len(reports) == batch {
			w.must(w.store.SaveReports(w.Context(), w.lease, reports))
			reports = nil
		}
	}
	w.must(w.store.SaveReports(w.Context(), w.lease, reports))
}
