package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

const (
	// KindRollout tells of the run of a rollout.
	KindRollout = "rollout"
	// KindBehind: a rollout keeps it where it is, and head has other content.
	KindBehind = "behind"
	// mostFollowed of what a run waits for are followed.
	mostFollowed = 10
)

// KeptBy names the rollout that keeps an asset from what head says: it was not let
// go on to anything yet, or has other content than head. Empty: none does.
func (f Facts) KeptBy(asset intent.AssetID) string {
	_, pin := intent.Target(f.Head, f.Pins[asset], f.Now)
	switch {
	case pin == nil || f.Past:
		return ""
	case pin.Waits():
		return pin.Rollout()
	}
	member, ok := f.Members[asset]
	report := f.Reports[asset]
	if report.State == intent.StateInSync && ok && member.Effective != report.Effective {
		return pin.Rollout()
	}
	return ""
}

// Follow are the assets that the newest runs of a rollout, and of those that it comes
// after, wait for, as many of each as are followed.
func (f Facts) Follow(rollout string) (assets []intent.AssetID) {
	line := []string{rollout}
	for i := 0; i < len(line); i++ {
		assets = append(assets, f.waitsFor(line[i])...)
		for _, predecessor := range f.Before[line[i]] {
			if !slices.Contains(line, predecessor) {
				line = append(line, predecessor)
			}
		}
	}
	return assets
}

// waitsFor are the assets that the newest run of a rollout waits for.
func (f Facts) waitsFor(rollout string) []intent.AssetID {
	run := f.Rollouts[rollout]
	return run.Progress.For[:min(len(run.Progress.For), mostFollowed)]
}

// behindReason says that a rollout keeps an asset from head's content; nil: none
// does.
func (f Facts) behindReason(report intent.Report, p *path) *Reason {
	rollout := f.KeptBy(report.Asset)
	if rollout == "" || report.State != intent.StateInSync {
		return nil
	}
	return &Reason{
		Kind: KindBehind, Asset: report.Asset, Since: report.At,
		Text:   fmt.Sprintf("it is as %s says, and the rollout %s has not let it go on to %s yet", report.Target, rollout, f.Head),
		Hint:   "lehr rollout status " + rollout + " says what it waits for",
		Causes: []Reason{f.rolloutReason(rollout, report.Asset, p)},
	}
}

// fieldReasons say which runs have not set the field of the asset asked for yet, and
// what of theirs others have set.
func (f Facts) fieldReasons(report intent.Report, p *path) (reasons []Reason) {
	if report.Asset != f.Asset {
		return nil
	}
	for _, rollout := range slices.Sorted(maps.Keys(f.Fields)) {
		pointer, run := f.Fields[rollout], f.Rollouts[rollout]
		r := Reason{
			Kind: KindBehind, Asset: report.Asset, Since: run.Began,
			Text: fmt.Sprintf("the rollout %s has not set %s to %s for it yet", rollout, pointer, run.Value),
			Hint: "lehr rollout status " + rollout + " says what it waits for",
		}
		at := slices.IndexFunc(run.Edits, func(e intent.RolloutEdit) bool { return e.Pointer == pointer })
		switch {
		case at >= 0 && run.Edits[at].Changed != "":
			e := run.Edits[at]
			r.Text = fmt.Sprintf("the rollout %s leaves %s of %s as it is: set by %s", rollout, pointer, e.Document, e.Changed)
			r.Hint = "lehr document history " + e.Document + " tells more"
		case at >= 0 && run.Edits[at].Set() && run.State != intent.RolloutRollingBack && !isProposed(run, pointer):
			continue
		case run.State == intent.RolloutRollingBack:
			r.Text = fmt.Sprintf("the rollout %s gives %s what it had before", rollout, pointer)
			r.Causes = []Reason{f.rolloutReason(rollout, report.Asset, p)}
		default:
			r.Causes = []Reason{f.rolloutReason(rollout, report.Asset, p)}
		}
		reasons = append(reasons, r)
	}
	return reasons
}

// isProposed reports whether a field waits for people to merge a pull request.
func isProposed(run intent.Rollout, pointer string) bool {
	return slices.ContainsFunc(run.Proposals, func(p intent.RolloutProposal) bool { return p.Pending() && slices.Contains(p.Pointers, pointer) })
}

