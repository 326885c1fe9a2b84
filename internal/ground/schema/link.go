package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"

	"lehr.dev/internal/ground/fault"
)

// link compiles what was parsed, one file after the other: the compiler starts
// a goroutine for each of several files, so that which of two contradicting
// ones is blamed, and which findings are among the first, would be chance.
func (c *compilation) link(ctx context.Context) (linked linker.Files) {
	for _, path := range slices.Sorted(maps.Keys(c.parsed)) {
		if c.state[path] == unvisited {
			c.arrange(path, nil)
		}
	}
	if len(c.findings) > 0 {
		return nil
	}
	completed := map[string]linker.File{}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) { return c.resolve(path, completed) }),
		SourceInfoMode: protocompile.SourceInfoStandard,
		MaxParallelism: 1,
		Reporter:       c.reporter(),
		Symbols:        &linker.Symbols{},
	}
	for _, path := range c.order {
		if !c.importsAre(completed, path) || len(c.findings) >= mostProblems {
			continue
		}
		files, err := compiler.Compile(ctx, path)
		if err != nil {
			c.unreported(path, err)
			continue
		}
		completed[path] = files[0]
	}
	for _, path := range slices.Sorted(maps.Keys(completed)) {
		linked = append(linked, completed[path])
	}
	return linked
}

// arrange puts a file in the order after what it imports. By way of them it
// may not import itself.
func (c *compilation) arrange(path string, importers []string) {
	c.state[path] = visiting
	importers = append(importers, path)
	for _, statement := range c.imports(path) {
		name := statement.Name.AsString()
		switch {
		case c.parsed[name] == nil || c.state[name] == built:
		case c.state[name] == visiting:
			cycle := ""
			for _, importer := range importers[slices.Index(importers, name):] {
				cycle += fmt.Sprintf("%q -> ", importer)
			}
			at := c.parsed[path].NodeInfo(statement.Name).Start()
			c.add(path, at, fmt.Sprintf("cycle found in imports: %s%q", cycle, name), c.hintFor(""))
		default:
			c.arrange(name, importers)
		}
	}
	c.state[path] = built
	c.order = append(c.order, path)
}

func (c *compilation) imports(path string) (statements []*ast.ImportNode) {
	for _, declared := range c.parsed[path].Decls {
		if statement, ok := declared.(*ast.ImportNode); ok {
			statements = append(statements, statement)
		}
	}
	return statements
}

// importsAre reports whether all that a file imports is well. Of a file that
// rests on a broken one nothing is known.
func (c *compilation) importsAre(completed map[string]linker.File, path string) bool {
	return !slices.ContainsFunc(c.imports(path), func(statement *ast.ImportNode) bool {
		name := statement.Name.AsString()
		return c.parsed[name] != nil && completed[name] == nil
	})
}

func (c *compilation) resolve(path string, completed map[string]linker.File) (protocompile.SearchResult, error) {
	if file := completed[path]; file != nil {
		return protocompile.SearchResult{Desc: file}, nil
	}
	if node := c.parsed[path]; node != nil {
		return protocompile.SearchResult{AST: node}, nil
	}
	builtin, err := linkedFiles().FindFileByPath(path)
	if err != nil {
		return protocompile.SearchResult{}, fault.New(fault.NotFound, "no such file")
	}
	return protocompile.SearchResult{Desc: builtin}, nil
}
