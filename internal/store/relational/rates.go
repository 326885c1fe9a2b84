package relational

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// underWay is when a push counts that is open: later than any time.
const underWay = math.MaxInt64

// window is what this call found under a key, without the pushes that it added.
type window struct {
	counts map[quota]int
	added  int
}

// quota is what is counted: as many as the limit, after a time.
type quota struct {
	windowStart int64
	limit       int
}

// window looks at a key once per call. What ended after now, by a clock that was
// wrong, ended by now at the latest: it is made so, or it would count until that
// clock is right.
func (d *desk) window(key string, now int64) (*window, error) {
	if w := d.windows[key]; w != nil {
		return w, nil
	}
	d.windows[key] = &window{counts: map[quota]int{}}
	_, err := d.exec("UPDATE rate SET counted = $3 WHERE partition = $1 AND name = $2 AND counted > $3 AND counted < $4",
		string(d.lease.Partition), key, now, int64(underWay))
	return d.windows[key], err
}

// countWithin counts the pushes that were under way after a time, up to the limit.
func (d *desk) countWithin(key string, w *window, q quota) (n int, err error) {
	n, ok := w.counts[q]
	if !ok {
		_, err = d.one("SELECT COUNT(*) FROM (SELECT 1 FROM rate WHERE partition = $1 AND name = $2 AND counted > $3 LIMIT $4 + 0) AS counted",
			[]any{string(d.lease.Partition), key, q.windowStart, q.limit}, &n)
		n -= w.added
		w.counts[q] = n
	}
	return n + w.added, err
}

// checkRates: fewer than the limit were under way within the period (S8).
func (d *desk) checkRates(a store.Admission) (*intent.WaitingOn, error) {
	now := stamp(a.At)
	for _, use := range a.Rates {
		w, err := d.window(use.Key, now)
		if err != nil {
			return nil, err
		}
		if use.Limit == 0 {
			continue
		}
		n, err := d.countWithin(use.Key, w, quota{now - int64(use.Period), use.Limit})
		if err != nil {
			return nil, err
		}
		if n < use.Limit {
			continue
		}
		// The one that has to be over, which may be under way.
		var countedAt int64
		if _, err := d.one("SELECT counted FROM rate WHERE partition = $1 AND name = $2 ORDER BY counted DESC LIMIT 1 OFFSET $3 + 0",
			[]any{string(d.lease.Partition), use.Key, use.Limit - 1}, &countedAt); err != nil {
			return nil, err
		}
		end := unstamp(min(countedAt, now)).Add(use.Period)
		return &intent.WaitingOn{Kind: intent.WaitRate, Until: end, Reason: fmt.Sprintf(
			"rate limit %s: %d of %d pushes were under way within %s; the next may begin at %s, or later", use.Key, use.Limit, use.Limit, use.Period, end.UTC().Format(time.RFC3339))}, nil
	}
	return nil, nil
}

// rateKeys are those that a push counts under, each once.
func rateKeys(a store.Admission) (keys []string) {
	for _, use := range a.Rates {
		if !slices.Contains(keys, use.Key) {
			keys = append(keys, use.Key)
		}
	}
	return keys
}

// countRates counts a push under its keys.
func (d *desk) countRates(push intent.PushID, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	text, arguments := "INSERT INTO rate (partition, name, counted, push) VALUES ", []any{string(d.lease.Partition), int64(underWay), string(push)}
	for i, key := range keys {
		d.windows[key].added++
		arguments = append(arguments, key)
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("($1, $%d, $2, $3)", len(arguments))
	}
	_, err := d.exec(text, arguments...)
	return err
}

// endRates has a push that ended count from its end on.
func (d *desk) endRates(keys string, closing store.Closing) error {
	if keys == "" {
		return nil
	}
	arguments, names := []any{string(d.lease.Partition), int64(underWay), string(closing.Push), stamp(closing.At)}, ""
	for _, key := range splitKeys(keys) {
		arguments = append(arguments, key)
		names += fmt.Sprintf(", $%d", len(arguments))
	}
	_, err := d.exec("UPDATE rate SET counted = $4 WHERE partition = $1 AND counted = $2 AND push = $3 AND name IN ("+names[2:]+")", arguments...)
	return err
}

// Ended lists when the newest pushes ended that count under each key.
func (s *Store) Ended(ctx context.Context, partition intent.PartitionID, keys []string, most int) (map[string][]store.EndedPush, error) {
	result := map[string][]store.EndedPush{}
	err := s.read(ctx, fmt.Sprintf("reading how many pushes of %q count under rate limits", partition), func(q querier) error {
		for _, key := range keys {
			result[key] = nil
			err := q.queryEach("SELECT push, counted FROM rate WHERE partition = $1 AND name = $2 AND counted < $3 ORDER BY counted DESC LIMIT $4 + 0",
				[]any{string(partition), key, int64(underWay), most}, func(row scanner) error {
					var push intent.PushID
					var at int64
					err := row.Scan(&push, &at)
					result[key] = append(result[key], store.EndedPush{Push: push, At: unstamp(at)})
					return err
				})
			if err != nil {
				return err
			}
			slices.Reverse(result[key])
		}
		return nil
	})
	return result, err
}
