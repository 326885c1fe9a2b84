package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"math/rand/v2"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/sim/monitor"
)

// In every sixteenth run that delivers, another application has tasks: one before production that waits for another
// one, one after it, and one on failure. People have them run early and again, and some fail.

// Disturbances of these runs.
const (
	CartBuilt Kind = "a version of an application with tasks is built"
	CartActed Kind = "somebody acts on an application with tasks"
	TaskIll   Kind = "a task fails"
)

var taskKinds = append(slices.Clone(deliveryKinds), weighed{CartBuilt, 110}, weighed{CartActed, 110}, weighed{TaskIll, 50})

// cartPrefix is how assets of the application are called.
const cartPrefix = goodsPrefix + monitor.CartApplication + "-"

// cartProgram makes an asset for each environment and task, of its version and run.
const cartProgram = `
def generate(ctx):
    return [asset("goods-cart-" + name, lehr.command.v1.Command(diff = ["true"], push = ["true"],
                  input = field["version"] + " " + field.get("parameters", {}).get("run", "")))
            for name, field in json("carts/carts.json").items()]
`

const cartDefinition = `  cart:
    versions: wares
    environments:
      test:
        set: {document: carts, field: /test/version}
        assets: id == "goods-cart-test"
        attempts: 100
        retry: 5m
      production:
        set: {document: carts, field: /production/version}
        assets: id == "goods-cart-production"
        attempts: 2
        retry: 3m
        constraints:
          tested: {depends_on: [test]}
          migrated: {task: migrate}
    tasks:
      scan:
        set: {document: carts, field: /scan/version, parameters: /scan/parameters}
        assets: id == "goods-cart-scan"
      migrate:
        set: {document: carts, field: /migrate/version, parameters: /migrate/parameters}
        assets: id == "goods-cart-migrate"
        attempts: 2
        retry: 2m
        constraints:
          scanned: {task: scan}
      report:
        after: [production]
        set: {document: carts, field: /report/version, parameters: /report/parameters}
        assets: id == "goods-cart-report"
      clean:
        on_failure: [test, production]
        set: {document: carts, field: /clean/version, parameters: /clean/parameters}
        assets: id == "goods-cart-clean"
`

// DeliversTasks reports whether an application has tasks in runs of a seed.
func DeliversTasks(seed uint64) bool { return Delivers(seed) && seed/27%16 == 10 }

// hasTasks reports whether one has in this run.
func (l *Lab) hasTasks() bool { return l.delivers() && DeliversTasks(l.options.Seed) }

// addTasks adds the application to a definition that delivers.
func addTasks(text string) string {
	text = strings.Replace(text, "generate:\n", "  carts: {document: carts}\n  wares: {pushed: wares, file: wares.json}\ngenerate:\n  cart: {starlark: cart.star, from: [carts]}\n", 1)
	return strings.Replace(text, "delivery:\n", "delivery:\n"+cartDefinition, 1)
}

// cartDocuments are what there is before a version is built.
func cartDocuments() map[string]map[string]map[string]string {
	fields := map[string]map[string]string{}
	for _, name := range monitor.CartPlaces() {
		fields[name] = map[string]string{"version": "1.0.0"}
	}
	return map[string]map[string]map[string]string{monitor.CartDocument: fields, waresDocument: {"1.0.0": {}}}
}

// buildCart has one to three versions built, one after the other.
func (p person) buildCart() error {
	if p.r.IntN(3) == 0 {
		return p.runAhead()
	}
	delay := time.Duration(0)
	for range 1 + p.r.IntN(3) {
		p.after(delay, func() {
			p.delivering.wares++
			version := fmt.Sprintf("1.%d.0", p.delivering.wares)
			p.tell("%s: %s of the application with tasks", p.d, version)
			_ = p.setDocument(waresDocument, "/"+version, "{}")
		})
		delay += within(p.r, 3*time.Minute)
	}
	return nil
}

