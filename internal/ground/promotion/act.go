package promotion

import (
	"slices"

	"lehr.dev/internal/ground/fault"
)

// Effect is what an act changes for one environment.
type Effect struct {
	Environment   string
	Before, After Outcome
}

// Effects says what an act would change now, so that it can be shown before it is made. An act
// that cannot be made is Invalid, or a Conflict with what was said before.
func (a *Application) Effects(catalogue *Catalogue, facts *Facts, act Act) ([]Effect, error) {
	before := a.Decide(catalogue, facts)
	if err := before.check(act); err != nil {
		return nil, err
	}
	changed := *facts
	act.At = facts.Now
	changed.Acts = append(slices.Clip(slices.Clone(facts.Acts)), act)
	after := a.Decide(catalogue, &changed)
	var effects []Effect
	for i := range a.environments {
		was, becomes := before.Outcomes[i], after.Outcomes[i]
		if was.Wants != becomes.Wants || was.Hold != becomes.Hold || was.Why != becomes.Why {
			effects = append(effects, Effect{a.environments[i].spec.GetName(), was, becomes})
		}
	}
	return effects, nil
}

// check says why an act cannot be made.
func (d *Decision) check(act Act) error {
	at, ok := d.app.byName[act.Environment]
	everywhere := []ActKind{MarkBad, MarkGood, Pause, Resume, Hotfix}
	switch {
	case act.Environment != "" && !ok:
		return d.app.unknown(act.Environment)
	case act.Environment == "" && !slices.Contains(everywhere, act.Kind):
		return fault.New(fault.Invalid, "it is not said in which environment").WithHint("name one")
	case act.Reason == "":
		return fault.New(fault.Invalid, "it is not said why").WithHint("give a reason")
	}
	if slices.Contains([]ActKind{Unpin, Pause, Resume}, act.Kind) {
		return nil
	}
	place, known := d.catalogue.place(act.VersionName)
	if !known && (act.Environment == "" || d.stint(at, act.VersionName, place) == nil) {
		return fault.New(fault.Invalid, "no version %s of %s is known", act.VersionName.Name, d.app.Name()).WithHint("list the versions, and name one of them")
	}
	if act.Environment == "" {
		return nil
	}
	return d.checkIn(at, act, place)
}

// checkIn an environment.
func (d *Decision) checkIn(at int, act Act, place int) error {
	name := d.app.environments[at].spec.GetName()
	_, isBad := d.index.marks[at].bad[act.VersionName]
	stint := d.stint(at, act.VersionName, place)
	isTask := d.app.environments[at].isTask()
	switch act.Kind {
	case Pin, SkipTo, RollBack:
		if isTask && act.Kind != Pin {
			return fault.New(fault.Conflict, "%s is a task, which runs for a version and goes back to none", name).WithHint("have it run again: restart %s VERSION --of %s", name, RunConstraint)
		}
		if isBad {
			return fault.New(fault.Conflict, "version %s is bad in %s", act.VersionName.Name, name).WithHint("mark it good first, with a reason, if it is")
		}
		if d.catalogue.isWithdrawn(place) && act.VersionName != d.Outcomes[at].Has {
			return fault.New(fault.Conflict, "the source of versions no longer has %s", act.VersionName.Name).WithHint("name one that it has, or bring it back there")
		}
		if act.Kind == RollBack && (stint == nil || !stint.good) {
			return fault.New(fault.Conflict, "version %s was never good in %s", act.VersionName.Name, name).WithHint("roll back to one that was, or pin it: then its constraints count")
		}
		if act.Kind == RollBack && act.Had != d.Outcomes[at].Has {
			return fault.New(fault.Conflict, "%s has %s, and not %s", name, d.Outcomes[at].Has.Name, act.Had.Name).WithHint("look again, and say it of what it has now")
		}
		if newest := d.catalogue.newest(); act.Kind == RollBack && act.Newest != newest {
			return fault.New(fault.Conflict, "version %s is known by now", newest.Name).WithHint("look again: rolling back keeps out all that is newer and known")
		}
		if act.Kind == SkipTo && place == nowhere {
			return fault.New(fault.Invalid, "version %s has no place in the order", act.VersionName.Name).WithHint("pin it instead")
		}
	case Force:
		_, err := d.app.environments[at].constraintOf(act.Constraint)
		return err
	case Restart:
		if isTask && act.Constraint == RunConstraint && d.app.environments[at].spec.GetTask().GetParametersPointer() == "" {
			return fault.New(fault.Conflict, "no field tells the task %s that it is to run again", name).
				WithHint("write set: {…, parameters: /%s/parameters} in lehr.yaml, and have the task's rerun made of it", name)
		}
		if slices.Contains(d.app.environments[at].spec.GetVerify(), act.Constraint) {
			return nil
		}
		_, err := d.app.environments[at].constraintOf(act.Constraint)
		return err
	}
	return nil
}
