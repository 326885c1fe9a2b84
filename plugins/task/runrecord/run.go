// Package runrecord keeps what ran of a task: in a folder of the machine, where the keeper of
// a run writes, and in short form in the memo that Lehr keeps. Runs are numbered from 1, and a
// number is taken once, by creating its file. The package decides nothing, and starts nothing.
// The plugin lehr-task and its keepers call it.
package runrecord

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/sdk/serve"
)

const (
	// mostDone contents are remembered, each with what stands for it without its rerun and
	// for its list of items.
	mostDone = 64 * 3
	// memoOutput is how much of each stream a memo has.
	memoOutput = 1500
)

// Run is one run of a task, as it was begun, and how it ended.
type Run struct {
	Number uint64 `json:"number"`
	// ID is that of the push which began it: unique for ever.
	ID   string `json:"id"`
	Host string `json:"host"`
	// Purpose is a digest of what the run is to make happen: content, items and rerun. Plain
	// is the same without the rerun, Batch without the items.
	Purpose string `json:"purpose"`
	Plain   string `json:"plain"`
	Batch   string `json:"batch,omitempty"`
	// Grant is the id of a rerun that lets what is unfinished be run again.
	Grant string `json:"grant,omitempty"`
	// Day that it is for, as 2026-11-26; empty: it is for none.
	Day     string `json:"day,omitempty"`
	Version string `json:"version,omitempty"`
	// Command is what runs, for people, cut.
	Command string `json:"command,omitempty"`
	// Attempt counts runs for one purpose, from 1.
	Attempt int       `json:"attempt"`
	Began   time.Time `json:"began"`
	// Done and Good are what had ended well before this run.
	Done []string `json:"done,omitempty"`
	Good *Good    `json:"good,omitempty"`
	// End is nil as long as nobody saw how it ended.
	End *End `json:"end,omitempty"`
}

// Good is the last run that ended well.
type Good struct {
	Number  uint64    `json:"number"`
	Purpose string    `json:"purpose"`
	Plain   string    `json:"plain"`
	Day     string    `json:"day,omitempty"`
	Version string    `json:"version,omitempty"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
}

// Ending is how a run ended.
type Ending string

const (
	// Well: the program ended with exit code 0, for each item where there are items.
	Well Ending = "well"
	// Failed: it ended by itself in another way.
	Failed Ending = "failed"
	// CutOff: it did not end by itself: it was stopped, or nobody saw its end.
	CutOff Ending = "cut off"
	// NotStarted: the program could not be started, so nothing happened.
	NotStarted Ending = "not started"
)

// End is how and when a run ended.
type End struct {
	Ending Ending `json:"ending"`
	// Code is the exit code; 128 and the signal, of a program that a signal ended.
	Code int32 `json:"code,omitempty"`
	// Reason says more, for people.
	Reason string    `json:"reason,omitempty"`
	Ended  time.Time `json:"ended"`
	// Took is by a clock that nobody sets; 0: not known.
	Took time.Duration `json:"took,omitempty"`
	// Stdout and Stderr are what was kept of what it wrote.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// EndedWell is the last run that ended well, this one counted; nil: none has.
func (r *Run) EndedWell() *Good {
	if r == nil {
		return nil
	}
	if r.End == nil || r.End.Ending != Well {
		return r.Good
	}
	return &Good{Number: r.Number, Purpose: r.Purpose, Plain: r.Plain, Day: r.Day, Version: r.Version, Began: r.Began, Ended: r.End.Ended}
}

// AllDone are the purposes and batches that ended well, this run's counted.
func (r *Run) AllDone() []string {
	if r == nil {
		return nil
	}
	if r.End == nil || r.End.Ending != Well {
		return r.Done
	}
	done := slices.Clone(r.Done)
	for _, one := range []string{r.Batch, r.Plain, r.Purpose} {
		if one != "" {
			done = append(slices.DeleteFunc(done, func(other string) bool { return other == one }), one)
		}
	}
	return done[max(0, len(done)-mostDone):]
}

// Said is the end of what the run wrote, to standard error or else to standard output, at
// most so many bytes; empty: nothing.
func (e *End) Said(most int) string {
	text := strings.TrimSpace(e.Stderr)
	if text == "" {
		text = strings.TrimSpace(e.Stdout)
	}
	return tail(text, most)
}

func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-most:], "")
}

func head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Memo is the run as Lehr keeps it, in at most 16 kB.
func (r *Run) Memo() ([]byte, error) {
	short := *r
	short.Command = head(short.Command, memoOutput)
	if r.End != nil {
		end := *r.End
		end.Reason = head(end.Reason, memoOutput)
		end.Stdout, end.Stderr = tail(end.Stdout, memoOutput), tail(end.Stderr, memoOutput)
		short.End = &end
	}
	text, err := json.Marshal(short)
	if err == nil && len(text) > mostMemo && short.End != nil {
		// Bytes that JSON writes as six.
		short.End.Stdout, short.End.Stderr = "", ""
		text, err = json.Marshal(short)
	}
	return text, err
}

const mostMemo = 16 << 10

// FromMemos is the newest run that the memos tell of; nil: none does. An error is one of a
// memo that cannot be read: whoever acted without it might repeat what must happen once.
func FromMemos(memos []serve.Memo) (*Run, error) {
	var newest *Run
	for _, memo := range memos {
		run := &Run{}
		if err := json.Unmarshal(memo.Bytes, run); err != nil || run.Number == 0 {
			return nil, fmt.Errorf("the memo of %s is none that lehr-task wrote: what ran is not known, so nothing is run; whoever operates Lehr finds out who set it (lehr get audit)", memo.Key)
		}
		if newest == nil || run.Number > newest.Number {
			newest = run
		}
	}
	return newest, nil
}
