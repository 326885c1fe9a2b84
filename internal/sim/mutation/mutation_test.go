package mutation

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheCodeIsAsMutantsFindIt fails when the code moved.
func TestTheCodeIsAsMutantsFindIt(t *testing.T) {
	for _, m := range All {
		if err := m.check(read(t, m.File)); err != nil {
			t.Error(err)
		}
	}
	for _, file := range files(All) {
		if _, err := weaveFile(file, read(t, file), All); err != nil {
			t.Error(err)
		}
	}
}

var (
	name     = regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)
	property = regexp.MustCompile(`^(S([1-9]|1[0-9]|2[0-8])|L([1-9]|1[01]))$`)
	asked    = regexp.MustCompile(`mutant\.On\("([^"]*)"\)`)
)

func TestMutantsSayWhatTheyAre(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All {
		if !name.MatchString(m.Name) || seen[m.Name] {
			t.Errorf("%q is no name, or one that another mutant has", m.Name)
		}
		seen[m.Name] = true
		found := asked.FindAllStringSubmatch(m.New, -1)
		if len(found) == 0 {
			t.Errorf("%s: its New does not ask whether it is on", m.Name)
		}
		for _, match := range found {
			if match[1] != m.Name {
				t.Errorf("%s: its New asks for %s", m.Name, match[1])
			}
		}
		properties := strings.Fields(m.Breaks)
		if len(properties) == 0 || m.Why == "" {
			t.Errorf("%s does not say what it breaks, or why", m.Name)
		}
		for _, p := range properties {
			if !property.MatchString(p) {
				t.Errorf("%s breaks %q, which is no property", m.Name, p)
			}
		}
		if found, ok := Find(m.Name); !ok || found != m {
			t.Errorf("%s is not found by its name", m.Name)
		}
	}
	if _, ok := Find("no-such-one"); ok {
		t.Error("a mutant was found that there is not")
	}
	const least = 45
	if hunted := Hunted(); len(hunted) < least || len(hunted) >= len(All) {
		t.Errorf("%d of %d are to be found, want at least %d, and not all", len(hunted), len(All), least)
	}
}

func TestDefencesAreOfMutants(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Defences {
		if d.Name == "" || seen[d.Name] || !property.MatchString(d.Breaks) {
			t.Errorf("the defence %q has no name of its own, or breaks %q, which is no property", d.Name, d.Breaks)
		}
		seen[d.Name] = true
		if d.Alone == "" != (d.Class == "F" || d.Class == "C") {
			t.Errorf("%s: either a mutant removes it, or it is the target's", d.Name)
		}
		if !slices.Contains([]string{"", "F", "C", "N"}, d.Class) {
			t.Errorf("%s: there is no class %q", d.Name, d.Class)
		}
		for _, name := range append(slices.Clone(d.Siblings), d.Alone) {
			if _, ok := Find(name); !ok && name != "" {
				t.Errorf("%s: there is no mutant %q", d.Name, name)
			}
		}
		if slices.Contains(d.Siblings, d.Alone) {
			t.Errorf("%s is its own sibling", d.Name)
		}
	}
}

// TestEveryDefenceWasTested: each held alone for long enough, and was missed
// soon enough where it was gone.
func TestEveryDefenceWasTested(t *testing.T) {
	const quiet, after = 10, 200
	if len(KnownDefences()) != len(Defences) {
		t.Errorf("%d defences are known to have been tested, and there are %d", len(KnownDefences()), len(Defences))
	}
	for _, d := range Defences {
		s, ok := KnownStood(d.Name)
		if !ok || s.Of != d.Breaks || s.Quiet < quiet || s.Seed == 0 || s.After > after {
			t.Errorf("%s: it was not tested well: %+v; hunt with -defences -write", d.Name, s)
		}
	}
}

// TestWhatHidesIsPaired: a mutant that another defence hides is in a pair with
// it, or nothing would ever show that it does something.
func TestWhatHidesIsPaired(t *testing.T) {
	alone := map[string]bool{}
	for _, d := range Defences {
		for _, name := range append(slices.Clone(d.Siblings), d.Alone) {
			alone[name] = true
		}
	}
	var lonely []string
	for _, m := range All {
		if m.Equivalent != "" && !alone[m.Name] {
			lonely = append(lonely, m.Name)
		}
	}
	known := []string{
		// The key of the store's table.
		"older-pin-wins",
		// The lease: the fences of it are defences of their own. Where two hold
		// it at once, both stage into one place, and no check of a publication
		// keeps what it says apart.
		"publish-ignores-base", "publish-ignores-staging", "stage-ignores-base",
		// The time for which the collector keeps what is not named.
		"collector-ignores-held",
	}
	if diff := cmp.Diff(known, lonely); diff != "" {
		t.Errorf("hidden mutants without a pair (-want +got):\n%s", diff)
	}
}

func TestWeaving(t *testing.T) {
	const source = "// Package p is one.\npackage p\n\nvar a, b = 1, 2\n"
	one := Mutant{Name: "one", File: "p.go", Old: "a, b", New: "c, d"}
	tests := []struct {
		name    string
		mutants []Mutant
		want    string
		fails   string
	}{
		{name: "none of this file", mutants: []Mutant{{Name: "other", File: "q.go", Old: "x"}}, want: "var a, b = 1, 2"},
		{name: "one", mutants: []Mutant{one}, want: "var c, d = 1, 2"},
		{name: "two, in any order", mutants: []Mutant{{Name: "two", File: "p.go", Old: "1, 2", New: "3, 4"}, one}, want: "var c, d = 3, 4"},
		{
			name: "two of one piece nest", want: "var a, b = g(f(1, 2))",
			mutants: []Mutant{{Name: "f", File: "p.go", Old: "1, 2", New: "f(1, 2)"}, {Name: "g", File: "p.go", Old: "1, 2", New: "g(1, 2)"}},
		},
		{
			name: "two of one piece that do not", fails: "does not hold that once",
			mutants: []Mutant{one, {Name: "two", File: "p.go", Old: "a, b", New: "e, f"}},
		},
		{
			name: "overlapping", fails: "mutants one and two replace overlapping pieces",
			mutants: []Mutant{one, {Name: "two", File: "p.go", Old: "b =", New: "e ="}},
		},
		{
			name: "not there", fails: "mutant gone: what it replaces occurs 0 times in p.go, not once: the code moved: adapt the mutant",
			mutants: []Mutant{{Name: "gone", File: "p.go", Old: "z", New: "y"}},
		},
		{
			name: "twice", fails: "occurs 2 times",
			mutants: []Mutant{{Name: "twice", File: "p.go", Old: ", ", New: ","}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			woven, err := weaveFile("p.go", source, test.mutants)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("%v, want %q", err, test.fails)
				}
				return
			}
			want := strings.Replace(source, "var a, b = 1, 2", test.want, 1)
			want = strings.Replace(want, "package p\n", "package p; import \"lehr.dev/internal/sim/mutant\"\n", 1)
			if diff := cmp.Diff(want, woven); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestWovenFilesParse(t *testing.T) {
	for _, file := range files(All) {
		woven, err := weaveFile(file, read(t, file), All)
		if err != nil {
			continue // TestTheCodeIsAsMutantsFindIt says so.
		}
		if _, err := parser.ParseFile(token.NewFileSet(), file, woven, parser.SkipObjectResolution); err != nil {
			t.Error(err)
		}
	}
}
