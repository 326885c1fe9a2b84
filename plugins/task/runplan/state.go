package runplan

import (
	"slices"
	"time"

	"lehr.dev/plugins/task/runrecord"
)

// State is what is known of a task's runs.
type State struct {
	// Host is this machine.
	Host string
	// Run is the newest; nil: none is known.
	Run *runrecord.Run
	// IsHere: this machine has the record of Run.
	IsHere bool
	// IsStarted, IsLive and Newest are those of runrecord.Found.
	IsStarted, IsLive bool
	Newest            uint64
	// Items of the wanted batch; nil: there is no log of them.
	Items runrecord.Items
}

// Merge joins what the machine tells with what the memo does. The higher number is newer; of
// one number, the machine knows more of a run of its own.
func Merge(host string, record runrecord.Found, memo *runrecord.Run) State {
	s := State{Host: host, Run: record.Run, IsHere: record.Run != nil, IsStarted: record.IsStarted, IsLive: record.IsLive, Newest: record.Newest}
	switch {
	case memo == nil:
	case memo.Host == host && memo.End == nil && record.Run != nil && memo.Number > record.Run.Number && memo.Number <= record.Newest:
		// It was reserved here and never began.
	case record.Run == nil || memo.Number > record.Run.Number, memo.Number == record.Run.Number && memo.Host != host:
		s.Run, s.IsHere, s.IsStarted = memo, false, false
	case memo.Number == record.Run.Number && memo.ID == record.Run.ID && record.Run.End == nil && memo.End != nil:
		ended := *record.Run
		ended.End = memo.End
		s.Run = &ended
	}
	return s
}

// last is the newest run that is over; nil: none is. A run whose keeper began and is gone, and
// of which nobody saw the end, was cut off.
func (s State) last() *runrecord.Run {
	switch {
	case s.Run == nil || s.Run.End != nil:
		return s.Run
	case s.IsLive || !s.IsHere || s.neverBegan():
		return nil
	}
	cut := *s.Run
	cut.End = &runrecord.End{
		Ending: runrecord.CutOff, Ended: s.Run.Began,
		Reason: "nobody saw it end: it was killed together with its keeper, or the machine went down",
	}
	return &cut
}

// neverBegan reports whether the newest run was only reserved: no keeper began it, and none
// can any more once another is reserved.
func (s State) neverBegan() bool {
	return s.Run != nil && s.Run.End == nil && s.IsHere && !s.IsStarted && !s.IsLive
}

// number is the highest that was taken.
func (s State) number() uint64 {
	if s.Run == nil {
		return s.Newest
	}
	return max(s.Run.Number, s.Newest)
}

// hasDone reports whether a purpose or a batch ever ended well.
func (s State) hasDone(purpose string) bool {
	return slices.Contains(s.Run.AllDone(), purpose)
}

// workedOn reports whether the newest run may have worked on items of the batch.
func (s State) workedOn(batch string) bool {
	run := s.Run
	return run != nil && run.Batch == batch && !s.neverBegan() && (run.End == nil || run.End.Ending != runrecord.NotStarted)
}

// Kind of a verdict.
type Kind int

const (
	// Happened: what must have happened has.
	Happened Kind = iota
	// Due: a run is to begin.
	Due
	// UnderWay: a run is under way, here or where only another machine sees it.
	UnderWay
	// Pausing: it is run again after a pause.
	Pausing
	// Stuck: nobody runs it again before a person does something.
	Stuck
)

// Verdict is what is decided of a task.
type Verdict struct {
	Kind Kind
	// Reason for people.
	Reason string
	// Since is when what is under way began; zero: not known.
	Since time.Time
	// LookAt is when time alone changes something; zero: never.
	LookAt time.Time
	// Next is the run that is due, without its id; Items are those that it is for, and Left is
	// how many others nobody may run unasked.
	Next  *runrecord.Run
	Items []string
	Left  int
}
