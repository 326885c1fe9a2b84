package tfroots

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	jsonsyntax "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/generator/hclnesting"
)

// mostFile bytes of one file are read. It bounds how deep its brackets nest, too.
const mostFile = 1 << 20

// folder is a folder with files of Terraform's language.
type folder struct {
	// path from the top of what is read, with slashes; "." is the top.
	path string
	// names are its files, without those that Terraform makes.
	names []string
	// backend is nil where there is none; elsewhere is the block by which plans run elsewhere.
	backend   *backend
	elsewhere *place
	calls     []call
	states    []remoteState
	variables map[string]variable
	// mentioned are files that its expressions read by a constant path, from the top.
	mentioned []string
	// values are those of variables that Terraform reads by itself, scope what its
	// expressions can be evaluated by.
	values *values
	scope  *hcl.EvalContext
}

// place is a line of a file, for people.
type place struct {
	file string
	line int
}

// backend is the block that says who keeps the state.
type backend struct {
	kind   string
	config map[string]cty.Value
	place  place
}

// call is a module that is called.
type call struct {
	source string
	place  place
}

// remoteState is a data source that reads another module's state.
type remoteState struct {
	kind      string
	workspace string
	config    map[string]cty.Value
	place     place
	// unread says why the configuration cannot be told; empty: it can.
	unread string
}

type variable struct{ isSensitive bool }

var (
	rootSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "terraform"}, {Type: "module", LabelNames: []string{"name"}}, {Type: "data", LabelNames: []string{"type", "name"}},
		{Type: "variable", LabelNames: []string{"name"}}, {Type: "locals"},
	}}
	terraformSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "backend", LabelNames: []string{"type"}}, {Type: "cloud"}}}
	moduleSchema    = attributes("source")
	variableSchema  = attributes("default", "sensitive")
	stateSchema     = attributes("backend", "config", "workspace")
)

func attributes(names ...string) *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, name := range names {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	return schema
}

// isCode reports whether a file is of Terraform's language.
func isCode(name string) bool {
	return strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")
}

// parse reads a file. An error is Invalid, with file and line.
func parse(top, name string) (*hcl.File, error) {
	text, err := files.ReadForeign(filepath.Join(top, filepath.FromSlash(name)), mostFile)
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading %s: %w", name, err).WithHint("let what is read be regular files of at most 1 MiB")
	}
	isJSON := strings.HasSuffix(name, ".json")
	if isJSON && hclnesting.IsTooDeepJSON(text) || !isJSON && hclnesting.IsTooDeep(text) {
		return nil, fault.New(fault.Invalid, "%s: it is wrong, or nested deeper than can be read", name).WithHint("mend the file: terraform validate says more")
	}
	var file *hcl.File
	var diagnostics hcl.Diagnostics
	if isJSON {
		file, diagnostics = jsonsyntax.Parse(text, name)
	} else {
		file, diagnostics = hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	}
	if diagnostics.HasErrors() {
		return nil, fault.New(fault.Invalid, "%s", diagnosis(diagnostics)).WithHint("mend the file: terraform validate says more")
	}
	return file, nil
}

// diagnosis is the first error, without a text of the file: that could be a secret.
func diagnosis(diagnostics hcl.Diagnostics) string {
	for _, d := range diagnostics {
		if d.Severity != hcl.DiagError {
			continue
		}
		if d.Subject == nil {
			return d.Summary
		}
		return placeOf(*d.Subject).String() + ": " + d.Summary
	}
	return "it is wrong"
}

