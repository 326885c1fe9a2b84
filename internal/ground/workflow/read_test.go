package workflow

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// TestRead: what is wrong is told with its line and what to do.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		line     int
		want     string
	}{
		"a key":               {"initial:", "intial:", 5, "is initial meant?"},
		"a key at the top":    {"name: small", "nam: small", 2, "is name meant?"},
		"a kind":              {"task: {asset: task/build}", "taks: {asset: task/build}", 7, "is task meant?"},
		"two kinds":           {"task: {", "wait: {for: 3h}, task: {", 7, "has 2 kinds"},
		"how often":           {"runs: at-most-once, ", "", 7, "does not say how often"},
		"how often, misspelt": {"at-most-once", "at-most-onc", 7, "is at-most-once meant?"},
		"a duration":          {"10m", "10 minutes", 7, "no duration"},
		"an initial state":    {"initial: building", "initial: biulding", 4, "is building meant?"},
		"a state to go to":    {"to: built", "to: buitl", 11, "is built meant?"},
		"a state to go from":  {"{from: building, to: built", "{from: [building, biulding], to: built", 11, "is building meant?"},
		"an outcome":          {"on: done}", "on: don}", 11, "is done meant?"},
		"an outcome never":    {"on: done}", "on: approved}", 11, "is never approved"},
		"no timeout":          {"timeout: 10m, ", "", 12, "with timeout: also expired"},
		"no action":           {"from: building, to: built", "from: failed, to: built", 11, "has no action"},
		"a type":              {"image: string", "image: strings", 7, "is string meant?"},
		"a guard":             {"on: done}", `on: done, when: 'machines.biuld == "built"'}`, 11, "is machines.build meant?"},
		"a guard's state":     {"on: done}", `on: done, when: 'machines.build == "buitl"'}`, 11, "is built meant?"},
		"a guard's output":    {"on: done}", `on: done, when: 'outputs.build.imgae == "x"'}`, 11, "is outputs.build.image meant?"},
		"an input":            {"on: done}", `on: done, when: 'inputs.version == "x"'}`, 11, "inputs"},
		"no truth":            {"on: done}", `on: done, when: outputs.build.image}`, 11, "not a truth value"},
		"a machine's name":    {"on: done}", `on: done, when: 'machines.build.startsWith("b")'}`, 11, "cannot be checked"},
		"a placeholder":       {"task/build", "'task/${inputs.version}'", 7, "is not declared"},
		"a reserved name":     {"  build:", "  in:", 4, "word of the expressions"},
		"a name":              {"  build:", "  Build:", 4, "no name of a machine"},
		"a key twice":         {"name: small", "name: small\nname: other", 3, "already defined"},
		"two documents":       {"workflow: v1", "workflow: v1\n---\nworkflow: v1", 2, ""},
		"no version":          {"workflow: v1", "workflow: v2", 1, "v2"},
		"a tag":               {"name: small", "name: !env small", 2, "the tag !env"},
		"null":                {"initial: building", "initial:", 5, "is no text"},
	} {
		d, findings := Read("test.yaml", []byte(strings.Replace(small, c.old, c.new, 1)))
		if d != nil || len(findings) == 0 {
			t.Errorf("%s: it is read", name)
			continue
		}
		f := findings[0]
		if f.Line != c.line || !strings.Contains(f.Message+" "+f.Hint, c.want) || f.Severity != intent.Error || f.File != "test.yaml" {
			t.Errorf("%s: line %d: %s (%s), want line %d: %s", name, f.Line, f.Message, f.Hint, c.line, c.want)
		}
	}
}

// Every name of a type that a hint gives is one that is read, and one mistake is told once.
func TestTypesThatAreNamedAreRead(t *testing.T) {
	for _, name := range strings.FieldsFunc(typeNames, func(r rune) bool { return r == ',' || r == ' ' }) {
		if name == "or" {
			continue
		}
		if _, findings := Read("test.yaml", []byte(strings.Replace(small, "name: small", "name: small\ninputs: {given: "+name+"}", 1))); len(severe(findings, intent.Error)) > 0 {
			t.Errorf("type %s: %v", name, findings)
		}
	}
	for input, hint := range map[string]string{"{type: boolean, default: false}": "string, int, number, bool", "{default: x}": typeNames} {
		_, findings := Read("test.yaml", []byte(strings.Replace(small, "name: small", "name: small\ninputs: {given: "+input+"}", 1)))
		if len(findings) != 1 || !strings.Contains(findings[0].Hint, hint) {
			t.Errorf("%s: %v", input, findings)
		}
	}
}

