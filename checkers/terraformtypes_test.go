package checkers_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// typed has the check over all modules below infra, and one asset, since no partition is empty.
const typed = "lehr: v1\npartition: shop\nsources:\n  infra: {dir: infra, files: ['**/*.tf', '**/*.tf.json', '*.schema.json']}\n  teams: {files: [teams.yaml]}\n" +
	"generate:\n  owners: {render: assets, from: [teams]}\nvalidate:\n  programs:\n    types: {check: terraform-types, from: [infra]}\nmodels: [google.protobuf.Struct]\n"

const teams = "id: team/web\ntype: google.protobuf.Struct\npayload: {oncall: ann}\n"

// cloudSchema is of a provider with blocks, as "terraform providers schema -json" writes it.
const cloudSchema = `{"format_version": "1.0", "provider_schemas": {"registry.terraform.io/lehr/cloud": {
 "resource_schemas": {"cloud_net": {"version": 0, "block": {
  "attributes": {"id": {"type": "string", "computed": true}, "name": {"type": "string", "required": true}, "size": {"type": "number", "optional": true}, "tags": {"type": ["map", "string"], "optional": true}},
  "block_types": {"rule": {"nesting_mode": "list", "min_items": 1, "max_items": 2, "block": {"attributes": {"port": {"type": "number", "required": true}}}}}}}},
 "data_source_schemas": {"cloud_zone": {"version": 0, "block": {"attributes": {"name": {"type": "string", "required": true}}}}}}}}`

// goodJSON is one in the syntax of JSON, with a block, a list of them and a dynamic one.
const goodJSON = `{
 "//": "a comment",
 "variable": {"name": {"default": "${literal}"}},
 "locals": {"ports": [1, 2]},
 "resource": {"cloud_net": {"main": {
  "name": "${var.name}",
  "size": "3",
  "rule": [{
    "port": 1
  }]
 }, "more": {
  "name": "x",
  "depends_on": ["cloud_net.main"],
  "dynamic": {"rule": {"for_each": "${local.ports}", "content": {
    "port": "${rule.value}"
  }}}
 }}}
}
`

const goodModule = `variable "name" {}
locals { ports = [1, 2] }
data "cloud_zone" "here" { name = "x" }
resource "cloud_net" "main" {
  name  = "${var.name}-${data.cloud_zone.here.name}"
  size  = "3"
  count = 2
  lifecycle { ignore_changes = [tags, name] }
  dynamic "rule" {
    for_each = local.ports
    content { port = rule.value }
  }
}
module "inner" {
  source = "./inner"
  id     = [for one in cloud_net.main : one.id][0]
}
output "id" { value = { for k, v in module.inner : k => v } }
`

