package tfroots

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"lehr.dev/internal/ground/secrecy"
)

// unit is a folder with a terragrunt.hcl that is no mere parent of others.
type unit struct {
	at   string
	file *grunt
	// source is the folder of its module.
	source string
	// wrong says why it cannot be taken over; empty: it can.
	wrong string
}

const unitFile = "terragrunt.hcl"

func (l *layout) hasTerragrunt(at string) bool {
	info, err := os.Stat(filepath.Join(l.top, filepath.FromSlash(at), unitFile))
	return err == nil && info.Mode().IsRegular()
}

// isSource reports whether a folder is the module of a unit.
func (l *layout) isSource(at string) bool {
	for _, u := range l.units {
		if u.source == at {
			return true
		}
	}
	return false
}

// at is the folder that people know a root module by.
func (r *root) at() string {
	if r.unit != nil {
		return r.unit.at
	}
	return r.folder.path
}

// readUnits reads all that Terragrunt runs here.
func (l *layout) readUnits() error {
	found, stacks, err := l.findGrunt()
	if err != nil {
		return err
	}
	for _, at := range stacks {
		l.leave(path.Join(at, "terragrunt.stack.hcl"), "stacks are not read: let terragrunt stack generate write the units, and import those", true)
	}
	parents := map[string]bool{}
	read := map[string]*unit{}
	for _, at := range found {
		g, err := l.readGrunt(path.Join(at, unitFile), at, 0)
		if err != nil {
			l.leave(path.Join(at, unitFile), err.Error(), true)
			continue
		}
		for _, parent := range g.parents {
			parents[parent.name] = true
		}
		read[at] = &unit{at: at, file: g}
	}
	for _, at := range slices.Sorted(maps.Keys(read)) {
		u := read[at]
		if _, hasCode := l.folders[at]; parents[path.Join(at, unitFile)] && !hasCode && u.file.source == "" {
			continue // It is only included by others.
		}
		u.wrong = u.resolve(l)
		l.units[at] = u
	}
	return nil
}

// resolve finds the unit's module. It returns why the unit cannot be taken over.
func (u *unit) resolve(l *layout) (wrong string) {
	g := u.file
	if len(g.wrong) > 0 {
		return strings.Join(g.wrong, "; ")
	}
	u.source = u.at
	if g.source != "" {
		plain := strings.Replace(g.source, "//", "/", 1)
		switch {
		case filepath.IsAbs(plain):
			relative, err := filepath.Rel(l.top, plain)
			if err != nil || !filepath.IsLocal(relative) {
				return fmt.Sprintf("its module lies in %s, outside of %s: name a folder above both", plain, l.top)
			}
			u.source = filepath.ToSlash(relative)
		case isLocal(plain):
			u.source = path.Join(u.at, plain)
		default:
			u.source = ""
			return "its module is fetched from " + secrecy.Redact(g.source) + " as a root module, and Lehr takes root modules from files: put it into this repository, and name it by a path"
		}
	}
	f, ok := l.folders[u.source]
	switch {
	case !ok:
		return "its module " + u.source + " has no .tf file"
	case f.elsewhere != nil:
		return f.elsewhere.String() + ": the block cloud, or the backend remote, has plans and applies run elsewhere, which Lehr can neither admit nor stop"
	case g.state.kind == "remote":
		return "the backend remote has plans and applies run elsewhere, which Lehr can neither admit nor stop"
	case f.backend == nil && g.state.kind != "":
		return fmt.Sprintf(`Terragrunt writes the backend's block into its module: write backend %q {} into a block terraform of %s; its settings are taken from remote_state`, g.state.kind, u.source)
	case f.backend == nil:
		return "neither remote_state nor its module has a backend"
	case g.state.kind != "" && g.state.kind != f.backend.kind:
		return fmt.Sprintf("remote_state has the backend %s, and its module %s", g.state.kind, f.backend.kind)
	}
	return ""
}

// addUnits makes root modules of the units, with what they take from each other.
func (l *layout) addUnits() {
	if len(l.units) > 0 {
		l.Read = append(l.Read, "Terragrunt: "+count(len(l.units), "unit"))
	}
	for _, at := range slices.Sorted(maps.Keys(l.units)) {
		u := l.units[at]
		if u.wrong == "" {
			if err := l.addUnit(u); err != nil {
				u.wrong = err.Error()
			}
		}
		if u.wrong != "" {
			l.leave(path.Join(at, unitFile), u.wrong, true)
		}
	}
}

