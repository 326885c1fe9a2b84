package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"slices"
	"strings"
)

// bare are prepositions, pronouns, auxiliaries and participles that say nothing by themselves. "at" may name a
// time, and is not among them.
var bare = strings.Fields(`
	about above after against ahead along among around as away back before behind below beneath beside between beyond both by
	down during each either else for from here his how in inside instead into it its itself near of off on onto other others out outside over
	past per round since so such than that their them then there these they this those through till to together too toward under until
	up upon what when where which while who whom whose why with within without yet
	is are was were be been has had have does did said says told tells asked asks known knows seen saw given gave taken took made makes
	left gone went came come kept held put set let stood stands began begun ended met meant done lost found shown heard felt brought thought twice once
`)

// measure counts the names that are declared in the packages, tests left out.
func (c *code) measure(w io.Writer, patterns []string, verbose bool) {
	all, poor, conditions, operators := 0, 0, 0, 0
	lookups, ok := 0, 0
	for _, name := range c.names() {
		if strings.HasSuffix(name, "_test.go") || !matches(c.relative(name), patterns) || strings.HasPrefix(c.relative(name), "gen/") {
			continue
		}
		f := c.files[name]
		function := ""
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				function = n.Name.Name
			case *ast.IfStmt:
				conditions++
				operators += countOperators(n.Cond)
			case *ast.AssignStmt:
				if second, is := secondValue(f, n); is {
					lookups++
					if second == "ok" {
						ok++
					}
				}
			case *ast.Ident:
				if f.within.TypesInfo.Defs[n] == nil || n.Name == "_" {
					break
				}
				all++
				if slices.Contains(bare, n.Name) {
					poor++
					if verbose {
						fmt.Fprintf(w, "%s:%d %s %s\n", c.relative(name), f.within.Fset.Position(n.Pos()).Line, function, n.Name)
					}
				}
			}
			return true
		})
	}
	fmt.Fprintf(w, "%d names, of which %d (%.1f %%) are a bare preposition, pronoun or participle\n", all, poor, share(poor, all))
	fmt.Fprintf(w, "%d second values that are a bool, of which %d (%.0f %%) are named ok\n", lookups, ok, share(ok, lookups))
	fmt.Fprintf(w, "%d conditions of if, %.2f && and || in each\n", conditions, float64(operators)/float64(max(1, conditions)))
}

func share(part, all int) float64 { return 100 * float64(part) / float64(max(1, all)) }

func countOperators(condition ast.Expr) (count int) {
	ast.Inspect(condition, func(node ast.Node) bool {
		if binary, ok := node.(*ast.BinaryExpr); ok && (binary.Op == token.LAND || binary.Op == token.LOR) {
			count++
		}
		return true
	})
	return count
}
