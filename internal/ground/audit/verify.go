package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Problem is something that is not as it was written, or that should never have
// come about.
type Problem struct {
	Partition intent.PartitionID `json:"partition"`
	// Record is the first one that is wrong; 0: none in particular.
	Record  uint64 `json:"record,omitempty"`
	Message string `json:"message"`
	// Hint says what to compare.
	Hint string `json:"hint,omitempty"`
}

// Verified is one chain.
type Verified struct {
	Partition intent.PartitionID `json:"partition"`
	Records   uint64             `json:"records"`
	// Anchored is the newest record that a checkpoint covers, and nobody can
	// have changed or cut off since.
	Anchored uint64 `json:"anchored"`
}

// Report is what a verification found.
type Report struct {
	Chains []Verified `json:"chains"`
	// Problems, the first maxProblems; Count is how many there are.
	Problems []Problem `json:"problems"`
	Count    int       `json:"count"`
	// Notes say what could not be seen.
	Notes []string `json:"notes"`
}

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return r.Count == 0 }

const maxProblems = 100

// Verifier goes through the chains of a store, the one of all partitions
// together first: Begin, Next for each record, End.
type Verifier struct {
	report      Report
	identity    string
	checkpoints map[intent.PartitionID][]Checkpoint
	chain       Chain
	history     *history
	// broken: the chain at hand is, and what follows of it says nothing.
	broken, started bool
	// anchored is the newest record of the chain at hand that a checkpoint has.
	anchored uint64
	stops    []standstill
	all      uint64
	visited  map[intent.PartitionID]bool
	old      int
}

// NewVerifier returns one that compares with checkpoints.
func NewVerifier(checkpoints []Checkpoint) *Verifier {
	v := &Verifier{checkpoints: map[intent.PartitionID][]Checkpoint{}, visited: map[intent.PartitionID]bool{}}
	for _, c := range checkpoints {
		v.checkpoints[c.Partition] = append(v.checkpoints[c.Partition], c)
	}
	for _, list := range v.checkpoints {
		slices.SortStableFunc(list, func(a, b Checkpoint) int { return int(min(a.Number, 1<<62)) - int(min(b.Number, 1<<62)) })
	}
	return v
}

// Store says which store is verified.
func (v *Verifier) Store(identity string) { v.identity = identity }

func (v *Verifier) say(partition intent.PartitionID, record uint64, message, hint string) {
	if v.report.Count++; len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, Problem{partition, record, message, hint})
	}
}

// Begin begins a chain; the same again goes on with it.
func (v *Verifier) Begin(partition intent.PartitionID) {
	if v.started && v.chain.Partition == partition {
		return
	}
	v.started, v.broken, v.anchored = true, false, 0
	v.visited[partition] = true
	v.chain = Chain{Partition: partition}
	v.history = newHistory(partition, v.stops, v.all)
}

// Next takes up a record.
func (v *Verifier) Next(r intent.AuditRecord) {
	if v.broken {
		return
	}
	if err := v.chain.Next(r); err != nil {
		v.Broken(err)
		return
	}
	v.compare()
	for _, wrong := range v.history.next(r) {
		v.say(r.Partition, r.Number, fmt.Sprintf("record %d of the audit of %s (%s %s): %s", r.Number, Scope(r.Partition), r.Verb, r.Subject, wrong),
			"the chain is whole, so this is what was written: compare with production, and with the journal: lehr get pushes")
	}
}

// compare looks whether the record at hand is what checkpoints say it was.
func (v *Verifier) compare() {
	list := v.checkpoints[v.chain.Partition]
	for len(list) > 0 && list[0].Number <= v.chain.Number {
		c := list[0]
		list = list[1:]
		if c.Link == v.chain.Link {
			v.anchored = c.Number
			continue
		}
		v.say(c.Partition, c.Number, fmt.Sprintf("the audit of %s was written anew: record %d, or one before it, is not the one that the checkpoint of %s covers",
			Scope(c.Partition), c.Number, moment(c)), v.hint(c, "compare the records up to there with a backup or an export from before"))
		v.broken = true
	}
	v.checkpoints[v.chain.Partition] = list
}

// hint doubts first that the checkpoint is of this store.
func (v *Verifier) hint(c Checkpoint, otherwise string) string {
	if v.identity != "" && c.Store != v.identity {
		return fmt.Sprintf("the checkpoint is of store %s, and this is %s: name the right file", c.Store, v.identity)
	}
	return otherwise
}

