package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// slipped is an asset that comes with every intent that no pipeline may serve:
// where it is served, a pipeline did (S6).
const slipped = "slip/mark"

// slips are edits that no pipeline may serve, or that only a person's
// acknowledgement lets pass.
var slips = []edit{
	func(i *Intent, r *rand.Rand) string {
		i.Broken, i.Records = "}{ ", r.IntN(2) == 0
		return i.slip("a file cannot be parsed")
	},
	func(i *Intent, r *rand.Rand) string {
		t := i.any(r, "")
		if t == nil {
			return ""
		}
		i.Things = append(i.Things, *t)
		return i.slip("two assets are called " + t.ID)
	},
	func(i *Intent, r *rand.Rand) string { // From two generators.
		t := i.any(r, "command")
		if t == nil {
			return ""
		}
		i.Things = append(i.Things, Thing{ID: t.ID, Kind: "job", Name: t.ID, Count: 1, Scope: "a"})
		return i.slip("two files speak of " + t.ID)
	},
	func(i *Intent, r *rand.Rand) string {
		t := i.any(r, "command")
		if t == nil {
			return ""
		}
		t.After = append(t.After, "not/there")
		return i.slip(t.ID + " comes after what is not there")
	},
	func(i *Intent, r *rand.Rand) string { // What did not change refers to it.
		t := i.any(r, "balancer")
		if t == nil || t.ID != "balancer/"+t.Scope || i.find("job/"+t.Scope) == nil {
			return ""
		}
		id := t.ID
		i.remove(id)
		return i.slip(id + " is left out, and others come after it")
	},
	func(i *Intent, r *rand.Rand) string {
		a, b := i.find("record/www"), i.find("record/mail")
		if a == nil || b == nil {
			return ""
		}
		a.After, b.After = append(a.After, b.ID), append(b.After, a.ID)
		return i.slip("the records come after each other")
	},
	func(i *Intent, r *rand.Rand) string {
		t := i.any(r, "command")
		if t == nil {
			return ""
		}
		t.Kind, t.Count, t.Scope = "job", 1, "a"
		// Without the mark: where the id has left head it may come back so, and the
		// monitor asks of each incarnation which (S22).
		i.Slip = t.ID + " is a job now"
		return i.Slip
	},
	func(i *Intent, _ *rand.Rand) string { i.Things = nil; return "nothing is wanted" },
	func(i *Intent, _ *rand.Rand) string { // It loosens its own guard.
		i.Loose = true
		i.dropMuch()
		return "much less, and no guard"
	},
	func(i *Intent, r *rand.Rand) string {
		i.Things = i.Things[:len(i.Things)*r.IntN(50)/100]
		for _, t := range i.Things {
			i.forgetAbsent(t)
		}
		return fmt.Sprintf("only %d things are left", len(i.Things))
	},
}

// slip marks the intent as one that may not be served.
func (i *Intent) slip(what string) string {
	i.Slip = what
	kind := "command"
	if i.Broken != "" && i.Records {
		kind = "job" // In the file that can be read.
	}
	i.Things = append(i.Things, Thing{ID: slipped, Kind: kind, Name: slipped, Text: what, Count: 1, Scope: "a"})
	return what
}

func (i *Intent) remove(id string) {
	var rest []Thing
	for _, t := range i.Things {
		if t.ID != id {
			rest = append(rest, t)
		}
	}
	i.Things = rest
}

// forgetAbsent takes out of what a thing comes after all that is not there.
func (i *Intent) forgetAbsent(t Thing) {
	for _, id := range append(slices.Clone(t.After), t.Reads...) {
		if i.find(id) == nil {
			i.forget(id)
		}
	}
}

// dropRecords leaves records out, at most so many.
func (i *Intent) dropRecords(most int) { i.drop("command", most) }

// dropMuch leaves out half of what there is: more than a guard lets go.
func (i *Intent) dropMuch() {
	most := (len(i.Things) + 1) / 2
	before := len(i.Things)
	i.drop("command", most)
	i.drop("job", most-(before-len(i.Things)))
}

// drop leaves out things of a kind, at most so many.
func (i *Intent) drop(kind string, most int) {
	for range most {
		for _, t := range i.Things {
			if t.Kind == kind {
				i.remove(t.ID)
				i.forget(t.ID)
				break
			}
		}
	}
}
