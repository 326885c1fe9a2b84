package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/checkers/kubernetesobjects/builtin"
)

// served reports whether the declared version serves an object's kind, as far as the tables tell, and
// says what was deprecated or removed.
func (c *checker) served(o *object) bool {
	version := c.settings.version
	life, ending := version.Lifecycle(o.key)
	replacement := "nothing replaces it"
	if by := cmp.Or(life.Replacement, c.stable(o)); by != "" {
		replacement = "write " + builtin.Named(by)
	}
	_, known := version.Struct(o.key)
	at := []string{"apiVersion"}
	switch {
	case known && ending && life.Deprecated > 0 && life.Deprecated <= version.Minor:
		until := ""
		if life.Removed > 0 {
			until = fmt.Sprintf(", and removed in 1.%d", life.Removed)
		}
		c.warn(at, replacement, "%s is deprecated since Kubernetes 1.%d%s", builtin.Named(o.key), life.Deprecated, until)
	case known:
		if beta := stage(o.apiVersion); beta != "" {
			c.warn(at, "turn it on in the API server, or write a version that is not "+beta, "%s is %s: API servers serve it only where that is turned on", builtin.Named(o.key), beta)
		}
	case c.customs.kinds[o.key].schema != nil || c.customs.unread[o.key]:
	case ending && life.Removed > 0 && life.Removed <= version.Minor:
		c.wrong(at, replacement, "%s was removed in Kubernetes 1.%d, and the cluster has %s", builtin.Named(o.key), life.Removed, version.Name)
		return false
	case version.Since(o.key) != "":
		c.wrong(at, "write a version that is there, or declare the version that the cluster has", "Kubernetes %s does not serve %s, Kubernetes %s does", version.Name, builtin.Named(o.key), version.Since(o.key))
		return false
	case version.HasGroup(o.key):
		c.noSuchKind(o)
		return false
	}
	return true
}

// stable is the same kind in a version of its API that is neither alpha nor beta; empty: there is none.
func (c *checker) stable(o *object) string {
	for _, key := range c.settings.version.Kinds() {
		if groupKind(key) == groupKind(o.key) && key != o.key && stage(key[:strings.LastIndexByte(key, '/')]) == "" {
			return key
		}
	}
	return ""
}

// noSuchKind says what is meant by a kind that a group of Kubernetes does not have.
func (c *checker) noSuchKind(o *object) {
	hint, field := "kubectl api-resources lists the kinds", "kind"
	var kinds []string
	for _, key := range c.settings.version.Kinds() {
		at := strings.LastIndexByte(key, '/')
		if key[at+1:] == o.kind {
			hint, field = "write "+builtin.Named(key), "apiVersion"
		}
		if strings.TrimPrefix(key[:at], "/") == o.apiVersion {
			kinds = append(kinds, key[at+1:])
		}
	}
	if near := nearest(o.kind, slices.Sorted(slices.Values(kinds))); near != "" && field == "kind" {
		hint = "did you mean " + near + "?"
	}
	c.wrong([]string{field}, hint, "Kubernetes %s has no %s", c.settings.version.Name, builtin.Named(o.key))
}

// stage of a version of an API that is not stable: alpha or beta; else empty.
func stage(apiVersion string) string {
	version := apiVersion[strings.LastIndexByte(apiVersion, '/')+1:]
	for _, stage := range []string{"alpha", "beta"} {
		if strings.Contains(version, stage) {
			return stage
		}
	}
	return ""
}
