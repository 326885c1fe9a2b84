package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// await lets time pass until something is so. What else is so is said when it
// is not in time.
func (p *player) await(most time.Duration, what string, so func() (bool, string)) error {
	const soon, late = 500 * time.Millisecond, 5 * time.Second
	for start, end := p.Now(), p.Now().Add(most); ; {
		p.Pass(min(soon+p.Now().Sub(start)/20, late))
		if len(p.Violations()) > 0 {
			return nil // It is told of by whoever called the verb.
		}
		ok, instead := so()
		switch {
		case ok:
			return nil
		case !p.Now().Before(end):
			return refuse("%s: not within %s: %s", what, most, instead)
		}
	}
}

// until waits for what the words say.
func (p *player) until(list []string) error {
	most := 10 * time.Minute
	list, within := option(list, "within")
	if within != "" {
		d, err := duration(within)
		if err != nil {
			return err
		}
		most = d
	}
	what := strings.Join(list, " ")
	switch {
	case what == "settled":
		return p.settle(most)
	case what == "dead":
		return p.await(most, what, func() (bool, string) { return len(p.Living()) == 0, "one lives" })
	case len(list) == 2 && list[0] == "head":
		return p.await(most, what, func() (bool, string) { return p.Head().String() == list[1], "it is " + p.Head().String() })
	case len(list) == 4 && list[0] == "rollout" && list[2] == "is":
		return p.await(most, what, func() (bool, string) { return p.rolloutIs(list[1], intent.RolloutState(list[3])) })
	case len(list) == 4 && list[0] == "rollout" && list[2] == "waits":
		return p.await(most, what, func() (bool, string) { return p.rolloutWaits(list[1], list[3]) })
	case len(list) == 4 && list[0] == "rollout" && list[2] == "past":
		return p.await(most, what, func() (bool, string) { return p.rolloutPast(list[1], list[3]) })
	case len(list) == 2 && list[1] == "vanished":
		return p.await(most, what, func() (bool, string) { return !p.exists(list[0]), "it is still there" })
	case len(list) == 3 && list[1] == "waits":
		return p.await(most, what, func() (bool, string) { return p.waits(list[0], list[2]) })
	case len(list) == 3 && list[1] == "in" && list[2] == "sync":
		return p.await(most, what, func() (bool, string) { return p.is(list[0], intent.StateInSync) })
	case len(list) == 3 && list[1] == "is":
		return p.await(most, what, func() (bool, string) { return p.is(list[0], intent.State(list[2])) })
	}
	return usage("until settled, until dead, until head sim@2, until ASSET in sync, until ASSET waits KIND, until ASSET is STATE, until ASSET vanished, until rollout NAME is STATE, until rollout NAME waits 'TEXT', or until rollout NAME past STAGE [within 10m]")
}

// rolloutIs reports whether the newest run of a rollout is in a state.
func (p *player) rolloutIs(name string, state intent.RolloutState) (bool, string) {
	run, ok := p.Rollout(name)
	if !ok {
		return false, "no run began"
	}
	return run.State == state, fmt.Sprintf("run %d is %s: %s", run.Run, run.State, run.Progress.Waits)
}

// rolloutWaits reports whether the newest run says that it waits for a text.
func (p *player) rolloutWaits(name, text string) (bool, string) {
	run, _ := p.Rollout(name)
	return strings.Contains(run.Progress.Waits, text), "it waits: " + run.Progress.Waits
}

// rolloutPast reports whether a stage of the newest run is done.
func (p *player) rolloutPast(name, stage string) (bool, string) {
	run, _ := p.Rollout(name)
	for _, s := range run.Progress.Stages {
		if s.Name == stage {
			return s.Total > 0 && s.Done == s.Total, fmt.Sprintf("%d of %d are done: %s", s.Done, s.Total, run.Progress.Waits)
		}
	}
	return false, "it has no such stage"
}

// settle waits until nothing is left to do, also of what was just written.
func (p *player) settle(most time.Duration) error {
	const noticed = 5 * time.Second
	p.Pass(noticed)
	return p.await(most, "settled", func() (bool, string) {
		open := p.Unsettled()
		return len(open) == 0, strings.Join(open, "; ")
	})
}

// waits reports whether an asset waits for a kind of reason.
func (p *player) waits(asset, kind string) (bool, string) {
	report, err := p.Report(intent.AssetID(asset))
	if err != nil {
		return false, err.Error()
	}
	var kinds []string
	for _, waiting := range report.Waiting {
		kinds = append(kinds, fmt.Sprintf("%s (%s)", waiting.Kind, waiting.Reason))
		if string(waiting.Kind) == kind {
			return true, ""
		}
	}
	return false, fmt.Sprintf("it is %s %s", report.State, strings.Join(kinds, ", "))
}

// is reports whether an asset is in a state, and in truth too: what is said to
// be in sync is of head, and production is so.
func (p *player) is(asset string, state intent.State) (bool, string) {
	report, err := p.Report(intent.AssetID(asset))
	switch {
	case err != nil:
		return false, err.Error()
	case report.State != state:
		_, instead := p.waits(asset, "")
		return false, instead
	case state != intent.StateInSync:
		return true, ""
	case report.Pinned != "":
		return p.World.Matches(p.context(), report.Target, report.Asset)
	}
	return p.World.Matches(p.context(), p.Head(), report.Asset)
}

// quiet lets time pass in which nothing may change.
func (p *player) quiet(list []string) error {
	if len(list) != 1 {
		return usage("quiet 10m")
	}
	d, err := duration(list[0])
	if err != nil {
		return err
	}
	before, head := len(p.effects), p.Head()
	p.Pass(d)
	var changed []string
	for _, e := range p.effects[before:] {
		changed = append(changed, fmt.Sprintf("%s changed %s", e.By, e.Key))
	}
	if p.Head() != head {
		changed = append(changed, p.Head().String()+" is head")
	}
	if len(changed) > 0 {
		return refuse("%s", strings.Join(slices.Compact(changed), ", "))
	}
	return nil
}
