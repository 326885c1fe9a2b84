package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// place is where a name is declared or used: a file and an offset of it in bytes. The same
// declaration is several objects when a package is also loaded with its tests, and one place.
type place struct {
	file   string
	offset int
}

// renames are the new names, by the place of the declaration.
type renames map[place]string

// code is the module, type-checked, tests included.
type code struct {
	root string
	// modules are the folders of what was loaded, the root first.
	modules []string
	// files are the parsed files, each once, with a package that checked it.
	files map[string]*file
}

type file struct {
	syntax *ast.File
	within *packages.Package
}

const needed = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes |
	packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps

// load reads and type-checks the packages of a folder's module. It fails when any has errors.
func load(folder string) (*code, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	c := &code{root: root, files: map[string]*file{}}
	return c, c.add(root, nil)
}

// add loads a module below the root, with other texts in the place of files.
func (c *code) add(module string, texts map[string][]byte) error {
	loaded, err := packages.Load(&packages.Config{Mode: needed, Dir: module, Tests: true, Overlay: texts}, "./...")
	if err != nil {
		return err
	}
	c.modules = append(c.modules, module)
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return fmt.Errorf("%s: %v", p.ID, p.Errors[0])
		}
		for _, syntax := range p.Syntax {
			name := p.Fset.Position(syntax.FileStart).Filename
			if !strings.HasPrefix(name, c.root+string(filepath.Separator)) {
				continue // of the build cache: the main of a test
			}
			if c.files[name] == nil {
				c.files[name] = &file{syntax: syntax, within: p}
			}
		}
	}
	return nil
}

// addModules loads the modules below the root in whose files one of the exported names occurs
// that are to be others.
func (c *code) addModules(chosen renames) error {
	var exported []string
	for _, f := range c.files {
		f.idents(func(ident *ast.Ident) {
			if ident.IsExported() && f.within.TypesInfo.Defs[ident] != nil && chosen[placeOf(f.within.Fset, ident.Pos())] != "" {
				exported = append(exported, ident.Name)
			}
		})
	}
	if len(exported) == 0 {
		return nil
	}
	used := regexp.MustCompile(`\b(` + strings.Join(exported, "|") + `)\b`)
	module, naming := c.root, map[string]bool{}
	err := filepath.WalkDir(c.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir():
			if !strings.HasPrefix(path+string(filepath.Separator), module+string(filepath.Separator)) {
				module = c.root // The folder of another module is behind; they do not nest.
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				module = path
			}
		case filepath.Ext(path) == ".go" && module != c.root:
			text, err := os.ReadFile(path)
			if used.Match(text) {
				naming[module] = true
			}
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, module := range slices.Sorted(maps.Keys(naming)) {
		if err := c.add(module, nil); err != nil {
			return err
		}
	}
	return nil
}

// names returns the files' names, sorted.
func (c *code) names() []string {
	var names []string
	for name := range c.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// relative is a file's name from the root, with slashes.
func (c *code) relative(name string) string {
	relative, _ := filepath.Rel(c.root, name)
	return filepath.ToSlash(relative)
}

func placeOf(files *token.FileSet, pos token.Pos) place {
	at := files.Position(pos)
	return place{at.Filename, at.Offset}
}

// declaration returns the place of what an identifier declares or refers to. An embedded
// field has the name of its type, and is where that is.
func declaration(p *packages.Package, ident *ast.Ident) (at place, ok bool) {
	object := p.TypesInfo.Defs[ident]
	if used := p.TypesInfo.Uses[ident]; used != nil {
		object = used
	}
	if object == nil {
		// The symbol of a type switch: each clause has an object of its own, at its place.
		if object, ok := p.TypesInfo.Defs[ident]; ok && object == nil && p.Syntax != nil {
			return placeOf(p.Fset, ident.Pos()), true
		}
		return place{}, false
	}
	if field, ok := object.(*types.Var); ok && field.IsField() && field.Embedded() {
		if named := nameOf(field.Type()); named != nil {
			object = named
		}
	}
	if !object.Pos().IsValid() {
		return place{}, false
	}
	return placeOf(p.Fset, object.Pos()), true
}

// nameOf returns the name of a type, behind a pointer too; nil: it has none.
func nameOf(t types.Type) *types.TypeName {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	switch named := t.(type) {
	case *types.Named:
		return named.Origin().Obj()
	case *types.Alias:
		return named.Obj()
	}
	return nil
}

// idents calls visit for each identifier of a file, in their order.
func (f *file) idents(visit func(*ast.Ident)) {
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok {
			visit(ident)
		}
		return true
	})
}
