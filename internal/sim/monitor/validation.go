package monitor

import (
	"maps"
	"slices"

	"lehr.dev/internal/ground/intent"
)

// ValidationAnswer is what a validation is answered, told before who asked gets it.
type ValidationAnswer struct {
	// Asker is the process that asked.
	Asker any
	// Run is the run that was asked about, Verdict the question and what is answered. Result "absent": nobody answered.
	Run     intent.Rollout
	Verdict intent.ValidationVerdict
	// Errors are how many answers in a row may be broken; nil: any number.
	Errors *uint32
}

// askedBy is a question of one process, while the partition has one owner.
type askedBy struct {
	asker              any
	epoch              uint64
	changed, restarted int64
	validationRun
}

// validationRun is a validation of a stage of a run.
type validationRun struct {
	stageRun
	validation string
}

// ValidationAnswered counts the broken answers in a row of each question, and reports whether this one makes the verdict bad. One that is bad
// is asked no more (L8).
func (m *Monitor) ValidationAnswered(a ValidationAnswer) (isBad bool) {
	v := a.Verdict
	key := askedBy{a.Asker, m.epoch, v.Changed.UnixNano(), v.Restarted.UnixNano(), validationRun{stageRun{runOf{a.Run.Name, a.Run.Run}, v.Stage}, v.Validation}}
	tooMany := func() bool { return a.Errors != nil && m.rolling.errors[key] > *a.Errors }
	if a.Errors != nil {
		m.hold(!tooMany(), "L8", "run %d of %s asks the validation %s of stage %s again, which could not be answered %d times in a row", a.Run.Run, a.Run.Name, v.Validation, v.Stage, m.rolling.errors[key])
	}
	switch v.Result {
	case "absent": // Nothing that the source said.
		return false
	case "broken":
		m.rolling.errors[key]++
	default:
		delete(m.rolling.errors, key)
	}
	isBad = v.Result == "bad" || tooMany()
	if isBad {
		m.rolling.answeredBad[key.validationRun] = true
	}
	return isBad
}

// badVerdicts holds that each verdict that is bad was answered so, or could not be answered too often in a row (S11).
func (m *Monitor) badVerdicts() {
	for _, name := range slices.Sorted(maps.Keys(m.rolling.runs)) {
		run := m.rolling.runs[name]
		for _, v := range run.Progress.Verdicts {
			if v.Result == "bad" {
				answered := m.rolling.answeredBad[validationRun{stageRun{runOf{name, run.Run}, v.Stage}, v.Validation}]
				m.hold(answered, "S11", "the validation %s of stage %s in run %d of %s is bad, and no answer made it so: %s", v.Validation, v.Stage, run.Run, name, v.Reason)
			}
		}
	}
}
