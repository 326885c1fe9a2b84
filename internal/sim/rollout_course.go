package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Course is how the simulator's own rollout goes, which governs the records.
type Course struct {
	// Shape is one of shapes; Soak that of its first stage.
	Shape int
	Soak  time.Duration
	// Stop leaves what is bad to a person; Newer is what becomes of a run when
	// there is something newer.
	Stop  bool
	Newer string
	// Asks a validation, which begins anew so often in one run. Errors are how many answers in a row
	// may be broken; nil: any number.
	Asks    bool
	Retries int
	Errors  *int
	// Fields: what it brings are values of a document's fields.
	Fields bool
	// Train: a rollout of the other records comes before it.
	Train bool
	// Approve: its last stage begins when two people have approved it.
	Approve bool
}

// shapes of stages, with their soaks.
var shapes = []func(soak time.Duration) string{
	func(soak time.Duration) string { // A canary, then the rest.
		return fmt.Sprintf("[{name: canary, scopes: [a], soak: %s}, {name: others, rest: true, soak: %s}]", soak, soak/2)
	},
	func(soak time.Duration) string { // Waves.
		return fmt.Sprintf("[{name: canary, scopes: [b], count: 1, soak: %s}, {name: others, rest: true, count: 2, soak: %s}]", soak, soak/2)
	},
	func(soak time.Duration) string { // Scope by scope.
		return fmt.Sprintf("[{name: clusters, scopes: [a, b], by: scope cluster, order: [b], soak: %s}, {name: others, rest: true, delay: 20s}]", soak)
	},
	func(soak time.Duration) string { // By parts.
		return fmt.Sprintf("[{name: canary, scopes: [a], count: 1, soak: %s}, {name: others, rest: true, by: scope cluster, percent: 50%%, most: 2, soak: %s}]", soak, soak/2)
	},
}

// rolloutPatience of the rollout with what is ill.
const rolloutPatience = 2 * time.Minute

func (c *Course) definition() string {
	of, before := `type == "Command"`, ""
	if c.Train {
		of = `type == "Command" && id.startsWith("record/r")`
		before = fmt.Sprintf("  first:\n    select: type == \"Command\" && !id.startsWith(\"record/r\")\n    stages: [{name: all, rest: true, count: 2, soak: %s}]\n    patience: %s\n    newer: %s\n", c.Soak/2, rolloutPatience, c.Newer)
	}
	text := "rollouts:\n" + before + "  records:\n    select: " + of + "\n    stages: " + c.stages() + "\n"
	if c.Train {
		text += "    after: first\n"
	}
	text += fmt.Sprintf("    patience: %s\n    newer: %s\n    emergency: [{name: first, scopes: [a], soak: 20s}, {name: then, rest: true}]\n", rolloutPatience, c.Newer)
	if c.Stop {
		text += "    on_bad: stop\n"
	}
	if c.Asks {
		limits := ""
		if c.Retries > 0 {
			limits = fmt.Sprintf("retries: %d, ", c.Retries)
		}
		if c.Errors != nil {
			limits += fmt.Sprintf("errors: %d, ", *c.Errors)
		}
		text += "    validate: [errors]\nvalidations:\n  errors: {interval: 1m, " + limits + "metrics: {errors: {prometheus: main, query: errors, compare: none, at_most: 2}}}\n"
	}
	return text
}

// stages are those of its shape, the last of which may ask people.
func (c *Course) stages() string {
	text := shapes[c.Shape](c.Soak)
	if c.Approve {
		text = strings.Replace(text, "rest: true", "rest: true, approval: {quorum: 2}", 1)
	}
	return text
}

// someCourse is one of this run.
func (l *Lab) someCourse(r *rand.Rand) *Course {
	c := someCourse(r)
	if l.ownRollout() && RetriesValidations(l.options.Seed) {
		c.Retries = 2
	}
	if l.countsErrors() {
		c.Errors = new(2)
	}
	return c
}

func someCourse(r *rand.Rand) *Course {
	c := &Course{
		Shape: r.IntN(len(shapes)), Soak: time.Duration(1+r.IntN(3)) * time.Minute, Stop: r.IntN(4) == 0,
		Newer: []string{"supersedes", "supersedes", "queues", "held"}[r.IntN(4)], Asks: r.IntN(4) > 0,
	}
	c.Approve = c.Shape == waves && c.Soak == 3*time.Minute
	return c
}

// waves is the place of that shape.
const waves = 1
