package enforcer

import (
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// budgetQueue is a budget on pushes in flight as the enforcer counts it, and who
// waits for a place. The store holds the budget itself; this spares asking.
type budgetQueue struct {
	used, limit int
	// waiting by what they wait to push, and since when.
	waiting loop.Queue[*asset]
	// holders have the places. unhealthy is how many assets of the scope may be
	// so or in flight at once; 0: it does not matter.
	holders   map[*asset]bool
	unhealthy int
}

func newBudgetQueue(limit int) *budgetQueue {
	return &budgetQueue{limit: limit, holders: map[*asset]bool{}, waiting: loop.Queue[*asset]{Compare: byID}}
}

// place is one of those that a push takes: of how many, in which queue.
type place struct {
	key   string
	limit int
	full  intent.WaitingOn
	// budget: the store is asked for it too.
	budget bool
}

// isRead says that it is not known yet who is in a scope.
func isRead(key string) intent.WaitingOn {
	return intent.WaitingOn{Kind: intent.WaitTurn, Reason: fmt.Sprintf("which assets have the scope %s is being read", key)}
}

// fullOf says that a budget's pushes are in flight.
func fullOf(budget store.BudgetUse) intent.WaitingOn {
	reason := fmt.Sprintf("%d of %d pushes in flight in scope %s", budget.Limit, budget.Limit, budget.Key)
	if budget.Key == turndowns {
		reason = fmt.Sprintf("%d of %d removals under way in the partition; checks.turndown.in_flight in its definition says how many at once", budget.Limit, budget.Limit)
	}
	return intent.WaitingOn{Kind: intent.WaitBudget, Scope: budget.Key, Reason: reason}
}

// listed joins the names of assets for people.
func listed(ids []intent.AssetID) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, string(id))
	}
	return strings.Join(texts, ", ")
}

// earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
