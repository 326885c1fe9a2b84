// Package detector says whether the race detector is at work: everything takes several times
// as long then, and limits of memory mean something else. Only tests import it.
package detector

import "testing"

// Scale is how many assets, rounds or callers a test has: fewer where it is to be short and
// the detector is at work, which looks for something else than limits and amounts.
func Scale(most, few int) int {
	if On && testing.Short() {
		return few
	}
	return most
}

// SkipSequential skips a test that does one thing after the other, and many of them, where
// tests are to be short and the detector is at work: it finds nothing in them.
func SkipSequential(t testing.TB) {
	t.Helper()
	if On && testing.Short() {
		t.Skip("does one thing after the other, for long under the race detector")
	}
}
