package notify

import (
	"context"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// mostRehearsed past reports are gone through by one rehearsal, and mostMessages told.
const mostRehearsed, mostMessages = 100_000, 10_000

// Rehearsal is what would have been told.
type Rehearsal struct {
	Messages []Message
	// Problems of expressions, each once.
	Problems []string
	// Unknown is what it could not go through.
	Unknown []string
}

// Rehearse goes through the past reports and deliveries since a time as if the policy had been in force
// then. Root causes are those of now, where another asset's report leads to them.
func Rehearse(ctx context.Context, s Reader, partition intent.PartitionID, start, now time.Time) (rehearsal Rehearsal, err error) {
	p, err := s.Partition(ctx, partition)
	if err != nil {
		return rehearsal, err
	}
	policy, _, err := policyOf(ctx, s, p.Head)
	if err != nil {
		return rehearsal, err
	}
	trouble := func(name string, err error) {
		if text := name + ": " + err.Error(); !slices.Contains(rehearsal.Problems, text) && len(rehearsal.Problems) < 100 {
			rehearsal.Problems = append(rehearsal.Problems, text)
		}
	}
	rules, problems := compile(policy)
	for _, problem := range problems {
		trouble("left out", problem)
	}
	if slices.ContainsFunc(rules, func(c *compiled) bool { return c.OfPartition }) {
		rehearsal.Unknown = append(rehearsal.Unknown, "notifications of the partition: of it no past is kept")
	}
	e := &engine{partition: partition, State: NewState(), problem: trouble, reportOf: reports(ctx, s, partition)}
	e.adopt(rules)
	drain := func() (full bool) {
		for _, d := range e.Outbox {
			if n := len(rehearsal.Messages); n == 0 || rehearsal.Messages[n-1].ID != d.Message.ID {
				rehearsal.Messages = append(rehearsal.Messages, d.Message)
			}
		}
		e.Outbox = nil
		return len(rehearsal.Messages) >= mostMessages
	}
	defer func() {
		slices.SortStableFunc(rehearsal.Messages, func(a, b Message) int { return a.At.Compare(b.At) })
	}()
	whole, err := rehearseDeliveries(ctx, s, e, start, drain)
	if err != nil {
		return rehearsal, err
	}
	if !whole {
		rehearsal.Unknown = append(rehearsal.Unknown, "later deliveries: there are more than one rehearsal goes through")
	}
	if whole, err = rehearseWorkflows(ctx, s, e, start, drain); err != nil {
		return rehearsal, err
	}
	if !whole {
		rehearsal.Unknown = append(rehearsal.Unknown, "other runs of workflows: there are more than one rehearsal goes through")
	}
	cursor, err := lastNumberBefore(ctx, s, partition, start)
	if err != nil {
		return rehearsal, err
	}
	clock := start
	advanceTo := func(end time.Time) {
		for {
			next := e.tick(clock)
			if drain() {
				return
			}
			if next.IsZero() || next.After(end) {
				clock = latest(clock, end)
				return
			}
			clock = next
		}
	}
	more := func() {
		rehearsal.Unknown = append(rehearsal.Unknown, "what was reported after "+clock.UTC().Format(time.RFC3339)+": there is more than one rehearsal goes through")
	}
	for rows := 0; ; {
		history, err := s.ReportsAfter(ctx, partition, cursor, page)
		if err != nil {
			return rehearsal, err
		}
		for i := range history {
			if advanceTo(history[i].At); len(rehearsal.Messages) >= mostMessages {
				more()
				return rehearsal, nil
			}
			if err := show(ctx, s, e, partition, history[i:i+1], history[i].At); err != nil {
				return rehearsal, err
			}
			cursor = history[i].Number
		}
		if rows += len(history); len(history) < page {
			break
		}
		if rows >= mostRehearsed {
			more()
			return rehearsal, nil
		}
	}
	if advanceTo(now); len(rehearsal.Messages) >= mostMessages {
		more()
	}
	return rehearsal, nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// lastNumberBefore finds the last number before a time.
func lastNumberBefore(ctx context.Context, s Reader, partition intent.PartitionID, start time.Time) (uint64, error) {
	high, err := s.LastReport(ctx, partition)
	if err != nil {
		return 0, err
	}
	return lastBefore(high, start, func(cursor uint64) (number uint64, at time.Time, ok bool, err error) {
		next, err := s.ReportsAfter(ctx, partition, cursor, 1)
		if err != nil || len(next) == 0 {
			return 0, at, false, err
		}
		return next[0].Number, next[0].At, true, nil
	})
}

// lastBefore finds the last number before a time, of those up to the highest; next tells of the
// first after a number. 0: there is none.
func lastBefore(high uint64, start time.Time, next func(cursor uint64) (number uint64, at time.Time, ok bool, err error)) (low uint64, err error) {
	for low < high {
		middle := low + (high-low)/2
		number, at, ok, err := next(middle)
		if err != nil {
			return 0, err
		}
		if !ok || !at.Before(start) {
			high = middle
		} else {
			low = number
		}
	}
	return low, nil
}
