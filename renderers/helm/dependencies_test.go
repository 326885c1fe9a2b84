package main

import (
	"strings"
	"testing"
)

// TestDependencies: charts that lie in sources of their own are those that the chart
// depends on, and what is wrong with one is said of its own files.
func TestDependencies(t *testing.T) {
	more := map[string]string{
		"chart/Chart.yaml":             "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: cache, version: ^0.3.0, repository: \"https://charts.example.com\"}]\n",
		"chart/Chart.lock":             "dependencies: [{name: cache, version: 0.3.0, repository: \"https://charts.example.com\"}]\n",
		"redis/Chart.yaml":             "apiVersion: v2\nname: cache\nversion: 0.3.0\n",
		"redis/values.yaml":            "size: 1\n",
		"redis/templates/a.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cache}\ndata: {size: {{ .Values.size | quote }}}\n",
		"other/Chart.yaml":             "apiVersion: v2\nname: other\nversion: 0.3.0\n",
		"newer/Chart.yaml":             "apiVersion: v2\nname: cache\nversion: 0.3.1\n",
		"major/Chart.yaml":             "apiVersion: v2\nname: cache\nversion: 1.0.0\n",
		"broken/Chart.yaml":            "apiVersion: v2\nname: cache\nversion: 0.3.0\n",
		"broken/templates/broken.yaml": "a: b\n{{ fail \"here\" }}\n",
		"twice/Chart.yaml":             "apiVersion: v2\nname: cache\nversion: 0.3.0\n",
		"twice/values.yaml":            "size: 1\nsize: 2\n",
	}
	o := prod
	o.dependencies, o.set = []string{"redis"}, []string{"cache.size=2"}
	objects, findings := render(chart(more), o)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	files := map[string]bool{}
	for _, object := range objects {
		files[object.File] = true
	}
	if len(objects) != 2 || !files["redis/templates/a.yaml"] {
		t.Errorf("objects of %v", files)
	}
	unlocked := map[string]string{"chart/Chart.lock": "# Nothing.\n"}
	for _, c := range []struct {
		dependencies []string
		more         map[string]string
		file, says   string
	}{
		{nil, nil, "chart/Chart.yaml", "the chart depends on cache ^0.3.0, which is not among the declared files"},
		{[]string{"nowhere"}, nil, "", "with.dependencies names nowhere, which has no Chart.yaml"},
		{[]string{"other"}, nil, "", "the chart does not depend on other"},
		{[]string{"redis", "redis"}, nil, "redis/Chart.yaml", "the chart cache is there twice"},
		{[]string{"redis"}, map[string]string{"chart/charts/cache/Chart.yaml": more["redis/Chart.yaml"]}, "redis/Chart.yaml", "the chart cache is there twice"},
		{[]string{"newer"}, nil, "newer/Chart.yaml", "the chart cache is 0.3.1, and Chart.lock says 0.3.0"},
		{[]string{"major"}, unlocked, "major/Chart.yaml", `the chart cache is 1.0.0, and is wanted as "^0.3.0"`},
		{[]string{"broken"}, nil, "broken/templates/broken.yaml", "here"},
		{[]string{"twice"}, nil, "twice/values.yaml", "size is there twice"},
	} {
		all := map[string]string{}
		for _, some := range []map[string]string{more, c.more} {
			for name, text := range some {
				all[name] = text
			}
		}
		o.dependencies, o.set = c.dependencies, nil
		_, findings := render(chart(all), o)
		if len(findings) == 0 || findings[0].File != c.file || !strings.Contains(findings[0].Message, c.says) {
			t.Errorf("%v: %+v, want %s: %q", c.dependencies, findings, c.file, c.says)
		}
	}
}
