package main

import (
	"fmt"
	"runtime"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
	"lehr.dev/internal/ground/promotion"
)

// What is decided at once, and how often: each environment has had a hundred of the versions, and
// somebody has approved each of these once where two people must.
const (
	deliveryVersions     = 10_000
	deliveryEnvironments = 200
	deliveryStays        = 100
	deliveryRounds       = 9
)

// measureDelivery orders versions and decides which each environment should have, as after any
// change of a fact.
func measureDelivery() error {
	began := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	application, err := promotion.New(deliveryApplication())
	if err != nil {
		return err
	}
	var catalogue *promotion.Catalogue
	var ordered, decided, cores []float64
	facts := deliveryFacts(began)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range deliveryRounds {
		order, err := ordering.New(&intentpb.VersionOrder{})
		if err != nil {
			return err
		}
		start := time.Now()
		if catalogue, err = promotion.NewCatalogue(order, deliveryCatalogue(began)); err != nil {
			return err
		}
		ordered = append(ordered, milliseconds(time.Since(start)))
		start, core := time.Now(), computedByThread()
		application.Decide(catalogue, facts)
		decided, cores = append(decided, milliseconds(time.Since(start))), append(cores, milliseconds(computedByThread()-core))
	}
	machine.figure("delivery_order_10000_versions", median(ordered), "ms", deliveryVersions, byComputing)
	machine.figure("delivery_decide_10000_versions_200_environments", median(decided), "ms", deliveryEnvironments, byComputing)
	machine.figure("delivery_decide_core_time", median(cores), "ms", deliveryEnvironments, byCoreTime)
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func deliveryRelease(n int) intent.VersionName {
	return intent.VersionName{Name: fmt.Sprintf("1.%d.0", n), Digest: fmt.Sprintf("sha256:%064d", n)}
}

func deliveryCatalogue(start time.Time) (versions []promotion.Version) {
	for n := range deliveryVersions {
		r := deliveryRelease(n)
		created := start.Add(time.Duration(n) * time.Hour)
		versions = append(versions, promotion.Version{Version: ordering.Version{Name: r.Name, Created: created}, Digest: r.Digest, Commit: fmt.Sprintf("%040d", n)})
	}
	return versions
}

// deliveryApplication has tests, stagings behind them, and production behind these with
// constraints of all kinds.
func deliveryApplication() *intentpb.Delivery {
	named := func(name string, c *intentpb.DeliveryConstraint) *intentpb.DeliveryConstraint {
		c.Name = name
		return c
	}
	hour := durationpb.New(time.Hour)
	office := &intentpb.Calendar{Zone: "Europe/London", Holidays: "GB", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "Mon-Fri 09:00-17:00"}}}}
	spec := &intentpb.Delivery{Name: "web", Versions: "images"}
	for i := range deliveryEnvironments {
		e := &intentpb.DeliveryEnvironment{Name: fmt.Sprintf("e%d", i), Document: "knobs", Pointer: fmt.Sprintf("/e%d", i), Assets: "true"}
		behind := []string{fmt.Sprintf("e%d", max(0, i-deliveryEnvironments/4))}
		denied := &intentpb.DeniedVersions{Entries: []*intentpb.DeniedVersion{{What: &intentpb.DeniedVersion_Version{Version: "0.*"}, Reason: "old"}}}
		deny := named("denied", &intentpb.DeliveryConstraint{Kind: &intentpb.DeliveryConstraint_Deny{Deny: denied}})
		tested := named("tested", &intentpb.DeliveryConstraint{Kind: &intentpb.DeliveryConstraint_DependsOn{DependsOn: &intentpb.DependsOn{Environments: behind, Stable: hour}}})
		people := named("people", &intentpb.DeliveryConstraint{Kind: &intentpb.DeliveryConstraint_Judgement{Judgement: &intentpb.Judgement{Quorum: 2}}})
		hours := named("hours", &intentpb.DeliveryConstraint{Kind: &intentpb.DeliveryConstraint_Times{Times: &intentpb.AllowedTimes{Calendar: office, AtMost: 2}}})
		switch i * 4 / deliveryEnvironments {
		case 0:
			age := named("age", &intentpb.DeliveryConstraint{Kind: &intentpb.DeliveryConstraint_Age{Age: &intentpb.VersionAge{Age: hour}}})
			e.Constraints = []*intentpb.DeliveryConstraint{age, deny}
		case 1:
			e.Constraints = []*intentpb.DeliveryConstraint{tested}
		case 2:
			soak := named("soak", &intentpb.DeliveryConstraint{Kind: &intentpb.DeliveryConstraint_Soak{Soak: &intentpb.DeliverySoak{Environments: behind, Time: hour}}})
			e.Constraints = []*intentpb.DeliveryConstraint{tested, soak, people, hours, deny}
		default:
			canary := named("canary", &intentpb.DeliveryConstraint{Kind: &intentpb.DeliveryConstraint_Outside{Outside: &intentpb.OutsideVerdict{}}})
			e.Constraints = []*intentpb.DeliveryConstraint{people, hours, canary}
		}
		spec.Environments = append(spec.Environments, e)
	}
	return spec
}

// deliveryFacts are a long history, at the end of which nearly all versions wait.
func deliveryFacts(began time.Time) *promotion.Facts {
	facts := &promotion.Facts{Now: began.Add((deliveryVersions + 3) * time.Hour), Environments: map[string]*promotion.Environment{}}
	for i := range deliveryEnvironments {
		name, e := fmt.Sprintf("e%d", i), &promotion.Environment{}
		for n := range deliveryStays {
			r, start := deliveryRelease(n*deliveryVersions/deliveryStays/2), began.Add(time.Duration(n)*time.Hour)
			stay := promotion.Stay{VersionName: r, Start: start, GoodSince: start, End: start.Add(time.Hour), Content: r.Digest}
			if n == deliveryStays-1 {
				stay.End = time.Time{}
			}
			e.Stays = append(e.Stays, stay)
			facts.Votes = append(facts.Votes, promotion.Vote{Environment: name, Constraint: "people", VersionName: r, By: "user:ann", Roles: []string{"approver"}, At: start, Approve: true})
		}
		facts.Environments[name] = e
	}
	return facts
}
