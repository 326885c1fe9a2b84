package relational

import (
	"context"
	"fmt"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// SaveReports replaces the last report of each asset.
func (s *Store) SaveReports(ctx context.Context, lease store.Lease, reports []intent.Report) error {
	attempt := fmt.Sprintf("storing %d reports of %q", len(reports), lease.Partition)
	texts := make([]string, len(reports))
	for i, report := range reports {
		report.Partition = lease.Partition
		text, err := encode(report)
		if err != nil {
			return fault.New(fault.Invalid, "%s: the report of %q cannot be stored: %w", attempt, report.Asset, err)
		}
		texts[i] = text
	}
	for first := 0; first < len(reports); first += chunk {
		last := min(first+chunk, len(reports))
		err := s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
			grouped, err := hasGroups(t, lease.Partition)
			if err != nil {
				return err
			}
			for i := first; i < last; i++ {
				var group intent.Group
				if grouped {
					if group, err = groupOf(t, lease.Partition, reports[i].Asset, reports[i].Target.Sequence); err != nil {
						return err
					}
				}
				if _, err := t.exec(`INSERT INTO report (partition, asset, state, record, service, instance) VALUES ($1, $2, $3, $4, $5, $6)
					ON CONFLICT (partition, asset) DO UPDATE SET state = excluded.state, record = excluded.record,
					service = excluded.service, instance = excluded.instance`,
					string(lease.Partition), string(reports[i].Asset), string(reports[i].State), texts[i], group.Service, group.Instance); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Report returns the last report of an asset.
func (s *Store) Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (report intent.Report, err error) {
	attempt := fmt.Sprintf("reading the report of %q in %q", asset, partition)
	err = s.read(ctx, attempt, func(q querier) error {
		var text string
		found, err := q.one("SELECT record FROM report WHERE partition = $1 AND asset = $2",
			[]any{string(partition), string(asset)}, &text)
		switch {
		case err != nil:
			return err
		case !found:
			return fault.New(fault.NotFound, "%s: there is none", attempt).
				WithHint("either there is no such asset, or its first pass is still to come")
		}
		return decode("report", text, &report)
	})
	return report, err
}

// ListReports lists one page in the order of the ids.
func (s *Store) ListReports(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) (reports []intent.Report, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the reports of %q", partition), func(q querier) error {
		text, arguments := reportsBy(partition, filter)
		return q.each(text, arguments, func(row scanner) error {
			var text string
			if err := row.Scan(&text); err != nil {
				return err
			}
			var report intent.Report
			err := decode("report", text, &report)
			reports = append(reports, report)
			return err
		})
	})
	return reports, err
}

// CountReports counts the reports of a partition by state.
func (s *Store) CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error) {
	counts := map[intent.State]int{}
	err := s.read(ctx, fmt.Sprintf("counting the reports of %q", partition), func(q querier) error {
		return q.each("SELECT state, count(*) FROM report WHERE partition = $1 GROUP BY state", []any{string(partition)}, func(row scanner) error {
			var state intent.State
			var count int
			err := row.Scan(&state, &count)
			counts[state] = count
			return err
		})
	})
	return counts, err
}
