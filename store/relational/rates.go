package relational

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/intent"
	"lehr.dev/store"
)

// window is when the newest pushes that count under a key were admitted, as of
// this call: at least so many, if there are, the newest first.
type window struct {
	least    int
	admitted []int64
}

// window reads a key once per call, or again where more of it is asked for.
func (d *desk) window(key string, least int) (*window, error) {
	if known := d.windows[key]; known != nil && known.least >= least {
		return known, nil
	}
	w := &window{least: least}
	d.windows[key] = w
	return w, newestRates(d, d.lease.Partition, key, least, &w.admitted)
}

const newestRate = "SELECT admitted FROM rate WHERE partition = $1 AND name = $2 ORDER BY admitted DESC LIMIT $3 + 0"

func newestRates(q querier, partition intent.PartitionID, key string, most int, into *[]int64) error {
	return q.each(newestRate, []any{string(partition), key, most}, func(row scanner) error {
		var at int64
		err := row.Scan(&at)
		*into = append(*into, at)
		return err
	})
}

// checkRates: fewer than the limit were admitted within the period (S8). What
// was admitted after now, by a clock that was wrong, was admitted by now at the
// latest: it is made so, or it would count until that clock is right.
func (d *desk) checkRates(a store.Admission) (*intent.WaitingOn, error) {
	now := stamp(a.At)
	for _, use := range a.Rates {
		if use.Limit == 0 {
			continue
		}
		w, err := d.window(use.Key, use.Limit)
		if err != nil {
			return nil, err
		}
		if len(w.admitted) > 0 && w.admitted[0] > now {
			if _, err := d.exec("UPDATE rate SET admitted = $3 WHERE partition = $1 AND name = $2 AND admitted > $3", string(d.lease.Partition), use.Key, now); err != nil {
				return nil, err
			}
			for i := range w.admitted {
				w.admitted[i] = min(w.admitted[i], now)
			}
		}
		if len(w.admitted) < use.Limit || now-w.admitted[use.Limit-1] >= int64(use.Period) {
			continue
		}
		until := unstamp(w.admitted[use.Limit-1]).Add(use.Period)
		return &intent.WaitingOn{Kind: intent.WaitRate, Until: until, Reason: fmt.Sprintf(
			"rate limit %s: %d of %d pushes began within %s; the next may begin at %s", use.Key, use.Limit, use.Limit, use.Period, until.UTC().Format(time.RFC3339))}, nil
	}
	return nil, nil
}

// countRates counts a push under its keys, each once.
func (d *desk) countRates(a store.Admission) error {
	for i, use := range a.Rates {
		if slices.ContainsFunc(a.Rates[:i], func(before store.RateUse) bool { return before.Key == use.Key }) {
			continue
		}
		if _, err := d.exec("INSERT INTO rate (partition, name, admitted, push) VALUES ($1, $2, $3, $4)",
			string(d.lease.Partition), use.Key, stamp(a.At), string(a.Push)); err != nil {
			return err
		}
		if w := d.windows[use.Key]; w != nil {
			w.admitted = slices.Insert(w.admitted, 0, stamp(a.At))
		}
	}
	return nil
}

// Begun lists when the newest pushes that count under each key were admitted.
func (s *Store) Begun(ctx context.Context, partition intent.PartitionID, keys []string, most int) (map[string][]time.Time, error) {
	begun := map[string][]time.Time{}
	err := s.read(ctx, fmt.Sprintf("reading how many pushes of %q count under rate limits", partition), func(q querier) error {
		for _, key := range keys {
			var newest []int64
			if err := newestRates(q, partition, key, most, &newest); err != nil {
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
