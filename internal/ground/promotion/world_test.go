package promotion

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
)

// start of tests: a Monday.
var start = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

func after(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }

func env(name string, constraints ...*intentpb.DeliveryConstraint) *intentpb.DeliveryEnvironment {
	return &intentpb.DeliveryEnvironment{Name: name, Document: "knobs", Pointer: "/" + name, Assets: "true", Constraints: constraints}
}

func dependsOn(stable time.Duration, on ...string) *intentpb.DeliveryConstraint {
	spec := &intentpb.DependsOn{Environments: on}
	if stable > 0 {
		spec.Stable = durationpb.New(stable)
	}
	return &intentpb.DeliveryConstraint{Name: "tested", Kind: &intentpb.DeliveryConstraint_DependsOn{DependsOn: spec}}
}

func anyOf(on ...string) *intentpb.DeliveryConstraint {
	c := dependsOn(0, on...)
	c.GetDependsOn().Any = true
	return c
}

func judged(quorum uint32, expires time.Duration) *intentpb.DeliveryConstraint {
	spec := &intentpb.Judgement{Quorum: quorum}
	if expires > 0 {
		spec.Expires = durationpb.New(expires)
	}
	return &intentpb.DeliveryConstraint{Name: "people", Kind: &intentpb.DeliveryConstraint_Judgement{Judgement: spec}}
}

func hours(zone, open string, atMost uint32, freezes ...*intentpb.Freeze) *intentpb.DeliveryConstraint {
	calendar := &intentpb.Calendar{Zone: zone, Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: open}}}, Freezes: freezes}
	return &intentpb.DeliveryConstraint{Name: "hours", Kind: &intentpb.DeliveryConstraint_Times{Times: &intentpb.AllowedTimes{Calendar: calendar, AtMost: atMost}}}
}

func soak(long time.Duration, in ...string) *intentpb.DeliveryConstraint {
	return &intentpb.DeliveryConstraint{Name: "soak", Kind: &intentpb.DeliveryConstraint_Soak{Soak: &intentpb.DeliverySoak{Environments: in, Time: durationpb.New(long)}}}
}

func minAge(age time.Duration) *intentpb.DeliveryConstraint {
	return &intentpb.DeliveryConstraint{Name: "age", Kind: &intentpb.DeliveryConstraint_Age{Age: &intentpb.VersionAge{Age: durationpb.New(age)}}}
}

func deny(version string) *intentpb.DeliveryConstraint {
	entry := &intentpb.DeniedVersion{What: &intentpb.DeniedVersion_Version{Version: version}, Reason: "it loses writes"}
	return &intentpb.DeliveryConstraint{Name: "denied", Kind: &intentpb.DeliveryConstraint_Deny{Deny: &intentpb.DeniedVersions{Entries: []*intentpb.DeniedVersion{entry}}}}
}

func canary() *intentpb.DeliveryConstraint {
	return &intentpb.DeliveryConstraint{Name: "canary", Kind: &intentpb.DeliveryConstraint_Outside{Outside: &intentpb.OutsideVerdict{}}}
}

// asking is a constraint that asks a plugin.
func asking(expires time.Duration) *intentpb.DeliveryConstraint {
	spec := &intentpb.AskedVerdict{Ask: &intentpb.AskedVerdict_Plugin{Plugin: "quiet"}}
	if expires > 0 {
		spec.Expires = durationpb.New(expires)
	}
	return &intentpb.DeliveryConstraint{Name: "quiet", Kind: &intentpb.DeliveryConstraint_Asked{Asked: spec}}
}

// answer of the plugin about a version, after so many hours.
func answer(number, hours int, good bool) Result {
	return Result{Environment: "prod", Name: "quiet", VersionName: named(number), Content: AskedDigest(asking(0).GetAsked()).String(), At: after(float64(hours)), Good: good, Reason: "as asked"}
}

// passUntil is a pass that says itself until when it counts.
func passUntil(hours float64) Result {
	result := answer(2, 5, true)
	result.Until = after(hours)
	return result
}

func application(t testing.TB, environments ...*intentpb.DeliveryEnvironment) *Application {
	t.Helper()
	a, err := New(&intentpb.Delivery{Name: "web", Versions: "images", Environments: environments})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func named(n int) intent.VersionName {
	return intent.VersionName{Name: fmt.Sprintf("1.%d.0", n), Digest: fmt.Sprintf("sha256:%d", n)}
}

// version n was made n hours after the start.
func version(n int) Version {
	return Version{Version: ordering.Version{Name: named(n).Name, Created: after(float64(n))}, Digest: named(n).Digest, Commit: fmt.Sprintf("%07x", n)}
}

func catalogue(t testing.TB, versions ...Version) *Catalogue {
	t.Helper()
	order, err := ordering.New(&intentpb.VersionOrder{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCatalogue(order, versions)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func upTo(t testing.TB, n int) *Catalogue {
	t.Helper()
	var versions []Version
	for i := 1; i <= n; i++ {
		versions = append(versions, version(i))
	}
	return catalogue(t, versions...)
}

// stayed is a stay of version n from an hour on, good since another; negative hours are never.
func stayed(n int, from, good, until float64) Stay {
	s := Stay{VersionName: named(n), Start: after(from), Content: fmt.Sprintf("content-%d", n)}
	if good >= 0 {
		s.GoodSince = after(good)
	}
	if until >= 0 {
		s.End = after(until)
	}
	return s
}

func had(stays ...Stay) *Environment { return &Environment{Stays: stays} }

func approval(n int, environment, by string, hour float64) Vote {
	return Vote{Environment: environment, Constraint: "people", VersionName: named(n), By: by, Roles: []string{"approver"}, At: after(hour), Approve: true}
}
