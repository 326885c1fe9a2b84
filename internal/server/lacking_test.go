package server

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// TestWhatAnEnvironmentLacks: the assets of an environment are named to those who may see their partition, and to
// nobody else; how many more there are is said.
func TestWhatAnEnvironmentLacks(t *testing.T) {
	spec := &intentpb.Delivery{Name: "web", Versions: "images", Order: &intentpb.VersionOrder{}, Environments: []*intentpb.DeliveryEnvironment{
		{Name: "test", Partition: "other", Document: "knobs", Pointer: "/test", Assets: `id == "web"`},
	}}
	application, err := promotion.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	place := delivery.Place{Spec: spec.Environments[0], Partition: store.Partition{ID: "other"}, Assets: delivery.Assets{
		Members: make([]intent.Member, 9), Good: 3,
		Lacking: []delivery.LackingAsset{
			{Asset: "web", State: intent.StateWaiting, Waiting: intent.WaitingOn{Kind: intent.WaitBudget, Reason: "2 of 2 are unavailable"}},
			{Asset: "web-new", State: intent.StateUnseen},
			{Asset: "web-old", State: intent.StateInSync, Health: intent.Health{State: intent.Unhealthy, Reason: "no ready replica"}},
		},
	}}
	a := &deliveredApplication{Moment: &delivery.Moment{Home: store.Partition{ID: "shop"}, Spec: spec, Application: application, Places: []delivery.Place{place}}}
	deploying := &promotion.Explanation{State: promotion.Deploying}
	for _, c := range []struct {
		name        string
		visible     func(intent.PartitionID) bool
		explanation *promotion.Explanation
		want        string
	}{
		{"who may see it", func(intent.PartitionID) bool { return true }, deploying,
			"web waits (budget): 2 of 2 are unavailable; web-new is not compared with production yet; web-old is unhealthy: no ready replica; and 3 more"},
		{"who may not", func(intent.PartitionID) bool { return false }, deploying, ""},
		{"nobody asked", nil, deploying, ""},
		{"it is good", func(intent.PartitionID) bool { return true }, &promotion.Explanation{State: promotion.Current}, ""},
	} {
		a.visible = c.visible
		list, words := a.findLacking("test", c.explanation)
		if words != c.want || (len(list) == 3) != (c.want != "") {
			t.Errorf("%s: %d are listed, %q", c.name, len(list), words)
		}
		if c.want != "" && (list[0].GetKind() != string(intent.WaitBudget) || !strings.HasPrefix(list[2].GetText(), "web-old")) {
			t.Errorf("%s: %v", c.name, list)
		}
	}
}
