//go:build race

package detector

// On: the program has the race detector.
const On = true
