package intent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// RolloutStanding is what an order to a rollout rests on.
type RolloutStanding struct {
	Name string
	// Governs: head's policy has it. ByField: it sets a field of a document; Held:
	// something newer waits for a person, Supersedes: it takes the place of what goes
	// on; Emergency: it has stages for that.
	Governs, ByField, Held, Supersedes, Emergency bool
	// Run is the newest; nil: there was none. Pending orders are not carried out yet.
	Run     *Rollout
	Pending []RolloutOrder
	// Pins that it holds, and Bad contents that nobody forgave.
	Pins, Bad int
	// BadNow is an asset of which what would be brought was judged bad; empty: none is known.
	BadNow AssetID
}

// Refuse says why an order makes no sense as things stand, with what stands; nil:
// it does. It is asked again by whoever carries it out.
func (s RolloutStanding) Refuse(kind OrderKind, value json.RawMessage) error {
	if !s.Governs && s.Run == nil && s.Pins == 0 {
		return fault.New(fault.NotFound, "there is no rollout %.100q", s.Name).WithHint("lehr get rollouts lists them; they are defined in lehr.yaml, under rollouts")
	}
	if kind != OrderStart && len(value) > 0 {
		return fault.New(fault.Invalid, "an order to %s takes no value", kind).WithHint("leave it out")
	}
	switch kind {
	case OrderStart:
		return s.refuseStart(value)
	case OrderForgive:
		if s.Bad == 0 && s.BadNow == "" {
			return s.refuse("nothing that it brought is judged bad", "what was judged bad is told by lehr rollout status "+s.Name)
		}
		return nil
	case OrderRelease:
		return s.refuseRelease()
	}
	if !slices.Contains(OrderKinds(), kind) {
		return fault.New(fault.Invalid, "%.40q is nothing that a rollout can be asked for", kind).WithHint("it is one of: start, pause, resume, abort, skip, promote, rollback, emergency, forgive, release")
	}
	return s.refuseOfRun(kind)
}

func (s RolloutStanding) refuseStart(value json.RawMessage) error {
	switch {
	case !s.Governs:
		return s.refuse("head's policy does not have it any more", "put it back under rollouts in lehr.yaml; or lehr rollout release "+s.Name+" --reason WHY lets what it kept follow head")
	case s.ByField && !json.Valid(value):
		return fault.New(fault.Invalid, "rollout %s sets a field of a document, and was given no value of JSON for it", s.Name).
			WithHint(`write the value: lehr rollout start %s --to 1.4 --reason WHY; a text that is no JSON is taken as a string`, s.Name)
	case s.ByField:
		return s.refuseValue(value)
	case len(value) > 0:
		return fault.New(fault.Invalid, "rollout %s sets no field: it brings what head says", s.Name).WithHint("change the sources instead; leave the value out")
	case s.Run != nil && s.state().Open():
		return s.refuse("run %d goes on: it is %s", "lehr rollout status "+s.Name+" says what it waits for", s.Run.Run, s.state())
	case !s.Held && (s.Run == nil || s.state() == RolloutDone || s.state() == RolloutSuperseded):
		return s.refuse("it begins by itself when head has something new for its assets", "with newer: held in lehr.yaml it waits for lehr rollout start")
	case s.BadNow != "" && !s.pending(OrderForgive):
		return s.refuse("head has content of %s that was judged bad", "publish other content; or, if it is not bad, first: lehr rollout forgive "+s.Name+" --reason WHY", s.BadNow)
	}
	return nil
}

// refuseValue is of an order to start with a value, while a run goes on.
func (s RolloutStanding) refuseValue(value json.RawMessage) error {
	if s.Run == nil || !s.Run.State.Open() || !s.state().Open() {
		return nil
	}
	end := "lehr rollout status " + s.Name + " says what it waits for"
	switch state := s.state(); {
	case state == RolloutRollingBack:
		return s.refuse("run %d goes back to what was before", "start it when it is back: "+end, s.Run.Run)
	case bytes.Equal(s.Run.Value, value):
		return s.refuse("run %d sets %s already: it is %s", end, s.Run.Run, value, state)
	case !s.Supersedes:
		return s.refuse("run %d, which sets %s, goes on: it is %s", "wait for it, or end it first: lehr rollout abort "+s.Name+" --reason WHY leaves what it set, lehr rollout rollback "+s.Name+
			" --reason WHY undoes it; with newer: supersedes in lehr.yaml a newer start takes its place", s.Run.Run, s.Run.Value, state)
	}
	return nil
}

