package written_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/document/written"
	"lehr.dev/internal/ground/fault"
)

// edit carries operations out on a file: "PATH=JSON", or "-PATH".
func edit(t testing.TB, name, text string, operations ...string) (string, error) {
	t.Helper()
	value, err := written.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var list []document.Operation
	for _, o := range operations {
		path, to, set := strings.Cut(o, "=")
		if !set {
			list = append(list, document.Operation{Path: strings.TrimPrefix(o, "-")})
			continue
		}
		list = append(list, document.Operation{Path: path, Value: json.RawMessage(to)})
	}
	content, err := document.Apply(document.Canonical(value), list)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := document.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	edited, err := written.Edit(name, []byte(text), wanted)
	return string(edited), err
}

// Each case is a file of testdata: the name and operations, the text, and what
// is to come of it, or "refused: WHY".
func TestEdit(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range strings.Split(string(text), "=====\n")[1:] {
				head, rest, _ := strings.Cut(c, "\n-----\n")
				before, after, _ := strings.Cut(rest, "-----\n")
				fields := strings.Split(head, "\n")
				got, err := edit(t, fields[0], before, fields[1:]...)
				if says, ok := strings.CutPrefix(after, "refused: "); ok {
					if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), strings.TrimSpace(says)) {
						t.Errorf("%s: %q, %v, want that it is refused for %s", head, got, err, says)
					}
					continue
				}
				if diff := cmp.Diff(after, got); err != nil || diff != "" {
					t.Errorf("%s: %v:\n%s", head, err, diff)
				}
			}
		})
	}
}

func TestLineEndsStay(t *testing.T) {
	got, err := edit(t, "a.yaml", "a: 1\r\nb:\r\n  c: 2\r\n", "/b/d=[1]", "/a=2", "/e=3")
	if want := "a: 2\r\nb:\r\n  c: 2\r\n  d:\r\n    - 1\r\ne: 3\r\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	got, err = edit(t, "a.yaml", "a: 1 # no newline", "/b=2")
	if want := "a: 1 # no newline\nb: 2"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	got, err = edit(t, "a.json", "{\n\t\"a\": 1\n}\n", "/b={\"c\":1}")
	if want := "{\n\t\"a\": 1,\n\t\"b\": {\n\t\t\"c\": 1\n\t}\n}\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPrint(t *testing.T) {
	value, err := document.Parse([]byte(`{"a":{"b":[1,{"c":"x: y","d":[]}]},"e":"yes"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "a:\n  b:\n    - 1\n    - c: \"x: y\"\n      d: []\ne: \"yes\"\n"
	if got := string(written.Print("a.yaml", value)); got != want {
		t.Errorf("%s", got)
	}
}

func TestRefused(t *testing.T) {
	for name, text := range map[string]string{
		"two documents": "a: 1\n---\nb: 2\n", "nothing": "", "comments only": "# nothing\n", "twice": "a: 1\na: 2\n", "merge": "x: &a {b: 1}\ny:\n  <<: *a\n",
		"infinite": "a: .inf\n", "binary": "a: !!binary aGk=\n", "tag": "a: !mine x\n", "mark": "\ufeffa: 1\n", "laughs": laughs(), "own alias": "a: &a [*a]\n",
		"deep": strings.Repeat("[", 100) + strings.Repeat("]", 100), "malformed": "a: [\n",
	} {
		if value, err := written.Parse("a.yaml", []byte(text)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "mend the file") {
			t.Errorf("%s: %v, %v", name, value, err)
		}
	}
}

func laughs() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		alias := strings.Repeat("*a"+string(rune('0'+i))+", ", 9)
		text += "a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + alias + "x]\n"
	}
	return text
}