func (l *layout) addUnit(u *unit) error {
	f := l.folders[u.source]
	if err := l.checkCalls(f); err != nil {
		return err
	}
	r := &root{id: l.idOf(u.at), folder: f, unit: u, backend: map[string]string{}, variables: maps.Clone(f.values.variables)}
	for _, name := range slices.Sorted(maps.Keys(u.file.state.config)) {
		if slices.Contains(ofTerragrunt, name) {
			continue
		}
		text, ok := scalarText(u.file.state.config[name])
		if !ok {
			return fmt.Errorf("the setting %s of remote_state is neither a text nor a number", name)
		}
		l.addSetting(r, name, text, "remote_state of "+u.at)
	}
	if f.backend.kind == "local" {
		text, ok := r.backend["path"]
		if !ok || !filepath.IsAbs(text) {
			return fmt.Errorf("the backend local keeps the state in Terragrunt's own folder: write an absolute path")
		}
	}
	for _, other := range u.file.needs {
		needed, ok := l.units[other]
		if !ok || needed.wrong != "" {
			l.leave(path.Join(u.at, unitFile)+": what it needs of "+other, "that is not taken over", true)
			continue
		}
		r.dependOn(l.idOf(other))
	}
	l.addInputs(r, u)
	for _, told := range u.file.told {
		l.leave(path.Join(u.at, unitFile)+": "+told.what, told.why, told.isWrong)
	}
	l.roots = append(l.roots, r)
	return nil
}

// addInputs makes variables of a unit's inputs: those that its module declares, as Terraform
// takes no others by name.
func (l *layout) addInputs(r *root, u *unit) {
	for _, name := range slices.Sorted(maps.Keys(u.file.inputs)) {
		declared, ok := r.folder.variables[name]
		if !ok {
			continue
		}
		input := u.file.inputs[name]
		place := path.Join(u.at, unitFile) + ": inputs." + name
		text, err := variableText(input.value)
		switch {
		case input.unread != "":
			l.leave(place, "its value cannot be told: "+input.unread, true)
		case input.value.IsNull():
		case err != nil:
			l.leave(place, "its value has no JSON", true)
		case declared.isSensitive || isSecret(name, input.value):
			l.leave(place, "it is secret, or may be", false)
			l.addHint("give the variable " + name + " in the operator's list: secrets: {TF_VAR_" + name + ": {file: /path}}")
		default:
			r.variables[name] = text
		}
	}
}

// ofTerragrunt are settings of remote_state that are Terragrunt's own.
var ofTerragrunt = []string{
	"accesslogging_bucket_name", "accesslogging_bucket_tags", "accesslogging_target_object_partition_date_source", "accesslogging_target_prefix", "bucket_sse_algorithm",
	"bucket_sse_kms_key_id", "disable_aws_client_checksums", "disable_bucket_update", "disable_init", "dynamodb_table_tags", "enable_bucket_policy_only",
	"enable_lock_table_ssencryption", "gcs_bucket_labels", "location", "project", "s3_bucket_tags", "skip_accesslogging_bucket_acl",
	"skip_accesslogging_bucket_enforced_tls", "skip_accesslogging_bucket_public_access_blocking", "skip_accesslogging_bucket_ssencryption", "skip_bucket_accesslogging",
	"skip_bucket_creation", "skip_bucket_enforced_tls", "skip_bucket_public_access_blocking", "skip_bucket_root_access", "skip_bucket_ssencryption", "skip_bucket_versioning",
	"skip_versioning",
}

// outputsOf are the outputs of other units that an expression uses, as the texts for which Lehr
// puts their values.
func outputsOf(expression hcl.Expression, ids map[string]string) cty.Value {
	names := map[string]map[string]cty.Value{}
	for _, traversal := range expression.Variables() {
		if traversal.RootName() != "dependency" || len(traversal) < 4 {
			continue
		}
		unitName, isName := traversal[1].(hcl.TraverseAttr)
		middle, isMiddle := traversal[2].(hcl.TraverseAttr)
		output, isOutput := traversal[3].(hcl.TraverseAttr)
		id, isKnown := ids[unitName.Name]
		if !isName || !isMiddle || !isOutput || middle.Name != "outputs" || !isKnown {
			continue
		}
		if names[unitName.Name] == nil {
			names[unitName.Name] = map[string]cty.Value{}
		}
		names[unitName.Name][output.Name] = cty.StringVal("${output:" + id + "#" + output.Name + "}")
	}
	units := map[string]cty.Value{}
	for name, outputs := range names {
		units[name] = cty.ObjectVal(map[string]cty.Value{"outputs": objectOf(outputs)})
	}
	return objectOf(units)
}

// blocksOf lists the blocks of one type.
func blocksOf(body *hclsyntax.Body, kind string) (found []*hclsyntax.Block) {
	for _, block := range body.Blocks {
		if block.Type == kind {
			found = append(found, block)
		}
	}
	return found
}
