package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"os"
	"slices"
	"strings"
)

// edit replaces a piece of a file.
type edit struct {
	from, to int
	text     string
	// old is what was there.
	old string
}

// edits of a file for renames, in their order: identifiers, and the first word of the comment
// right above what is declared.
func (f *file) edits(chosen renames) (all []edit) {
	files := f.within.Fset
	offset := func(pos token.Pos) int { return files.Position(pos).Offset }
	// documented are the new names of what is declared, by line and old name.
	type declared struct {
		line int
		name string
	}
	documented := map[declared]string{}
	line := func(pos token.Pos) int { return files.Position(pos).Line }
	f.idents(func(ident *ast.Ident) {
		at, ok := declaration(f.within, ident)
		if !ok || chosen[at] == "" || ident.Name == "_" {
			return
		}
		all = append(all, edit{offset(ident.Pos()), offset(ident.End()), chosen[at], ident.Name})
		if here := placeOf(files, ident.Pos()); here == at {
			documented[declared{line(ident.Pos()), ident.Name}] = chosen[at]
		}
	})
	for _, group := range f.syntax.Comments {
		first := group.List[0]
		word, _, _ := strings.Cut(strings.TrimPrefix(first.Text, "// "), " ")
		if name := documented[declared{line(group.End()) + 1, word}]; name != "" && strings.HasPrefix(first.Text, "// ") {
			start := offset(first.Pos()) + len("// ")
			all = append(all, edit{start, start + len(word), name, word})
		}
	}
	slices.SortFunc(all, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	return slices.Compact(all)
}

// apply returns the new texts of the files that change.
func (c *code) apply(chosen renames) map[string][]byte {
	changed := map[string][]byte{}
	for _, name := range c.names() {
		all := c.files[name].edits(chosen)
		if len(all) == 0 {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			panic(err) // It was read a moment ago.
		}
		changed[name] = []byte(replace(string(text), all, 0))
	}
	return changed
}

// replace applies edits, whose offsets count from base, to a piece of a text.
func replace(text string, all []edit, base int) string {
	var out strings.Builder
	last := 0
	for _, e := range all {
		out.WriteString(text[last:e.from-base] + e.text)
		last = e.to - base
	}
	out.WriteString(text[last:])
	return out.String()
}

// verify formats what changed, and fails unless every identifier refers to the declaration that
// it referred to before, by the number of both in their files.
func (c *code) verify(changed map[string][]byte) error {
	for name, text := range changed {
		formatted, err := format.Source(text)
		if err != nil {
			return fmt.Errorf("%s: %w", c.relative(name), err)
		}
		changed[name] = formatted
	}
	after := &code{root: c.root, files: map[string]*file{}}
	for _, module := range c.modules {
		if err := after.add(module, changed); err != nil {
			return fmt.Errorf("it would not compile: %w", err)
		}
	}
	old, renamed := c.references(), after.references()
	for name, references := range old {
		if !slices.Equal(references, renamed[name]) {
			for i, reference := range references {
				if i >= len(renamed[name]) || renamed[name][i] != reference {
					return fmt.Errorf("%s: identifier %d would refer to something else: %v", c.relative(name), i, reference)
				}
			}
			return fmt.Errorf("%s: has other identifiers", c.relative(name))
		}
	}
	return nil
}

// reference says where the declaration is that an identifier refers to: the number of its
// identifier in its file; what is declared elsewhere is not followed.
type reference struct {
	file   string
	number int
}

func (c *code) references() map[string][]reference {
	numbers := map[place]int{}
	for _, name := range c.names() {
		f, n := c.files[name], 0
		f.idents(func(ident *ast.Ident) {
			n++
			numbers[placeOf(f.within.Fset, ident.Pos())] = n
		})
	}
	all := map[string][]reference{}
	for _, name := range c.names() {
		f := c.files[name]
		f.idents(func(ident *ast.Ident) {
			at, _ := declaration(f.within, ident)
			all[name] = append(all[name], reference{at.file, numbers[at]})
		})
	}
	return all
}
