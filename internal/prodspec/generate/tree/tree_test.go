package tree

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

func input(name string) work.Input {
	return work.Input{Name: name, Digest: intent.Sum("test", []byte(name))}
}

// TestReadsAreNoted: a run rests on what it opened, and on the list once it
// looked for what is not there, or through a folder.
func TestReadsAreNoted(t *testing.T) {
	body, digest, err := schema.Builtin().Encode(intent.Asset{ID: "team/a", Payload: intent.Message{Type: "lehr.intent.v1.Owner"}})
	if err != nil {
		t.Fatal(err)
	}
	job := &work.Job{
		Files:  []work.Input{input("../shared/s.yaml"), input("a.yaml"), input("in/b.yaml"), input("in/deep/c.yaml")},
		Assets: []work.Input{{Name: "team/a", Type: "lehr.intent.v1.Owner", Digest: digest}},
	}
	for name, c := range map[string]struct {
		kinds []work.Kind
		err   error
	}{
		".":                          {},
		"a.yaml":                     {kinds: []work.Kind{work.ReadFile}},
		"shared/s.yaml":              {kinds: []work.Kind{work.ReadFile}},
		"in/deep/c.yaml":             {kinds: []work.Kind{work.ReadFile}},
		"in":                         {kinds: []work.Kind{work.ReadFiles}},
		"other.yaml":                 {kinds: []work.Kind{work.ReadFiles}, err: fs.ErrNotExist},
		"../etc/passwd":              {kinds: []work.Kind{work.ReadFiles}, err: fs.ErrNotExist},
		"/etc/passwd":                {kinds: []work.Kind{work.ReadFiles}, err: fs.ErrNotExist},
		".lehr/assets/assets.json":   {kinds: []work.Kind{work.ReadAssets}},
		".lehr/assets/0.json":        {kinds: []work.Kind{work.ReadAsset, work.ReadAssets}},
		".lehr/assets/1.json":        {kinds: []work.Kind{work.ReadAssets}, err: fs.ErrNotExist},
		".lehr/assets/../../a.yaml":  {kinds: []work.Kind{work.ReadFiles}, err: fs.ErrNotExist},
		".lehr/assets/../assets.txt": {kinds: []work.Kind{work.ReadFiles}, err: fs.ErrNotExist},
	} {
		reads := work.Reads{}
		made, err := New(schema.Builtin(), job, func(kind work.Kind, input work.Input) ([]byte, error) {
			if kind == work.ReadAsset {
				return body, nil
			}
			return []byte(input.Name), nil
		}, reads)
		if err != nil {
			t.Fatal(err)
		}
		_, err = made.Open(name)
		var kinds []work.Kind
		for _, read := range reads.Sorted() {
			kinds = append(kinds, read.Kind)
		}
		if !slices.Equal(kinds, c.kinds) || !errors.Is(err, c.err) {
			t.Errorf("%s: rests on %v (%v), want %v (%v)", name, kinds, err, c.kinds, c.err)
		}
		if name != "." {
			continue
		}
		entries, err := fs.ReadDir(made, ".")
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if want := []string{"a.yaml", "in", "shared"}; err != nil || !slices.Equal(names, want) || len(reads) != 1 {
			t.Errorf("the root lists %v (%v) and rests on %v, want %v", names, err, reads, want)
		}
	}
}

// TestInputsThatCollide are refused: one would hide the other.
func TestInputsThatCollide(t *testing.T) {
	for name, files := range map[string][]work.Input{
		"one path":          {input("../a/x"), input("a/x")},
		"a file, a folder":  {input("../in"), input("in/a")},
		"Lehr's own folder": {input(".lehr/assets/assets.json")},
	} {
		if _, err := New(schema.Builtin(), &work.Job{Files: files}, nil, work.Reads{}); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
