package runplan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/plugins/task/runrecord"
)

const (
	// firstPause before a run is repeated, doubling to longestPause.
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
	shownCommand = 500
)

// Decide decides of a task.
func Decide(w Want, s State, now time.Time) Verdict {
	if v, ok := s.underWay(w); ok {
		return v
	}
	if len(w.Task.Items) > 0 {
		return w.decideItems(s, now)
	}
	happened, v := w.hasHappened(s, now)
	if happened {
		return v
	}
	last := w.attempted(s, v.Next.Day, now)
	if last == nil || last.End.Ending == runrecord.Well {
		return v // Of what must happen again, the last may have ended well.
	}
	if w.MayRepeat(last.End) {
		return w.again(s, v, last, now)
	}
	v.Kind, v.Next = Stuck, nil
	v.Reason = words(last, now) + "; " + w.remedy(last.End)
	// Where each day is caught up, no other day runs before this one.
	if w.IsRecurring() && w.Task.GetDaily().GetCatchUp() != taskpb.CatchUp_CATCH_UP_ALL {
		v.LookAt = w.nextTry(last, now)
		v.Reason += "; else it runs at its next time, " + moment(v.LookAt)
	}
	return v
}

// underWay decides of a run that is not over, as far as anybody knows.
func (s State) underWay(w Want) (v Verdict, ok bool) {
	run := s.Run
	switch {
	case s.IsLive && (run == nil || run.End == nil || s.Newest > run.Number):
		v = Verdict{Kind: UnderWay, Reason: "a run is under way"}
		if run != nil && run.End == nil {
			v.Since, v.Reason = run.Began, fmt.Sprintf("run %d is under way", run.Number)
		}
		return v, true
	case run == nil || run.End != nil || s.IsHere || w.isForced(run):
		return v, false
	case run.Host != s.Host:
		v = Verdict{Kind: UnderWay, Since: run.Began}
		v.Reason = fmt.Sprintf("run %d began on host %s at %s, and only there is known how it ends; this is host %s, where it is not repeated unasked: start the plugin there, or set rerun with a reason", run.Number, run.Host, moment(run.Began), s.Host)
		return v, true
	default:
		v = Verdict{Kind: Stuck}
		v.Reason = fmt.Sprintf("run %d was about to begin at %s, and its record on host %s is lost: nobody knows whether it ran and how it ended, so it is not repeated unasked: find out, then set rerun with a reason", run.Number, moment(run.Began), s.Host)
		return v, true
	}
}

// isForced reports whether a rerun that this run did not know asks for another one.
func (w Want) isForced(run *runrecord.Run) bool {
	return w.Grant != "" && run.Grant != w.Grant || w.Purpose != w.Plain && run.Purpose != w.Purpose
}

// hasHappened decides of a task without items whether what must have happened has. If not,
// the verdict is that a run is due.
func (w Want) hasHappened(s State, now time.Time) (bool, Verdict) {
	if daily := w.Task.GetDaily(); daily != nil {
		return w.hasRunForDay(s, now)
	}
	good := s.Run.EndedWell()
	isForced := w.Purpose != w.Plain && !s.hasDone(w.Purpose)
	if every := w.Task.GetEvery(); every != nil {
		return w.isFresh(s, good, isForced, now)
	}
	happened := s.hasDone(w.Purpose)
	if w.Task.RunOnReturn {
		// What ran last counts, not what ever ran.
		last := s.last()
		happened = good != nil && (good.Purpose == w.Purpose || good.Plain == w.Purpose) && (last == nil || last.Number == good.Number)
	}
	if happened {
		return true, Verdict{Kind: Happened, Reason: goodWords(good, w, now)}
	}
	reason := "it has not run yet"
	if isForced {
		reason = fmt.Sprintf("rerun %s: %s", w.Task.Rerun.Id, w.Task.Rerun.Reason)
	} else if good != nil {
		reason = "its content has not run; " + goodWords(good, w, now)
	}
	return false, w.due(s, "", reason)
}

// isFresh decides of a task that must have run within the last so long. A last run that is
// further in the future than that was noted by a wrong clock, and does not count.
func (w Want) isFresh(s State, good *runrecord.Good, isForced bool, now time.Time) (bool, Verdict) {
	every := w.Task.GetEvery().AsDuration()
	switch {
	case isForced:
		return false, w.due(s, "", fmt.Sprintf("rerun %s: %s", w.Task.Rerun.Id, w.Task.Rerun.Reason))
	case good == nil:
		return false, w.due(s, "", "it has not run yet")
	}
	if age := now.Sub(good.Ended); age >= every || age < -every {
		return false, w.due(s, "", goodWords(good, w, now)+", and it is to run every "+span(every))
	}
	next := good.Ended.Add(every)
	return true, Verdict{Kind: Happened, LookAt: w.lookAt(good, next, now), Reason: goodWords(good, w, now) + "; the next is due at " + moment(next)}
}

// due is the verdict that a run is to begin.
func (w Want) due(s State, forDay, reason string) Verdict {
	next := &runrecord.Run{
		Number: s.number() + 1, Host: s.Host, Purpose: w.Purpose, Plain: w.Plain, Batch: w.Batch, Grant: w.Grant,
		Day: forDay, Version: w.Task.Version, Command: shown(w.Task.Command), Attempt: 1,
		Done: s.Run.AllDone(), Good: s.Run.EndedWell(),
	}
	return Verdict{Kind: Due, Reason: reason, Next: next}
}

