package kargo

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/Masterminds/semver/v3"
)

// TestRangesLetInWhatKargoLetsIn compares with the library that Kargo compares with.
func TestRangesLetInWhatKargoLetsIn(t *testing.T) {
	var versions []string
	numbers := []int{0, 1, 2, 3, 8, 9, 10, 11, 12, 19, 20, 26, 27, 99, 100, 101, 120, 999, 1000}
	for _, major := range []int{0, 1, 2, 3, 10} {
		for _, minor := range numbers {
			for _, patch := range numbers {
				versions = append(versions, fmt.Sprintf("%d.%d.%d", major, minor, patch))
			}
		}
	}
	versions = append(versions, "1.27.0-rc.1", "2.0.0-alpha", "v1.26.3", "1.26.3+build.7")
	for _, constraint := range []string{
		"^1.26.0", "^1", "^0.2.3", "^0.0.3", "^0", "~1.26.2", "~1.26", "~1", "~0.1", ">=1.0.0", ">1.26.0", ">1.26", "<2.0.0", "<=1.26", "<=1.26.3", "1.26.x", "1.x", "*", "1.26.3", "=1.26.3",
		">=1.2.3 <2.0.0", ">=1.2.3, <1.26.9", ">= 1.19, < 10.1", "^1.26.0 || ^3.0.0", "v1.26.0 || >=10", "^1.26.0-0", ">=0.0.0-0", "~2.99.100", "^10.100.1000", ">=1.11.27 <=1.120.8",
	} {
		pattern, err := rangePattern(constraint)
		if err != nil {
			t.Errorf("%s: %v", constraint, err)
			continue
		}
		whole := regexp.MustCompile("^(?:" + pattern + ")$")
		oracle, err := semver.NewConstraint(constraint)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range versions {
			version, err := semver.NewVersion(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := whole.MatchString(text), oracle.Check(version); got != want {
				t.Errorf("%s of %s: %t, and Kargo says %t by %s", text, constraint, got, want, pattern)
				break
			}
		}
	}
	for _, constraint := range []string{"", "latest", "!=1.2.3", "1.2.3 - 2.0.0", "^1.2.3-rc.1", ">2.0.0 <1.0.0", "^1.2.3 ||", ">=1.0.0 newest", "^99999999999999999999"} {
		if pattern, err := rangePattern(constraint); err == nil {
			t.Errorf("%q is taken, as %s", constraint, pattern)
		}
	}
}

func TestNumbersMatchTheirRange(t *testing.T) {
	for from := range 130 {
		for to := from; to < 260; to += 7 {
			whole := regexp.MustCompile("^(?:" + numbers(from, to) + ")$")
			for n := range 300 {
				if got := whole.MatchString(fmt.Sprint(n)); got != (n >= from && n <= to) {
					t.Fatalf("%d of %d to %d: %t by %s", n, from, to, got, whole)
				}
			}
		}
	}
}
