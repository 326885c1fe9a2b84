package ordering

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The versions that semver.org gives as examples of valid ones, and of ones that are not.
const (
	validSemver = `0.0.4 1.2.3 10.20.30 1.1.2-prerelease+meta 1.1.2+meta 1.1.2+meta-valid 1.0.0-alpha 1.0.0-beta
1.0.0-alpha.beta 1.0.0-alpha.beta.1 1.0.0-alpha.1 1.0.0-alpha0.valid 1.0.0-alpha.0valid
1.0.0-alpha-a.b-c-somethinglong+build.1-aef.1-its-okay 1.0.0-rc.1+build.1 2.0.0-rc.1+build.123 1.2.3-beta
10.2.3-DEV-SNAPSHOT 1.2.3-SNAPSHOT-123 1.0.0 2.0.0 1.1.7 2.0.0+build.1848 2.0.1-alpha.1227 1.0.0-alpha+beta
1.2.3----RC-SNAPSHOT.12.9.1--.12+788 1.2.3----R-S.12.9.1--.12+meta 1.2.3----RC-SNAPSHOT.12.9.1--.12
1.0.0+0.build.1-rc.10000aaa-kk-0.1 99999999999999999999999.999999999999999999.99999999999999999 1.0.0-0A.is.legal`
	invalidSemver = `1 1.2 1.2.3-0123 1.2.3-0123.0123 1.1.2+.123 +invalid -invalid -invalid+invalid -invalid.01 alpha alpha.beta
alpha.beta.1 alpha.1 alpha+beta alpha_beta alpha. alpha.. beta 1.0.0-alpha_beta -alpha. 1.0.0-alpha.. 1.0.0-alpha..1
1.0.0-alpha...1 01.1.1 1.01.1 1.1.01 1.2.3.DEV 1.2-SNAPSHOT 1.2.31.2.3----RC-SNAPSHOT.12.09.1--..12+788 1.2-RC-SNAPSHOT
-1.0.3-gamma+b7718 +justmeta 9.8.7+meta+meta 9.8.7-whatever+meta+meta
99999999999999999999999.999999999999999999.99999999999999999----RC-SNAPSHOT.12.09.1--------------------------------..12`
)

func TestSemverTakesWhatTheSpecificationTakes(t *testing.T) {
	for _, text := range strings.Fields(validSemver) {
		if !IsSemver(text) {
			t.Errorf("%s is a version", text)
		}
	}
	for _, text := range append(strings.Fields(invalidSemver), "", "v1.2.3", "1.2.3\n", "1.0.0-", "1.0.0+") {
		if IsSemver(text) {
			t.Errorf("%s is no version", text)
		}
	}
}

// TestSemverPrecedence holds the order of semver.org, 11: each comes before the next.
func TestSemverPrecedence(t *testing.T) {
	chain := strings.Fields(`1.0.0-1 1.0.0-2 1.0.0-10 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11
1.0.0-rc.1 1.0.0 1.0.1 1.9.0 1.10.0 1.11.0 2.0.0 2.1.0 2.1.1 99999999999999999999999.0.0 100000000000000000000000.0.0`)
	holdChain(t, chain, CompareSemver)
	if CompareSemver("1.0.0+a", "1.0.0+b") != 0 {
		t.Error("metadata counts for nothing")
	}
}

