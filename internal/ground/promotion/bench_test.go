package promotion

import (
	"fmt"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// fleet is an application with so many versions and environments: tests, stagings behind them,
// and production behind these with all kinds of constraints; each has had a hundred versions.
func fleet(b *testing.B, versions, environments int) (*Application, *Catalogue, *Facts) {
	var specs []*intentpb.DeliveryEnvironment
	for i := range environments {
		name := fmt.Sprintf("e%d", i)
		behind := fmt.Sprintf("e%d", max(0, i-environments/4))
		switch i * 4 / environments {
		case 0:
			specs = append(specs, env(name, minAge(time.Minute), deny("0.*")))
		case 1:
			specs = append(specs, env(name, dependsOn(time.Hour, behind)))
		case 2:
			specs = append(specs, env(name, judged(2, 0), dependsOn(time.Hour, behind), soak(time.Hour, behind), hours("Europe/London", "Mon-Fri 09:00-17:00", 2), deny("0.*")))
		default:
			specs = append(specs, env(name, judged(2, 0), hours("Europe/London", "Mon-Fri 09:00-17:00", 2), canary()))
		}
	}
	a := application(b, specs...)
	c := upTo(b, versions)
	facts := &Facts{Now: after(float64(versions) + 3), Environments: map[string]*Environment{}}
	for i := range environments {
		e := &Environment{}
		for n := range 100 {
			v := 1 + n*(versions-2)/200
			e.Stays = append(e.Stays, stayed(v, float64(n), float64(n), float64(n)+1))
			facts.Votes = append(facts.Votes, approval(v, fmt.Sprintf("e%d", i), "user:ann", 1))
		}
		e.Stays[99].End = time.Time{}
		facts.Environments[fmt.Sprintf("e%d", i)] = e
	}
	return a, c, facts
}

func BenchmarkDecide(b *testing.B) {
	a, c, facts := fleet(b, 10_000, 200)
	for b.Loop() {
		a.Decide(c, facts)
	}
}

func BenchmarkCatalogue(b *testing.B) {
	var versions []Version
	for i := range 10_000 {
		versions = append(versions, version(i))
	}
	for b.Loop() {
		catalogue(b, versions...)
	}
}
