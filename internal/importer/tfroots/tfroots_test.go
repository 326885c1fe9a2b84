package tfroots

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// lay writes files into a new folder.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		at := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// generator is one of a definition, and source its files.
type generator struct {
	With struct {
		ID, Module, Workspace, Engine string
		Variables, Backend            []string
		Addons                        struct {
			Dependencies struct {
				Dependencies []struct{ On, Rule string }
			} `yaml:"Dependencies"`
		}
	}
	From []string
}

// edges are the ids that it depends on.
func (g generator) edges() (ids []string) {
	for _, one := range g.With.Addons.Dependencies.Dependencies {
		ids = append(ids, one.On)
	}
	return ids
}

type definition struct {
	Sources map[string]struct {
		Dir   string
		Files []string
	}
	Generate map[string]generator
}

func mustRead(t *testing.T, top string) (importer.Import, definition) {
	t.Helper()
	result, err := Read(top, Program{"/usr/bin/terraform", "1.11.4"})
	if err != nil {
		t.Fatal(err)
	}
	var d definition
	if err := yaml.Unmarshal([]byte(result.Definition), &d); err != nil {
		t.Fatalf("%v:\n%s", err, result.Definition)
	}
	return result, d
}

// leftOut is what was left out of a place, with the reason.
func leftOut(t *testing.T, result importer.Import, place, reason string, isWrong bool) {
	t.Helper()
	for _, one := range result.LeftOut {
		if strings.Contains(one.What, place) && strings.Contains(one.Why, reason) && one.Wrong == isWrong {
			return
		}
	}
	t.Errorf("nothing says of %q that %q (wrong: %v):\n%+v", place, reason, isWrong, result.LeftOut)
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

const s3 = `terraform {
 backend "s3" {
  bucket = "states"
  key    = "%s/terraform.tfstate"
  region = "eu-central-1"
  use_lockfile = true
 }
}
`

// TestAMonorepoOfFiftyBecomesFiftyAssets, with an edge for each state that one reads, also
// where a module that it calls does, and where the key is made of variables and locals.
func TestAMonorepoOfFiftyBecomesFiftyAssets(t *testing.T) {
	files := map[string]string{
		"modules/base/base.tf": `variable "bucket" {}`,
		"modules/reads/reads.tf": `data "terraform_remote_state" "first" {
  backend = "s3"
  config = { bucket = "states", key = "live/m00/terraform.tfstate" }
}`,
	}
	for i := range 50 {
		name := fmt.Sprintf("live/m%02d", i)
		text := fmt.Sprintf(s3, name) + `module "base" { source = "../../modules/base" }` + "\n"
		if i > 0 {
			text += fmt.Sprintf(`variable "prefix" { default = "live" }
locals { before = "${var.prefix}/m%02d" }
data "terraform_remote_state" "before" {
  backend = "s3"
  config = {
    bucket = "states"
    key    = format("%%s/terraform.tfstate", local.before)
    region = data.aws_region.here.name
  }
}
`, i-1)
		}
		if i == 7 {
			text += `module "reads" { source = "../../modules/reads" }`
		}
		files[name+"/main.tf"] = text
	}
	top := lay(t, files)
	result, d := mustRead(t, top)
	if len(d.Generate) != 50 || len(d.Sources) != 50 || len(result.LeftOut) != 0 {
		t.Fatalf("%d generators, %d sources, left out %v", len(d.Generate), len(d.Sources), result.LeftOut)
	}
	if !slices.Contains(result.Read, "50 edges between them") {
		t.Errorf("read %q", result.Read)
	}
	seventh := d.Generate["live-m07"]
	equal(t, "edges", seventh.edges(), []string{"terraform/live/m00", "terraform/live/m06"})
	equal(t, "id", seventh.With.ID, "terraform/live/m07")
	equal(t, "module", seventh.With.Module, top+"/live/m07")
	source := d.Sources[seventh.From[0]]
	equal(t, "files", source.Files, []string{"live/m07/*.tf", "modules/base/*.tf", "modules/reads/*.tf"})
	if !strings.Contains(string(result.Files["engines.yaml"]), "locked_backends: true") {
		t.Errorf("engines.yaml:\n%s", result.Files["engines.yaml"])
	}
}

// TestWhereTheStateLies: settings that init was given, the workspace and the place of a local
// state are taken over, and secrets are not.
func TestWhereTheStateLies(t *testing.T) {
	noted, _ := json.Marshal(map[string]any{"version": 3, "backend": map[string]any{"type": "s3", "config": map[string]any{
		"bucket": "states", "key": "net.tfstate", "access_key": "AKIAPLANTED", "kms_key_id": nil, "encrypt": true,
	}}})
	top := lay(t, map[string]string{
		"net/main.tf":                      "terraform {\n  backend \"s3\" {\n    key = \"net.tfstate\"\n  }\n}\n",
		"net/.terraform/terraform.tfstate": string(noted),
		"net/.terraform-version":           "1.5.7\n",
		"app/main.tf": "terraform {\n  backend \"local\" {}\n}\n" + `variable "size" {}
variable "sizes" {}
variable "db_password" {}
variable "pin" { sensitive = true }
resource "x" "y" { text = templatefile("${path.module}/motd.txt", {}) }
data "terraform_remote_state" "net" {
  backend = "s3"
  config  = { bucket = "states", key = "net.tfstate" }
}
data "terraform_remote_state" "far" {
  backend = "s3"
  config  = { bucket = "elsewhere", key = "x" }
}
data "terraform_remote_state" "made" {
  backend = "s3"
  config  = { bucket = x.y.bucket, key = "x" }
}`,
		"app/.terraform/environment":  "prod",
		"app/motd.txt":                "hello",
		"app/terraform.tfvars":        "size = 3\nsizes = [1, 2]\ndb_password = \"q7Rt2Zm4Kx9\"\n",
		"app/more.auto.tfvars":        "pin = 4711\n",
		"app/prod.tfvars":             "size = 9\n",
		"quiet/main.tf":               "terraform {\n  backend \"gcs\" {}\n}\nvariable \"a\" {}\n",
		"quiet/.terraform.lock.hcl":   "",
		"quiet/values.auto.tfvars":    "a = \"b\"\n",
		"quiet/.terraform/x/trap.tf":  "this is none",
		"examples/lone/main.tf":       `variable "b" {}`,
		"quiet/terraform.tfstate":     "{}",
		"quiet/terraform.tfvars.json": `{"a": "c"}`,
	})
	result, d := mustRead(t, top)
	equal(t, "backend", d.Generate["net"].With.Backend, []string{"bucket=states", "encrypt=true"})
	equal(t, "engine", d.Generate["net"].With.Engine, "terraform-1.5.7")
	app := d.Generate["app"]
	equal(t, "backend", app.With.Backend, []string{"path=" + top + "/app/terraform.tfstate", "workspace_dir=" + top + "/app/terraform.tfstate.d"})
	equal(t, "workspace", app.With.Workspace, "prod")
	equal(t, "variables", app.With.Variables, []string{"size=3", "sizes=[1,2]"})
	equal(t, "edges", app.edges(), []string{"terraform/net"})
	equal(t, "files", d.Sources["app-files"].Files, []string{"app/*.tf", "app/motd.txt"})
	equal(t, "files", d.Sources["quiet-files"].Files, []string{"quiet/*.tf", "quiet/.terraform.lock.hcl", "quiet/terraform.tfvars.json", "quiet/values.auto.tfvars"})
	leftOut(t, result, "setting access_key of terraform/net", "secret", false)
	leftOut(t, result, "app/terraform.tfvars: db_password", "secret", false)
	leftOut(t, result, "app/more.auto.tfvars: pin", "secret", false)
	leftOut(t, result, "app/prod.tfvars", "-var-file", false)
	leftOut(t, result, "app/main.tf:13", "bucket=elsewhere", false)
	leftOut(t, result, "app/main.tf:17", "bucket is no constant", false)
	leftOut(t, result, "examples/lone", "nothing here calls it", false)
	text := fmt.Sprint(result.Definition, result.Files, result.LeftOut, result.Hints) + string(result.Files["engines.yaml"])
	for _, planted := range []string{"AKIAPLANTED", "q7Rt2Zm4Kx9", "4711"} {
		if strings.Contains(text, planted) {
			t.Errorf("%s is copied:\n%s", planted, text)
		}
	}
	if !strings.Contains(string(result.Files["engines.yaml"]), `name: "terraform-1.5.7"`) || strings.Contains(string(result.Files["engines.yaml"]), "locked") {
		t.Errorf("engines.yaml:\n%s", result.Files["engines.yaml"])
	}
}

// TestWhatCannotBeTakenOverIsNamed, with the file and why; all else is.
func TestWhatCannotBeTakenOverIsNamed(t *testing.T) {
	top := lay(t, map[string]string{
		"good/main.tf":      fmt.Sprintf(s3, "good"),
		"cloud/main.tf":     "terraform {\n  cloud {\n    organization = \"x\"\n  }\n}\n",
		"remote/main.tf":    "terraform {\n  backend \"remote\" {\n    workspaces {\n      name = \"x\"\n    }\n  }\n}\n",
		"json/main.tf.json": `{"terraform": {"cloud": {"organization": "x"}}}`,
		"stateless/main.tf": `variable "a" {}`, "stateless/.terraform.lock.hcl": "",
		"outer/main.tf": fmt.Sprintf(s3, "outer") + `module "x" { source = "../../elsewhere" }`,
		"one/main.tf": fmt.Sprintf(s3, "one") + `data "terraform_remote_state" "two" {
  backend = "s3"
  config  = { bucket = "states", key = "two/terraform.tfstate" }
}`,
		"two/main.tf": fmt.Sprintf(s3, "two") + `data "terraform_remote_state" "one" {
  backend = "s3"
  config  = { bucket = "states", key = "one/terraform.tfstate" }
}`,
	})
	result, d := mustRead(t, top)
	if len(d.Generate) != 3 {
		t.Errorf("%v", d.Generate)
	}
	leftOut(t, result, "cloud", "cloud/main.tf:2: the block cloud", true)
	leftOut(t, result, "remote", "remote/main.tf:2: the block cloud, or the backend remote", true)
	leftOut(t, result, "json", "run elsewhere", true)
	leftOut(t, result, "stateless", "has no backend", true)
	leftOut(t, result, "outer", "outer/main.tf:9 calls the module ../../elsewhere", true)
	leftOut(t, result, "the edge from terraform/two to terraform/one", "circle", true)
	equal(t, "edges", d.Generate["one"].edges(), []string{"terraform/two"})
}

// TestBadFilesAreRefused as a whole: an import that misses something would be taken for intent.
func TestBadFilesAreRefused(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"main.tf:1: ":                {"main.tf": "terraform {"},
		"no .tf file":                {"README.md": "x"},
		"m.tf.json:1: ":              {"m.tf.json": `{"terraform": `},
		"a.auto.tfvars:1: ":          {"main.tf": fmt.Sprintf(s3, "x"), "a.auto.tfvars": "hunter2 = ["},
		"run elsewhere":              {"main.tf": "terraform {\n  cloud {}\n}\n"},
		"reading atlantis.yaml":      {"main.tf": fmt.Sprintf(s3, "x"), "atlantis.yaml": "projects: {"},
		`has the dir "../elsewhere"`: {"main.tf": fmt.Sprintf(s3, "x"), "atlantis.yaml": "projects: [{dir: ../elsewhere}]"},
		"nested deeper":              {"main.tf": "x = " + strings.Repeat("[", 500_000)},
		"main.tf: it is wrong":       {"main.tf": "x = " + strings.Repeat("!", 500_000)},
		"b.tf.json: it is wrong":     {"b.tf.json": strings.Repeat("[", 500_000)},
	} {
		_, err := Read(lay(t, files), Program{})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%.200s: %v", fmt.Sprint(files), err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none"), Program{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// TestAtlantis: projects are root modules, one for each workspace; what has no place in an
// asset is told.
func TestAtlantis(t *testing.T) {
	top := lay(t, map[string]string{
		"net/main.tf": fmt.Sprintf(s3, "net"), "app/main.tf": fmt.Sprintf(s3, "app"), "bare/main.tf": `variable "a" {}`,
		"atlantis.yaml": `version: 3
projects:
- {name: net, dir: net, terraform_version: v1.5.7}
- {name: app-dev, dir: ./app, workspace: dev, depends_on: [net], workflow: odd}
- {name: app-prod, dir: app, workspace: prod, depends_on: [net, app-dev, nowhere], execution_order_group: 2, apply_requirements: [approved]}
- {dir: gone}
- {dir: bare}
workflows:
  odd: {plan: {steps: [init, {plan: {extra_args: [-var-file, dev.tfvars]}}]}}
`,
	})
	result, d := mustRead(t, top)
	equal(t, "engine", d.Generate["net"].With.Engine, "terraform-1.5.7")
	equal(t, "id", d.Generate["app-prod"].With.ID, "terraform/app/prod")
	equal(t, "workspace", d.Generate["app-prod"].With.Workspace, "prod")
	equal(t, "edges", d.Generate["app-prod"].edges(), []string{"terraform/app/dev", "terraform/net"})
	equal(t, "edges", d.Generate["app-dev"].edges(), []string{"terraform/net"})
	leftOut(t, result, "terraform/app/dev: the workflow odd", "steps are not run", true)
	leftOut(t, result, "terraform/app/prod depends on nowhere", "no project", true)
	leftOut(t, result, "terraform/app/prod: execution_order_group", "order comes from edges", false)
	leftOut(t, result, "the project in gone", "no .tf file", true)
	leftOut(t, result, "bare", "has no backend", true)
	if !slices.Contains(result.Read, "atlantis.yaml: 5 projects") || !strings.Contains(fmt.Sprint(result.Hints), "apply_requirements") {
		t.Errorf("read %q, hints %q", result.Read, result.Hints)
	}
}

// TestModulesOfJSON: a root module in the syntax of JSON is read as one in the other is, with its
// backend, the modules and files that it names, and the states that it reads; and what is nested
// deeper than its parser can follow is refused.
func TestModulesOfJSON(t *testing.T) {
	top := lay(t, map[string]string{
		"net/main.tf.json": `{"terraform": {"backend": {"s3": {"bucket": "states", "key": "net.tfstate", "region": "eu"}}},
 "module": {"inner": {"source": "../inner", "text": "${file(\"policy.json\")}"}}}`,
		"net/policy.json":     "{}",
		"inner/inner.tf.json": `{"variable": {"text": {}}}`,
		"app/main.tf.json": `{"terraform": [{"backend": {"s3": {"bucket": "states", "key": "app.tfstate", "region": "eu"}}}],
 "locals": {"bucket": "states"},
 "data": {"terraform_remote_state": {"net": {"backend": "s3", "config": {"bucket": "${local.bucket}", "key": "net.tfstate", "region": "eu"}}}}}`,
	})
	result, d := mustRead(t, top)
	if len(d.Generate) != 2 || len(result.LeftOut) != 0 {
		t.Fatalf("%d root modules, left out: %+v\n%s", len(d.Generate), result.LeftOut, result.Definition)
	}
	listed := fmt.Sprintf("%+v", d.Sources)
	for _, name := range []string{"policy.json", "inner"} {
		if !strings.Contains(listed, name) {
			t.Errorf("no source lists %s: %s", name, listed)
		}
	}
	for _, one := range d.Generate {
		if one.With.ID == "terraform/app" {
			equal(t, "edges of the app", one.edges(), []string{"terraform/net"})
		}
	}
	deep := lay(t, map[string]string{"main.tf.json": `{"locals": {"a": "${` + strings.Repeat("[", 200_000) + `}"}}`})
	if _, err := Read(deep, Program{}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("%v", err)
	}
}