// rolloutReason says where the newest run of a rollout stands, who paused it, and
// what it waits for.
func (f Facts) rolloutReason(rollout string, subject intent.AssetID, p *path) Reason {
	run, ok := f.Rollouts[rollout]
	predecessors := f.Before[rollout]
	switch {
	case !ok && len(predecessors) > 0:
		return Reason{
			Kind: KindRollout, Text: fmt.Sprintf("the rollout %s has no run yet, and comes after %s", rollout, strings.Join(predecessors, " and ")),
			Hint:   "it begins when those went through with something new for its assets; lehr rollout plan " + rollout + " says how it would go",
			Causes: f.beforeReasons(rollout, subject, p),
		}
	case !ok:
		return Reason{
			Kind: KindRollout, Text: fmt.Sprintf("the rollout %s has no run yet", rollout),
			Hint: "it begins when head has something new for its assets, or by lehr rollout start " + rollout + "; lehr rollout plan " + rollout + " says how it would go",
		}
	}
	r := Reason{Kind: KindRollout, Since: run.Began, Until: run.Progress.Next, Hint: "lehr rollout status " + rollout + " shows how it goes"}
	prefix := fmt.Sprintf("the rollout %s (run %d) ", rollout, run.Run)
	waits := run.Progress.Waits
	if strings.HasPrefix(waits, "for ") {
		waits = "waits " + waits
	}
	pause := run.Last(intent.OrderPause)
	switch {
	case run.State == intent.RolloutPaused && pause != nil:
		pausedBy := name(pause.By.Name)
		if strings.HasPrefix(pausedBy, intent.RolloutPrefix) {
			pausedBy = "itself"
		} else {
			r.Owner = pausedBy
		}
		r.Since, r.Until = pause.At, run.Ended
		r.Text = fmt.Sprintf("%sis paused by %s %s: %s", prefix, pausedBy, f.ago(pause.At), pause.Text)
		r.Hint = "lehr rollout resume " + rollout + " --reason WHY lets it go on"
		return r
	case run.State == intent.RolloutPaused:
		r.Text = prefix + "is paused: " + waits
		return r
	case !run.State.Open():
		r.Since, r.Text = run.Ended, prefix+"is "+string(run.State)
		if run.Bad != "" {
			r.Text += ", for what it brought is bad: " + run.Bad
			r.Hint = "bring something else; or, if that was not bad: lehr rollout forgive " + rollout + " --reason WHY"
		}
		if waits != "" && !(run.Bad != "" && run.Progress.Cause == intent.CauseBad) {
			r.Text += "; " + waits
		}
		if run.Progress.Cause == intent.CauseRollouts {
			r.Causes = f.beforeReasons(rollout, subject, p)
		}
		return r // Else it waits for a person.
	case waits == "":
		r.Text = fmt.Sprintf("%sis %s, and lets assets go on to %s", prefix, run.State, cmp.Or(run.To.String(), string(run.Value)))
	default:
		r.Text = fmt.Sprintf("%sis %s: %s", prefix, run.State, waits)
	}
	if slices.Contains(p.rollouts, rollout) {
		return r // What it waits for is told above.
	}
	if run.Progress.Cause == intent.CauseRollouts {
		r.Causes = f.beforeReasons(rollout, subject, p)
		return r
	}
	p.rollouts = append(p.rollouts, rollout)
	for _, asset := range f.waitsFor(rollout) {
		if hold := f.heldFrom(rollout, asset); hold != nil {
			r.Causes = append(r.Causes, *hold)
		} else if asset != subject && !slices.Contains(p.chain, asset) {
			r.Causes = append(r.Causes, f.blockerReason(asset, p)...)
		}
	}
	return r
}

// leftToAPerson reports whether the last run of a rollout has ended, and what head has for
// its assets is not brought by itself.
func (f Facts) leftToAPerson(run intent.Rollout) bool {
	_, governs := f.Before[run.Name]
	waits := run.Progress.Waits
	return governs && !run.State.Open() && run.Value == nil && waits != "" && run.Progress.Cause != intent.CauseRollouts
}

// heldFrom is the hold for which a rollout does not let an asset go on; nil: there is none.
// The asset is as its pin says, so its report tells of none.
func (f Facts) heldFrom(rollout string, asset intent.AssetID) *Reason {
	hold, ok := f.Holds[asset]
	if !ok || intent.Expired(hold.Until, f.Now) || f.KeptBy(asset) != rollout {
		return nil
	}
	return &Reason{
		Kind: string(intent.WaitHold), Asset: asset, Owner: hold.Owner.Name, Since: hold.Created, Until: hold.Until,
		Text: fmt.Sprintf("%s holds it since %s: %s", name(hold.Owner.Name), hold.Created.UTC().Format(time.RFC3339), hold.Reason),
		Hint: "lehr unhold " + string(asset) + " --reason WHY lets it be pushed",
	}
}

// beforeReasons say where the rollouts stand that one comes after.
func (f Facts) beforeReasons(rollout string, subject intent.AssetID, p *path) (reasons []Reason) {
	if slices.Contains(p.rollouts, rollout) {
		return nil // They are told of above.
	}
	p.rollouts = append(p.rollouts, rollout)
	for _, predecessor := range f.Before[rollout] {
		if run, ok := f.Rollouts[predecessor]; !ok || run.State != intent.RolloutDone {
			reasons = append(reasons, f.rolloutReason(predecessor, subject, p))
		}
	}
	return reasons
}

// throughRollout is what is said of the rollout that a chain goes through at once;
// empty: it goes through none.
func throughRollout(chain Reason) string {
	for _, cause := range chain.Causes {
		if cause.Kind == KindRollout {
			return cause.Text
		}
	}
	return ""
}
