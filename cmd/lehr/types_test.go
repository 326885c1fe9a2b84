package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lehr.dev/internal/cli"
)

var typesBlock = regexp.MustCompile("(?s)```(?:yaml|python|proto)\n(?:#|//) ([a-z./]+\\.(?:yaml|star|proto))\n.*?```")

// TestTypesExampleBuilds builds the partition that docs/use/types.md shows.
func TestTypesExampleBuilds(t *testing.T) {
	folder := t.TempDir()
	for _, match := range typesBlock.FindAllStringSubmatch(documents(t)["docs/use/types.md"], -1) {
		_, content, _ := strings.Cut(match[0], "\n")
		path := filepath.Join(folder, match[1])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.TrimSuffix(content, "```")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	built, err := build(t.Context(), cli.BuildOptions{Definition: filepath.Join(folder, "lehr.yaml")})
	if err != nil || len(built.Findings) > 0 || len(built.Assets) != 4 {
		t.Fatalf("it does not build: %v %+v", err, built)
	}
}

var derivations = regexp.MustCompile("(?s)```yaml\n(generate:\n  scopes: {derive.*?)```")

// TestDerivationsExampleIsAccepted compiles what docs/use/partition.md shows.
func TestDerivationsExampleIsAccepted(t *testing.T) {
	folder := t.TempDir()
	match := derivations.FindStringSubmatch(documents(t)["docs/use/partition.md"])
	if match == nil {
		t.Fatal("docs/use/partition.md shows no derivations")
	}
	for name, text := range map[string]string{
		"lehr.yaml": "lehr: v1\npartition: one\nsources: {a: {files: [a.yaml]}}\n" + match[1], "a.yaml": "a: 1\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	built, err := build(t.Context(), cli.BuildOptions{Definition: filepath.Join(folder, "lehr.yaml")})
	if err != nil || len(built.Findings) > 0 {
		t.Fatalf("%v %+v", err, built.Findings)
	}
}
