package main

import (
	"fmt"
	"reflect"
	"strings"

	chartv3 "helm.sh/helm/v3/pkg/chart"
	chartutilv3 "helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"

	"lehr.dev/sdk/generator/kubernetes"
)

// What with.nulls says about a null in the values of a chart itself: Helm 4 leaves the
// key out, and Helm 3 keeps it.
const (
	nullsOfHelm3 = "helm3"
	nullsOfHelm4 = "helm4"
)

// coalesce lays values over those of a chart and its parts.
func coalesce(chart *chartv2.Chart, values map[string]any, nulls string) (common.Values, error) {
	if nulls != nullsOfHelm3 {
		return util.CoalesceValues(chart, values)
	}
	all, err := chartutilv3.CoalesceValues(ofHelm3(chart), values)
	return common.Values(all), err
}

// ofHelm3 is what Helm 3 asks of a chart for its values.
func ofHelm3(chart *chartv2.Chart) *chartv3.Chart {
	made := &chartv3.Chart{Metadata: &chartv3.Metadata{Name: chart.Name()}, Values: chart.Values}
	for _, part := range chart.Dependencies() {
		made.AddDependency(ofHelm3(part))
	}
	return made
}

// readings reports whether the two Helms differ about the values of a chart.
func readings(chart *chartv2.Chart, values map[string]any) (differ bool) {
	four, err := coalesce(chart, values, nullsOfHelm4)
	if err != nil {
		return false
	}
	three, err := coalesce(chart, values, nullsOfHelm3)
	return err == nil && !reflect.DeepEqual(four.AsMap(), three.AsMap())
}

// nullsMatter says which fields Helm 3 would render otherwise, where with does not say
// whose reading is meant.
func nullsMatter(files map[string][]byte, o options, objects []kubernetes.Object) (findings []kubernetes.Finding) {
	const most, hint = 5, "write with: {nulls: helm3} for what Helm 3 renders, or with: {nulls: helm4} if this is meant"
	o.nulls = nullsOfHelm3
	others, told := (&release{options: o, files: files}).render(&vary{})
	warn := func(file, format string, arguments ...any) {
		findings = append(findings, kubernetes.Finding{File: file, Warning: true, Hint: hint, Message: fmt.Sprintf(format, arguments...)})
	}
	if failed(told) {
		warn(theDefinition, "a null in the chart's values is kept by Helm 3, which then fails: %s", told[0].Message)
		return findings
	}
	three := map[string]kubernetes.Object{}
	for _, o := range others {
		three[o.ID] = o
	}
	for _, o := range objects {
		other, found := three[o.ID]
		if !found {
			warn(o.File, "Helm 3 renders no %s %s: it keeps a null in the chart's values", o.Payload.Kind, o.Payload.Name)
			continue
		}
		delete(three, o.ID)
		if fields := kubernetes.Compare(o, other, most); len(fields) > 0 {
			warn(o.File, "%s of %s %s is another to Helm 3, which keeps nulls in the chart's values", strings.Join(fields, ", "), o.Payload.Kind, o.Payload.Name)
		}
	}
	for _, o := range others {
		if _, left := three[o.ID]; left {
			warn(o.File, "Helm 3 renders %s %s, too: it keeps a null in the chart's values", o.Payload.Kind, o.Payload.Name)
		}
	}
	return findings
}