// readFolder reads the files of Terraform's language in one folder; nil: it has none.
func readFolder(top, at string, entries []fs.DirEntry) (*folder, error) {
	f := &folder{path: at, variables: map[string]variable{}}
	hasCode := false
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			f.names = append(f.names, entry.Name())
			hasCode = hasCode || isCode(entry.Name())
		}
	}
	if !hasCode {
		return nil, nil
	}
	reader := &folderReader{folder: f, top: top}
	for _, name := range f.names {
		if isCode(name) {
			if err := reader.add(path.Join(at, name)); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if f.values, err = readValues(top, f); err != nil {
		return nil, err
	}
	reader.evaluate()
	return f, nil
}

// folderReader collects the blocks of a folder, and evaluates them when it has all.
type folderReader struct {
	*folder
	top      string
	data     []*hcl.Block
	defaults map[string]cty.Value
	locals   []*hcl.Attribute
}

func (r *folderReader) add(name string) error {
	file, err := parse(r.top, name)
	if err != nil {
		return err
	}
	content, _, diagnostics := file.Body.PartialContent(rootSchema)
	for _, block := range content.Blocks {
		switch block.Type {
		case "terraform":
			diagnostics = append(diagnostics, r.addSettings(block)...)
		case "module":
			inner, _, d := block.Body.PartialContent(moduleSchema)
			diagnostics = append(diagnostics, d...)
			if source, ok := inner.Attributes["source"]; ok {
				if text, ok := textOf(source.Expr, nil); ok {
					r.calls = append(r.calls, call{text, placeOf(block.DefRange)})
				}
			}
		case "variable":
			diagnostics = append(diagnostics, r.addVariable(block)...)
		case "data":
			if block.Labels[0] == "terraform_remote_state" {
				r.data = append(r.data, block)
			}
		case "locals":
			locals, d := block.Body.JustAttributes()
			diagnostics = append(diagnostics, d...)
			for _, local := range locals {
				r.locals = append(r.locals, local)
			}
		}
	}
	if diagnostics.HasErrors() {
		return fault.New(fault.Invalid, "%s", diagnosis(diagnostics)).WithHint("mend the file: terraform validate says more")
	}
	r.addMentioned(file)
	return nil
}

func (r *folderReader) addSettings(block *hcl.Block) hcl.Diagnostics {
	inner, _, diagnostics := block.Body.PartialContent(terraformSchema)
	for _, one := range inner.Blocks {
		at := placeOf(one.DefRange)
		if one.Type == "cloud" {
			r.elsewhere = &at
			continue
		}
		found := &backend{kind: one.Labels[0], config: map[string]cty.Value{}, place: at}
		settings, d := one.Body.JustAttributes()
		if found.kind == "remote" {
			r.elsewhere, d = &at, nil // It has a block workspaces.
		}
		diagnostics = append(diagnostics, d...)
		for name, attribute := range settings {
			if value, d := attribute.Expr.Value(nil); !d.HasErrors() {
				found.config[name] = value
			}
		}
		r.backend = found
	}
	return diagnostics
}

func (r *folderReader) addVariable(block *hcl.Block) hcl.Diagnostics {
	inner, _, diagnostics := block.Body.PartialContent(variableSchema)
	found := variable{}
	if sensitive, ok := inner.Attributes["sensitive"]; ok {
		value, d := sensitive.Expr.Value(nil)
		found.isSensitive = d.HasErrors() || !value.RawEquals(cty.False)
	}
	if standard, ok := inner.Attributes["default"]; ok {
		if value, d := standard.Expr.Value(nil); !d.HasErrors() {
			if r.defaults == nil {
				r.defaults = map[string]cty.Value{}
			}
			r.defaults[block.Labels[0]] = value
		}
	}
	r.variables[block.Labels[0]] = found
	return diagnostics
}

// readers are functions of Terraform that read a file which lies beside.
var readers = []string{"file", "filebase64", "filemd5", "filesha1", "filesha256", "filesha512", "filebase64sha256", "filebase64sha512", "templatefile"}

// addMentioned collects the files that expressions read by a constant path.
func (r *folderReader) addMentioned(file *hcl.File) {
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		_ = hclsyntax.VisitAll(body, r.addRead)
		return
	}
	// In JSON each text may have expressions.
	for decoder := json.NewDecoder(bytes.NewReader(file.Bytes)); ; {
		token, err := decoder.Token()
		if err != nil {
			return
		}
		if text, ok := token.(string); ok && strings.Contains(text, "${") {
			if template, diagnostics := hclsyntax.ParseTemplate([]byte(text), "", hcl.InitialPos); !diagnostics.HasErrors() {
				_ = hclsyntax.VisitAll(template, r.addRead)
			}
		}
	}
}

