package schema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/schema"
)

// TestFindingsAreTheSame: what is wrong with several files is told the same
// way every time, or one refused build would look like another.
func TestFindingsAreTheSame(t *testing.T) {
	in := func(pkg, text string) string { return `syntax = "proto3"; package ` + pkg + ";\n" + text }
	unknown := "message M { Nowhere n = 1; }"
	many := func(pkg string) string {
		var b strings.Builder
		for i := range 12 {
			fmt.Fprintf(&b, "message M%d { Nowhere n = 1; }\n", i)
		}
		return in(pkg, b.String())
	}
	for name, c := range map[string]struct {
		files []schema.SourceFile
		// want is where the first finding is, and how many there are.
		file  string
		count int
	}{
		"defined in three": {files("c.proto", in("acme", "message A {}"), "b.proto", in("acme", "message A {}"), "a.proto", in("acme", "message A {}")), "b.proto", 2},
		"an extension's number": {files(
			"a.proto", in("a", "import \"google/protobuf/descriptor.proto\"; extend google.protobuf.FieldOptions { bool a = 50001; }"),
			"b.proto", in("b", "import \"google/protobuf/descriptor.proto\"; extend google.protobuf.FieldOptions { bool b = 50001; }")), "b.proto", 1},
		"a package that is a message": {files("a.proto", in("acme", "message dns {}"), "b.proto", in("acme.dns", "message A {}")), "b.proto", 1},
		"a cycle":                     {files("a.proto", in("a", `import "b.proto";`), "b.proto", in("b", `import "c.proto";`), "c.proto", in("c", `import "a.proto";`)), "c.proto", 1},
		"imports of nothing":          {files("a.proto", in("a", `import "x.proto";`), "b.proto", in("b", `import "y.proto";`)), "a.proto", 1},
		"more than are told":          {files("a.proto", many("a"), "b.proto", many("b"), "c.proto", many("c")), "a.proto", 20},
		"on top of what is broken": {files(
			"a.proto", in("a", "import \"z.proto\";\nmessage A { z.M m = 1; }"), "b.proto", in("b", "import \"z.proto\";\nmessage B { z.M m = 1; }"),
			"z.proto", in("z", unknown)), "z.proto", 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, first := schema.Compile(t.Context(), c.files, nil)
			if len(first) != c.count || first[0].File != c.file {
				t.Fatalf("%d findings, want %d, the first in %s: %+v", len(first), c.count, c.file, first)
			}
			for range 20 {
				_, again := schema.Compile(t.Context(), c.files, nil)
				if difference := cmp.Diff(first, again); difference != "" {
					t.Fatal(difference)
				}
			}
		})
	}
}

// TestFirstMarkIsTold: of several fields with a mark that they cannot have, it
// is always the same that is named.
func TestFirstMarkIsTold(t *testing.T) {
	for option, want := range map[string]string{"reference) = {}": "own.A.f", "indexed) = true": "own.A.f"} {
		var text strings.Builder
		text.WriteString(`edition = "2023"; package own; import "lehr/intent/v1/options.proto";`)
		for _, letter := range slices.Backward(strings.Split("ABCDEFGH", "")) {
			fmt.Fprintf(&text, "message %s { bytes f = 1 [(lehr.intent.v1.%s]; }\n", letter, option)
		}
		set := compile(t, map[string]string{"own.proto": text.String()})
		for range 20 {
			if _, err := schema.FromFiles(set); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want it of %s", err, want)
			}
		}
	}
}
