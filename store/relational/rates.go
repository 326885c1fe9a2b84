package relational

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/intent"
	"lehr.dev/store"
)

// window is how many pushes counted under a key, as of this call, and when those
// that this call adds were admitted. Their times never fall.
type window struct {
	number int64
	newest int64
	added  []int64
}

const newestRate = "SELECT number, admitted FROM rate WHERE partition = $1 AND name = $2 ORDER BY number DESC LIMIT $3 + 0"

// window reads a key once per call. What was admitted after now, by a clock that
// was wrong, was admitted by now at the latest: it is made so, or it would count
// until that clock is right.
func (d *desk) window(key string, now int64) (*window, error) {
	w := d.windows[key]
	if w == nil {
		w = &window{}
		if _, err := d.one(newestRate, []any{string(d.lease.Partition), key, 1}, &w.number, &w.newest); err != nil {
			return nil, err
		}
		d.windows[key] = w
	}
	if w.newest <= now {
		return w, nil
	}
	w.newest = now
	for i := range w.added {
		w.added[i] = min(w.added[i], now)
	}
	_, err := d.exec("UPDATE rate SET admitted = $3 WHERE partition = $1 AND name = $2 AND admitted > $3", string(d.lease.Partition), key, now)
	return w, err
}

// back is when the push was admitted that is so many before the next one.
func (d *desk) back(key string, w *window, by int) (at int64, found bool, err error) {
	if by <= len(w.added) {
		return w.added[len(w.added)-by], true, nil
	}
	if int64(by) > w.number {
		return 0, false, nil
	}
	found, err = d.one("SELECT admitted FROM rate WHERE partition = $1 AND name = $2 AND number = $3",
		[]any{string(d.lease.Partition), key, w.number + 1 - int64(by)}, &at)
	return at, found, err
}

// checkRates: fewer than the limit were admitted within the period (S8).
func (d *desk) checkRates(a store.Admission) (*intent.WaitingOn, error) {
	for _, use := range a.Rates {
		w, err := d.window(use.Key, stamp(a.At))
		if err != nil {
			return nil, err
		}
		if use.Limit == 0 {
			continue
		}
		at, found, err := d.back(use.Key, w, use.Limit)
		if err != nil {
			return nil, err
		}
		if !found || stamp(a.At)-at >= int64(use.Period) {
			continue
		}
		until := unstamp(at).Add(use.Period)
		return &intent.WaitingOn{Kind: intent.WaitRate, Until: until, Reason: fmt.Sprintf(
			"rate limit %s: %d of %d pushes began within %s; the next may begin at %s", use.Key, use.Limit, use.Limit, use.Period, until.UTC().Format(time.RFC3339))}, nil
	}
	return nil, nil
}

// countRates counts a push under its keys, each once.
func (d *desk) countRates(a store.Admission) error {
	text, arguments := "INSERT INTO rate (partition, name, number, admitted) VALUES ", []any{string(d.lease.Partition), stamp(a.At)}
	for i, use := range a.Rates {
		if slices.ContainsFunc(a.Rates[:i], func(before store.RateUse) bool { return before.Key == use.Key }) {
			continue
		}
		w := d.windows[use.Key]
		w.number, w.newest, w.added = w.number+1, stamp(a.At), append(w.added, stamp(a.At))
		if len(arguments) > 2 {
			text += ", "
		}
		arguments = append(arguments, use.Key, w.number)
		text += fmt.Sprintf("($1, $%d, $%d, $2)", len(arguments)-1, len(arguments))
	}
	if len(a.Rates) == 0 {
		return nil
	}
	_, err := d.exec(text, arguments...)
	return err
}

// Begun lists when the newest pushes that count under each key were admitted.
func (s *Store) Begun(ctx context.Context, partition intent.PartitionID, keys []string, most int) (map[string][]time.Time, error) {
	begun := map[string][]time.Time{}
	err := s.read(ctx, fmt.Sprintf("reading how many pushes of %q count under rate limits", partition), func(q querier) error {
		for _, key := range keys {
			var newest []int64
			err := q.each(newestRate, []any{string(partition), key, most}, func(row scanner) error {
				var number, at int64
				err := row.Scan(&number, &at)
				newest = append(newest, at)
				return err
			})
			if err != nil {
				return err
			}
			begun[key] = nil
			for _, at := range slices.Backward(newest) {
				begun[key] = append(begun[key], unstamp(at))
			}
		}
		return nil
	})
	return begun, err
}
