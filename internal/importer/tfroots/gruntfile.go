package tfroots

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// mostIncludes is how deep files of Terragrunt include, or read, each other.
const mostIncludes = 8

// grunt is a file of Terragrunt, with all that it includes.
type grunt struct {
	// name is its path from the top, at the folder of the unit that it is read for.
	name, at string
	// source is the module, as it is written.
	source string
	state  struct {
		kind   string
		config map[string]cty.Value
	}
	locals  map[string]cty.Value
	inputs  map[string]input
	parents []*grunt
	// ids are the assets of other units, by the name of the block dependency.
	ids map[string]string
	// needs are folders of units that come before.
	needs []string
	// wrong is what keeps the unit from being taken over, told what is left out of it.
	wrong []string
	told  []told
}

type told struct {
	what, why string
	isWrong   bool
}

// input is a value for a variable, or why it cannot be told.
type input struct {
	value  cty.Value
	unread string
}

// findGrunt lists the folders with units and with stacks.
func (l *layout) findGrunt() (units, stacks []string, err error) {
	err = filepath.WalkDir(l.top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := entry.Name(); entry.IsDir() && name != l.top && strings.HasPrefix(base, ".") {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(l.top, filepath.Dir(name))
		if err != nil {
			return err
		}
		switch entry.Name() {
		case unitFile:
			units = append(units, filepath.ToSlash(relative))
		case "terragrunt.stack.hcl":
			stacks = append(stacks, filepath.ToSlash(relative))
		}
		return nil
	})
	return units, stacks, err
}

// readGrunt reads a file for a unit's folder.
func (l *layout) readGrunt(name, at string, depth int) (*grunt, error) {
	if depth > mostIncludes {
		return nil, fmt.Errorf("%s: files include each other more than %d deep", name, mostIncludes)
	}
	file, err := parse(l.top, name)
	if err != nil {
		return nil, err
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, fmt.Errorf("%s is no HCL", name)
	}
	g := &grunt{name: name, at: at, inputs: map[string]input{}, ids: map[string]string{}}
	scope := &hcl.EvalContext{Functions: l.gruntFunctions(g, depth), Variables: map[string]cty.Value{}}
	if err := l.readIncludes(g, body, scope, depth); err != nil {
		return nil, err
	}
	for _, block := range blocksOf(body, "locals") {
		attributes, _ := block.Body.JustAttributes()
		g.locals = evaluateAll(slices.Collect(maps.Values(attributes)), scope, "local")
	}
	scope.Variables["local"] = objectOf(g.locals)
	g.readDependencies(l, body, scope)
	if err := g.readModule(body, scope); err != nil {
		return nil, err
	}
	g.readInputs(body, scope)
	g.merge()
	return g, nil
}

// readIncludes reads the parents, which are evaluated for the same unit.
func (l *layout) readIncludes(g *grunt, body *hclsyntax.Body, scope *hcl.EvalContext, depth int) error {
	exposed := map[string]cty.Value{}
	for _, block := range blocksOf(body, "include") {
		attribute, ok := block.Body.Attributes["path"]
		if !ok {
			continue
		}
		where := placeOf(block.DefRange())
		text, ok := textOf(attribute.Expr, scope)
		if !ok {
			return fmt.Errorf("%s: the path of what is included cannot be told", where)
		}
		if !filepath.IsAbs(text) {
			text = filepath.Join(l.top, filepath.FromSlash(path.Dir(g.name)), text)
		}
		relative, err := filepath.Rel(l.top, text)
		if err != nil || !filepath.IsLocal(relative) {
			return fmt.Errorf("%s: what is included lies outside of %s: name a folder above both", where, l.top)
		}
		parent, err := l.readGrunt(filepath.ToSlash(relative), g.at, depth+1)
		if err != nil {
			return err
		}
		if strategy, ok := block.Body.Attributes["merge_strategy"]; ok {
			if text, _ := textOf(strategy.Expr, scope); text != "shallow" {
				g.wrong = append(g.wrong, where.String()+": it is merged by the strategy "+text+", and here only shallow is known")
			}
		}
		g.parents = append(g.parents, parent)
		if len(block.Labels) == 1 {
			exposed[block.Labels[0]] = cty.ObjectVal(map[string]cty.Value{"locals": objectOf(parent.locals), "path": cty.StringVal(text)})
		}
	}
	if len(exposed) > 0 {
		scope.Variables["include"] = objectOf(exposed)
	}
	return nil
}