// TestTerraformTypes: modules are held to their providers' schemas, and to what they declare, in
// the sandbox and before anything is published; each finding has its file and line.
func TestTerraformTypes(t *testing.T) {
	lehr := programs(t, "lehr-terraform-types")
	folder, said := t.TempDir(), []string{}
	files := map[string]string{"lehr.yaml": typed, "teams.yaml": teams, "infra/cloud.schema.json": cloudSchema}
	inner := "variable \"id\" {}\nvariable \"more\" { default = 1 }\n"
	for name, test := range map[string]struct{ before, after, said string }{
		"all is well":             {"", "", ""},
		"an unknown argument":     {"size  =", "siez  =", `infra/main.tf:6: resource cloud_net.main has no argument "siez"; did you mean size?`},
		"a missing argument":      {`here" { name = "x" }`, `here" {}`, `infra/main.tf:3: data cloud_zone.here lacks the argument "name"`},
		"a wrong type":            {`"3"`, `"hunter2"`, "infra/main.tf:6: resource cloud_net.main: size is no number: number required"},
		"what the provider tells": {"size  = \"3\"", "id = \"x\"", "infra/main.tf:6: resource cloud_net.main: id is told by the provider"},
		"an unknown block":        {`dynamic "rule"`, `dynamic "rulez"`, `infra/main.tf:9: resource cloud_net.main has no block "rulez"; did you mean rule?`},
		"in a block":              {"port = rule.value", "prot = rule.value", `infra/main.tf:11: resource cloud_net.main: rule has no argument "prot"`},
		"no variable":             {"var.name", "var.nam", "infra/main.tf:5: var.nam is used, and not declared"},
		"no local":                {"local.ports", "local.port", "infra/main.tf:10: local.port is used, and not declared"},
		"no resource":             {"in cloud_net.main", "in cloud_net.mian", "infra/main.tf:16: cloud_net.mian is used, and not declared"},
		"no data source":          {"data.cloud_zone.here.name", "data.cloud_zone.her.name", "infra/main.tf:5: data.cloud_zone.her is used, and not declared"},
		"no module":               {"module.inner :", "module.innr :", "infra/main.tf:18: module.innr is used, and not declared"},
		"a call too much":         {"  id     =", "  idd    =", `infra/main.tf:16: module inner has no variable "idd"`},
		"a call too little":       {"  id     =", "  more   =", `infra/main.tf:14: module inner lacks the variable "id"`},
		"twice":                   {"locals {", "variable \"name\" {}\nlocals {", "infra/main.tf:2: var.name is declared already at infra/main.tf:1"},
		"JSON: all is well":       {"", "", ""},
		"JSON: an argument":       {`"size"`, `"siez"`, `infra/main.tf.json:7: resource cloud_net.main has no argument "siez"; did you mean size?`},
		"JSON: a wrong type":      {`"3"`, `"hunter2"`, "infra/main.tf.json:7: resource cloud_net.main: size is no number: number required"},
		"JSON: in a block":        {`"port": 1`, `"prot": 1`, `infra/main.tf.json:9: resource cloud_net.main: rule has no argument "prot"`},
		"JSON: a dynamic block":   {`"port": "`, `"prot": "`, `infra/main.tf.json:15: resource cloud_net.more: rule has no argument "prot"`},
		"JSON: no variable":       {"var.name", "var.nam", "infra/main.tf.json:6: var.nam is used, and not declared"},
		"JSON: no local":          {"local.ports", "local.port", "infra/main.tf.json:14: local.port is used, and not declared"},
		"JSON: no dependency":     {`"cloud_net.main"`, `"cloud_net.mian"`, "infra/main.tf.json:13: cloud_net.mian is used, and not declared"},
		"JSON: no block":          {`"locals"`, `"locls"`, "infra/main.tf.json:4: Extraneous JSON object property"},
		"JSON: none":              {`"3"`, `"3`, "infra/main.tf.json:"},
		"no HCL":                  {"size  =", "size  = [", "infra/main.tf:"},
	} {
		// Each is a module of its own, of one build.
		at := "infra/" + strings.NewReplacer(" ", "-", ":", "").Replace(name)
		if strings.HasPrefix(name, "JSON") {
			files[at+"/main.tf.json"] = strings.Replace(goodJSON, test.before, test.after, 1)
		} else {
			files[at+"/main.tf"], files[at+"/inner/inner.tf"] = strings.Replace(goodModule, test.before, test.after, 1), inner
		}
		if test.said != "" {
			said = append(said, strings.ReplaceAll(test.said, "infra/", at+"/"))
		}
	}
	write(t, folder, files)
	out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
	for _, want := range said {
		if !strings.Contains(out, "error: "+want) {
			t.Errorf("no %q", want)
		}
	}
	if err == nil || strings.Contains(out, "all-is-well") || strings.Contains(out, "hunter2") {
		t.Errorf("%v:\n%s", err, out)
	}
	for name := range files {
		isModule := strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")
		if isModule && !strings.Contains(name, "all-is-well/") {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml")); err != nil || strings.Contains(out, "warning") {
		t.Errorf("what is well: %v\n%s", err, out)
	}
}

// TestTerraformTypesWithoutSchemas: what was not checked is said, and required where the check says so.
func TestTerraformTypesWithoutSchemas(t *testing.T) {
	lehr, folder := programs(t, "lehr-terraform-types"), t.TempDir()
	untyped := strings.Replace(typed, ", '**/*.tf.json', '*.schema.json'", "", 1)
	definition := filepath.Join(folder, "lehr.yaml")
	write(t, folder, map[string]string{"lehr.yaml": untyped, "teams.yaml": teams, "infra/main.tf": "resource \"cloud_net\" \"a\" {}\n"})
	if out, err := run(t, lehr, "build", definition); err != nil || !strings.Contains(out, "warning: infra/main.tf:1: no schema was given that has the type cloud_net") {
		t.Errorf("%v:\n%s", err, out)
	}
	write(t, folder, map[string]string{"lehr.yaml": strings.Replace(untyped, "from: [infra]}\nmodels", "from: [infra], with: {require_schemas: 'true'}}\nmodels", 1)})
	if out, err := run(t, lehr, "build", definition); err == nil || !strings.Contains(out, "error: infra/main.tf:1: no schema was given that has the type cloud_net") {
		t.Errorf("%v:\n%s", err, out)
	}
	write(t, folder, map[string]string{"infra/main.tf": "a = " + strings.Repeat("[", 400_000)})
	if out, err := run(t, lehr, "build", definition); err == nil || !strings.Contains(out, "nested deeper") {
		t.Errorf("%v:\n%.2000s", err, out)
	}
}

// TestTerraformTypesAgreesWithTerraform: where "terraform validate" finds an error in a module,
// the check finds one in the same file and line, and where it finds none, neither does the check.
func TestTerraformTypesAgreesWithTerraform(t *testing.T) {
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("there is no terraform in PATH: install one from https://developer.hashicorp.com/terraform/install")
	}
	lehr, folder := programs(t, "lehr-terraform-types"), t.TempDir()
	ask := func(module string, arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), terraform, arguments...)
		command.Dir, command.Env = filepath.Join(folder, "infra", module), append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=/dev/null")
		out, err := command.Output()
		if err != nil && arguments[0] != "validate" {
			t.Fatalf("terraform %v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
	files := map[string]string{"lehr.yaml": typed, "teams.yaml": teams}
	nameOf := func(module, text string) string {
		if strings.HasPrefix(text, "{") {
			return "infra/" + module + "/main.tf.json"
		}
		return "infra/" + module + "/main.tf"
	}
	for i, text := range moduleTexts {
		files[nameOf(fmt.Sprintf("m%02d", i), text)] = text
	}
	write(t, folder, files)
	write(t, folder, map[string]string{"infra/built_in.schema.json": ask("m00", "providers", "schema", "-json")})
	out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
	if err == nil {
		t.Error("no error is found")
	}
	for i, text := range moduleTexts {
		module := fmt.Sprintf("m%02d", i)
		var theirs struct {
			Diagnostics []struct {
				Severity string
				Range    struct{ Start struct{ Line int } }
			}
		}
		if err := json.Unmarshal([]byte(ask(module, "validate", "-json")), &theirs); err != nil {
			t.Fatal(err)
		}
		isGood := true
		for _, one := range theirs.Diagnostics {
			if one.Severity != "error" {
				continue
			}
			isGood = false
			want := "error: " + nameOf(module, text) + ":"
			if one.Range.Start.Line > 0 { // Of some errors it tells no line.
				want += fmt.Sprintf("%d: ", one.Range.Start.Line)
			}
			if !strings.Contains(out, want) {
				t.Errorf("no %q:\n%s", want, text)
			}
		}
		if isGood && strings.Contains(out, "infra/"+module+"/") {
			t.Errorf("Terraform finds nothing wrong with %s:\n%s", module, text)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// moduleTexts are good and bad ones.
var moduleTexts = []string{
	"resource \"terraform_data\" \"a\" {\n  input = 1\n}\noutput \"a\" {\n  value = terraform_data.a.output\n}\n",
	"resource \"terraform_data\" \"a\" {\n  inpt = 1\n}\n",
	"resource \"terraform_data\" \"a\" {\n  output = 1\n}\n",
	"data \"terraform_remote_state\" \"a\" {\n  config = {}\n}\n",
	"data \"terraform_remote_state\" \"a\" {\n  backend = [\"local\"]\n}\n",
	"resource \"terraform_data\" \"a\" {\n  input = var.none\n}\n",
	"resource \"terraform_data\" \"a\" {\n  input = [for x in local.none : x]\n}\n",
	"resource \"terraform_data\" \"a\" {\n  input = terraform_data.b.id\n}\n",
	"resource \"terraform_data\" \"a\" {\n  input = data.terraform_remote_state.b.outputs\n}\n",
	"resource \"terraform_data\" \"a\" {\n  input {\n  }\n}\n",
	"resource \"terraform_data\" \"a\" {\n  lifecycle {\n    replace_triggered_by = [terraform_data.b]\n  }\n}\nresource \"terraform_data\" \"b\" {\n  for_each = toset([\"x\"])\n  input    = each.key\n  provisioner \"local-exec\" {\n    command = \"echo ${self.id}\"\n  }\n}\n",
	"resource \"terraform_data\" \"a\" {\n}\nresource \"terraform_data\" \"a\" {\n}\n",
	"check \"a\" {\n  data \"terraform_remote_state\" \"x\" {\n    backend = \"local\"\n  }\n  assert {\n    condition     = data.terraform_remote_state.x.outputs != null\n    error_message = \"no\"\n  }\n}\n",
	"terraform {\n  required_version = \">= 1.0\"\n}\nvariable \"a\" {\n  type    = list(string)\n  default = []\n  validation {\n    condition     = length(var.a) < 3\n    error_message = \"no\"\n  }\n}\n",
	"{\"resource\": {\"terraform_data\": {\"a\": {\"input\": {\"x\": 1}}}},\n \"output\": {\"a\": {\"value\": \"${terraform_data.a.output}\"}}}\n",
	"{\"resource\": {\"terraform_data\": {\"a\": {\n  \"inpt\": 1\n}}}}\n",
	"{\"resource\": {\"terraform_data\": {\"a\": {\n  \"input\": \"${var.none}\"\n}}}}\n",
	"{\"resource\": {\"terraform_data\": {\"a\": {\n  \"depends_on\": [\"terraform_data.b\"]\n}}}}\n",
	"{\"data\": {\"terraform_remote_state\": {\"a\": {\n  \"config\": {}\n}}}}\n",
	"{\"data\": {\"terraform_remote_state\": {\"a\": {\n  \"backend\": [\"local\"]\n}}}}\n",
	"{\"resource\": [{\"terraform_data\": {\"a\": {}}},\n  {\"terraform_data\": {\"a\": {}}}]}\n",
	"{\"variable\": {\"a\": {\"default\": \"${literal}\", \"type\": \"string\"}},\n \"resource\": {\"terraform_data\": {\"a\": {\"input\": \"${var.a}\",\n \"lifecycle\": {\"ignore_changes\": [\"input\"]}}}}}\n",
	"{\"resourc\": {}}\n",
}
