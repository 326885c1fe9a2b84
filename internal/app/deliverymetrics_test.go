package app

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/measure"
)

// Figures are shown in seconds, and NaN where there is nothing to show.
func TestFiguresOfDeliveriesAreMetrics(t *testing.T) {
	hour := deliveryhistory.Times{Count: 1, Median: time.Hour, Longest: time.Hour}
	var d measure.Delivery
	d.Applications.Of("web").Set([]deliveryhistory.Figures{{
		Environment: "production", Promotions: 5, Failed: 2, Lead: hour, Queues: []deliveryhistory.Queue{{Constraint: "people", Times: hour}},
	}})
	registry := prometheus.NewRegistry()
	registry.MustRegister(deliveryCollector{&d})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		got[family.GetName()] = family.Metric[0].GetGauge().GetValue()
	}
	for name, want := range map[string]float64{
		"lehr_delivery_promotions": 5, "lehr_delivery_promotions_failed": 2, "lehr_delivery_lead_time_seconds": 3600, "lehr_delivery_queue_seconds": 3600,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if len(got) != 5 || !math.IsNaN(got["lehr_delivery_restore_time_seconds"]) {
		t.Errorf("metrics are %v", got)
	}
}

// deliveryCollector collects the figures of a partition.
type deliveryCollector struct{ delivery *measure.Delivery }

func (c deliveryCollector) Describe(chan<- *prometheus.Desc) {}

func (c deliveryCollector) Collect(all chan<- prometheus.Metric) {
	deliveryMetrics(scrape{sink: all}, "shop", c.delivery)
}
