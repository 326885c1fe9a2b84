package relational

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func readRun(q querier, attempt string, partition intent.PartitionID, number uint64) (intent.WorkflowRun, error) {
	run, ok, err := scanRun(q, "SELECT record FROM workflow_run WHERE partition = $1 AND number = $2", string(partition), numberColumn(number))
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "%s: there is no run of that number", attempt).WithHint("lehr workflow status -p %s lists the runs that go on", partition)
	}
	return run, err
}

func scanRun(q querier, text string, arguments ...any) (run intent.WorkflowRun, ok bool, err error) {
	err = q.queryEach(text, arguments, func(row scanner) error {
		ok = true
		return decodeRow(row, "run of a workflow", &run)
	})
	return run, ok, err
}

// numberColumn is a number that a caller gave, as a column has it.
func numberColumn(number uint64) int64 { return int64(min(number, math.MaxInt64)) }

// WorkflowRun reads one.
func (s *Store) WorkflowRun(ctx context.Context, partition intent.PartitionID, number uint64) (run intent.WorkflowRun, err error) {
	attempt := fmt.Sprintf("reading run %d of the workflows of %q", number, partition)
	err = s.read(ctx, attempt, func(q querier) error {
		run, err = readRun(q, attempt, partition, number)
		return err
	})
	return run, err
}

// WorkflowRuns lists those that a filter selects.
func (s *Store) WorkflowRuns(ctx context.Context, partition intent.PartitionID, filter store.WorkflowFilter) (list []intent.WorkflowRun, err error) {
	text, arguments := runsBy(partition, filter)
	err = s.read(ctx, fmt.Sprintf("listing the runs of workflows of %q", partition), func(q querier) error {
		list = nil
		return q.queryEach(text, arguments, func(row scanner) error {
			var run intent.WorkflowRun
			err := decodeRow(row, "run of a workflow", &run)
			list = append(list, run)
			return err
		})
	})
	return list, err
}

// runsBy is the statement that lists what the filter selects, and its arguments.
func runsBy(partition intent.PartitionID, filter store.WorkflowFilter) (text string, arguments []any) {
	arguments = []any{string(partition), pageSize(filter.Limit)}
	argument := func(value any) string {
		arguments = append(arguments, value)
		return fmt.Sprintf("$%d", len(arguments))
	}
	text, order := "SELECT record FROM workflow_run WHERE partition = $1", "number DESC"
	if filter.Workflow != "" {
		text += " AND workflow = " + argument(filter.Workflow)
	}
	if filter.Open {
		text += " AND open = 1"
	}
	if filter.Before != 0 {
		text += " AND number < " + argument(numberColumn(filter.Before))
	}
	if filter.Touched != nil {
		text, order = text+" AND touched > "+argument(numberColumn(*filter.Touched)), "touched"
	}
	return text + " ORDER BY " + order + " LIMIT $2 + 0", arguments
}

// WorkflowEvents lists rows of a run's history.
func (s *Store) WorkflowEvents(ctx context.Context, partition intent.PartitionID, run uint64, filter store.WorkflowEventFilter) (list []intent.WorkflowEvent, err error) {
	text := "SELECT record FROM workflow_event WHERE partition = $1 AND run = $2 AND number > $3 AND number < $4 ORDER BY number LIMIT $5 + 0"
	if filter.NewestFirst {
		text = "SELECT record FROM workflow_event WHERE partition = $1 AND run = $2 AND number > $3 AND number < $4 ORDER BY number DESC LIMIT $5 + 0"
	}
	end := cmp.Or(filter.Before, math.MaxInt64)
	err = s.read(ctx, fmt.Sprintf("listing the history of run %d of the workflows of %q", run, partition), func(q querier) error {
		list = nil
		arguments := []any{string(partition), numberColumn(run), numberColumn(filter.After), numberColumn(end), pageSize(filter.Limit)}
		return q.queryEach(text, arguments, func(row scanner) error {
			var e intent.WorkflowEvent
			err := decodeRow(row, "row of a workflow's history", &e)
			list = append(list, e)
			return err
		})
	})
	return list, err
}

// RolesOf are the roles that the caller has in a partition.
func (s *Store) RolesOf(ctx context.Context, partition intent.PartitionID) ([]intent.Role, error) {
	authority, err := s.Authority(ctx)
	if err != nil {
		return nil, err
	}
	return rolesIn(authority, partition), nil
}

func rolesIn(authority store.Authority, partition intent.PartitionID) (roles []intent.Role) {
	for _, role := range intent.Roles() {
		if authority.May(role, partition) {
			roles = append(roles, role)
		}
	}
	return roles
}

// workflows goes over runs that have ended, each with its history at once. The newest and the one
// that was changed last stay: the next numbers are counted from theirs.
func (c *collection) workflows(t *transaction, _ standing) (removed int64, err error) {
	var numbers []int64
	err = t.queryEach(`SELECT number FROM workflow_run r WHERE r.partition = $1 AND r.open = 0 AND r.ended < $2
		AND r.number < (SELECT max(number) FROM workflow_run WHERE partition = $1)
		AND r.touched < (SELECT max(touched) FROM workflow_run WHERE partition = $1) ORDER BY r.ended LIMIT $3 + 0`,
		[]any{string(c.lease.Partition), c.forgotten(), chunk}, func(row scanner) error {
			var number int64
			err := row.Scan(&number)
			numbers = append(numbers, number)
			return err
		})
	if err != nil {
		return 0, err
	}
	for rows := int64(0); removed < int64(len(numbers)) && rows < chunk; removed++ {
		key := []any{string(c.lease.Partition), numbers[removed]}
		events, err := t.exec("DELETE FROM workflow_event WHERE partition = $1 AND run = $2", key...)
		if err != nil {
			return 0, err
		}
		if _, err := t.exec("DELETE FROM workflow_run WHERE partition = $1 AND number = $2", key...); err != nil {
			return 0, err
		}
		rows += events + 1
	}
	return removed, nil
}
