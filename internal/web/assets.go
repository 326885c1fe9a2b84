package web

import (
	"context"

	apipb "lehr.dev/gen/lehr/api/v1"
)

const (
	// rowsShown is a page of a list.
	rowsShown = 100
	// A search that finds little reads this many pages of this size before it
	// shows what it has and offers to go on.
	searchPages, searchSize = 5, 1000
)

// assetRow is one asset in a list.
type assetRow struct {
	Partition, ID, Type, State string
	// Outdated: the report is about earlier content.
	Outdated bool
	Report   *apipb.Report
	Reason   *apipb.WaitingOn
	More     int
	// Behind: the target is not head.
	Behind bool
}

type assetPage struct {
	rows []assetRow
	// next goes on after this asset; empty: that was all.
	next string
}

// listAssets reads one page of rows, and never more than a bounded number of
// assets, however many there are.
func (r *reader) listAssets(ctx context.Context, p *apipb.Partition, at address) (assetPage, error) {
	state, filter := at.query.Get("state"), at.query.Get("filter")
	if state != "" && filter == "" || p.Head == "" {
		return r.listByReports(ctx, p, at)
	}
	request := &apipb.ListAssetsRequest{
		Partition: p.Id, Prefix: at.query.Get("prefix"), Filter: filter, After: at.query.Get("after"), Limit: rowsShown,
	}
	if state == "" {
		response, err := r.Assets.ListAssets(ctx, request)
		if err != nil {
			return assetPage{}, err
		}
		rows, err := r.join(ctx, p, request, response.Assets)
		return assetPage{rows, response.Next}, err
	}
	request.Limit = searchSize
	var result assetPage
	for range searchPages {
		response, err := r.Assets.ListAssets(ctx, request)
		if err != nil {
			return assetPage{}, err
		}
		var matching []*apipb.Asset
		for _, asset := range response.Assets {
			if asset.State == state {
				matching = append(matching, asset)
			}
		}
		result.next = response.Next
		if room := rowsShown - len(result.rows); len(matching) > room {
			matching = matching[:room]
			result.next = matching[room-1].Id
		}
		rows, err := r.join(ctx, p, request, matching)
		if err != nil {
			return assetPage{}, err
		}
		result.rows = append(result.rows, rows...)
		if result.next == "" || len(result.rows) == rowsShown {
			break
		}
		request.After = response.Next
	}
	return result, nil
}

// listByReports lists what has a report, also what is in head no more.
func (r *reader) listByReports(ctx context.Context, p *apipb.Partition, at address) (assetPage, error) {
	response, err := r.Reports.ListReports(ctx, &apipb.ListReportsRequest{
		Partition: p.Id, Prefix: at.query.Get("prefix"), State: at.query.Get("state"), After: at.query.Get("after"), Limit: rowsShown,
	})
	if err != nil {
		return assetPage{}, err
	}
	result := assetPage{next: response.Next}
	for _, report := range response.Reports {
		result.rows = append(result.rows, toRow(p, &apipb.Asset{Id: report.Asset, Type: report.Type, Current: true}, report))
	}
	return result, nil
}

// join adds the reports to assets that were listed. Where the assets are
// neighbours one call reads them all.
func (r *reader) join(ctx context.Context, p *apipb.Partition, request *apipb.ListAssetsRequest, assets []*apipb.Asset) ([]assetRow, error) {
	if len(assets) == 0 {
		return nil, nil
	}
	listed, err := r.Reports.ListReports(ctx, &apipb.ListReportsRequest{
		Partition: p.Id, Prefix: request.Prefix, After: request.After, Limit: rowsShown,
	})
	if err != nil {
		return nil, err
	}
	reports := map[string]*apipb.Report{}
	for _, report := range listed.Reports {
		reports[report.Asset] = report
	}
	var rows []assetRow
	for _, asset := range assets {
		report := reports[asset.Id]
		// The list says so itself when an asset was not looked at yet.
		if report == nil && asset.State != "" {
			response, err := r.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: p.Id, Asset: asset.Id})
			if err != nil && !absent(err) {
				return nil, err
			}
			report = response.GetReport()
		}
		rows = append(rows, toRow(p, asset, report))
	}
	return rows, nil
}

func toRow(p *apipb.Partition, asset *apipb.Asset, report *apipb.Report) assetRow {
	row := assetRow{Partition: p.Id, ID: asset.Id, Type: asset.Type, Report: report}
	if report == nil {
		return row
	}
	row.State, row.Outdated = report.State, !asset.Current
	row.Behind = report.Target != "" && report.Target != p.Head
	if len(report.Waiting) > 0 && report.State == "waiting" {
		row.Reason, row.More = report.Waiting[0], len(report.Waiting)-1
	}
	return row
}
