//go:build !race

package native

const raceRoom = 0
