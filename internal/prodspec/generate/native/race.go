//go:build race

package native

// raceRoom is what a stage with the race detector needs beside its limit, until it becomes
// the program.
const raceRoom = 1 << 30
