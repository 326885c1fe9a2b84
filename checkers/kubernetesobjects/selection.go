package main

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// selection judges whether what selects pods of its namespace selects any of those that the objects
// make. Pods may also come from elsewhere, so it tells only what is probably misspelt: labels that
// differ from those of pods by a few letters.
func (c *checker) selection(o *object) {
	path := []string{"spec", "selector"}
	switch groupKind(o.key) {
	case "/Service":
	case "policy/PodDisruptionBudget":
		path = append(path, "matchLabels")
	default:
		return
	}
	wanted := texts(o.value, path...)
	if len(wanted) == 0 {
		return
	}
	misspelt, meant := "", ""
	for _, other := range c.objects {
		at, ok := other.template()
		if !ok || other.cluster != o.cluster || other.namespace != o.namespace {
			continue
		}
		have := texts(other.value, with(at, "metadata", "labels")...)
		if labels.SelectorFromSet(wanted).Matches(labels.Set(have)) {
			return
		}
		if key := misspeltLabel(wanted, have); key != "" {
			misspelt, meant = key, have[key]
		}
	}
	if misspelt != "" {
		c.warn(with(path, misspelt), "did you mean "+meant+"?", "no pods that the objects of its namespace make have this label: it selects none of them")
	}
}

// misspeltLabel is the only label that a template has with another value, if the values are alike.
func misspeltLabel(wanted, have map[string]string) (found string) {
	for _, key := range sortedKeys(wanted) {
		value, ok := have[key]
		switch {
		case ok && value == wanted[key]:
		case ok && found == "" && nearest(wanted[key], []string{value}) != "":
			found = key
		default:
			return ""
		}
	}
	return found
}

func groupOfKey(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group
}

// groupKind is GROUP/KIND of GROUP/VERSION/KIND.
func groupKind(key string) string {
	return groupOfKey(key) + key[strings.LastIndexByte(key, '/'):]
}
