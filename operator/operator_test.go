package operator_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/fault"
	"lehr.dev/operator"
)

type list struct {
	Version string              `yaml:"things"`
	Things  []string            `yaml:"list"`
	For     operator.Partitions `yaml:"partitions"`
}

var kind = operator.Kind{Name: "list of things", Key: "things", Flag: "the-things", Page: "docs/things.md"}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "things.yaml")
	for text, want := range map[string]string{
		"things: v1\nlist: [a]\n":               "",
		"things: v2\nlist: [a]\n":               "no list of things of version v1",
		"list: [a]\n":                           "no list of things of version v1",
		"things: v1\nlits: [a]\n":               "field lits not found",
		"things: v1\nlist: [a]\nlist: [b]\n":    "already defined",
		"things: v1\nlist: {a: b}\n":            "is no list of things",
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
	e, is := errors.AsType[*fault.Error](err)
	return is && strings.Contains(e.Hint, text)
}
