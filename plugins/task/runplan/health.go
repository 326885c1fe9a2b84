package runplan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/serve"
)

// saidBytes is how much of what a run wrote is shown.
const saidBytes = 1000

// Health tells of the last run, and whether the last that ended well is too long ago.
func Health(w Want, s State, v Verdict, now time.Time) serve.Health {
	good, last := s.Run.EndedWell(), s.last()
	health := serve.Health{State: serve.HealthUnknown, Reason: "it has not run yet"}
	if good != nil {
		health = serve.Health{State: serve.Healthy, Reason: goodWords(good, w, now), ObservedVersion: good.Version}
		if last != nil && last.End.Ending == runrecord.Well {
			health.Reason = words(last, now)
		}
	}
	if stale := w.staleAfter(); stale > 0 && good != nil && now.Sub(good.Began) > stale {
		health.State = serve.Unhealthy
		health.Reason = fmt.Sprintf("last run %s ago, which is more than %s; %s", span(now.Sub(good.Began)), span(stale), health.Reason)
	}
	switch {
	case v.Kind == Stuck:
		health.State, health.Reason = serve.Unhealthy, v.Reason
	case v.Kind != Happened && !s.IsLive && last != nil && last.End.Ending != runrecord.Well:
		health.State, health.Reason = serve.Unhealthy, words(last, now)
	}
	return health
}

// lookAt is when time alone changes something of what happened: at the next time, and when
// it grows stale.
func (w Want) lookAt(good *runrecord.Good, next, now time.Time) time.Time {
	if good == nil {
		return next
	}
	if stale := good.Began.Add(w.staleAfter()); stale.After(now) && stale.Before(next) {
		return stale
	}
	return next
}

// Words tell how a run ended, and what to do about it.
func (w Want) Words(run *runrecord.Run, now time.Time) string {
	if run.End.Ending == runrecord.Well || w.MayRepeat(run.End) || len(w.Task.Items) > 0 {
		return words(run, now)
	}
	return words(run, now) + "; " + w.remedy(run.End)
}

// words tell how a run ended.
func words(run *runrecord.Run, now time.Time) string {
	text := fmt.Sprintf("run %d", run.Number)
	if run.Day != "" {
		text += " for " + run.Day
	}
	text += " " + howEnded(run.End)
	if !run.End.Ended.Equal(run.Began) {
		text += " " + ago(run.End.Ended, now)
	}
	if run.End.Took > 0 {
		text += ", after " + span(run.End.Took)
	}
	if run.End.Reason != "" {
		text += ": " + run.End.Reason
	}
	if said := run.End.Said(saidBytes); said != "" {
		text += ", and wrote: " + said
	}
	return text
}

func howEnded(end *runrecord.End) string {
	switch end.Ending {
	case runrecord.Well:
		return "ended well"
	case runrecord.NotStarted:
		return "could not be started"
	case runrecord.CutOff:
		return "was cut off"
	case runrecord.Failed:
		if end.Code == 0 {
			return "failed"
		}
	}
	return "ended with exit code " + strconv.Itoa(int(end.Code))
}

func goodWords(good *runrecord.Good, w Want, now time.Time) string {
	if good == nil {
		return "none has ended well yet"
	}
	text := fmt.Sprintf("run %d", good.Number)
	if good.Day != "" {
		text += " for " + good.Day
	}
	text += " ended well " + ago(good.Ended, now)
	if !w.IsRecurring() && good.Purpose != w.Purpose && good.Plain != w.Purpose {
		text += ", of another content"
	}
	return text
}

func ago(t, now time.Time) string {
	if now.Sub(t).Abs() < time.Second {
		return "just now"
	}
	if t.After(now) {
		return span(t.Sub(now)) + " ahead of the clock"
	}
	return span(now.Sub(t)) + " ago"
}

// span is a duration for people.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 72*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func shown(command []string) string {
	var words []string
	for _, word := range command {
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\$") {
			word = strconv.Quote(word)
		}
		words = append(words, word)
	}
	text := strings.Join(words, " ")
	if len(text) > shownCommand {
		text = strings.ToValidUTF8(text[:shownCommand], "") + "…"
	}
	return text
}
