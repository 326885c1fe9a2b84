// Package mutation lists deliberate defects in Lehr, each a slip that an
// engineer could have made, and weaves them into copies of the code. All are
// in one binary, built with an overlay, each behind a switch of its own (see
// package mutant); the code itself carries no hooks. It judges nothing: a run
// of the simulator with one switched on must find what it breaks.
package mutation

import (
	"slices"

	"lehr.dev/internal/sim"
)

// Variable names, in the environment of a woven program, the mutants that are
// on: name,name.
const Variable = "LEHR_MUTANTS"

// Mutant replaces a piece of a file.
type Mutant struct {
	Name string
	// File is relative to the module, with slashes.
	File string
	// Old occurs once in the file. Mutants of the same Old nest: the New of
	// each holds Old once and is put around the one before it. Other Olds do
	// not overlap.
	Old string
	// New asks mutant.On(Name), and does what Old does while that is false.
	New string
	// Breaks are the properties that should tell: "S4", or "S2 S18".
	Breaks string
	// Why that is, and when it shows.
	Why string
	// Replicas share the store in the runs that must find it; 0: none do.
	Replicas int
	// Of: the kind of calm runs in which it shows, where little else goes wrong, and is
	// looked for; empty: any run.
	Of Kind
	// Equivalent says what else holds when this one is on alone; empty: a run
	// must find it. Defences pair it with what hides it.
	Equivalent string
}

// Kind of runs.
type Kind string

// Kinds of runs: with a rollout, one that sets fields of a document, or a plugin of checks,
// a budget of unhealthy assets, notifications, hours, rollouts that come after each other, stops that the store cannot take, plugins that keep what they read, plugins that hint what changes, secrets that are rotated, types that no plugin serves, fields that others share, generated names, outputs that others ask for, or a common policy.
const (
	Rollouts Kind = "rollouts"
	Fields   Kind = "fields"
	Judged   Kind = "judged"
	Ailing   Kind = "ailing"
	Telling  Kind = "telling"
	Hours    Kind = "hours"
	Trains   Kind = "trains"
	Braked   Kind = "braked"
	Caching  Kind = "caching"
	Hinting  Kind = "hinting"
	Rotating Kind = "rotating"
	Unserved Kind = "unserved"
	Sharing  Kind = "sharing"
	Outputs  Kind = "outputs"
	Common   Kind = "common"
	// Delivering are runs in which versions of an application are delivered.
	Delivering Kind = "delivering"
	// Lined are runs in which applications take the releases of a line.
	Lined Kind = "lined"
	// Relaxed are runs in which what trains bring to an environment is not enforced for some minutes.
	Relaxed Kind = "relaxed"
	// Retrying are runs in which validations begin anew before what they find is bad.
	Retrying Kind = "retrying"
	// Failing are runs in which validations are bad after too many broken answers in a row.
	Failing Kind = "failing"
	// Previewing are runs in which pull requests have previews.
	Previewing Kind = "previewing"
	// Tasked are runs in which an application that is delivered has tasks.
	Tasked Kind = "tasked"
	// Releasing are runs in which workflows run.
	Releasing Kind = "releasing"
	// Upgrading are runs in which pushes are workflows.
	Upgrading Kind = "upgrading"
	// Health are runs in which assets declare what healthy is.
	Health Kind = "health"
	// Circles are runs in which what was enforced last is a circle.
	Circles Kind = "circles"
	// Overreaching are runs in which a rule of generations names what it must not approve.
	Overreaching Kind = "overreaching"
	// Generations are runs in which names are generated.
	Generations Kind = "generations"
)

// Kinds tell which seeds have runs of each.
var Kinds = map[Kind]func(seed uint64) bool{
	Rollouts: sim.Rolls, Fields: sim.Sets, Judged: sim.Judged, Ailing: sim.Ails, Telling: sim.Tells, Hours: sim.ByHours,
	Trains: sim.Trains, Braked: sim.Braked, Caching: sim.Caches, Hinting: sim.Hints, Rotating: sim.Rotates,
	Unserved: sim.Unserved, Sharing: sim.Shares, Generations: sim.Generations, Outputs: sim.AsksOutputs, Common: sim.UnderCommon,
	Delivering: sim.Delivers, Lined: sim.DeliversReleases, Relaxed: sim.RelaxesTrains, Retrying: sim.RetriesValidations, Failing: sim.CountsErrors, Previewing: sim.Previews, Tasked: sim.DeliversTasks, Releasing: sim.Releases, Upgrading: sim.Upgrades,
	Health: sim.DeclaresHealth, Circles: sim.Circles, Overreaching: sim.Overreaches,
}

// All mutants, by theme.
var All = slices.Concat(
	fences, permits, admissions, approvals, consents, budgets, rates, claims, targets, pushes, settlings,
	checks, neighbours, answers, publications, guards, identities, contents, collections, audits, livenesses, rollouts, protections, ills, declared, notifications, hours, trains, secrets, brakes, ages, hinted, rotated, unserved, sharedFields, surplus, outputted, commons, fleets, memos, circles, delivered, released, relaxed, retried, failing, previewed, tasked, workflowed, upgraded,
)

// Find returns the mutant of a name.
func Find(name string) (Mutant, bool) {
	at := slices.IndexFunc(All, func(m Mutant) bool { return m.Name == name })
	if at < 0 {
		return Mutant{}, false
	}
	return All[at], true
}

// Hunted are those that a run must find.
func Hunted() []Mutant {
	return slices.DeleteFunc(slices.Clone(All), func(m Mutant) bool { return m.Equivalent != "" })
}
