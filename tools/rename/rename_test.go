package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// house writes a module and returns it loaded.
func house(t *testing.T, texts map[string]string) *code {
	t.Helper()
	folder := t.TempDir()
	texts["go.mod"] = "module house\n\ngo 1.26\n"
	for name, text := range texts {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const ward = `package ward

// ward is a scope's places.
type ward struct {
	of, left int
	more     map[string]int
}

// Saw notes a number.
func (w *ward) Saw(by map[string]int, key string) bool {
	n, is := by[key]
	_, left := w.more[key]
	if n, there := by["other"]; there {
		w.left = n
	}
	var told any = n
	switch told := told.(type) {
	case int:
		w.of = told
	}
	return is && left
}

type big struct{ ward }

func query(which string) string { return "SELECT * FROM t WHERE " + which + " ORDER BY n" }

// of is prose above another.
type other struct{ more int }

func (b big) size() int { return b.ward.of }
`

const wardTest = `package ward

import "testing"

func TestWard(t *testing.T) {
	w := ward{of: 1}
	w.Saw(nil, "")
}
`

const mutants = `package mutation

type Mutant struct{ Name, File, Old, New string }

var all = []Mutant{
	{Name: "a", File: "ward/ward.go", Old: "w.left = n", New: "if !on() {\n\t\t\tw.left = n + len(key)\n\t\t}"},
	{Name: "b", File: "ward/ward.go", Old: ` + "`return is &&`" + `, New: ` + "`return is || on() &&`" + `},
	{Name: "d", File: "ward/ward.go", Old: "_, left := w.more[key]", New: "_, left := w.more[key+on()]"},
	{Name: "e", File: "ward/ward.go", Old: "WHERE \" + which + \" ORDER", New: "WHERE \" + on() + which + \" ORDER"},
	{Name: "c", File: "ward/ward.go", Old: "b.ward.of }", New: "b.ward.of + 1 }"},
}
`

func moved(t *testing.T, c *code, chosen renames) (map[string]string, carried) {
	t.Helper()
	if err := c.addModules(chosen); err != nil {
		t.Fatal(err)
	}
	changed := c.apply(chosen)
	told, err := c.carryMutants("mutation", chosen, changed)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.verify(changed); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, text := range changed {
		texts[c.relative(name)] = string(text)
	}
	return texts, told
}

func TestNamesAreRenamedEverywhereAndInMutants(t *testing.T) {
	c := house(t, map[string]string{"ward/ward.go": ward, "ward/ward_test.go": wardTest, "mutation/mutants.go": mutants, "open/open.go": "package open\n\ntype Door struct{ Of int }\n",
		"other/go.mod":   "module house/other\n\ngo 1.26\n\nrequire house v0.0.0\n\nreplace house => ../\n",
		"other/other.go": "package other\n\nimport \"house/open\"\n\nvar door = open.Door{Of: 1}\n",
		"third/go.mod":   "module house/third\n\ngo 1.26\n\nrequire example.invalid/none v1.0.0\n",
		"third/third.go": "package third\n",
	})
	chosen := renames{}
	problems := c.choose(chosen, strings.Split(`# a comment
ward/ward.go ward budget
ward/ward.go ward.of size
ward/ward.go query/which condition
ward/ward.go ward.left free
ward/ward.go ward.more left
ward/ward.go ward.Saw Record
ward/ward.go ward.Saw/by counts
ward/ward.go ward.Saw/told value
ward/ward.go ward.Saw/key name
open/open.go Door.Of Width`, "\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c.chooseLookups(chosen, []string{"./..."})
	texts, told := moved(t, c, chosen)
	code := texts["ward/ward.go"]
	for _, want := range []string{
		"// budget is a scope's places.\ntype budget struct {\n\tsize, free int\n\tleft       map[string]int\n}", "// Record notes a number.\nfunc (w *budget) Record(counts map[string]int, name string) bool {",
		"n, ok := counts[name]", `if n, ok := counts["other"]; ok {`, "switch value := value.(type) {", "w.size = value", "return ok && left",
		"type big struct{ budget }", "// of is prose above another.", "return b.budget.size }",
	} {
		if !strings.Contains(code, want) {
			t.Errorf("no %q in:\n%s", want, code)
		}
	}
	if text := texts["ward/ward_test.go"]; !strings.Contains(text, "budget{size: 1}") || !strings.Contains(text, `w.Record(nil, "")`) {
		t.Errorf("the test is:\n%s", text)
	}
	if text := texts["other/other.go"]; !strings.Contains(text, "open.Door{Width: 1}") {
		t.Errorf("the other module has:\n%s", text)
	}
	for _, want := range []string{`WHERE \" + on() + condition + \" ORDER`, `Old: "w.free = n"`, `w.free = n + len(name)`, "Old: `return ok &&`, New: `return ok || on() &&`", `Old: "b.budget.size }", New: "b.budget.size + 1 }"`} {
		if !strings.Contains(texts["mutation/mutants.go"], want) {
			t.Errorf("no %q in:\n%s", want, texts["mutation/mutants.go"])
		}
	}
	if told.all != 5 || told.changed != 5 || len(told.doubts) > 0 {
		t.Errorf("%+v", told)
	}
}

func TestNothingComesToMeanSomethingElse(t *testing.T) {
	for name, c := range map[string]struct{ code, list string }{
		"hides what is used": {"package a\n\nvar size = 1\n\nfunc f(of int) int { return of + size }\n", "a/a.go f/of size"},
		"is hidden":          {"package a\n\nvar of = 1\n\nfunc f(size int) int { return of + size }\n", "a/a.go of size"},
		"twice":              {"package a\n\nfunc f(of, size int) int { return of + size }\n", "a/a.go f/of size"},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := house(t, map[string]string{"a/a.go": c.code})
			chosen := renames{}
			if problems := c1.choose(chosen, []string{c.list}); len(problems) > 0 {
				t.Fatal(problems)
			}
			if err := c1.verify(c1.apply(chosen)); err == nil {
				t.Error("it was renamed")
			}
		})
	}
}

func TestWhatIsSeenOutsideKeepsItsName(t *testing.T) {
	c := house(t, map[string]string{
		"a/a.go":      "package a\n\ntype A struct {\n\tOf int\n\tTold int `json:\"told\"`\n}\n\ntype B struct{ Left, Right int }\n",
		"a/page.html": "{{.Left}}",
	})
	chosen := renames{}
	problems := c.choose(chosen, []string{"a/a.go A.Of Count", "a/a.go A.Told Said", "a/a.go B.Left Free", "a/a.go B.Right Used", "a/a.go B.Gone Used", "a/b.go B Used", "a/a.go B"})
	if len(problems) != 5 || len(chosen) != 2 {
		t.Errorf("%q, %v", problems, chosen)
	}
}

func TestOkIsGivenOnlyWhereItIsFree(t *testing.T) {
	c := house(t, map[string]string{"a/a.go": `package a

func f(m map[int]int) bool {
	_, ok := m[1]
	_, is := m[2]
	if _, there := m[3]; there {
		return ok
	}
	if _, there := m[4]; there {
		return is
	}
	_, expired := m[5]
	return expired
}
`})
	chosen := renames{}
	c.chooseLookups(chosen, []string{"./a"})
	text := string(c.apply(chosen)[c.names()[0]])
	if !strings.Contains(text, "_, is := m[2]") || !strings.Contains(text, "_, there := m[3]") || !strings.Contains(text, "_, ok := m[4]; ok") || !strings.Contains(text, "_, expired") {
		t.Error(text)
	}
}
