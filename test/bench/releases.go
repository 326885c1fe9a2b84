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

// A line of many services, all of which each release brings; each waits for another one in every environment.
const (
	lineServices     = 500
	lineReleases     = 10
	lineEnvironments = 20
	lineRounds       = 7
)

// measureReleases decides what all environments of all services of a line should have, as after any change of a
// release. Each round begins with facts alone.
func measureReleases() error {
	began := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	var applications []*promotion.Application
	for n := range lineServices {
		a, err := promotion.New(lineApplication(n))
		if err != nil {
			return err
		}
		applications = append(applications, a)
	}
	order, err := ordering.New(&intentpb.VersionOrder{})
	if err != nil {
		return err
	}
	var versions []promotion.Version
	for n := range 2 * lineReleases {
		r := deliveryRelease(n)
		versions = append(versions, promotion.Version{Version: ordering.Version{Name: r.Name, Created: began}, Digest: r.Digest})
	}
	catalogue, err := promotion.NewCatalogue(order, versions)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var decided, cores []float64
	for range lineRounds {
		line, facts := lineFacts(began, applications, catalogue)
		edits := 0
		start, core := time.Now(), computedByThread()
		for n, a := range applications {
			facts[n].Line = line
			for _, o := range a.Decide(catalogue, facts[n]).Outcomes {
				if o.Edit {
					edits++
				}
			}
		}
		decided, cores = append(decided, milliseconds(time.Since(start))), append(cores, milliseconds(computedByThread()-core))
		if edits == 0 || edits == lineServices*lineEnvironments {
			return fmt.Errorf("%d environments are to be edited: nothing was weighed", edits)
		}
	}
	machine.figure("releases_decide_500_services_10_releases_20_environments", median(decided), "ms", lineServices*lineEnvironments, byComputing)
	machine.figure("releases_decide_core_time", median(cores), "ms", lineServices*lineEnvironments, byCoreTime)
	return nil
}

func lineService(n int) string { return fmt.Sprintf("shop/s%d", n) }

// lineApplication has four tests, and four environments behind each of them.
func lineApplication(n int) *intentpb.Delivery {
	spec := &intentpb.Delivery{Name: fmt.Sprintf("s%d", n), Versions: "images", Releases: "shop/main"}
	for i := range lineEnvironments {
		e := &intentpb.DeliveryEnvironment{Name: fmt.Sprintf("e%d", i), Document: "knobs", Pointer: fmt.Sprintf("/s%d/e%d", n, i), Assets: "true"}
		if i >= 4 {
			behind := []string{fmt.Sprintf("e%d", i-4)}
			e.Constraints = []*intentpb.DeliveryConstraint{
				{Name: "tested", Kind: &intentpb.DeliveryConstraint_DependsOn{DependsOn: &intentpb.DependsOn{Environments: behind}}},
				{Name: "soak", Kind: &intentpb.DeliveryConstraint_Soak{Soak: &intentpb.DeliverySoak{Environments: behind, Time: durationpb.New(time.Hour)}}},
			}
		} else {
			e.Constraints = []*intentpb.DeliveryConstraint{{Name: "near", Kind: &intentpb.DeliveryConstraint_Lag{Lag: &intentpb.VersionLag{Environments: []string{fmt.Sprintf("e%d", i+16)}, AtMost: 8}}}}
		}
		spec.Environments = append(spec.Environments, e)
	}
	return spec
}

// lineFacts have each release on its way: the further an environment is behind, the older is what it has.
func lineFacts(began time.Time, applications []*promotion.Application, catalogue *promotion.Catalogue) (*promotion.Line, []*promotion.Facts) {
	line := &promotion.Line{Members: map[string]*promotion.Member{}}
	for n := range lineReleases {
		release := promotion.Release{Number: n + 1, Versions: map[string]intent.VersionName{}, Immediate: n%3 == 0, At: began}
		for s := range lineServices {
			release.Versions[lineService(s)] = deliveryRelease(2*n + 1)
		}
		line.Releases = append(line.Releases, release)
	}
	var facts []*promotion.Facts
	for s, a := range applications {
		f := &promotion.Facts{Now: began.AddDate(0, 0, 20), Member: lineService(s), Environments: map[string]*promotion.Environment{}}
		for i := range lineEnvironments {
			e := &promotion.Environment{}
			newest := lineReleases - 2 - i/4 - s%2
			for n := range newest {
				start := began.AddDate(0, 0, n)
				stay := promotion.Stay{VersionName: deliveryRelease(2*n + 1), Start: start, GoodSince: start, End: start.AddDate(0, 0, 1)}
				if n == newest-1 {
					stay.End = time.Time{}
				}
				e.Stays = append(e.Stays, stay)
			}
			f.Environments[fmt.Sprintf("e%d", i)] = e
		}
		facts = append(facts, f)
		if s > 0 {
			line.Order = append(line.Order, promotion.ReleaseOrder{First: lineService(s / 2), Then: lineService(s)})
		}
		line.Members[lineService(s)] = &promotion.Member{Application: a, Catalogue: catalogue, Facts: f}
	}
	return line, facts
}
