package sim

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"lehr.dev/internal/annealing/strategist"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/virtual"
)

// rolloutSource has validations be answered otherwise for a while.
func (l *Lab) rolloutSource(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "validation")
	answers := []string{"inconclusive", "broken", "broken", "absent", "waiting"}
	if l.countsErrors() {
		answers = append(answers, flapping, flapping)
	}
	l.unclear = answers[r.IntN(len(answers))]
	l.unclearUntil = l.Now().Add(min(d.Length+30*time.Second, 5*time.Minute))
	l.tell("%s: %s", d, l.unclear)
}

// flapping answers are broken, but for some in between.
const flapping = "flapping"

// assessFor returns what answers the validations that a process asks.
func (l *Lab) assessFor(process *virtual.Process) func(context.Context, strategist.Assessing) (strategist.Assessed, error) {
	return func(ctx context.Context, of strategist.Assessing) (strategist.Assessed, error) {
		found, err := l.assess(ctx, of)
		answer := monitor.ValidationAnswer{Asker: process, Run: of.Run, Verdict: found.ValidationVerdict, Errors: of.Validation.Errors}
		answer.Verdict.Validation, answer.Verdict.Stage, answer.Verdict.Changed, answer.Verdict.Restarted = of.Question.Validation, of.Stage, of.Changed, of.Restarted
		if err != nil {
			answer.Verdict.Result = "absent"
		}
		if l.Monitor.ValidationAnswered(answer) && found.Result != "bad" {
			l.mark("validation: too many errors")
		}
		return found, err
	}
}

// assess is what is asked by validations: what it says is so, unless it is in
// trouble.
func (l *Lab) assess(_ context.Context, of strategist.Assessing) (found strategist.Assessed, err error) {
	const settles = 30 * time.Second
	found.ValidationVerdict = intent.ValidationVerdict{Result: "good", Reason: "few errors", At: of.Now}
	trouble := ""
	if !l.healing && l.unclearUntil.After(l.Now()) {
		trouble = l.unclear
	}
	if trouble == flapping {
		trouble = "broken"
		if of.Now.Unix()/10%3 == 0 {
			trouble = "waiting"
		}
	}
	switch {
	case trouble == "absent":
		return found, fault.New(fault.Unavailable, "nobody answers")
	case trouble == "bad":
		found.Result, found.Reason = "bad", "many errors"
		l.foundBad(of)
	case trouble != "":
		found.Result, found.Reason, found.Next = trouble, "as the simulator has it", of.Now.Add(10*time.Second)
	case slices.ContainsFunc(of.Experiment, func(asset intent.AssetID) bool { return l.worse(of.Run.To, asset) }):
		found.Result, found.Reason = "bad", "many errors"
		l.foundBad(of)
	case of.Now.Sub(of.Changed) < settles && !of.Now.Before(of.Changed):
		found.Result, found.Reason, found.Next = "waiting", "too few samples", of.Changed.Add(settles)
	}
	if found.Result == "good" {
		l.Monitor.FoundGood(of.Run.Name, of.Run.Run, of.Stage)
	}
	if found.Next.IsZero() {
		found.Record = []byte("what was read")
	}
	l.mark("validation: " + found.Result)
	return found, nil
}

// foundBad tells the monitor that a run is bad, unless its validation has retries left.
func (l *Lab) foundBad(of strategist.Assessing) {
	if of.Run.Progress.Retries[of.Validation.GetName()] < int(of.Validation.GetRetries()) {
		l.mark("validation: retried")
		return
	}
	l.Monitor.FoundBad(of.Run.Name, of.Run.Run)
}

// worse reports whether a validation finds an asset's content bad.
func (l *Lab) worse(at intent.IncarnationID, asset intent.AssetID) bool {
	_, body, err := l.reading.Content(l.ctx, at, asset)
	return err == nil && bytes.Contains(body, []byte(worseText))
}
