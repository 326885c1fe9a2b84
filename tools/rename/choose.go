package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// choose adds what the lines of a list ask for. Problems name the lines that cannot be done:
// they name nothing, ask for two names of one thing, or for one that would be seen outside.
func (c *code) choose(chosen renames, lines []string) (problems []string) {
	templates := c.templates()
	for number, line := range lines {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		refuse := func(format string, arguments ...any) {
			problems = append(problems, fmt.Sprintf("line %d: %s: %s", number+1, line, fmt.Sprintf(format, arguments...)))
		}
		if len(fields) != 3 || !token.IsIdentifier(fields[2]) {
			refuse("want FILE NAME NEW")
			continue
		}
		f := c.files[filepath.Join(c.root, filepath.FromSlash(fields[0]))]
		if f == nil {
			refuse("there is no such file")
			continue
		}
		declared := f.declared(fields[1])
		if len(declared) == 0 {
			refuse("the file declares no such name")
		}
		for _, ident := range declared {
			at := placeOf(f.within.Fset, ident.Pos())
			switch before, ok := chosen[at]; {
			case ok && before != fields[2]:
				refuse("it is to be %s as well", before)
			case f.encoded(ident):
				refuse("a field without a tag beside fields with one: its name is in what is written")
			case ident.IsExported() && regexp.MustCompile(`\.`+ident.Name+`\b`).MatchString(templates):
				refuse("templates ask for it by its name")
			default:
				chosen[at] = fields[2]
			}
		}
	}
	return problems
}

// templates returns the texts of all templates: what they name is found when they run.
func (c *code) templates() string {
	var all strings.Builder
	_ = filepath.WalkDir(c.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && slices.Contains([]string{".html", ".tmpl", ".gotmpl"}, filepath.Ext(path)) {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
		return nil
	})
	return all.String()
}

// encoded reports whether an identifier is an exported field without a tag in a struct whose
// other fields have tags.
func (f *file) encoded(ident *ast.Ident) (encoded bool) {
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		structure, ok := node.(*ast.StructType)
		if !ok || !ident.IsExported() || ident.Pos() < structure.Pos() || ident.Pos() > structure.End() {
			return true
		}
		tagged, bare := false, false
		for _, field := range structure.Fields.List {
			tagged = tagged || field.Tag != nil
			bare = bare || slices.Contains(field.Names, ident) && field.Tag == nil
		}
		encoded = encoded || tagged && bare
		return true
	})
	return encoded
}

// declared returns the identifiers that a file declares under a name of a list.
func (f *file) declared(name string) (idents []*ast.Ident) {
	function, local, isLocal := strings.Cut(name, "/")
	for _, declaration := range f.syntax.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			full := d.Name.Name
			if d.Recv != nil {
				full = receiver(d) + "." + full
			}
			switch {
			case isLocal && full == function:
				idents = append(idents, f.locals(d, local)...)
			case !isLocal && full == name:
				idents = append(idents, d.Name)
			}
		case *ast.GenDecl:
			if !isLocal {
				idents = append(idents, specs(d, name)...)
			}
		}
	}
	return idents
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok && name == "" {
			name = ident.Name
		}
		return true
	})
	return name
}

// locals returns what a function declares under a name, at every place.
func (f *file) locals(d *ast.FuncDecl, name string) (idents []*ast.Ident) {
	ast.Inspect(d, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok && ident.Name == name && ident != d.Name {
			object, defined := f.within.TypesInfo.Defs[ident]
			if variable, ok := object.(*types.Var); defined && (object == nil || !ok || !variable.IsField()) {
				idents = append(idents, ident)
			}
		}
		return true
	})
	return idents
}

// specs returns what a declaration of types, variables or constants declares under a name:
// NAME, or TYPE.MEMBER for fields, methods of an interface, and fields of a struct in a field.
func specs(d *ast.GenDecl, name string) (idents []*ast.Ident) {
	owner, member, isMember := strings.Cut(name, ".")
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, ident := range s.Names {
				if ident.Name == name {
					idents = append(idents, ident)
				}
			}
		case *ast.TypeSpec:
			if s.Name.Name == name {
				idents = append(idents, s.Name)
			}
			if isMember && s.Name.Name == owner {
				idents = append(idents, members(s.Type, member)...)
			}
		}
	}
	return idents
}