func (s RolloutStanding) refuseRelease() error {
	switch {
	case s.Governs:
		return s.refuse("it is in head's policy, so what it selects follows it", "take it, or the assets out of its select, from lehr.yaml first")
	case s.Pins == 0:
		return s.refuse("it keeps no asset", "they follow head already: lehr get pins")
	}
	return nil
}

// refuseOfRun is of orders to the newest run.
func (s RolloutStanding) refuseOfRun(kind OrderKind) error {
	run := s.Run
	if run == nil {
		return s.refuse("it has no run yet", "lehr rollout status "+s.Name+" says what it waits for")
	}
	state := s.state()
	inState := func(states ...RolloutState) bool { return slices.Contains(states, state) }
	status := "lehr rollout status " + s.Name + " tells of it"
	switch {
	case kind == OrderRollback && inState(RolloutRollingBack, RolloutRolledBack):
		return s.refuse("run %d is %s already", status, run.Run, state)
	case kind == OrderRollback && !s.Governs:
		return s.refuse("head's policy does not have it any more", "lehr pin keeps an asset at what was good; put the rollout back under rollouts in lehr.yaml to have it go back")
	case kind == OrderRollback && inState(RolloutStopped, RolloutDone):
		return nil // What it brought is there.
	case !state.Open():
		return s.refuse("run %d ended: it is %s", status, run.Run, state)
	case inState(RolloutRollingBack) && kind == OrderPromote && run.Staged && !s.pending(OrderPromote):
		return nil
	case inState(RolloutRollingBack):
		return s.refuse("run %d goes back already to what was good", status, run.Run)
	case kind == OrderPause && inState(RolloutPaused):
		return s.refuse("run %d is paused already%s", "lehr rollout resume "+s.Name+" --reason WHY lets it go on", run.Run, s.attribution(OrderPause))
	case kind == OrderResume && !inState(RolloutPaused):
		return s.refuse("run %d is %s, not paused", status, run.Run, state)
	case kind != OrderAbort && inState(RolloutQueued):
		return s.refuse("run %d is queued, and at no stage yet", "lehr rollout abort "+s.Name+" --reason WHY ends it", run.Run)
	case kind == OrderPromote && (run.Promoted || s.pending(OrderPromote)):
		return s.refuse("run %d is promoted already: no stage holds it", status, run.Run)
	case kind == OrderSkip && run.Unstaged():
		return s.refuse("run %d waits for no stage: it looks on whether what it brought does well", "lehr rollout abort "+s.Name+" --reason WHY ends it as it stands", run.Run)
	case kind == OrderEmergency && !s.Emergency:
		return s.refuse("it has no stages for emergencies", "define them in lehr.yaml, under emergency; lehr rollout promote "+s.Name+" --reason WHY lets all go on at once")
	case kind == OrderEmergency && (run.Emergency || s.pending(OrderEmergency)):
		return s.refuse("run %d goes by the stages for emergencies already", status, run.Run)
	}
	return nil
}

// state of the run once what is pending is carried out.
func (s RolloutStanding) state() RolloutState {
	state := s.Run.State
	for _, order := range s.Pending {
		switch order.Kind {
		case OrderPause:
			state = RolloutPaused
		case OrderResume, OrderStart:
			state = RolloutRunning
		case OrderAbort:
			state = RolloutStopped
		case OrderRollback:
			state = RolloutRollingBack
		}
	}
	return state
}

func (s RolloutStanding) pending(kind OrderKind) bool {
	return slices.ContainsFunc(s.Pending, func(o RolloutOrder) bool { return o.Kind == kind })
}

