//go:build !race

package generate

const raceRoom, raceWritten = 0, 0

// RaceEnvironment is for programs with the race detector: children of others have an empty
// environment.
func RaceEnvironment() []string { return nil }
