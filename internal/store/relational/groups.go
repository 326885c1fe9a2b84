package relational

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// groupOf reads the group of an asset in an incarnation, 0: in head.
func groupOf(t *transaction, partition intent.PartitionID, asset intent.AssetID, at intent.Sequence) (g intent.Group, err error) {
	if at == 0 {
		at = math.MaxInt64 - 1
	}
	err = t.queryEach(fieldsOfGroup, []any{string(partition), string(asset), int64(at)}, func(row scanner) error {
		var path, value string
		err := row.Scan(&path, &value)
		if path == intent.GroupServiceField {
			g.Service = value
		} else {
			g.Instance = value
		}
		return err
	})
	if g.Service == "" {
		return intent.Group{}, err
	}
	return g, err
}

const fieldsOfGroup = "SELECT path, value FROM field WHERE partition = $1 AND asset = $2 AND path IN ('" +
	intent.GroupServiceField + "', '" + intent.GroupInstanceField + "') AND from_seq <= $3 AND to_seq > $3"

// hasGroups reports whether anything of the partition is in a group.
func hasGroups(t *transaction, partition intent.PartitionID) (bool, error) {
	var one int
	return t.one("SELECT 1 FROM field WHERE partition = $1 AND path = $2 LIMIT 1", []any{string(partition), intent.GroupServiceField}, &one)
}

const (
	// The services of a page, by the index alone, and what is counted of them.
	servicesAfter = "SELECT DISTINCT service FROM report WHERE partition = $1 AND service <> '' AND service > $2 ORDER BY service LIMIT $3 + 0"
	countGroups   = `SELECT service, instance, state, count(*) FROM report WHERE partition = $1 AND service <> '' AND service >= $2 AND service <= $3
		GROUP BY service, state, instance`
	countInstance = `SELECT service, instance, state, count(*) FROM report WHERE partition = $1 AND service <> '' AND service = $2 AND instance = $3
		GROUP BY service, state, instance`
	// Those in sync that are unhealthy, by their index: coalesce keeps SQLite from that of groups.
	countUnhealthy = `SELECT service, instance, count(*) FROM report WHERE partition = $1 AND state = 'in-sync' AND settled = 0
		AND coalesce(service, '') <> '' AND coalesce(service, '') >= $2 AND coalesce(service, '') <= $3 GROUP BY service, instance`
	// What nothing was reported of.
	countUnseen = `SELECT s.value, coalesce(i.value, ''), 'unseen', count(*) FROM field s LEFT JOIN field i
		ON i.partition = $1 AND i.path = '` + intent.GroupInstanceField + `' AND i.asset = s.asset AND i.from_seq <= $4 AND i.to_seq > $4
		WHERE s.partition = $1 AND s.path = '` + intent.GroupServiceField + `' AND s.value = $2 AND s.from_seq <= $4 AND s.to_seq > $4
		AND ($3 = '' OR i.value = $3) GROUP BY 1, 2`
)

// ListGroups counts the members of instances by state.
func (s *Store) ListGroups(ctx context.Context, head intent.IncarnationID, filter store.GroupFilter) (groups []store.GroupStates, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the groups of %q", head.Partition), func(q querier) error {
		first, last := filter.Of.Service, filter.Of.Service
		if first == "" {
			if err := q.queryEach(servicesAfter, []any{string(head.Partition), filter.After, pageSize(filter.Limit)}, func(row scanner) error {
				err := row.Scan(&last)
				first = cmp.Or(first, last)
				return err
			}); err != nil || first == "" {
				return err
			}
		}
		text := countGroups
		if filter.Of.Instance != "" {
			text, last = countInstance, filter.Of.Instance
		}
		groups, err = countedGroups(q, text, string(head.Partition), first, last)
		if err != nil || len(groups) > 0 {
			return errors.Join(err, addUnhealthy(q, groups, head.Partition))
		}
		groups, err = countedGroups(q, countUnseen, string(head.Partition), filter.Of.Service, filter.Of.Instance, int64(head.Sequence))
		return err
	})
	return groups, err
}

func countedGroups(q querier, text string, arguments ...any) ([]store.GroupStates, error) {
	counted := map[intent.Group]map[intent.State]int{}
	err := q.queryEach(text, arguments, func(row scanner) error {
		var group intent.Group
		var state intent.State
		var count int
		err := row.Scan(&group.Service, &group.Instance, &state, &count)
		if counted[group] == nil {
			counted[group] = map[intent.State]int{}
		}
		counted[group][state] += count
		return err
	})
	var groups []store.GroupStates
	for group, states := range counted {
		groups = append(groups, store.GroupStates{Group: group, States: states})
	}
	slices.SortFunc(groups, func(a, b store.GroupStates) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Instance, b.Instance))
	})
	return groups, err
}

// addUnhealthy counts the unhealthy members of groups, which are in the order of their
// names.
func addUnhealthy(q querier, groups []store.GroupStates, partition intent.PartitionID) error {
	if len(groups) == 0 {
		return nil
	}
	arguments := []any{string(partition), groups[0].Service, groups[len(groups)-1].Service}
	return q.queryEach(countUnhealthy, arguments, func(row scanner) error {
		var group intent.Group
		var count int
		err := row.Scan(&group.Service, &group.Instance, &count)
		for i := range groups {
			if groups[i].Group == group {
				groups[i].Unhealthy = count
			}
		}
		return err
	})
}

// reportsBy is the statement that lists a page of reports, and its arguments.
func reportsBy(partition intent.PartitionID, filter store.ReportFilter) (text string, arguments []any) {
	arguments = []any{string(partition), string(filter.After), filter.Prefix, prefixEnd(filter.Prefix), pageSize(filter.Limit)}
	text = "SELECT record FROM report WHERE partition = $1 AND asset > $2 AND asset >= $3 AND asset < $4"
	whereEquals := func(column, value string) {
		if value != "" {
			arguments = append(arguments, value)
			text += fmt.Sprintf(" AND %s = $%d", column, len(arguments))
		}
	}
	if filter.Group.Service != "" {
		text += " AND service <> ''"
	}
	whereEquals("service", filter.Group.Service)
	whereEquals("instance", filter.Group.Instance)
	whereEquals("state", string(filter.State))
	if filter.Unhealthy {
		text += " AND state = 'in-sync' AND settled = 0" // As its index has it.
	}
	if filter.Asks {
		text += " AND asks = 1"
	}
	return text + " ORDER BY asset LIMIT $5 + 0", arguments
}
