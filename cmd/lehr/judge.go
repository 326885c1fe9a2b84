package main

import (
	"context"
	"net/http"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/external"
	"lehr.dev/internal/external/prometheus"
)

// askRange asks a Prometheus that a person named, with that person's token.
func askRange(ctx context.Context, q cli.RangeQuery) ([]cli.Ranged, error) {
	request := external.Request{URL: q.URL, Header: http.Header{}}
	if q.Token != "" {
		request.Header.Set("Authorization", "Bearer "+q.Token)
	}
	runs, err := prometheus.Range(ctx, request, prometheus.RangeOf{Query: q.Query, From: q.From, To: q.To, Step: q.Step})
	if err != nil {
		return nil, err
	}
	ranged := make([]cli.Ranged, len(runs))
	for i, r := range runs {
		ranged[i] = cli.Ranged{Labels: r.Labels, Times: r.Times, Values: r.Values}
	}
	return ranged, nil
}
