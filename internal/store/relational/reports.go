package relational

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
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
			stored, err := storedReports(t, lease.Partition, reports[first:last])
			if err != nil {
				return err
			}
			counts := map[intent.State]int{}
			var indexes []int
			for i := first; i < last; i++ {
				var group intent.Group
				if grouped {
					if group, err = groupOf(t, lease.Partition, reports[i].Asset, reports[i].Target.Sequence); err != nil {
						return err
					}
				}
				if err := replaceReport(t, lease.Partition, reports[i], texts[i], group); err != nil {
					return err
				}
				previous, ok := stored[reports[i].Asset]
				if ok {
					counts[previous.state]--
				}
				counts[reports[i].State]++
				if ok && !previous.settled || !reports[i].Settled() {
					indexes = append(indexes, i)
				}
				stored[reports[i].Asset] = storedReport{reports[i].State, reports[i].Settled()}
			}
			if err := moveCounts(t, lease.Partition, counts); err != nil {
				return err
			}
			return keepReports(t, lease.Partition, reports, indexes)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const putReport = `INSERT INTO report (partition, asset, state, record, settled, service, instance, asks) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
	ON CONFLICT (partition, asset) DO UPDATE SET state = excluded.state, record = excluded.record, settled = excluded.settled, asks = excluded.asks,
		service = excluded.service, instance = excluded.instance`

// replaceReport stores the last report of an asset.
func replaceReport(t *transaction, partition intent.PartitionID, report intent.Report, text string, group intent.Group) error {
	_, err := t.exec(putReport, string(partition), string(report.Asset), string(report.State), text, flag(report.Settled()), group.Service, group.Instance, flag(report.AsksPeople()))
	return err
}

// storedReport is what of a stored report a new one is compared with.
type storedReport struct {
	state   intent.State
	settled bool
}

// storedReports returns what is stored of the assets that the reports are about.
func storedReports(t *transaction, partition intent.PartitionID, reports []intent.Report) (map[intent.AssetID]storedReport, error) {
	assets := make([]intent.AssetID, len(reports))
	for i, report := range reports {
		assets[i] = report.Asset
	}
	stored := make(map[intent.AssetID]storedReport, len(reports))
	err := eachSeveral(t, selectStoredReports, []any{string(partition)}, assets, func(row scanner) error {
		var asset intent.AssetID
		var state intent.State
		var settled int64
		err := row.Scan(&asset, &state, &settled)
		stored[asset] = storedReport{state, settled != 0}
		return err
	})
	return stored, err
}

var selectStoredReports = "SELECT asset, state, settled FROM report WHERE partition = $1 AND asset IN " + severalAssets(2)

// moveCounts adds to how many reports of each state the partition has. Only the owner of the partition's lease
// writes its reports, so that no two transactions meet there.
func moveCounts(t *transaction, partition intent.PartitionID, counts map[intent.State]int) error {
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		if counts[state] == 0 {
			continue
		}
		_, err := t.exec(`INSERT INTO report_count (partition, state, reports) VALUES ($1, $2, $3)
			ON CONFLICT (partition, state) DO UPDATE SET reports = report_count.reports + excluded.reports`, string(partition), string(state), counts[state])
		if err != nil {
			return err
		}
	}
	return nil
}

// recountReports corrects how many reports of each state a partition has. While replicas are upgraded one after the other, an
// owner of an older version may have written reports and not counted them.
func recountReports(t *transaction, partition intent.PartitionID) error {
	counts := map[intent.State]int{}
	add := func(sign int) func(scanner) error {
		return func(row scanner) error {
			var state intent.State
			var count int
			err := row.Scan(&state, &count)
			counts[state] += sign * count
			return err
		}
	}
	if err := t.queryEach("SELECT state, count(*) FROM report WHERE partition = $1 GROUP BY state", []any{string(partition)}, add(1)); err != nil {
		return err
	}
	if err := t.queryEach("SELECT state, reports FROM report_count WHERE partition = $1", []any{string(partition)}, add(-1)); err != nil {
		return err
	}
	return moveCounts(t, partition, counts)
}

