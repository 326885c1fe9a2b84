package operator_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/operator"
)

type list struct {
	Version string              `yaml:"things"`
	Things  []string            `yaml:"list"`
	For     operator.Partitions `yaml:"partitions"`
	limits  `yaml:",inline"`
	Most    *most `yaml:"most"`
}

type limits struct {
	On       bool                `yaml:"on"`
	Networks []netip.Prefix      `yaml:"networks"`
	By       map[string][]string `yaml:"by"`
}

type most struct {
	Bytes int `yaml:"bytes"`
}

var kind = operator.Kind{Name: "list of things", Key: "things", Flag: "the-things", Page: "docs/things.md"}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "things.yaml")
	for text, want := range map[string]string{
		"things: v1\nlist: [a]\n":                 "",
		"things: v2\nlist: [a]\n":                 "no list of things of version v1",
		"list: [a]\n":                             "no list of things of version v1",
		"things: v1\nlits: [a]\n":                 `things.yaml:2: unknown key "lits"`,
		"things: v1\nlist: [a]\nlist: [b]\n":      "already defined",
		"things: v1\nlist: {a: b}\n":              "things.yaml:2: list is a mapping, not a list",
		"things: v1\nlist: [a, [b]]\n":            "things.yaml:2: list[1] is a list, not a text",
		"things: v1\npartitions: a\n":             "things.yaml:2: partitions is \"a\", not a list",
		"things: v1\nmost: {bytes: many}\n":       "things.yaml:2: most.bytes is \"many\", not a whole number",
		"things: v1\nmost: {byte: 3}\n":           "things.yaml:2: unknown key \"most.byte\"",
		"things: v1\nnetworks: [10.0.0.0/99]\n":   "things.yaml:2: networks[0] is \"10.0.0.0/99\", not",
		"things: v1\non: \"true\"\n":              "things.yaml:2: on is \"true\", not true or false",
		"things: v1\nmost: {bytes: 3}\non: yes\n": "things.yaml:3: on is",
		"things: v1\nmost: {bytes: 3}\non: true\nnetworks: [10.0.0.0/8]\nby: {a: [x]}\n": "",
		"things: v1\nby: {a: x}\n":              "things.yaml:2: by.a is \"x\", not a list",
		"[things]":                              "things.yaml:1: the file is a list, not a mapping",
		"":                                      "is no list of things",
		"things: v1\n---\nthings: v1\n":         "more than one document",
		"things: v1\nlist: !include x.yaml\n":   "the tag !include is not known",
		"things: v1\nlist: [!vault a]\n":        "the tag !vault is not known",
		"things: v1\nlist: [a]\n---\nlist: [\n": "more than one document",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := operator.Read(path, kind, &list{})
		if want == "" && err != nil || want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := operator.Read(path+".gone", kind, &list{}); !fault.Is(err, fault.Unavailable) || !hinted(err, "--the-things") {
		t.Errorf("what is not there: %v", err)
	}
}

// TestNoPipeIsWaitedFor: whoever reads a list would wait for ever for its writer.
func TestNoPipeIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := operator.Read(path, kind, &list{}); err == nil || !strings.Contains(err.Error(), "is a named pipe") {
		t.Error(err)
	}
}

func TestPartitions(t *testing.T) {
	for _, wrong := range []operator.Partitions{nil, {}, {"Not A Name"}, {"shop", ""}} {
		if wrong.Check() == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	some, all := operator.Partitions{"shop", "web"}, operator.Partitions{"*"}
	if some.Check() != nil || all.Check() != nil {
		t.Error("names, and all, are refused")
	}
	if !some.Has("web") || some.Has("other") || some.Has("*x") || !all.Has("other") {
		t.Error("they have others than they name")
	}
}

func hinted(err error, text string) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && strings.Contains(e.Hint, text)
}