func TestReadActions(t *testing.T) {
	for action, want := range map[string]string{
		"{ask: {url: 'ftp://x/y'}, runs: at-least-once}":                                              "no address",
		"{ask: {url: 'https://${inputs.host}/y'}, runs: at-least-once}":                               "no address",
		"{ask: {url: 'https://me:you@x/y'}, runs: at-least-once}":                                     "no address",
		"{ask: {url: 'https://x/y', body: b}, runs: at-least-once}":                                   "no key",
		"{tell: {url: 'https://x/y', method: GET}, runs: at-least-once}":                              "method",
		"{wait: {for: 3h, until: '2026-11-28T08:00:00Z'}}":                                            "either for or until",
		"{wait: {until: tomorrow}}":                                                                   "no time",
		"{wait: {for: 3h}, timeout: 4h}":                                                              "leave timeout out",
		"{wait: {for: 3h}, runs: at-least-once}":                                                      "leave runs out",
		"{person: {question: Really}}":                                                                "names no roles",
		"{person: {question: Really, roles: [approver], quorum: 0}}":                                  "from 1 to 100",
		"{person: {question: Really, roles: [approver]}, outputs: {x: string}}":                       "leave outputs out",
		"{ask: {url: 'https://x/y'}, runs: at-least-once, leaves: x}":                                 "changes nothing",
		"{person: {question: Really, roles: [aprover]}}":                                              "is approver meant?",
		"{edit: {document: web, field: image, value: x}, runs: at-least-once}":                        "write it like /clusters/a/version",
		"{edit: {document: web, field: /image, value: x}, runs: at-least-once, outputs: {a: string}}": "tells no outputs",
		"{edit: {document: web, field: /image}, runs: at-least-once}":                                 "has no value",
		"{task: {asset: a, document: b}, runs: at-least-once}":                                        "in part",
		"{}": "has 0 kinds",
	} {
		text := "workflow: v1\nname: x\nmachines:\n  m:\n    initial: a\n    states:\n      a:\n        action: " + action + "\n      b: {end: success}\n    transitions: [{from: a, to: b, on: done}]\n"
		d, findings := Read("test.yaml", []byte(text))
		if d != nil || len(findings) == 0 {
			t.Errorf("%s is read", action)
		} else if f := findings[0]; f.Line != 8 || !strings.Contains(f.Message+" "+f.Hint, want) {
			t.Errorf("%s: line %d: %s (%s), want %s", action, f.Line, f.Message, f.Hint, want)
		}
	}
}

// TestUnawaitedAction: the end of the run would cut it off.
func TestUnawaitedAction(t *testing.T) {
	_, findings := Read("test.yaml", []byte(strings.NewReplacer(", on: done", "", ", on: [failed, expired, unknown]", "").Replace(small)))
	if len(findings) != 1 || findings[0].Line != 7 || !strings.Contains(findings[0].Message, "no transition awaits the action of build/building") {
		t.Errorf("found %+v", findings)
	}
}

// TestDigest: what a definition says is its version, and comments are not.
func TestDigest(t *testing.T) {
	first := must(t, small)
	if must(t, "# a comment\n"+small).Digest() != first.Digest() {
		t.Error("a comment changes the digest")
	}
	if must(t, strings.Replace(small, "10m", "11m", 1)).Digest() == first.Digest() {
		t.Error("another timeout has the same digest")
	}
	if !strings.HasPrefix(first.Digest(), "sha256:") {
		t.Error(first.Digest())
	}
}

func FuzzRead(f *testing.F) {
	f.Add(small)
	f.Fuzz(func(t *testing.T, text string) {
		if d, findings := Read("test.yaml", []byte(text)); d != nil {
			d.Check(50)
		} else if len(findings) == 0 {
			t.Error("it is not read, and nothing is wrong")
		}
	})
}
