package web

import (
	"maps"
	"slices"
)

// Kinds are those of all pages.
func Kinds() []string {
	return slices.Concat([]string{"", "partition", inboxKind}, globalKinds, slices.Collect(maps.Keys(named)))
}
