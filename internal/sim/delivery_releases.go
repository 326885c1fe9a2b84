package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
)

// In every eighth run that delivers, two more applications take the releases of a line: trains and immediate ones, of
// one of them or of both, which people hold, skip and abort.

// Disturbances of these runs.
const (
	ReleaseMade   Kind = "a release is made"
	ReleaseActed  Kind = "somebody acts on a release"
	ReleaseMoment Kind = "a release is made, and somebody acts around a step of delivery"
)

var releaseKinds = append(slices.Clone(deliveryKinds), weighed{ReleaseMade, 120}, weighed{ReleaseActed, 90}, weighed{ReleaseMoment, 60})

const (
	waresDocument = "wares"
	goodsPrefix   = "goods-"
)

// goodsProgram makes an asset for each application and environment.
const goodsProgram = `
def generate(ctx):
    return [asset("goods-" + application + "-" + name, lehr.command.v1.Command(diff = ["true"], push = ["true"], input = version))
            for application, environments in json("goods/goods.json").items() for name, version in environments.items()]
`

// goodsApplication is one of the line; %s is its name, and what its environment test waits for.
const goodsApplication = `  %[1]s:
    versions: wares
    releases: main
    environments:
      test:
        set: {document: goods, field: /%[1]s/test}
        assets: id == "goods-%[1]s-test"
        attempts: 100
        retry: 5m
%[2]s      production:
        set: {document: goods, field: /%[1]s/production}
        assets: id == "goods-%[1]s-production"
        attempts: 100
        retry: 5m
        constraints:
          tested: {depends_on: [test]}
          soaked: {soak: 1m, in: [test]}
`

// DeliversReleases reports whether there is a line of releases in runs of a seed.
func DeliversReleases(seed uint64) bool { return Delivers(seed) && seed/27%8 == 6 }

// RelaxesTrains reports whether policy does not enforce what trains bring to an environment, in runs of a seed: in
// half of those that have a line of releases.
func RelaxesTrains(seed uint64) bool { return DeliversReleases(seed) && seed/27%32 >= 16 }

// hasReleases reports whether there is one in this run.
func (l *Lab) hasReleases() bool { return l.delivers() && DeliversReleases(l.options.Seed) }

// addTrainCheck has policy show what a train brings to production of payments, and not enforce it for some minutes.
func addTrainCheck(text string) string {
	return strings.Replace(text, "checks:\n", fmt.Sprintf("checks:\n  by-hand: {train: %s, environment: production, longest: %ds, where: id.startsWith(\"goods-\")}\n", monitor.GoodsApplications[0], monitor.LongestTrain/time.Second), 1)
}

// addReleases adds the line and its applications to a definition that delivers.
func addReleases(text string) string {
	first, second := monitor.GoodsApplications[0], monitor.GoodsApplications[1]
	text = strings.Replace(text, "generate:\n", "  goods: {document: goods}\n  wares: {pushed: wares, file: wares.json}\ngenerate:\n  stock: {starlark: goods.star, from: [goods]}\n", 1)
	lag := fmt.Sprintf("        constraints:\n          near: {lag: %d, behind: [production]}\n", monitor.GoodsLag)
	text = strings.Replace(text, "delivery:\n", "delivery:\n"+fmt.Sprintf(goodsApplication, first, lag)+fmt.Sprintf(goodsApplication, second, ""), 1)
	return text + fmt.Sprintf("releases:\n  main: {applications: [%s, %s], order: [{first: %[1]s, then: [%s]}]}\n", first, second, second)
}

// goodsDocuments are what there is before a release is made.
func goodsDocuments() map[string]map[string]map[string]string {
	fields := map[string]map[string]string{}
	for _, application := range monitor.GoodsApplications {
		fields[application] = map[string]string{"test": "1.0.0", "production": "1.0.0"}
	}
	return map[string]map[string]map[string]string{monitor.GoodsDocument: fields, waresDocument: {"1.0.0": {}}}
}

// release has one to three versions built, one after the other, and some seconds later a release made of each. Of
// half of them somebody thinks otherwise soon.
func (p person) release() error {
	delay := time.Duration(0)
	for range 1 + p.r.IntN(3) {
		p.after(delay, func() { _ = p.releaseOne() })
		delay += within(p.r, 90*time.Second)
	}
	return nil
}