// shortened is a report as it is kept once it is past.
func shortened(partition intent.PartitionID, report intent.Report) intent.Report {
	report.Partition = partition
	report.Plan.Changes, report.Unmanaged = nil, nil
	return report
}

// keepReports adds those of the reports to the history.
func keepReports(t *transaction, partition intent.PartitionID, reports []intent.Report, indexes []int) error {
	if len(indexes) == 0 {
		return nil
	}
	var last int64
	if _, err := t.one(`INSERT INTO report_number (partition, last) VALUES ($1, $2)
		ON CONFLICT (partition) DO UPDATE SET last = report_number.last + excluded.last RETURNING last`,
		[]any{string(partition), len(indexes)}, &last); err != nil {
		return err
	}
	number := last - int64(len(indexes))
	for _, i := range indexes {
		number++
		text, err := encode(shortened(partition, reports[i]))
		if err != nil {
			return err
		}
		if _, err := t.exec("INSERT INTO report_history (partition, number, asset, at, record) VALUES ($1, $2, $3, $4, $5)",
			string(partition), number, string(reports[i].Asset), stamp(reports[i].At), text); err != nil {
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
		ok, err := q.one("SELECT record FROM report WHERE partition = $1 AND asset = $2",
			[]any{string(partition), string(asset)}, &text)
		switch {
		case err != nil:
			return err
		case !ok:
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
		return q.queryEach(text, arguments, func(row scanner) error {
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
		return q.queryEach("SELECT state, reports FROM report_count WHERE partition = $1 AND reports > 0", []any{string(partition)}, func(row scanner) error {
			var state intent.State
			var count int
			err := row.Scan(&state, &count)
			counts[state] = count
			return err
		})
	})
	return counts, err
}

// ReportHistory lists what was kept of an asset, the newest first.
func (s *Store) ReportHistory(ctx context.Context, partition intent.PartitionID, filter store.HistoryFilter) ([]store.PastReport, error) {
	beforeNumber, until := int64(open), int64(open)
	if filter.Before != 0 {
		beforeNumber = int64(filter.Before)
	}
	if !filter.Until.IsZero() {
		until = stamp(filter.Until)
	}
	return s.pastReports(ctx, fmt.Sprintf("reading the history of %q in %q", filter.Asset, partition),
		`SELECT number, record FROM report_history WHERE partition = $1 AND asset = $2 AND number < $3 AND at <= $4
			ORDER BY number DESC LIMIT $5 + 0`, string(partition), string(filter.Asset), beforeNumber, until, pageSize(filter.Limit))
}

// ReportsAfter lists what was kept of a partition after a number.
func (s *Store) ReportsAfter(ctx context.Context, partition intent.PartitionID, cursor uint64, limit int) ([]store.PastReport, error) {
	return s.pastReports(ctx, fmt.Sprintf("reading the history of %q", partition),
		"SELECT number, record FROM report_history WHERE partition = $1 AND number > $2 ORDER BY number LIMIT $3 + 0",
		string(partition), int64(cursor), pageSize(limit))
}

func (s *Store) pastReports(ctx context.Context, attempt, text string, arguments ...any) (reports []store.PastReport, err error) {
	err = s.read(ctx, attempt, func(q querier) error {
		return q.queryEach(text, arguments, func(row scanner) error {
			var p store.PastReport
			var record string
			if err := row.Scan(&p.Number, &record); err != nil {
				return err
			}
			err := decode("report", record, &p.Report)
			reports = append(reports, p)
			return err
		})
	})
	return reports, err
}

// LastReport is the number given last.
func (s *Store) LastReport(ctx context.Context, partition intent.PartitionID) (last uint64, err error) {
	err = s.read(ctx, fmt.Sprintf("reading how long the history of %q is", partition), func(q querier) error {
		_, err := q.one("SELECT last FROM report_number WHERE partition = $1", []any{string(partition)}, &last)
		return err
	})
	return last, err
}
