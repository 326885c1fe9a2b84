package web

import (
	"maps"
	"slices"
	"time"
)

// Kinds lists the kinds of all pages.
func Kinds() []string {
	return slices.Concat([]string{"", "partition", inboxKind}, globalKinds, slices.Collect(maps.Keys(named)))
}

// ViewEnvironment is the row of an environment on the page of delivery.
var ViewEnvironment = viewEnvironment

// NiceTicks are the round values of an axis.
var NiceTicks = niceTicks

// ThinOut leaves so many of the values of a line at most.
func ThinOut(values []float64, limit int) (left []float64) {
	var points []timedValue
	for i, v := range values {
		points = append(points, timedValue{time.Unix(int64(i), 0), v})
	}
	for _, p := range thinOut(points, limit) {
		left = append(left, p.value)
	}
	return left
}