// members returns the fields and methods that a type declares under a name.
func members(t ast.Expr, name string) (idents []*ast.Ident) {
	ast.Inspect(t, func(node ast.Node) bool {
		if _, ok := node.(*ast.FuncType); ok {
			return false // Its parameters are no members.
		}
		if field, ok := node.(*ast.Field); ok {
			for _, ident := range field.Names {
				if ident.Name == name {
					idents = append(idents, ident)
				}
			}
		}
		return true
	})
	return idents
}

// vacuous are names of second values that say only that something was found, or is of a kind;
// what names a fact of its own, such as "expired", stays.
var vacuous = strings.Fields(`
	is found known there twice has taken left told set seen was ran here sees given own named goes asked said recorded any none other
	no in inA let begun before arrived again all about able first one list carried down late lost mine moved alone begins ends starts
	isText isMap isWhole isType isString isRemark isPlugin isList isMapping isExit isOurs
`)

// chooseLookups names the second value of look-ups ok: of maps, type assertions, channels, and
// of functions that return a bool second. It leaves out what would hide another ok that is
// used there.
func (c *code) chooseLookups(chosen renames, patterns []string) {
	for _, name := range c.names() {
		f := c.files[name]
		if !matches(c.relative(name), patterns) {
			continue
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			assign, ok := node.(*ast.AssignStmt)
			if !ok {
				return true
			}
			second, ok := secondValue(f, assign)
			if !ok || !slices.Contains(vacuous, second) {
				return true
			}
			ident := assign.Lhs[1].(*ast.Ident)
			object := f.within.TypesInfo.Defs[ident]
			if f.isFree(object, "ok", chosen) {
				chosen[placeOf(f.within.Fset, ident.Pos())] = "ok"
			}
			return true
		})
	}
}

// secondValue returns the name of a bool that a statement declares as the second of two values.
func secondValue(f *file, assign *ast.AssignStmt) (name string, ok bool) {
	if assign.Tok != token.DEFINE || len(assign.Lhs) != 2 || len(assign.Rhs) != 1 {
		return "", false
	}
	ident, ok := assign.Lhs[1].(*ast.Ident)
	if !ok {
		return "", false
	}
	object, ok := f.within.TypesInfo.Defs[ident].(*types.Var)
	if !ok || !types.Identical(object.Type().Underlying(), types.Typ[types.Bool]) {
		return "", false
	}
	return ident.Name, true
}

// isFree reports whether a local variable may bear a name: no other in its scope does, none
// outside that is used in it, and none inside in whose scope it is used.
func (f *file) isFree(object types.Object, name string, chosen renames) bool {
	files, info := f.within.Fset, f.within.TypesInfo
	named := func(o types.Object) bool {
		if o == nil || o == object {
			return false
		}
		if renamed, ok := chosen[placeOf(files, o.Pos())]; ok {
			return renamed == name
		}
		return o.Name() == name
	}
	scope := object.Parent()
	if scope == nil {
		return false
	}
	for _, other := range scope.Names() {
		if named(scope.Lookup(other)) {
			return false
		}
	}
	free := true
	f.idents(func(ident *ast.Ident) {
		if !free || ident.Pos() < scope.Pos() || ident.Pos() > scope.End() {
			return
		}
		used := info.Uses[ident]
		switch {
		case used == nil:
		case named(used) && used.Parent() != nil && encloses(used.Parent(), scope):
			free = false
		case used == object:
			for inner := scope.Innermost(ident.Pos()); inner != nil && inner != scope; inner = inner.Parent() {
				for _, other := range inner.Names() {
					if o := inner.Lookup(other); named(o) && o.Pos() < ident.Pos() {
						free = false
					}
				}
			}
		}
	})
	return free
}

func encloses(outer, inner *types.Scope) bool {
	for s := inner.Parent(); s != nil; s = s.Parent() {
		if s == outer {
			return true
		}
	}
	return false
}

// matches reports whether a file is of one of the packages that patterns such as ./internal/...
// name.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		pattern = strings.TrimPrefix(pattern, "./")
		if pattern == "..." {
			return true
		}
		folder, below := strings.CutSuffix(pattern, "/...")
		dir := filepath.ToSlash(filepath.Dir(name))
		return dir == folder || below && strings.HasPrefix(dir, folder+"/")
	})
}