func moment(c Checkpoint) string {
	if c.At.IsZero() {
		return "an export"
	}
	return c.At.UTC().Format("2006-01-02 15:04:05")
}

// Broken says that the chain at hand cannot be followed any further.
func (v *Verifier) Broken(err error) {
	if v.broken {
		return
	}
	v.broken = true
	message, hint := err.Error(), ""
	if faultErr, ok := errors.AsType[*fault.Error](err); ok {
		message, hint = faultErr.Message, faultErr.Hint
	}
	v.say(v.chain.Partition, v.chain.Number+1, message, hint)
}

// Expect says where the chain at hand ends.
func (v *Verifier) Expect(number uint64, link intent.Digest) {
	if c := v.chain; !v.broken && (c.Number != number || c.Link != link) {
		v.Broken(c.Bad(c.Number+1, fmt.Sprintf("the chain ends at %d, but %d records were written", c.Number, number)))
	}
}

// End ends the chain at hand.
func (v *Verifier) End() {
	c := v.chain
	if !v.broken && c.Number == 0 && c.Partition != "" {
		v.Broken(c.Bad(1, "the partition was registered, and no record says so"))
	}
	for _, later := range v.checkpoints[c.Partition] {
		if !v.broken {
			v.say(c.Partition, c.Number+1, fmt.Sprintf("the audit of %s was cut off: it ends at record %d, and the checkpoint of %s covers %d",
				Scope(c.Partition), c.Number, moment(later), later.Number), v.hint(later, "compare with a backup or an export from before; was the store restored?"))
			v.broken = true
		}
	}
	delete(v.checkpoints, c.Partition)
	if c.Partition == "" {
		v.stops, v.all = v.history.stops, c.Number
	}
	v.old += v.history.old
	v.report.Chains = append(v.report.Chains, Verified{Partition: c.Partition, Records: c.Number, Anchored: v.anchored})
	v.started = false
}

// Report is what was found, after the last End.
func (v *Verifier) Report() Report {
	for _, partition := range slices.Sorted(maps.Keys(v.checkpoints)) {
		if list := v.checkpoints[partition]; len(list) > 0 && !v.visited[partition] {
			c := list[len(list)-1]
			v.say(partition, 1, fmt.Sprintf("the audit of %s is gone: the checkpoint of %s covers %d records", Scope(partition), moment(c), c.Number),
				v.hint(c, "compare with a backup or an export from before"))
		}
	}
	loose := 0
	for _, chain := range v.report.Chains {
		if chain.Anchored < chain.Records {
			loose++
		}
	}
	if loose > 0 {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf(
			"%d of %d chains end in records that no checkpoint covers: whoever can write the store could cut those off, or write them anew, unseen", loose, len(v.report.Chains)))
	}
	if v.old > 0 {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf(
			"%d admissions and pins are of an older version, which recorded neither epoch nor revision: those rules were not held against them", v.old))
	}
	return v.report
}

// Trail is what a store tells of its chains.
type Trail interface {
	// Identity names the store, for ever.
	Identity(ctx context.Context) (string, error)
	// AuditEnds lists the ends of all chains.
	AuditEnds(ctx context.Context) ([]intent.AuditEnd, error)
	// WalkAudit shows each record of a chain once it is verified.
	WalkAudit(ctx context.Context, partition intent.PartitionID, visit func(intent.AuditRecord) error) error
}

// VerifyStore goes through the chains of a store that concern the caller. An
// error says that they could not be read.
func VerifyStore(ctx context.Context, opened Trail, checkpoints []Checkpoint, concerns func(intent.PartitionID) bool) (Report, error) {
	v := NewVerifier(checkpoints)
	identity, err := opened.Identity(ctx)
	if err != nil {
		return Report{}, err
	}
	v.Store(identity)
	ends, err := opened.AuditEnds(ctx)
	if err != nil {
		return Report{}, err
	}
	for _, end := range ends {
		if !concerns(end.Partition) {
			continue
		}
		v.Begin(end.Partition)
		err := opened.WalkAudit(ctx, end.Partition, func(r intent.AuditRecord) error {
			// What was written since may rest on what other chains have since.
			if r.Number <= end.Number {
				v.Next(r)
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return Report{}, ctx.Err()
		case fault.Is(err, fault.Internal):
			v.Broken(err)
		case err != nil:
			return Report{}, err
		}
		v.End()
	}
	return v.Report(), nil
}
