package relational

import (
	"context"
	"errors"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// $1 is the partition, if one, and $2 the pattern of the fragment.
const (
	searched = ` WHERE p.registered = 1 AND ($1 = '' OR p.id = $1)`
	// $2 is the path of the field, $3 its value, and $4 the type.
	// CROSS JOIN keeps the order: a search looks into the index of each partition.
	searchFields = `SELECT f.partition, f.asset, coalesce(r.state, ''), o.path, o.value
		FROM partitions p CROSS JOIN field f CROSS JOIN member m CROSS JOIN field o
		LEFT JOIN report r ON r.partition = f.partition AND r.asset = f.asset` + searched + `
		AND f.partition = p.id AND f.path = $2 AND f.value = $3 AND f.from_seq <= p.head AND f.to_seq > p.head
		AND m.partition = p.id AND m.asset = f.asset AND m.from_seq <= p.head AND m.to_seq > p.head AND m.type = $4
		AND o.partition = p.id AND o.asset = f.asset AND o.from_seq <= p.head AND o.to_seq > p.head
		ORDER BY p.id, f.asset, o.path`
	searchIncarnations = `SELECT p.id, i.record FROM partitions p JOIN incarnation i ON i.partition = p.id
		AND i.seq IN (SELECT n.seq FROM incarnation n WHERE n.partition = p.id ORDER BY n.seq DESC LIMIT $3 + 0)` + searched + `
		AND (lower(i.record) LIKE $2 ESCAPE '\' OR EXISTS (SELECT 1 FROM label l WHERE l.partition = i.partition AND l.seq = i.seq AND l.person = 1))
		ORDER BY p.id, i.seq DESC`
	searchLabels = "SELECT l.partition, l.seq, l.name, l.value FROM partitions p JOIN label l ON l.partition = p.id AND l.person = 1" + searched
	searchRuns   = `SELECT p.id, r.record FROM partitions p JOIN rollout r ON r.partition = p.id
		AND r.run = (SELECT max(n.run) FROM rollout n WHERE n.partition = r.partition AND n.name = r.name)` + searched + " AND lower(r.record) LIKE $2 ESCAPE '\\' ORDER BY p.id, r.name"
	searchWorkflowRuns = `SELECT p.id, r.record FROM partitions p JOIN workflow_run r ON r.partition = p.id
		AND r.number IN (SELECT n.number FROM workflow_run n WHERE n.partition = p.id ORDER BY n.number DESC LIMIT $3 + 0)` + searched + `
		AND lower(r.record) LIKE $2 ESCAPE '\' ORDER BY p.id, r.number DESC`
	owned       = " IN (SELECT p.id FROM partitions p" + searched + ")"
	searchHolds = "SELECT " + holdColumns + ", partition FROM hold WHERE lower(owner) LIKE $2 ESCAPE '\\' AND partition" + owned + " ORDER BY partition, asset"
	searchPins  = "SELECT " + pinColumns + ", partition FROM pin WHERE pin_rank = $3 AND lower(holder) LIKE $2 ESCAPE '\\' AND partition" + owned + " ORDER BY partition, asset"
)

// patternOf is what LIKE takes for a text that has the fragment.
func patternOf(fragment string) string {
	return "%" + strings.NewReplacer("\\", "\\\\", "%", "\\%", "_", "\\_").Replace(fragment) + "%"
}

func searchArguments(filter store.SearchFilter) []any {
	return []any{string(filter.Partition), patternOf(filter.Fragment)}
}

// errEnough ends a query whose rows are enough.
var errEnough = errors.New("these rows are enough")

// SearchFields implements store.Surveys.
func (s *Store) SearchFields(ctx context.Context, filter store.FieldFilter, visit func(intent.PartitionID, intent.AssetID, intent.State, map[string]string) bool) error {
	return s.read(ctx, "searching fields", func(q querier) error {
		var partition, lastPartition intent.PartitionID
		var asset, lastAsset intent.AssetID
		var state, lastState intent.State
		fields := map[string]string{}
		err := q.queryEach(searchFields, []any{string(filter.Partition), filter.Path, filter.Value, string(filter.Type)}, func(row scanner) error {
			var path, value string
			if err := row.Scan(&partition, &asset, &state, &path, &value); err != nil {
				return err
			}
			if lastAsset != "" && (partition != lastPartition || asset != lastAsset) {
				if !visit(lastPartition, lastAsset, lastState, fields) {
					lastAsset = ""
					return errEnough
				}
				fields = map[string]string{}
			}
			lastPartition, lastAsset, lastState = partition, asset, state
			fields[path] = value
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err == nil && lastAsset != "" {
			visit(lastPartition, lastAsset, lastState, fields)
		}
		return err
	})
}

// SearchIncarnations implements store.Surveys.
func (s *Store) SearchIncarnations(ctx context.Context, filter store.SearchFilter, newest int, visit func(intent.Incarnation)) error {
	return s.read(ctx, "searching incarnations", func(q querier) error {
		labels := map[intent.IncarnationID]map[string]string{}
		err := q.queryEach(searchLabels, []any{string(filter.Partition)}, func(row scanner) error {
			var id intent.IncarnationID
			var name, value string
			err := row.Scan(&id.Partition, &id.Sequence, &name, &value)
			if labels[id] == nil {
				labels[id] = map[string]string{}
			}
			labels[id][name] = value
			return err
		})
		if err != nil {
			return err
		}
		return surveyRecords(q, searchIncarnations, append(searchArguments(filter), newest), "incarnation", func(_ intent.PartitionID, incarnation intent.Incarnation, damage error) error {
			if damage != nil {
				return nil
			}
			for name, value := range labels[incarnation.ID] {
				if incarnation.Labels == nil {
					incarnation.Labels = map[string]string{}
				}
				incarnation.Labels[name] = value
			}
			visit(incarnation)
			return nil
		})
	})
}

// SearchRuns implements store.Surveys.
func (s *Store) SearchRuns(ctx context.Context, filter store.SearchFilter, visit func(intent.PartitionID, intent.Rollout)) error {
	return s.read(ctx, "searching runs of rollouts", func(q querier) error {
		return surveyRecords(q, searchRuns, searchArguments(filter), "run of a rollout", func(id intent.PartitionID, run intent.Rollout, damage error) error {
			if damage == nil {
				visit(id, run)
			}
			return nil
		})
	})
}

// SearchWorkflowRuns implements store.Surveys.
func (s *Store) SearchWorkflowRuns(ctx context.Context, filter store.SearchFilter, newest int, visit func(intent.WorkflowRun)) error {
	return s.read(ctx, "searching runs of workflows", func(q querier) error {
		return surveyRecords(q, searchWorkflowRuns, append(searchArguments(filter), newest), "run of a workflow", func(_ intent.PartitionID, run intent.WorkflowRun, damage error) error {
			if damage == nil {
				visit(run)
			}
			return nil
		})
	})
}

// SearchBrakes implements store.Surveys, in one view.
func (s *Store) SearchBrakes(ctx context.Context, filter store.SearchFilter, held func(intent.PartitionID, intent.Hold), pinned func(intent.Pin)) error {
	return s.read(ctx, "searching holds and pins", func(q querier) error {
		err := q.queryEach(searchHolds, searchArguments(filter), func(row scanner) error {
			var id intent.PartitionID
			hold, err := scanHold(behind{row, &id})
			if err == nil {
				held(id, hold)
			}
			return err
		})
		if err != nil {
			return err
		}
		return q.queryEach(searchPins, append(searchArguments(filter), int64(intent.RankPerson)), func(row scanner) error {
			var id intent.PartitionID
			pin, err := scanPin(behind{row, &id}, "")
			pin.Incarnation.Partition = id
			if err == nil {
				pinned(pin)
			}
			return err
		})
	})
}