// addRead collects the file that one call of a function reads.
func (r *folderReader) addRead(node hclsyntax.Node) hcl.Diagnostics {
	function, ok := node.(*hclsyntax.FunctionCallExpr)
	if !ok || len(function.Args) == 0 || !slices.Contains(readers, function.Name) {
		return nil
	}
	scope := &hcl.EvalContext{Variables: map[string]cty.Value{"path": pathValue}}
	if text, ok := textOf(function.Args[0], scope); ok && !path.IsAbs(text) {
		at := path.Join(r.path, text)
		info, err := os.Stat(filepath.Join(r.top, filepath.FromSlash(at)))
		if err == nil && info.Mode().IsRegular() && filepath.IsLocal(at) && !slices.Contains(r.mentioned, at) {
			r.mentioned = append(r.mentioned, at)
		}
	}
	return nil
}

// pathValue is what an expression has for path: all are the folder itself.
var pathValue = cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal("."), "root": cty.StringVal("."), "cwd": cty.StringVal(".")})

// evaluate what is said of other states.
func (r *folderReader) evaluate() {
	given := map[string]cty.Value{}
	for name, value := range r.defaults {
		given[name] = value
	}
	for name, value := range r.values.all {
		given[name] = value
	}
	workspace := cty.ObjectVal(map[string]cty.Value{"workspace": cty.StringVal(r.workspace())})
	r.scope = &hcl.EvalContext{Functions: functions, Variables: map[string]cty.Value{"path": pathValue, "terraform": workspace, "var": objectOf(given)}}
	r.scope.Variables["local"] = objectOf(evaluateAll(r.locals, r.scope, "local"))
	for _, block := range r.data {
		r.states = append(r.states, r.readState(block))
	}
}

// workspace is the one that is selected in the folder.
func (r *folderReader) workspace() string {
	name, err := files.ReadForeign(filepath.Join(r.top, filepath.FromSlash(r.path), ".terraform", "environment"), 1000)
	if err != nil || len(strings.TrimSpace(string(name))) == 0 {
		return "default"
	}
	return strings.TrimSpace(string(name))
}

func (r *folderReader) readState(block *hcl.Block) remoteState {
	state := remoteState{config: map[string]cty.Value{}, workspace: "default", place: placeOf(block.DefRange)}
	inner, _, diagnostics := block.Body.PartialContent(stateSchema)
	fail := func(reason string) remoteState {
		state.unread = reason
		return state
	}
	if diagnostics.HasErrors() {
		return fail(diagnosis(diagnostics))
	}
	if kind, ok := inner.Attributes["backend"]; ok {
		state.kind, _ = textOf(kind.Expr, r.scope)
	}
	if state.kind == "" {
		return fail("its backend is no constant")
	}
	if workspace, ok := inner.Attributes["workspace"]; ok {
		if state.workspace, ok = textOf(workspace.Expr, r.scope); !ok {
			return fail("its workspace is known to Terraform alone")
		}
	}
	config, ok := inner.Attributes["config"]
	if !ok {
		return state
	}
	// Setting by setting: one that only Terraform knows does not hide the others.
	pairs, diagnostics := hcl.ExprMap(config.Expr)
	if diagnostics.HasErrors() {
		return fail("its config is no list of settings")
	}
	for _, pair := range pairs {
		name, ok := textOf(pair.Key, nil)
		if !ok {
			continue
		}
		if value, d := pair.Value.Value(r.scope); !d.HasErrors() {
			state.config[name] = value
		}
	}
	return state
}

func placeOf(at hcl.Range) place { return place{at.Filename, at.Start.Line} }

// errNoModule is of a folder without files of Terraform's language.
var errNoModule = errors.New("no .tf file")
