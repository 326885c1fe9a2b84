package spell

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"calls", "bytes", "replicas", "replies", "id", "join"}
	for name, want := range map[string]string{
		"cals": "calls", "CALLS": "calls", "replcas": "replicas", "byte": "bytes", "repliees": "replies",
		"ID": "id", "di": "id", "xy": "", "Job": "", "clals": "calls", "": "", "throughput": "", "callings": "", strings.Repeat("calls", 30): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"kitten", "sitting"}: 3, {"flaw", "lawn"}: 2, {"Same", "sAME"}: 0, {"wbe", "web"}: 1, {"ab", "ba"}: 1, {"abcd", "badc"}: 2, {"ca", "abc"}: 3,
	} {
		if got := Distance(pair[0], pair[1]); got != want {
			t.Errorf("%q: %d, want %d", pair, got, want)
		}
	}
}
