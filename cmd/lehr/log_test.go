package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
)

// documentedKeys are those of records that docs/operate/monitoring.md names.
func documentedKeys(t *testing.T) map[string]bool {
	t.Helper()
	_, text, _ := strings.Cut(documents(t)["docs/operate/monitoring.md"], "\n## The log\n")
	keys := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(text, -1) {
		for _, key := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			keys[key[1]] = true
		}
	}
	return keys
}

// loggedKeys are those that the program's source gives to its log, and where.
func loggedKeys(t *testing.T) map[string]string {
	t.Helper()
	keys := map[string]string{}
	for _, folder := range []string{"internal/access", "internal/annealing", "internal/app", "internal/ground/audit", "internal/ground/loop", "internal/pluginhost/remote", "internal/prodspec", "internal/server", "internal/store"} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				for _, key := range keysIn(node) {
					keys[key] = files.Position(node.Pos()).String()
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// logs finds what a log is called by, and attributes that are made beforehand.
var logs = regexp.MustCompile(`(?i)^log$|^log\(\)$`)

func keysIn(node ast.Node) (keys []string) {
	switch node := node.(type) {
	case *ast.CallExpr:
		called, ok := node.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		of, name := lastName(called.X), called.Sel.Name
		switch first := map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0}; {
		case of == "slog" && (name == "Any" || name == "String" || name == "Int" || name == "Duration" || name == "Bool"):
			return literals(node.Args[:1])
		case logs.MatchString(of):
			from, ok := first[name]
			if !ok {
				return nil
			}
			for i := from; i < len(node.Args); i += 2 {
				keys = append(keys, literals(node.Args[i:i+1])...)
			}
		case name == "append":
		}
	case *ast.CompositeLit: // []any{"key", value, …}
		if array, ok := node.Type.(*ast.ArrayType); ok {
			if element, ok := array.Elt.(*ast.Ident); ok && element.Name == "any" && len(node.Elts) >= 4 {
				for i := 0; i < len(node.Elts); i += 2 {
					keys = append(keys, literals(node.Elts[i:i+1])...)
				}
			}
		}
	}
	return keys
}

func lastName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.SelectorExpr:
		return expression.Sel.Name
	}
	return ""
}

func literals(expressions []ast.Expr) (texts []string) {
	for _, expression := range expressions {
		if literal, ok := expression.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && regexp.MustCompile(`^[a-z_]+$`).MatchString(text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// What a program reads from the log is found under names that stay.
func TestEveryKeyOfTheLogIsDocumented(t *testing.T) {
	documented, logged := documentedKeys(t), loggedKeys(t)
	if len(logged) < 25 {
		t.Errorf("only %d keys were found: is the search still right?", len(logged))
	}
	for _, key := range slices.Sorted(maps.Keys(logged)) {
		if !documented[key] {
			t.Errorf("%s logs %q, which docs/operate/monitoring.md does not name", logged[key], key)
		}
	}
}

func TestLogIsRefusedPlainly(t *testing.T) {
	for _, test := range []struct{ format, level, says string }{
		{"xml", "info", "log format \"xml\" is not known"}, {"json", "loud", "log level \"loud\" is not known"},
	} {
		if _, err := newLog(io.Discard, test.format, test.level); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s at %s: %v", test.format, test.level, err)
		}
	}
}
