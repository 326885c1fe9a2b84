package web

import (
	"maps"
	"slices"
)

// Kinds lists the kinds of all pages.
func Kinds() []string {
	return slices.Concat([]string{"", "partition", inboxKind}, globalKinds, slices.Collect(maps.Keys(named)))
}

// ViewEnvironment is the row of an environment on the page of delivery.
var ViewEnvironment = viewEnvironment

// NiceTicks are the round values of an axis.
var NiceTicks = niceTicks
