package relational

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// FindIncarnation returns the newest retained incarnation that is as asked.
func (s *Store) FindIncarnation(ctx context.Context, partition intent.PartitionID, lookup store.Lookup) (incarnation intent.Incarnation, err error) {
	attempt := fmt.Sprintf("finding an incarnation of %q", partition)
	if lookup.Value != "" && lookup.Label == "" {
		return incarnation, fault.New(fault.Invalid, "%s: a value %q is given, but no label's key", attempt, lookup.Value)
	}
	err = s.read(ctx, attempt, func(q querier) error {
		id := intent.IncarnationID{Partition: partition}
		text, arguments := incarnationBy(partition, lookup)
		if _, err := q.one(text, arguments, &id.Sequence); err != nil {
			return err
		}
		if id.Sequence == 0 {
			return notFound(q, attempt, partition, lookup)
		}
		incarnation, err = incarnationAt(q, id)
		return err
	})
	return incarnation, err
}

// incarnationBy is the statement that finds the sequence, or 0. Labels are
// only those of retained incarnations.
func incarnationBy(partition intent.PartitionID, lookup store.Lookup) (text string, arguments []any) {
	arguments = []any{string(partition)}
	argument := func(value any) string {
		arguments = append(arguments, value)
		return fmt.Sprintf("$%d", len(arguments))
	}
	label := ""
	if lookup.Label != "" {
		label = "label l WHERE l.partition = $1 AND l.name = " + argument(lookup.Label)
		if lookup.Value != "" {
			label += " AND l.value = " + argument(lookup.Value)
		}
	}
	switch {
	case lookup.At.IsZero() && label != "":
		return "SELECT coalesce(max(l.seq), 0) FROM " + label, arguments
	case lookup.At.IsZero():
		return "SELECT coalesce(max(seq), 0) FROM incarnation WHERE partition = $1", arguments
	}
	at := argument(stamp(lookup.At))
	// The sign keeps the planner from reading whole records, the newest first.
	text = "SELECT coalesce(max(+i.seq), 0) FROM incarnation i WHERE i.partition = $1 AND i.superseded > " + at + " AND i.created <= " + at
	if label != "" {
		text += " AND EXISTS (SELECT 1 FROM " + label + " AND l.seq = i.seq)"
	}
	return text, arguments
}

// notFound says what there is instead.
func notFound(q querier, attempt string, partition intent.PartitionID, lookup store.Lookup) error {
	var oldest intent.Sequence
	if _, err := q.one("SELECT coalesce(min(seq), 0) FROM incarnation WHERE partition = $1", []any{string(partition)}, &oldest); err != nil {
		return err
	}
	if oldest == 0 {
		if err := mustRegister(q, attempt, partition); err != nil {
			return err
		}
		return fault.New(fault.NotFound, "%s: it has none yet", attempt).WithHint("lehr get candidates shows what is in the way of the first")
	}
	var sequence intent.Sequence
	if !lookup.At.IsZero() {
		text, arguments := incarnationBy(partition, store.Lookup{At: lookup.At})
		if _, err := q.one(text, arguments, &sequence); err != nil {
			return err
		}
		if sequence == 0 {
			return notThen(q, attempt, partition, lookup.At)
		}
	}
	label := lookup.Label
	if lookup.Value != "" {
		label += "=" + lookup.Value
	}
	available, err := labelsThere(q, partition, lookup.Label)
	switch {
	case err != nil:
		return err
	case sequence != 0:
		return fault.New(fault.NotFound, "%s: %s@%d was head at %s, and does not have the label %s", attempt, partition, sequence, moment(lookup.At), label).WithHint("%s", available)
	}
	return fault.New(fault.NotFound, "%s: none that is retained has the label %s", attempt, label).WithHint("%s", available)
}

// notThen says what was head before and after a time of which nothing is kept.
func notThen(q querier, attempt string, partition intent.PartitionID, at time.Time) error {
	var previous, next intent.Sequence
	var previousUntil, nextFrom int64
	_, err := q.one("SELECT seq, superseded FROM incarnation WHERE partition = $1 AND superseded <= $2 ORDER BY seq DESC LIMIT 1",
		[]any{string(partition), stamp(at)}, &previous, &previousUntil)
	if err != nil {
		return err
	}
	_, err = q.one("SELECT seq, created FROM incarnation WHERE partition = $1 AND created > $2 ORDER BY seq LIMIT 1",
		[]any{string(partition), stamp(at)}, &next, &nextFrom)
	if err != nil {
		return err
	}
	switch {
	case previous == 0 && next == 1:
		return fault.New(fault.NotFound, "%s: there was none at %s: the first is %s@%d, of %s",
			attempt, moment(at), partition, next, moment(unstamp(nextFrom)))
	case previous == 0:
		return fault.New(fault.NotFound, "%s: what was head at %s is not retained: the oldest that is is %s@%d, of %s",
			attempt, moment(at), partition, next, moment(unstamp(nextFrom)))
	}
	return fault.New(fault.NotFound, "%s: what was head at %s is not retained: %s@%d was until %s, %s@%d from %s on",
		attempt, moment(at), partition, previous, moment(unstamp(previousUntil)), partition, next, moment(unstamp(nextFrom)))
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// labelsThere names the newest labels with the key, or of any key when there
// are none.
func labelsThere(q querier, partition intent.PartitionID, key string) (string, error) {
	const most = 5
	var available []string
	list := func(text string, arguments ...any) error {
		return q.queryEach(text, append([]any{string(partition), most}, arguments...), func(row scanner) error {
			var sequence intent.Sequence
			var name, value string
			err := row.Scan(&sequence, &name, &value)
			available = append(available, fmt.Sprintf("%s=%s (%s@%d)", name, value, partition, sequence))
			return err
		})
	}
	err := list("SELECT seq, name, value FROM label WHERE partition = $1 AND name = $3 ORDER BY seq DESC LIMIT $2 + 0", key)
	if err == nil && len(available) == 0 {
		err = list("SELECT seq, name, value FROM label WHERE partition = $1 ORDER BY seq DESC, name LIMIT $2 + 0")
	}
	if err != nil {
		return "", err
	}
	if len(available) == 0 {
		return "no incarnation has a label; lehr label sets one", nil
	}
	return "there are, newest first: " + strings.Join(available, ", "), nil
}