func (g *grunt) readDependencies(l *layout, body *hclsyntax.Body, scope *hcl.EvalContext) {
	need := func(expression hcl.Expression, label string) {
		where := placeOf(expression.Range())
		text, ok := textOf(expression, scope)
		at := path.Join(g.at, text)
		if filepath.IsAbs(text) {
			relative, err := filepath.Rel(l.top, text)
			ok, at = ok && err == nil, filepath.ToSlash(relative)
		}
		if !ok || !filepath.IsLocal(at) {
			g.wrong = append(g.wrong, where.String()+": which unit it depends on cannot be told")
			return
		}
		g.needs = append(g.needs, at)
		if label != "" {
			g.ids[label] = l.idOf(at)
		}
	}
	for _, block := range blocksOf(body, "dependency") {
		if at, ok := block.Body.Attributes["config_path"]; ok && len(block.Labels) == 1 {
			need(at.Expr, block.Labels[0])
		}
	}
	for _, block := range blocksOf(body, "dependencies") {
		if paths, ok := block.Body.Attributes["paths"]; ok {
			list, _ := hcl.ExprList(paths.Expr)
			for _, one := range list {
				need(one, "")
			}
		}
	}
}

// readModule reads the module's source, the backend, and what Lehr cannot do.
func (g *grunt) readModule(body *hclsyntax.Body, scope *hcl.EvalContext) error {
	for _, block := range body.Blocks {
		where := placeOf(block.DefRange()).String()
		switch block.Type {
		case "terraform":
			if source, ok := block.Body.Attributes["source"]; ok {
				if g.source, ok = textOf(source.Expr, scope); !ok {
					g.wrong = append(g.wrong, where+": the source of its module cannot be told")
				}
			}
			g.readHooks(block)
		case "remote_state":
			g.readState(block, scope, where)
		case "generate":
			g.wrong = append(g.wrong, where+": it writes a file into its module before each run: write that file there yourself")
		case "errors", "retryable_errors", "engine", "feature", "exclude":
			g.told = append(g.told, told{"the block " + block.Type, "Lehr has nothing like it", false})
		}
	}
	for _, name := range []string{"terraform_binary", "iam_role", "terraform_version_constraint", "prevent_destroy", "skip"} {
		if _, ok := body.Attributes[name]; ok {
			g.told = append(g.told, told{name, "the operator's list says which program runs, and by which credentials; what is destroyed needs an approval", false})
		}
	}
	return nil
}

func (g *grunt) readHooks(block *hclsyntax.Block) {
	for _, inner := range block.Body.Blocks {
		where := placeOf(inner.DefRange()).String()
		switch inner.Type {
		case "before_hook", "after_hook", "error_hook":
			g.wrong = append(g.wrong, where+": the hook is a program that Lehr does not run: let something else do what it does, such as a task")
		case "extra_arguments":
			g.told = append(g.told, told{"extra_arguments", "files of values and variables that it names belong into with; they are not read", true})
		}
	}
}

func (g *grunt) readState(block *hclsyntax.Block, scope *hcl.EvalContext, where string) {
	g.state.config = map[string]cty.Value{}
	if kind, ok := block.Body.Attributes["backend"]; ok {
		g.state.kind, _ = textOf(kind.Expr, scope)
	}
	if g.state.kind == "" {
		g.wrong = append(g.wrong, where+": the backend of remote_state cannot be told")
	}
	config, ok := block.Body.Attributes["config"]
	if !ok {
		return
	}
	pairs, _ := hcl.ExprMap(config.Expr)
	for _, pair := range pairs {
		name, ok := textOf(pair.Key, nil)
		value, diagnostics := pair.Value.Value(scope)
		if slices.Contains(ofTerragrunt, name) {
			continue
		}
		if !ok || diagnostics.HasErrors() || !value.IsWhollyKnown() {
			g.wrong = append(g.wrong, placeOf(pair.Value.Range()).String()+": the setting "+name+" of the backend cannot be told")
			continue
		}
		g.state.config[name] = value
	}
}

func (g *grunt) readInputs(body *hclsyntax.Body, scope *hcl.EvalContext) {
	attribute, ok := body.Attributes["inputs"]
	if !ok {
		return
	}
	pairs, diagnostics := hcl.ExprMap(attribute.Expr)
	if diagnostics.HasErrors() {
		// It is no list of values but an expression, as merge(…).
		value, diagnostics := attribute.Expr.Value(g.scopeOf(attribute.Expr, scope))
		if diagnostics.HasErrors() || !value.Type().IsObjectType() {
			g.told = append(g.told, told{"inputs", "they cannot be told: " + diagnosis(diagnostics), true})
			return
		}
		for name, one := range value.AsValueMap() {
			g.inputs[name] = input{value: one}
		}
		return
	}
	for _, pair := range pairs {
		name, ok := textOf(pair.Key, nil)
		if !ok {
			continue
		}
		value, diagnostics := pair.Value.Value(g.scopeOf(pair.Value, scope))
		one := input{value: value}
		if diagnostics.HasErrors() || !value.IsWhollyKnown() {
			one = input{value: cty.NullVal(cty.String), unread: diagnosis(diagnostics)}
		}
		g.inputs[name] = one
	}
}

