package relational

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// budget is how much of a key is in use, as of this call.
type budget struct{ stored, used int }

// budget reads a key once per call.
func (d *desk) budget(key string) (*budget, error) {
	if cached, ok := d.budgets[key]; ok {
		return cached, nil
	}
	b := &budget{}
	_, err := d.one("SELECT used FROM budget WHERE partition = $1 AND name = $2", []any{string(d.lease.Partition), key}, &b.stored)
	if err != nil {
		return nil, err
	}
	b.used = b.stored
	d.budgets[key] = b
	return b, nil
}

// checkBudgets: one is left of each (S8).
func (d *desk) checkBudgets(a store.Admission) (*intent.WaitingOn, error) {
	wanted := map[string]int{}
	for _, use := range a.Budgets {
		b, err := d.budget(use.Key)
		if err != nil {
			return nil, err
		}
		if wanted[use.Key]++; b.used+wanted[use.Key] > use.Limit {
			return &intent.WaitingOn{Kind: intent.WaitBudget, Scope: use.Key, Reason: fmt.Sprintf(
				"budget %s: %d of %d in use", use.Key, b.used, use.Limit)}, nil
		}
	}
	return nil, nil
}

// takeBudgets takes what checkBudgets found free, and returns the keys as the
// journal keeps them until the push is closed.
func (d *desk) takeBudgets(a store.Admission) string {
	if len(a.Budgets) == 0 {
		return ""
	}
	keys := make([]string, len(a.Budgets))
	for i, use := range a.Budgets {
		keys[i] = use.Key
		d.budgets[use.Key].used++
	}
	return joinKeys(keys)
}

// A key holds what an asset's sources say, which may have an end of line.
var (
	escapeKey   = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	unescapeKey = strings.NewReplacer(`\\`, `\`, `\n`, "\n")
)

// joinKeys writes keys as the journal keeps them, one a line.
func joinKeys(keys []string) string {
	lines := make([]string, len(keys))
	for i, key := range keys {
		lines[i] = escapeKey.Replace(key)
	}
	return strings.Join(lines, "\n")
}

// splitKeys reads what joinKeys wrote.
func splitKeys(text string) []string {
	if text == "" {
		return nil
	}
	keys := strings.Split(text, "\n")
	for i, line := range keys {
		keys[i] = unescapeKey.Replace(line)
	}
	return keys
}

// releaseBudgets gives back what a push took.
func (d *desk) releaseBudgets(keys string) error {
	for _, key := range splitKeys(keys) {
		b, err := d.budget(key)
		if err != nil {
			return err
		}
		b.used--
	}
	return nil
}

// settleBudgets writes what the call changed, in the order of the keys.
func (d *desk) settleBudgets() error {
	for _, key := range slices.Sorted(maps.Keys(d.budgets)) {
		b := d.budgets[key]
		if b.used == b.stored {
			continue
		}
		_, err := d.exec(`INSERT INTO budget (partition, name, used) VALUES ($1, $2, $3)
			ON CONFLICT (partition, name) DO UPDATE SET used = excluded.used`, string(d.lease.Partition), key, b.used)
		if err != nil {
			return err
		}
	}
	return nil
}
