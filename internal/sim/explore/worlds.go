package explore

import "lehr.dev/internal/pluginhost/plugin"

// both change, twice; or one of them does, there and back.
var (
	both  = [][assets]content{{1, 1}, {2, 2}, {3, 3}}
	there = [][assets]content{{1, 1}, {2, 1}, {1, 1}}
)

// Size of the worlds.
type Size int

const (
	Small Size = iota
	Change
	Night
)

// Worlds lists those that are explored: small ones in a second, those of every
// change, or the large ones of a night.
func Worlds(size Size) []World {
	pick := func(small, change, night Budget) Budget { return [...]Budget{small, change, night}[size] }
	// since leaves out the third incarnation of smaller worlds.
	since := func(least Size, intent [][assets]content) [][assets]content {
		if size < least {
			return intent[:2]
		}
		return intent
	}
	crash := Budget{Crashes: 1}
	held := Budget{Crashes: 1, Pauses: 1}
	all := Budget{Crashes: 2, Pauses: 1, Duplicates: 1}
	failing := Budget{Crashes: 1, Pauses: 1, Failures: 1}
	return []World{
		{Name: "fenced", Class: plugin.Fenced, Intent: since(Change, there), Left: pick(held, all, Budget{Crashes: 2, Pauses: 1, Duplicates: 1, Failures: 1})},
		{Name: "fenced both", Class: plugin.Fenced, Intent: since(Night, both), Left: pick(crash, held, all)},
		{Name: "compared both", Class: plugin.CompareAndSet, Intent: since(Night, both), Left: pick(crash, held, Budget{Crashes: 2, Pauses: 1})},
		{Name: "compared", Class: plugin.CompareAndSet, Intent: since(Change, there), Left: pick(
			held, Budget{Crashes: 1, Pauses: 1, Drifts: 1}, Budget{Crashes: 2, Pauses: 1, Drifts: 1})},
		{Name: "unguarded", Class: plugin.Unguarded, Intent: since(Change, there), Left: pick(held, all, Budget{Crashes: 2, Pauses: 1, Duplicates: 1, Failures: 1})},
		{Name: "order", Class: plugin.Unguarded, Edge: OrderEdge, Intent: since(Change, both), Left: pick(held, Budget{Crashes: 2, Pauses: 1}, all)},
		{Name: "capacity", Class: plugin.Unguarded, Edge: CapacityEdge, Intent: [][assets]content{{2, 2}, {1, 1}, {3, 3}}, Left: pick(crash, held, all)},
		{Name: "torn", Class: plugin.Unguarded, Edge: CapacityEdge, Grouped: true, Torn: true, Intent: [][assets]content{{2, 1}, {1, 2}}, Left: pick(crash, held, all)},
		{Name: "version", Class: plugin.Unguarded, Edge: VersionEdge, Intent: [][assets]content{{2, 2}, {1, 1}, {3, 3}}, Left: pick(crash, held, all)},
		{Name: "approval", Class: plugin.Fenced, Destroys: true, Intent: [][assets]content{{3, 1}, {2, 1}, {1, 1}}, Left: pick(
			Budget{Failures: 1}, Budget{Crashes: 1, Failures: 1, Pins: 1}, Budget{Crashes: 1, Pauses: 1, Failures: 1, Pins: 1})},
		{Name: "stop", Class: plugin.Unguarded, Intent: since(Change, there), Left: pick(
			Budget{Pauses: 1, Stops: 1}, Budget{Crashes: 1, Pauses: 1, Stops: 1}, Budget{Crashes: 1, Pauses: 1, Stops: 2, Duplicates: 1})},
		{Name: "pin", Class: plugin.Unguarded, EndingPins: true, Intent: [][assets]content{{1, 1}, {2, 0}}, Left: pick(
			Budget{Pins: 1}, Budget{Crashes: 1, Pins: 2}, Budget{Crashes: 1, Pauses: 1, Pins: 2})},
		{Name: "absence", Class: plugin.Unguarded, Intent: [][assets]content{{1, 1}, {2, 0}, {2, 2}}, Left: pick(crash, held, Budget{Crashes: 2, Pauses: 1})},
		{Name: "turndown", Class: plugin.Unguarded, Edge: OrderEdge, Removes: [foreign]bool{3: true},
			Intent: [][assets]content{{1, 1}, {3, 3}, {0, 0}}, Left: pick(crash, held, all)},
		{Name: "budget", Class: plugin.Unguarded, InFlight: 1, Intent: since(Change, both), Left: pick(crash, failing, Budget{Crashes: 2, Pauses: 1, Failures: 1})},
	}
}