// scopeOf an expression knows the outputs that it uses.
func (g *grunt) scopeOf(expression hcl.Expression, scope *hcl.EvalContext) *hcl.EvalContext {
	inner := scope.NewChild()
	inner.Variables = map[string]cty.Value{"dependency": outputsOf(expression, g.ids)}
	return inner
}

// merge takes from the parents what the file does not say itself.
func (g *grunt) merge() {
	for _, parent := range g.parents {
		g.source = cmpOr(g.source, parent.source)
		if g.state.kind == "" {
			g.state = parent.state
		}
		for name, one := range parent.inputs {
			if _, ok := g.inputs[name]; !ok {
				g.inputs[name] = one
			}
		}
		g.needs = append(g.needs, parent.needs...)
		g.wrong, g.told = append(g.wrong, parent.wrong...), append(g.told, parent.told...)
	}
}

var textParameter = function.Parameter{Name: "text", Type: cty.String}

// gruntFunctions are those of Terragrunt's functions that rest on files alone.
func (l *layout) gruntFunctions(g *grunt, depth int) map[string]function.Function {
	home := filepath.Join(l.top, filepath.FromSlash(g.at))
	own := filepath.Join(l.top, filepath.FromSlash(path.Dir(g.name)))
	all := maps.Clone(functions)
	constant := func(name, text string) {
		all[name] = textFunction(func([]cty.Value) (string, error) { return text, nil })
	}
	constant("get_terragrunt_dir", home)
	constant("get_original_terragrunt_dir", home)
	constant("get_parent_terragrunt_dir", own)
	constant("get_repo_root", l.top)
	relative, _ := filepath.Rel(own, home)
	constant("path_relative_to_include", filepath.ToSlash(relative))
	back, _ := filepath.Rel(home, own)
	constant("path_relative_from_include", filepath.ToSlash(back))
	all["find_in_parent_folders"] = textFunction(func(arguments []cty.Value) (string, error) {
		name := unitFile
		if len(arguments) > 0 {
			name = arguments[0].AsString()
		}
		for at := filepath.Dir(home); strings.HasPrefix(at+"/", l.top+"/"); at = filepath.Dir(at) {
			if _, err := os.Stat(filepath.Join(at, name)); err == nil {
				return filepath.Join(at, name), nil
			}
		}
		if len(arguments) > 1 {
			return arguments[1].AsString(), nil
		}
		return "", errors.New("no folder above has " + name)
	})
	all["read_terragrunt_config"] = l.configFunction(g, depth)
	return all
}

func textFunction(make func([]cty.Value) (string, error)) function.Function {
	return function.New(&function.Spec{
		VarParam: &textParameter, Type: function.StaticReturnType(cty.String),
		Impl: func(arguments []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := make(arguments)
			return cty.StringVal(text), err
		},
	})
}

// configFunction reads another file's locals and inputs.
func (l *layout) configFunction(g *grunt, depth int) function.Function {
	read := func(arguments []cty.Value) (cty.Value, error) {
		name := arguments[0].AsString()
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.top, filepath.FromSlash(g.at), name)
		}
		relative, err := filepath.Rel(l.top, name)
		if err != nil || !filepath.IsLocal(relative) {
			return cty.NilVal, errors.New("it lies outside of what is read")
		}
		other, err := l.readGrunt(filepath.ToSlash(relative), g.at, depth+1)
		if err != nil {
			return cty.NilVal, err
		}
		inputs := map[string]cty.Value{}
		for key, one := range other.inputs {
			if one.unread == "" {
				inputs[key] = one.value
			}
		}
		return cty.ObjectVal(map[string]cty.Value{"locals": objectOf(other.locals), "inputs": objectOf(inputs)}), nil
	}
	return function.New(&function.Spec{
		Params: []function.Parameter{textParameter},
		Type: func(arguments []cty.Value) (cty.Type, error) {
			if !arguments[0].IsKnown() {
				return cty.DynamicPseudoType, nil
			}
			value, err := read(arguments)
			if err != nil {
				return cty.DynamicPseudoType, err
			}
			return value.Type(), nil
		},
		Impl: func(arguments []cty.Value, _ cty.Type) (cty.Value, error) { return read(arguments) },
	})
}
