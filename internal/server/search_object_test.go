package server

import "testing"

// TestParseObjectQuery: a query names an object as kubectl takes it, or none.
func TestParseObjectQuery(t *testing.T) {
	for text, want := range map[string]objectQuery{
		"deployment/web":               {"deployment", "web", ""},
		"deploy web":                   {"deploy", "web", ""},
		"-n shop deployments.apps/web": {"deployments.apps", "web", "shop"},
		"sts/db --namespace shop":      {"sts", "db", "shop"},
		"sts db --namespace=shop":      {"sts", "db", "shop"},
		"ClusterRole/system:Node":      {"ClusterRole", "system:Node", ""},
		"web":                          {},
		"web/":                         {},
		"web/a/b":                      {},
		"one two three":                {},
		"deployment/web -n":            {},
		"":                             {},
	} {
		got, ok := parseObjectQuery(text)
		if ok != (want != objectQuery{}) || got != want && ok {
			t.Errorf("%q is read as %+v, %t", text, got, ok)
		}
	}
}