// TestDebianPrecedence holds chains of which dpkg says that each comes before the next, and
// pairs that it calls equal (deb-version(7), and what dpkg's own tests compare).
func TestDebianPrecedence(t *testing.T) {
	for _, chain := range []string{
		"2.2~rc-4 2.2-1", "1.0-1 2.0-2", "1:7.5 2:2.5", "0foo 1:0foo", "0foo~~ 0foo~ 0foo~1 0foo 0foo+", "0fo 0foo",
		"0foo~foo+Bar 0foo~foo+bar", "1~ 1 1a 1000a", "12345+that-really-is-some-ver-0 12345+that-really-is-some-ver-10",
		"0foo-0 0foo-01", "0foo1bar 0foobar 0foo.bar", "0foo0bar 0foo.bar", "0foo1bar-1 0foobar-1", "0foo2 0foo2.0 0foo2.0.0 0foo2.1 0foo2.10", "0foo2.0.0 0foo2.10.0",
		"1.0.8 1.0.8+nmu1", "3.10+nmu1 3.11", "0.9i-20070324-2 0.9j-20080306-4", "1.2.0~b6-1 1.2.0~b7-1", "1.06-2 1.011-1", "0.0.8+dfsg1-3 0.0.9+dfsg1-1",
		"4.6.99+svn6496-1 4.6.99+svn6582-1", "52 53", "0.9.9~pre111-1 0.9.9~pre122-1", "2:2.3.2-2 2:2.3.2-2+lenny2", "3.8.GA-1 1:3.8.1-1", "1.0.1-2 1.0.1+gpl-1",
	} {
		holdChain(t, strings.Fields(chain), CompareDebian)
	}
	for _, pair := range []string{"1.0000-1 1.0-1", "1 0:1", "0 0:0-0", "0:0foo 0foo", "0foo- 0foo", "0foo- 0foo-0", "1.09 1.9", "00:1 1"} {
		a, b, _ := strings.Cut(pair, " ")
		if CompareDebian(a, b) != 0 || CompareDebian(b, a) != 0 {
			t.Errorf("%s and %s are equal", a, b)
		}
	}
	for text, want := range map[string]bool{
		"1.0-1": true, "1:1.0": true, "0": true, "1.0-1-2": true, "1:1:2-3": true, "2.0~rc1+dfsg-1ubuntu2": true,
		"": false, "10a:5.2": false, "5.2@3-2": false, "foo5.2": false, "0:foo5.2": false, "1.0-": false, ":1": false, "1.0_2": false, "1:": false,
		"+2:8-0": false, "-0:8": false,
	} {
		if IsDebian(text) != want {
			t.Errorf("%q is a version: %t", text, !want)
		}
	}
}

func holdChain(t *testing.T, chain []string, compare func(a, b string) int) {
	t.Helper()
	for i, a := range chain {
		for j, b := range chain {
			got := compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
}

// Versions are ordered, and told from what is none, as dpkg itself does it.
func TestDebianOrderIsThatOfDpkg(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("dpkg is not installed")
	}
	text := rapid.StringMatching(`([0-2]:)?[0-9]{1,2}[0-9a-b.+~]{0,6}(-[0-9a-b.+~]{1,3})?`)
	odd := rapid.StringMatching(`[0-9a:.~+_-]{1,6}`)
	held, failed := 0, false
	rapid.Check(t, func(t *rapid.T) {
		// Each draw takes three processes, so a hundred are enough. After a failure none is skipped:
		// rapid repeats the failing draw and draws smaller ones, and would call the failure flaky.
		if held >= 100 && !failed {
			return
		}
		fail := func(format string, values ...any) {
			failed = true
			t.Fatalf(format, values...)
		}
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		want := 0
		for operator, sign := range map[string]int{"lt": -1, "gt": 1} {
			if exec.Command(dpkg, "--compare-versions", a, operator, b).Run() == nil {
				want = sign
			}
		}
		if got := CompareDebian(a, b); got != want {
			fail("%s and %s: %d, want %d", a, b, got, want)
		}
		// dpkg reads the epoch with strtol, which takes a sign. Debian's policy calls the epoch an
		// unsigned integer, and IsDebian goes by the policy, so such texts are left out.
		any := odd.Filter(func(text string) bool { return !signedEpoch.MatchString(text) }).Draw(t, "any")
		if valid := exec.Command(dpkg, "--validate-version", any).Run() == nil; IsDebian(any) != valid {
			fail("dpkg says that %s is a version: %t", any, valid)
		}
		held++
	})
}

// signedEpoch matches texts whose epoch has a sign.
var signedEpoch = regexp.MustCompile(`^[+-][0-9]+:`)
