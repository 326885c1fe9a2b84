package server

import "testing"

// TestPlaceInJSON: protojson varies its spaces from build to build.
func TestPlaceInJSON(t *testing.T) {
	for _, said := range []string{"proto: (line 1:2): unknown", "proto:\u00a0(line 1:2):\u00a0unknown", "proto:\u00a0syntax error\u00a0(line 1:2): unknown"} {
		if got := place.ReplaceAllString(said, "line $1, column $2: "); got != "line 1, column 2: unknown" {
			t.Errorf("%q became %q", said, got)
		}
	}
}
