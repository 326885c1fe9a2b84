package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/importer"
)

// importing has one kind, which reads what it is told.
func importing(found importer.Import, err error) cli.Local {
	kind := importer.Kind{Name: "shelf", Arguments: "NAME", Short: "Books", Bind: func(flags *pflag.FlagSet) importer.Reader {
		only := flags.String("only", "", "one book")
		return func(_ context.Context, args []string) (importer.Import, error) {
			found.Read = append(found.Read, args[0]+" "+*only)
			return found, err
		}
	}}
	kind.Args.Least, kind.Args.Most = 1, 1
	return cli.Local{Imports: []importer.Kind{kind}}
}

// TestAnImportWithAName: the partition is called what was read is called, unless a person names
// another, and the operator's files grant something to that name.
func TestAnImportWithAName(t *testing.T) {
	for _, sample := range []struct {
		arguments []string
		want      string
	}{{nil, "bookshelf"}, {[]string{"--partition", "other"}, "other"}} {
		local := importing(importer.Import{
			Name: "bookshelf", Definition: "sources: {books: {files: books.yaml}}\n",
			ForOperator: func(partition string) map[string][]byte {
				return map[string][]byte{"operator/list.yaml": []byte("partitions: [" + partition + "]\n")}
			},
		}, nil)
		folder := filepath.Join(t.TempDir(), "My Shelf")
		if code, _, errs := run(t, local, append([]string{"import", "shelf", "hall", "--to", folder}, sample.arguments...)...); code != 0 {
			t.Fatalf("exit code %d\n%s", code, errs)
		}
		for file, want := range map[string]string{"lehr.yaml": "partition: " + sample.want + "\n", "operator/list.yaml": "partitions: [" + sample.want + "]\n"} {
			if text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file))); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %v\n%s", file, err, text)
			}
		}
	}
}

func TestImport(t *testing.T) {
	local := importing(importer.Import{
		Definition: "sources: {books: {files: books.yaml}}\n",
		Files:      map[string][]byte{"books.yaml": []byte("- Hamlet\n"), "by/author.star": nil},
		LeftOut:    []importer.LeftOut{{What: "Macbeth", Why: "it is lent"}},
		Hints:      []string{"return Macbeth"},
	}, nil)
	folder := filepath.Join(t.TempDir(), "My Shelf")
	code, out, errs := run(t, local, "import", "shelf", "hall", "--only", "plays", "--to", folder)
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	for _, want := range []string{"Read:\n  hall plays\n", "Left out:\n  Macbeth: it is lent\n", "To do:\n  return Macbeth\n",
		"Wrote partition my-shelf, 3 files", "lehr plan '" + folder + "/lehr.yaml'", "lehr serve -p '" + folder + "/lehr.yaml'"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	definition, err := os.ReadFile(filepath.Join(folder, "lehr.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lehr: v1\npartition: my-shelf\n", "\nmode: observe\n", "\nsources: {books: {files: books.yaml}}\n"} {
		if !strings.Contains(string(definition), want) {
			t.Errorf("lehr.yaml has no %q:\n%s", want, definition)
		}
	}

	code, _, errs = run(t, local, "import", "shelf", "hall", "--to", folder)
	if code != 1 || !strings.Contains(errs, "is not empty") {
		t.Errorf("a second time: exit code %d\n%s", code, errs)
	}
	code, out, _ = run(t, local, "import", "shelf", "hall", "--to", "books", "-p", "library", "-o", "json")
	if code != 0 || !strings.Contains(out, `"partition": "library"`) || !strings.Contains(out, `"why": "it is lent"`) {
		t.Errorf("as JSON: exit code %d\n%s", code, out)
	}
}

func TestImportWritesAllOrNothing(t *testing.T) {
	for name, test := range map[string]struct {
		found importer.Import
		err   error
		args  []string
		want  string
	}{
		"what cannot be read":    {err: errors.New("no light"), args: []string{"import", "shelf", "hall", "--to", "new"}, want: "no light"},
		"a path that leads out":  {found: importer.Import{Files: map[string][]byte{"a": nil, "z/../../b": nil}}, args: []string{"import", "shelf", "hall", "--to", "new"}, want: "outside of the folder"},
		"no folder":              {args: []string{"import", "shelf", "hall"}, want: `required flag(s) "to"`},
		"how it is given":        {args: []string{"import", "shelf", "hall"}, want: "write lehr import shelf NAME --to FOLDER"},
		"no name in the folder":  {args: []string{"import", "shelf", "hall", "--to", "new/Ж"}, want: "--partition NAME"},
		"a kind that is not":     {args: []string{"import", "cellar"}, want: `nothing called "cellar"`},
		"an argument too few":    {args: []string{"import", "shelf", "--to", "new"}, want: "shelf NAME --to FOLDER"},
		"a name that is none":    {args: []string{"import", "shelf", "hall", "--to", "new", "-p", "No!"}, want: "No!"},
		"a file for the folder ": {args: []string{"import", "shelf", "hall", "--to", "/dev/null"}, want: "/dev/null"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := run(t, importing(test.found, test.err), test.args...)
			if code != 1 || !strings.Contains(errs, test.want) {
				t.Errorf("exit code %d\n%s", code, errs)
			}
			err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					t.Errorf("%s was written", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
