package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"lehr.dev/internal/ground/kubekind"
)

// knowing: what Lehr knows of kinds without asking a cluster is what
// a real API server lists: each kind that can be listed, its plural, its scope and its short
// names.
func knowing(c *cluster) {
	ask := func(path string, into any) {
		c.Helper()
		answer, err := c.plane.Ask(http.MethodGet, path, "", nil)
		if err == nil {
			err = json.Unmarshal(answer, into)
		}
		if err != nil {
			c.Fatal(err)
		}
	}
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	ask("/apis", &groups)
	paths := map[string]string{"v1": "/api/v1"}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			paths[version.GroupVersion] = "/apis/" + version.GroupVersion
		}
	}
	known := kubekind.NewTable()
	listed := map[string]bool{}
	for version, path := range paths {
		var list struct {
			Resources []struct {
				Name, Kind        string
				Namespaced        bool
				ShortNames, Verbs []string
			}
		}
		ask(path, &list)
		for _, r := range list.Resources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "watch") {
				continue
			}
			if strings.HasSuffix(version, ".example/v1") {
				continue // What other parts of the test define.
			}
			kind, ok := known.Find(r.Kind, kubekind.GroupOf(version))
			if !ok || kind.Plural != r.Name || kind.Namespaced != r.Namespaced || !slices.Equal(kind.Short, r.ShortNames) {
				c.Errorf("%s: the server has %+v, known is %+v, %v", version, r, kind, ok)
			}
			listed[kind.Full()] = true
		}
	}
	for _, kind := range kubekind.BuiltIn() {
		if !listed[kind.Full()] {
			c.Errorf("the server has no %s", kind.Full())
		}
	}
}
