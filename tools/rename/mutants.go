package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// carried says what became of the mutants.
type carried struct {
	all, changed int
	// doubts are mutants whose New has a name that was renamed somewhere in the file, but not
	// in the piece that they replace, or whose Old is no longer unique.
	doubts []string
}

// carryMutants renames what mutants replace, and what takes its place. Each is a literal in a
// folder's files with the fields File, Old and New. None is dropped.
func (c *code) carryMutants(folder string, chosen renames, changed map[string][]byte) (carried, error) {
	var told carried
	names, err := filepath.Glob(filepath.Join(c.root, folder, "*.go"))
	if err != nil {
		return told, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue // Its mutants are of made-up files.
		}
		text, ok := changed[name]
		if !ok {
			if text, err = os.ReadFile(name); err != nil {
				return told, err
			}
		}
		all, err := c.mutantEdits(name, text, chosen, changed, &told)
		if err != nil {
			return told, err
		}
		if len(all) > 0 {
			changed[name] = []byte(replace(string(text), all, 0))
		}
	}
	return told, nil
}

// mutantEdits returns the edits of the literals of one file of mutants, in their order.
func (c *code) mutantEdits(name string, text []byte, chosen renames, changed map[string][]byte, told *carried) (all []edit, err error) {
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, name, text, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(syntax, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || err != nil {
			return err == nil
		}
		fields := texts(literal)
		if fields["File"] == nil || fields["Old"] == nil || fields["New"] == nil {
			return true
		}
		told.all++
		old, replacement, doubts, problem := c.carry(value(fields["File"]), value(fields["Old"]), value(fields["New"]), chosen)
		if problem != nil {
			err = fmt.Errorf("the mutant %s: %w", value(fields["Name"]), problem)
			return false
		}
		path := filepath.Join(c.root, filepath.FromSlash(value(fields["File"])))
		if text, ok := changed[path]; ok && strings.Count(string(text), old) != 1 {
			doubts = append(doubts, fmt.Sprintf("its Old occurs %d times now", strings.Count(string(text), old)))
		}
		for _, doubt := range doubts {
			told.doubts = append(told.doubts, value(fields["Name"])+": "+doubt)
		}
		if old == value(fields["Old"]) && replacement == value(fields["New"]) {
			return false
		}
		told.changed++
		for _, change := range []struct {
			literal *ast.BasicLit
			text    string
		}{{fields["Old"], old}, {fields["New"], replacement}} {
			start := files.Position(change.literal.Pos()).Offset
			all = append(all, edit{from: start, to: start + len(change.literal.Value), text: quote(change.text, change.literal.Value)})
		}
		return false
	})
	return all, err
}

// texts returns the fields of a literal that are one literal text.
func texts(literal *ast.CompositeLit) map[string]*ast.BasicLit {
	fields := map[string]*ast.BasicLit{}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, isIdent := pair.Key.(*ast.Ident)
		text, isText := pair.Value.(*ast.BasicLit)
		if isIdent && isText && text.Kind == token.STRING {
			fields[key.Name] = text
		}
	}
	return fields
}

func value(literal *ast.BasicLit) string {
	if literal == nil {
		return ""
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		panic(err) // It was parsed.
	}
	return text
}

// quote writes a text as it was written before, if that can be.
func quote(text, before string) string {
	if strings.HasPrefix(before, "`") && !strings.Contains(text, "`") {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}

// carry renames one mutant's texts.
func (c *code) carry(name, old, replacement string, chosen renames) (newOld, newReplacement string, doubts []string, err error) {
	path := filepath.Join(c.root, filepath.FromSlash(name))
	f := c.files[path]
	if f == nil {
		return "", "", nil, fmt.Errorf("there is no file %s", name)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", nil, err
	}
	start := strings.Index(string(text), old)
	if start < 0 {
		return "", "", nil, fmt.Errorf("what it replaces is not in %s", name)
	}

	var inside []edit
	renamed, elsewhere := map[int]string{}, map[string]string{}
	for _, e := range f.edits(chosen) {
		switch {
		case e.from >= start && e.to <= start+len(old):
			inside = append(inside, e)
			renamed[e.from-start] = e.text
		case e.from < start+len(old) && e.to > start:
			return "", "", nil, fmt.Errorf("what it replaces in %s begins or ends within the name %s", name, e.old)
		default:
			elsewhere[e.old] = e.text
		}
	}
	newOld = replace(old, inside, start)

	// A piece that begins or ends within a text has its tokens elsewhere: all words count then.
	split := words
	for offset := range renamed {
		if !slices.ContainsFunc(words(old), func(word edit) bool { return word.from == offset }) {
			split = allWords
		}
	}

	// What each occurrence of a name becomes, in their order: one name may be that of two things.
	here := map[string][]string{}
	for _, word := range split(old) {
		text := word.old
		if other, ok := renamed[word.from]; ok {
			text = other
		}
		here[word.old] = append(here[word.old], text)
	}
	var outside []edit
	met := map[string]int{}
	for _, word := range split(replacement) {
		if texts := here[word.old]; texts != nil {
			word.text = texts[min(met[word.old], len(texts)-1)]
			met[word.old]++
			outside = append(outside, word)
		} else if text, ok := elsewhere[word.old]; ok {
			word.text = text
			if f.inScope(start, word.old, chosen) {
				outside = append(outside, word)
			} else {
				doubts = append(doubts, fmt.Sprintf("its New has %s, which is %s elsewhere in %s", word.old, text, name))
			}
		}
	}
	return newOld, replace(replacement, outside, 0), doubts, nil
}

// words returns the identifiers of a piece of code, with their places.
func words(text string) (found []edit) {
	files := token.NewFileSet()
	source := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(source, []byte(text), nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind == token.IDENT {
			start := source.Offset(pos)
			found = append(found, edit{from: start, to: start + len(literal), old: literal})
		}
	}
}

var word = regexp.MustCompile(`[\pL_][\pL\pN_]*`)

// allWords returns all words of a piece, those within texts too.
func allWords(text string) (found []edit) {
	for _, at := range word.FindAllStringIndex(text, -1) {
		found = append(found, edit{from: at[0], to: at[1], old: text[at[0]:at[1]]})
	}
	return found
}

// inScope reports whether a name, at an offset of the file, is that of something renamed.
func (f *file) inScope(offset int, name string, chosen renames) bool {
	files := f.within.Fset
	pos := files.File(f.syntax.FileStart).Pos(offset)
	scope := f.within.Types.Scope().Innermost(pos)
	if scope == nil {
		return false
	}
	_, object := scope.LookupParent(name, pos)
	return object != nil && chosen[placeOf(files, object.Pos())] != ""
}