func (p person) releaseOne() error {
	d := &p.delivering
	d.wares++
	version := fmt.Sprintf("1.%d.0", d.wares)
	applications := slices.Clone(monitor.GoodsApplications)
	if lot := p.r.IntN(5); lot < 2 {
		applications = applications[lot : lot+1]
	}
	mode := apipb.CreateReleaseRequest_MODE_TRAIN
	if p.r.IntN(3) == 0 {
		mode = apipb.CreateReleaseRequest_MODE_IMMEDIATE
	}
	p.tell("%s: %s of %v, %s", p.d, version, applications, mode)
	if err := p.setDocument(waresDocument, "/"+version, "{}"); err != nil {
		return err
	}
	request := &apipb.CreateReleaseRequest{Partition: string(p.partition), Line: monitor.ReleaseLine, Versions: map[string]string{}, Mode: mode, Reason: "it is time"}
	for _, application := range applications {
		request.Versions[application] = version
	}
	acts, soon := p.r.IntN(2) == 0, within(p.r, 90*time.Second)
	p.after(3*time.Second+within(p.r, 5*time.Second), func() {
		err := p.insists(func() error {
			_, err := p.c.Releases.CreateRelease(p.ctx, request)
			return err
		})
		p.tell("%s: the release of %s (%v)", p.d, version, err)
		if err != nil {
			return
		}
		p.mark("delivery: a release, " + strings.ToLower(strings.TrimPrefix(mode.String(), "MODE_")))
		if acts {
			p.after(soon, func() { _ = p.actOnRelease() })
		}
	})
	return nil
}

// releaseActs with how often each is made.
var releaseActs = []string{
	intent.ActHoldRelease, intent.ActHoldRelease, intent.ActSkipRelease, intent.ActSkipRelease, intent.ActAbortRelease, intent.ActAbortRelease,
	intent.ActResumeRelease, intent.ActResumeRelease, intent.ActMarkBad, intent.ActMarkGood, intent.ActPin, intent.ActPin,
}

// actOnRelease does what somebody has in mind about one of the newest releases. What is held goes on after some minutes.
func (p person) actOnRelease() error {
	request := &apipb.ListReleasesRequest{Partition: string(p.partition), Line: monitor.ReleaseLine, All: true, Limit: 4}
	listed, err := p.c.Releases.ListReleases(p.ctx, request)
	if err != nil || len(listed.Releases) == 0 {
		return err
	}
	if p.healing {
		return nil
	}
	of := listed.Releases[p.r.IntN(len(listed.Releases))]
	kind, environment := releaseActs[p.r.IntN(len(releaseActs))], ""
	if p.r.IntN(2) == 0 {
		environment = []string{"test", "production"}[p.r.IntN(2)]
	}
	if kind == intent.ActMarkBad || kind == intent.ActMarkGood || kind == intent.ActPin {
		return p.actOnGoods(kind, environment, of.Versions[p.r.IntN(len(of.Versions))])
	}
	if kind == intent.ActResumeRelease {
		for _, r := range listed.Releases {
			if len(r.Marks) > 0 && r.Marks[0].Kind != intent.ActAbortRelease {
				of, environment = r, r.Marks[0].Environment
			}
		}
	}
	if kind == intent.ActHoldRelease || kind == intent.ActAbortRelease {
		environment = ""
	}
	act := func(kind string) error {
		return p.insists(func() error {
			_, err := p.c.Releases.ActOnRelease(p.ctx, &apipb.ActOnReleaseRequest{
				Partition: string(p.partition), Line: monitor.ReleaseLine, Number: of.Number, Kind: kind, Environment: environment, Reason: "I have my reasons",
			})
			p.tell("%s: %s of release %d in %q (%v)", p.d, kind, of.Number, environment, err)
			return err
		})
	}
	if err := act(kind); err != nil {
		return err
	}
	p.mark("delivery: " + kind)
	if kind == intent.ActHoldRelease {
		p.after(time.Duration(1+p.r.IntN(12))*time.Minute, func() { _ = act(intent.ActResumeRelease) })
	}
	return nil
}

// actOnGoods marks a version, or pins an environment to it for some minutes: an application that goes first then has
// something older again.
func (p person) actOnGoods(kind, environment string, version *apipb.ReleasedVersion) error {
	_, application, _ := strings.Cut(version.Application, "/")
	act := func(kind, environment, version string) error {
		return p.insists(func() error {
			_, err := p.c.Deliveries.ActOnDelivery(p.ctx, &apipb.ActOnDeliveryRequest{
				Partition: string(p.partition), Application: application, Kind: kind, Environment: environment, Version: version, Reason: "I have my reasons",
			})
			p.tell("%s: %s of %s %s in %q (%v)", p.d, kind, application, version, environment, err)
			return err
		})
	}
	if kind != intent.ActPin {
		return act(kind, environment, version.Version.Name)
	}
	environment = "test"
	err := act(kind, environment, version.Version.Name)
	if err == nil {
		p.mark("delivery: what goes first is pinned")
		p.after(time.Duration(2+p.r.IntN(10))*time.Minute, func() { _ = act(intent.ActUnpin, environment, "") })
	}
	return err
}

// releaseMoment has a release made, and somebody act between a decision and its step.
func (l *Lab) releaseMoment(d Disturbance, r *rand.Rand) {
	l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: Meanwhile, Then: ReleaseActed, Point: "promotion", Length: 5 * time.Second, Seed: d.Seed}, r.IntN(4)})
	l.after(4*time.Minute, func() {
		l.armed = slices.DeleteFunc(l.armed, func(a armed) bool { return a.d.Number == d.Number })
	})
	l.person(Disturbance{Number: d.Number, At: d.At, Kind: ReleaseMade, Seed: d.Seed}, r)
}