// attempted is the last run, if it was for the same as the next one: same purpose, day and
// grant, and, of a task that runs every so often, not longer ago than that.
func (w Want) attempted(s State, forDay string, now time.Time) *runrecord.Run {
	last := s.last()
	if last == nil || last.Purpose != w.Purpose || last.Grant != w.Grant || last.Day != forDay {
		return nil
	}
	if every := w.Task.GetEvery(); every != nil {
		if age := now.Sub(last.Began); age >= every.AsDuration() || age < -every.AsDuration() {
			return nil
		}
	}
	return last
}

// nextTry is when a task that failed runs at its next time.
func (w Want) nextTry(last *runrecord.Run, now time.Time) time.Time {
	if every := w.Task.GetEvery(); every != nil {
		return last.Began.Add(every.AsDuration())
	}
	return w.dueAt(w.lastDue(now).add(1))
}

// MayRepeat reports whether what ended so may be run again unasked.
func (w Want) MayRepeat(end *runrecord.End) bool {
	switch end.Ending {
	case runrecord.NotStarted:
		return true
	case runrecord.CutOff:
		return w.Task.Repeatable
	default:
		return slices.Contains(w.Task.RetryableExitCodes, end.Code)
	}
}

// again has a run repeated, after a pause.
func (w Want) again(s State, v Verdict, last *runrecord.Run, now time.Time) Verdict {
	pause := longestPause
	if last.Attempt < 10 {
		pause = min(pause, firstPause<<(max(last.Attempt, 1)-1))
	}
	v.Next.Attempt = last.Attempt + 1
	if len(v.Items) > 0 {
		v.Reason += "; " // How far it is.
	} else {
		v.Reason = ""
	}
	v.Reason += words(last, now) + "; it is run again"
	end := last.End.Ended.Add(pause)
	// One that is further away was counted by a clock that was wrong.
	if remaining := end.Sub(now); remaining > 0 && remaining <= pause {
		return Verdict{Kind: Pausing, Since: last.End.Ended, LookAt: end, Reason: v.Reason + " at " + moment(end)}
	}
	return v
}

// remedy says what a person can do.
func (w Want) remedy(end *runrecord.End) string {
	reason := fmt.Sprintf("it is not run again, as %d is not among its retryable_exit_codes", end.Code)
	if end.Ending == runrecord.CutOff {
		reason = "it is not repeated, as the task does not say that it is repeatable"
	}
	return reason + ": see to it, then change the task, or set rerun with a reason"
}

// decideItems decides of a task with items.
func (w Want) decideItems(s State, now time.Time) Verdict {
	last := s.last()
	if s.Items == nil && s.hasDone(w.Purpose) {
		return Verdict{Kind: Happened, Reason: fmt.Sprintf("all %d items are done", len(w.Task.Items))}
	}
	if s.Items == nil && (s.hasDone(w.Batch) || s.workedOn(w.Batch)) {
		return Verdict{Kind: Stuck, Reason: fmt.Sprintf("run %d worked on its items, and the list of those that are done is lost on host %s: nothing is run unasked; to run all again set rerun with a reason, and without only_unfinished", s.Run.Number, s.Host)}
	}
	isGranted := w.Grant != "" && (s.Run == nil || s.Run.Grant != w.Grant)
	todo, stuck := w.divide(s.Items, isGranted)
	done := len(w.Task.Items) - len(todo) - len(stuck)
	if len(todo) == 0 && len(stuck) == 0 {
		return Verdict{Kind: Happened, Reason: fmt.Sprintf("all %d items are done", done)}
	}
	progress := fmt.Sprintf("%d of %d items are done", done, len(w.Task.Items))
	if len(todo) == 0 {
		return Verdict{Kind: Stuck, Reason: fmt.Sprintf("%s; %d may not be repeated unasked: %s: see to them, then set rerun with a reason and only_unfinished", progress, len(stuck), list(stuck, s.Items))}
	}
	v := w.due(s, "", fmt.Sprintf("%s, %d are to be run", progress, len(todo)))
	v.Items, v.Left = todo, len(stuck)
	if len(stuck) > 0 {
		v.Reason += fmt.Sprintf(", %d may not be repeated unasked", len(stuck))
	}
	if last != nil && last.Batch == w.Batch && last.Grant == w.Grant && last.End.Ending != runrecord.Well {
		return w.again(s, v, last, now)
	}
	return v
}

// divide says which items are to be run, and which nobody may repeat unasked.
func (w Want) divide(items runrecord.Items, isGranted bool) (todo, stuck []string) {
	for _, name := range w.Task.Items {
		item, ok := items[name]
		end := &runrecord.End{Ending: cmp.Or(item.Ending, runrecord.CutOff), Code: item.Code}
		switch {
		case !ok || end.Ending != runrecord.Well && (isGranted || w.MayRepeat(end)):
			todo = append(todo, name)
		case end.Ending != runrecord.Well:
			stuck = append(stuck, name)
		}
	}
	return todo, stuck
}

// list shows the first items with how they ended.
func list(names []string, items runrecord.Items) string {
	const most = 5
	var shown []string
	for _, name := range names[:min(len(names), most)] {
		item := items[name]
		ended := howEnded(&runrecord.End{Ending: cmp.Or(item.Ending, runrecord.CutOff), Code: item.Code})
		shown = append(shown, fmt.Sprintf("%.100q %s", name, ended))
	}
	if len(names) > most {
		shown = append(shown, "…")
	}
	return strings.Join(shown, ", ")
}

// DecideRemoval decides of a task that is turned down: due is that its run is stopped and its
// records go.
func DecideRemoval(s State) Verdict {
	switch run := s.Run; {
	case run == nil && !s.IsLive:
		return Verdict{Kind: Happened}
	case run != nil && run.End == nil && run.Host != s.Host:
		v, _ := s.underWay(Want{})
		return v
	default:
		return Verdict{Kind: Due, Reason: "its records are there"}
	}
}
