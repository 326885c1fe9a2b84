package runplan

import (
	"fmt"
	"time"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/plugins/task/runrecord"
)

// hasRunForDay decides of a task that must have run for each day.
func (w Want) hasRunForDay(s State, now time.Time) (bool, Verdict) {
	good, latest := s.Run.EndedWell(), w.lastDue(now)
	if w.Purpose != w.Plain && !s.hasDone(w.Purpose) {
		return false, w.due(s, latest.String(), fmt.Sprintf("rerun %s: %s", w.Task.Rerun.Id, w.Task.Rerun.Reason))
	}
	wanted, missed := w.wantedDay(good, latest)
	next := w.dueAt(latest.add(1))
	happened := Verdict{Kind: Happened, LookAt: w.lookAt(good, next, now), Reason: goodWords(good, w, now) + "; the next is due at " + moment(next)}
	if missed == 0 {
		return true, happened
	}
	if w.Task.GetDaily().CatchUp == taskpb.CatchUp_CATCH_UP_SKIP && now.Sub(w.dueAt(latest)) > w.startWithin() && !w.hasBegun(s, latest) {
		happened.Reason = fmt.Sprintf("the run for %s was to begin by %s, and is skipped; %s", latest, moment(w.dueAt(latest).Add(w.startWithin())), happened.Reason)
		return true, happened
	}
	reason := fmt.Sprintf("it is to run for %s", wanted)
	if missed > 1 {
		reason += fmt.Sprintf(" (%d days have no run that ended well)", missed)
	}
	return false, w.due(s, wanted.String(), reason+"; "+goodWords(good, w, now))
}

// wantedDay is the day for which a run is due, and how many days have none.
func (w Want) wantedDay(good *runrecord.Good, latest day) (wanted day, missed int) {
	if good == nil {
		return latest, 1
	}
	done, ok := parseDay(good.Day)
	if !ok {
		return latest, 1 // It ran before it was daily.
	}
	missed = latest.daysSince(done)
	switch {
	case done.isAfter(latest.add(1)):
		// The clock was wrong by more than a day when it ran: that day has not come yet.
		return latest, 1
	case missed <= 0:
		return latest, 0
	case w.Task.GetDaily().CatchUp == taskpb.CatchUp_CATCH_UP_ALL:
		return latest.add(1 - min(missed, mostDays)), missed
	default:
		return latest, missed
	}
}

func (w Want) startWithin() time.Duration {
	if within := w.Task.GetDaily().StartWithin; within != nil {
		return within.AsDuration()
	}
	return defaultStartWithin
}

// hasBegun reports whether the last run was for the day: then it is not skipped any more.
func (w Want) hasBegun(s State, of day) bool {
	last := s.last()
	return last != nil && last.Day == of.String()
}