// attribution names who asked last for what stands.
func (s RolloutStanding) attribution(kind OrderKind) string {
	for _, order := range slices.Backward(s.Pending) {
		if order.Kind == kind {
			return " by " + order.By.Name + ": " + order.Reason
		}
	}
	if event := s.Run.Last(kind); event != nil {
		return " by " + event.By.Name + ": " + event.Text
	}
	return ""
}

// Unstaged reports whether no stage holds the run any more: it was promoted, or each that
// has assets is done or was skipped.
func (r *Rollout) Unstaged() bool {
	return r.Promoted || len(r.Progress.Stages) > 0 && !slices.ContainsFunc(r.Progress.Stages, func(s StageProgress) bool {
		return s.Total > 0 && s.Ended.IsZero() && !slices.Contains(r.Skipped, s.Name)
	})
}

// Last is the newest event of an order; nil: there is none.
func (r *Rollout) Last(kind OrderKind) *RolloutEvent {
	for i, event := range slices.Backward(r.Events) {
		if event.Kind == string(kind) {
			return &r.Events[i]
		}
	}
	return nil
}

func (s RolloutStanding) refuse(format, hint string, arguments ...any) error {
	return fault.New(fault.Conflict, "rollout "+s.Name+": "+format, arguments...).WithHint("%s", hint)
}

// StageToJudge is the stage that a vote is on: the named one of the newest run, or with an empty name the one that asks
// people now. Run 0 is the newest. It says why the vote makes no sense now, with what stands.
func (s RolloutStanding) StageToJudge(kind OrderKind, run uint64, name string) (*StageProgress, error) {
	status := "lehr rollout status " + s.Name + " says what it waits for"
	switch {
	case s.Run == nil:
		return nil, s.refuse("it has no run yet", status)
	case run != 0 && run != s.Run.Run:
		return nil, s.refuse("run %d is the newest, and this vote is on run %d", "look at what the newest brings, and vote on that: lehr rollout status "+s.Name, s.Run.Run, run)
	case !s.state().Open():
		return nil, s.refuse("run %d ended: it is %s", "lehr rollout status "+s.Name+" tells of it", s.Run.Run, s.state())
	case s.state() == RolloutRollingBack:
		return nil, s.refuse("run %d goes back, and no stage of it begins any more", status, s.Run.Run)
	}
	var names []string
	var stage *StageProgress
	for i := range s.Run.Progress.Stages {
		one := &s.Run.Progress.Stages[i]
		if one.Approval == nil {
			continue
		}
		names = append(names, one.Name)
		isAsked := one.Approval.State == ApprovalAsked || one.Approval.State == ApprovalRejected
		if one.Name == name || name == "" && isAsked && stage == nil {
			stage = one
		}
	}
	switch {
	case stage == nil && name == "":
		return nil, s.refuse("no stage of run %d asks people now", status, s.Run.Run)
	case stage == nil && len(names) == 0:
		return nil, fault.New(fault.Invalid, "rollout %s: no stage of run %d asks people", s.Name, s.Run.Run).WithHint("a stage of lehr.yaml with approval: {quorum: 1} does")
	case stage == nil:
		return nil, fault.New(fault.NotFound, "rollout %s: run %d has no stage %.100q that asks people", s.Name, s.Run.Run, name).WithHint("these do: %s", strings.Join(names, ", "))
	case stage.Approval.State == ApprovalGiven:
		return nil, s.refuse("stage %s of run %d is approved already", "lehr rollout pause "+s.Name+" --reason WHY lets no more assets go on", stage.Name, s.Run.Run)
	case stage.Approval.State == ApprovalSkipped:
		return nil, s.refuse("an operator passed over the approval of stage %s of run %d", "lehr rollout pause "+s.Name+" --reason WHY lets no more assets go on", stage.Name, s.Run.Run)
	case stage.Approval.State == ApprovalLater && kind == OrderApprove:
		return nil, s.refuse("nobody is asked yet whether stage %s may begin: what comes before it may show why not", status, stage.Name)
	}
	return stage, nil
}
