package generator

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// play runs a generator in a folder with files.
func play(t *testing.T, job string, files map[string]string, generate func(*Input, *Output) error) (string, error) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	var out bytes.Buffer
	err := run(strings.NewReader(strings.ReplaceAll(job, "FOLDER", folder)), &out, generate)
	return out.String(), err
}

// TestLines: assets and findings, with their places, and an end that counts; the
// same bytes in every build.
func TestLines(t *testing.T) {
	said, err := play(t, `{"partition":"shop","generator":"web","file":"in/a.yaml","later":1}`, map[string]string{"in/a.yaml": "a", "b.yaml": "b"}, func(in *Input, out *Output) error {
		files, err := in.Files()
		if err != nil || !slices.Equal(files, []string{"b.yaml", "in/a.yaml"}) {
			t.Errorf("files %v (%v)", files, err)
		}
		text, err := in.Read(in.File())
		if err != nil || string(text) != "a" || in.Partition() != "shop" || in.Generator() != "web" {
			t.Errorf("read %q (%v) for %s/%s", text, err, in.Partition(), in.Generator())
		}
		payload, err := structpb.NewStruct(map[string]any{"b": 1, "a": "x"})
		if err != nil {
			return err
		}
		out.At("in/a.yaml", 3).Asset("x/y", payload, &intentpb.Owner{Owner: "ann"})
		out.Warn("do it", "%d of %d", 1, 2)
		return nil
	})
	want := `{"asset":{"id":"x/y","payload":{"@type":"type.googleapis.com/google.protobuf.Struct","value":{"a":"x","b":1}},"addons":[{"@type":"type.googleapis.com/lehr.intent.v1.Owner","owner":"ann"}]},"from":{"file":"in/a.yaml","line":3}}
{"finding":{"severity":"SEVERITY_WARNING","message":"1 of 2","hint":"do it"}}
{"end":{"assets":"1"}}
`
	if err != nil || said != want {
		t.Errorf("%v: it said\n%s, want\n%s", err, said, want)
	}
}

// TestNothingIsSaidWithAnError: neither of the generator's own, nor of what it
// gave.
func TestNothingIsSaidWithAnError(t *testing.T) {
	for name, generate := range map[string]func(*Input, *Output) error{
		"its own": func(_ *Input, out *Output) error {
			out.Asset("a", &intentpb.Owner{Owner: "a"})
			return errors.New("no more")
		},
		"text that is none": func(_ *Input, out *Output) error { out.Asset("a", &intentpb.Owner{Owner: "\xff"}); return nil },
	} {
		if said, err := play(t, "{}", nil, generate); err == nil || said != "" {
			t.Errorf("%s: %v, and it said %q", name, err, said)
		}
	}
	if said, err := play(t, "hello", nil, func(*Input, *Output) error { return nil }); err == nil || said != "" || !strings.Contains(err.Error(), `echo '{"partition": "shop"}'`) {
		t.Errorf("no job: %v, and it said %q", err, said)
	}
}

// TestAssetsOfOthers are listed by id, and opened into messages.
func TestAssetsOfOthers(t *testing.T) {
	files := map[string]string{
		"own/assets.json": `{"assets":[{"id":"team/a","type":"lehr.intent.v1.Owner","path":"0.json"}]}`,
		"own/0.json":      `{"id":"team/a","payload":{"@type":"lehr.intent.v1.Owner","owner":"ann"},"addons":[{"@type":"lehr.intent.v1.Labels","labels":{"a":"b"}}]}`,
	}
	_, err := play(t, `{"assets":"FOLDER/own/assets.json"}`, files, func(in *Input, _ *Output) error {
		assets, err := in.Assets()
		if err != nil || len(assets) != 1 || assets[0].ID != "team/a" || assets[0].Type != "lehr.intent.v1.Owner" {
			t.Fatalf("%+v (%v)", assets, err)
		}
		owner, labels, group := &intentpb.Owner{}, &intentpb.Labels{}, &intentpb.Group{}
		if err := in.Open(assets[0], owner, labels, group); err != nil || owner.Owner != "ann" || labels.Labels["a"] != "b" || group.Service != "" {
			t.Errorf("%v %v %v (%v)", owner, labels, group, err)
		}
		if err := in.Open(assets[0], labels); err == nil {
			t.Error("an owner was opened as labels")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEntry is what a run for a key finds.
func TestEntry(t *testing.T) {
	_, err := play(t, `{"key":"web","value":"{\"replicas\":3}"}`, nil, func(in *Input, _ *Output) error {
		if in.Key() != "web" || string(in.Value()) != `{"replicas":3}` || in.File() != "" {
			t.Errorf("it is for %q: %s", in.Key(), in.Value())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
