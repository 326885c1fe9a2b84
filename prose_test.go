package lehr

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// prose are fields and methods that hold sentences for people.
var prose = []string{
	"Reason", "GetReason", "Waits", "GetWaits", "Text", "GetText", "Message", "GetMessage", "Hint", "GetHint", "Note", "PushNote", "GetPushNote", "Summary",
	"GetSummary", "Problem", "Blocked", "Error", "Words",
}

// foreignProse are where others' words are read, who give nothing else: file and field.
var foreignProse = map[string]string{
	"internal/access/oidc/oidc.go Error":                     "go-oidc says by words alone that it cannot fetch keys",
	"internal/access/policy.go Error":                        "the YAML parser puts its name before its words",
	"internal/ground/document/value.go Error":                "encoding/json puts its name before its words",
	"sdk/generator/kubernetes/read.go Error":                 "the YAML parser puts its name before its words",
	"internal/pluginhost/remote/address.go Error":            "crypto/tls says by words alone that the other side refused",
	"plugins/sqlschema/liteschema/probe.go Error":            "SQLite says by words alone that a table is a view",
	"internal/prodspec/source/source.go Error":               "os.Root says by words alone that a path leads out of it",
	"internal/notify/notify.go Text":                         "an expression that a person wrote, which is searched for a name",
	"internal/ground/rule/fields.go Message":                 "a descriptor's message type",
	"internal/sim/field.go GetWaits":                         "a simulated person does what a sentence tells people to do",
	"internal/sim/rollout_orders.go GetWaits":                "a simulated person does what a sentence tells people to do",
	"internal/sim/log.go Message":                            "the simulator looks for panics in the log, whose lines have no type",
	"internal/prodspec/generate/starlark/finding.go Message": "Starlark's interpreter says by words alone that a program is recursive or was cancelled",
	"internal/ground/rule/evaluate.go Error":                 "CEL puts its own words before those of an error",
	"internal/annealing/explain/words.go Message":            "a field is not named twice in one sentence",
	"internal/annealing/explain/partition.go Problem":        "a sentence is not told twice on one page",
	"sdk/plugintest/conformance/secrets.go Reason":           "the rule that it holds is that the words name the reference",
}

// TestNoStateIsReadFromProse: what a program goes by is a typed field, so that every
// sentence can be reworded. Only what shows sentences (cli, web) may look into them.
func TestNoStateIsReadFromProse(t *testing.T) {
	skipped := []string{"gen", "internal/cli", "internal/web", "test", "tools", "internal/demo", "examples", "bin", ".git", "testdata", "internal/store/storetest", "internal/sim/scenario"}
	met := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, filepath.ToSlash(path)):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, found := range proseReads(file) {
			where := filepath.ToSlash(path) + " " + found.field
			if met[where] = true; foreignProse[where] == "" {
				t.Errorf("%s: %s is a sentence for people, and is searched for %s: keep what it means in a field of its own", files.Position(found.at), found.field, found.text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for where := range foreignProse {
		if !met[where] {
			t.Errorf("%s is not read any more: take it out of foreignProse", where)
		}
	}
}

// proseRead is a search of a sentence for a text.
type proseRead struct {
	at          token.Pos
	field, text string
}

// proseReads finds calls such as strings.HasPrefix(x.Reason, "after ") and comparisons
// such as x.Reason == "the server ended".
func proseReads(file *ast.File) (found []proseRead) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			function, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) != 2 {
				return true
			}
			pkg, ok := function.X.(*ast.Ident)
			searches := []string{"HasPrefix", "HasSuffix", "Contains", "Cut", "CutPrefix", "CutSuffix", "TrimPrefix", "TrimSuffix", "Index", "LastIndex", "EqualFold", "Split"}
			if !ok || pkg.Name != "strings" || !slices.Contains(searches, function.Sel.Name) {
				return true
			}
			if field, text := sentence(n.Args[0]), searched(n.Args[1]); field != "" && text != "" {
				found = append(found, proseRead{n.Pos(), field, text})
			}
		case *ast.BinaryExpr:
			if n.Op != token.EQL && n.Op != token.NEQ {
				return true
			}
			if field, text := sentence(n.X), searched(n.Y); field != "" && strings.Contains(text, " ") {
				found = append(found, proseRead{n.Pos(), field, text})
			}
		}
		return true
	})
	return found
}

// sentence returns the field that an expression ends in, where it holds prose.
func sentence(expression ast.Expr) (field string) {
	ast.Inspect(expression, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && slices.Contains(prose, selector.Sel.Name) {
			field = selector.Sel.Name
		}
		return field == ""
	})
	return field
}

// searched returns the literal text, or the constant, that is searched for; empty: it is
// neither, or holds no word.
func searched(expression ast.Expr) (text string) {
	ast.Inspect(expression, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BasicLit:
			if value, err := strconv.Unquote(n.Value); err == nil && strings.IndexFunc(value, unicode.IsLetter) >= 0 {
				text = n.Value
			}
		case *ast.Ident:
			if text == "" {
				text = n.Name
			}
		}
		return true
	})
	return text
}

func TestProseReads(t *testing.T) {
	const source = `package p
func f(x T, s string) {
	_ = strings.HasPrefix(x.Reason, "after its push: ")
	_, _, _ = strings.Cut(x.Said().Message+"", marker)
	_ = x.GetReason() == "it was told before"
	_ = strings.Contains(err.Error(), "busy")
	_ = strings.TrimSuffix(x.Reason, ".")
	_ = strings.HasPrefix(x.Name, "after")
	_ = x.Reason == ""
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, found := range proseReads(file) {
		fields = append(fields, found.field)
	}
	if want := []string{"Reason", "Message", "GetReason", "Error"}; !slices.Equal(fields, want) {
		t.Errorf("found %v, want %v", fields, want)
	}
}