// runAhead has a migration run while production is paused, and once more when it is resumed: production waits for that.
func (p person) runAhead() error {
	if p.healing {
		return nil
	}
	p.delivering.wares++
	version := fmt.Sprintf("1.%d.0", p.delivering.wares)
	if err := p.saysOfCart(intent.ActPause, "production", "", ""); err != nil {
		return err
	}
	if err := p.setDocument(waresDocument, "/"+version, "{}"); err != nil {
		return err
	}
	p.after(8*time.Second, func() { _ = p.saysOfCart(intent.ActForce, "migrate", version, promotion.RunConstraint) })
	p.after(45*time.Second+within(p.r, 30*time.Second), func() {
		_ = p.saysOfCart(intent.ActRestart, "migrate", version, promotion.RunConstraint)
		_ = p.saysOfCart(intent.ActResume, "production", "", "")
	})
	return nil
}

// saysOfCart makes one act on the application.
func (p person) saysOfCart(kind, environment, version, constraint string) error {
	return p.insists(func() error {
		_, err := p.c.Deliveries.ActOnDelivery(p.ctx, &apipb.ActOnDeliveryRequest{
			Partition: string(p.partition), Application: monitor.CartApplication, Kind: kind, Environment: environment, Version: version, Constraint: constraint, Reason: "I have my reasons",
		})
		p.tell("%s: %s of %s in %q %s (%v)", p.d, kind, version, environment, constraint, err)
		return err
	})
}

// cartActs with how often each is made.
var cartActs = []string{
	intent.ActRestart, intent.ActRestart, intent.ActRestart, intent.ActForce, intent.ActForce, intent.ActMarkBad, intent.ActMarkBad, intent.ActMarkBad, intent.ActMarkGood, intent.ActPin, intent.ActPause, intent.ActPause,
}

// actOnCart does what somebody has in mind about one of the newest versions. What is pinned or paused is let go soon.
func (p person) actOnCart() error {
	kind := cartActs[p.r.IntN(len(cartActs))]
	version := fmt.Sprintf("1.%d.0", max(0, p.delivering.wares-p.r.IntN(3)))
	environment, constraint := []string{"test", "production"}[p.r.IntN(2)], ""
	switch kind {
	case intent.ActRestart:
		environment, constraint = monitor.CartTasks[p.r.IntN(len(monitor.CartTasks))], promotion.RunConstraint
	case intent.ActForce:
		environment, constraint = monitor.CartTasks[p.r.IntN(len(monitor.CartTasks))], promotion.RunConstraint
		if p.r.IntN(2) == 0 {
			environment, constraint = "production", "migrated"
		}
	case intent.ActMarkBad, intent.ActMarkGood:
		if p.r.IntN(3) == 0 {
			environment = ""
		}
	case intent.ActPin:
		environment = "production"
	case intent.ActPause:
		environment = []string{"production", "migrate", "report", "test"}[p.r.IntN(4)]
	}
	if p.healing {
		return nil
	}
	if kind == intent.ActPause {
		version = ""
	}
	if err := p.saysOfCart(kind, environment, version, constraint); err != nil {
		return err
	}
	p.mark("delivery: " + kind + " of an application with tasks")
	if ends := map[string]string{intent.ActPin: intent.ActUnpin, intent.ActPause: intent.ActResume}[kind]; ends != "" {
		p.after(time.Duration(1+p.r.IntN(8))*time.Minute, func() { _ = p.saysOfCart(ends, environment, "", "") })
	}
	return nil
}

// taskFails has what a task made be unhealthy for some minutes: a run that ends meanwhile has failed.
func (l *Lab) taskFails(d Disturbance, r *rand.Rand) {
	name := append([]string{"migrate", "migrate", "production"}, monitor.CartTasks...)[r.IntN(3+len(monitor.CartTasks))]
	period := within(r, 6*time.Minute)
	l.note(d.Kind, "production")
	for _, resource := range l.World.Resources() {
		if resource.Exists && string(resource.Asset) == cartPrefix+name {
			l.tell("%s: %s fails for %s", d, name, period)
			l.World.Sick(resource.Key, true)
			l.after(period, func() { l.World.Sick(resource.Key, false) })
		}
	}
}
