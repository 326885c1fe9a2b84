package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

const mainModule = `# module "none" { source = "../../etc" }
terraform {
  backend "s3" {}
}
module "net" {
  source = "./net" // beside
  names  = ["${var.a}-{", <<-END
    } module "x" { source = "../none" }
    END
  ]
  inner { source = "../nothing" }
}
module "far" {
  source  = "terraform-aws-modules/vpc/aws"
  version = "5.0"
}
/* module "none" { source = "../none" } */
`

func moduleFiles() map[string]string {
	return map[string]string{
		"infra/main.tf": mainModule, "infra/net/net.tf": "variable \"names\" {}\n", "infra/prod.tfvars": "a = 1\n",
		"infra/.terraform.lock.hcl": "# lock\n", "infra/init.sh.tftpl": "echo ${name}\n",
	}
}

func onlyModule(t *testing.T, result work.Result) *terraformpb.Module {
	t.Helper()
	if len(result.Assets) != 1 || len(result.Findings) > 0 {
		t.Fatalf("%d assets: %s", len(result.Assets), told(result))
	}
	content, err := schema.Decode(result.Assets[0].Body)
	made := &terraformpb.Module{}
	if err == nil {
		err = schema.Payload(content, made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestTerraformModule: a folder with what people write becomes one asset, and
// what is large is a blob that it names.
func TestTerraformModule(t *testing.T) {
	files := moduleFiles()
	large := strings.Repeat("0123456789abcdef", 1<<16)
	files["infra/data/large.bin"], files["infra/data/small.bin"] = large, "\xff\xfe"
	result := render(t, "terraform", files, "--backend=bucket=states", "--backend=secret_key=env:STATE_KEY", "--id=net", "--variable_files=infra/prod.tfvars", "--variables=region=eu", "--variables=size=a=b", "--workspace=prod", "--apply_limit=3h")
	made := onlyModule(t, result)
	if a := result.Assets[0]; a.ID != "net" || a.File != "infra/main.tf" || len(a.Body) > intent.MaxAssetBytes {
		t.Errorf("asset %s of %s has %d bytes", a.ID, a.File, len(a.Body))
	}
	if made.Root != "infra" || made.Variables["size"] != "a=b" || made.Workspace != "prod" || made.Backend["secret_key"].GetEnv() != "STATE_KEY" || made.Backend["bucket"].GetValue() != "states" || made.ApplyLimit.AsDuration() != 3*time.Hour {
		t.Errorf("%v", made)
	}
	var paths []string
	for _, file := range made.Files {
		paths = append(paths, file.Path)
		want := []byte(files[file.Path])
		sum := intent.BlobSum(want)
		if !bytes.Equal(file.Sha256, sum[:]) || file.GetExternal() == nil && file.GetText()+string(file.GetInline()) != string(want) {
			t.Errorf("%s is not what was written", file.Path)
		}
		if external := file.GetExternal(); external != nil {
			if external.Uri != intent.BlobURI(sum) || file.Path != "infra/data/large.bin" {
				t.Errorf("%s is spilled as %s", file.Path, external.Uri)
			}
		}
	}
	if got := strings.Join(paths, " "); got != "infra/.terraform.lock.hcl infra/data/large.bin infra/data/small.bin infra/init.sh.tftpl infra/main.tf infra/net/net.tf infra/prod.tfvars" {
		t.Errorf("files %s", got)
	}
	if len(result.Blobs) != 1 || string(result.Blobs[0].Bytes) != large {
		t.Errorf("%d blobs", len(result.Blobs))
	}
	if again := render(t, "terraform", files, "--backend=bucket=states", "--backend=secret_key=env:STATE_KEY", "--id=net", "--variable_files=infra/prod.tfvars", "--variables=region=eu", "--variables=size=a=b", "--workspace=prod", "--apply_limit=3h"); again.Assets[0].Digest != result.Assets[0].Digest {
		t.Error("the same files give another asset")
	}
}

// TestWrongModules: what is no module, and what must not be in intent.
func TestWrongModules(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, argument, want string
	}{
		"state":                {"infra/terraform.tfstate", "{}", "", "infra/terraform.tfstate:1:0 : infra/terraform.tfstate is a state (keep state in a backend"},
		"a state's backup":     {"infra/terraform.tfstate.backup", "{}", "", "is a state"},
		"a workspace's":        {"infra/terraform.tfstate.d/a/x", "{}", "", "is a state"},
		"a working copy":       {"infra/.terraform/modules/modules.json", "{}", "", "is Terraform's own working copy"},
		"a module outside":     {"infra/more.tf", "module \"m\" {\n source = \"../shared\"\n}", "", `infra/more.tf:2:0 : the module "m" lies in shared, of which no source in from lists a .tf file`},
		"a module above":       {"infra/more.tf", "module \"m\" {\n source = \"../../../etc\"\n}", "", `lies in ../../etc`},
		"in JSON":              {"infra/more.tf.json", `{"module":{"m":{"source":"./none"}}}`, "", `the module "m" lies in infra/none`},
		"JSON that is none":    {"infra/more.tf.json", `{`, "", `infra/more.tf.json cannot be read`},
		"a text without end":   {"infra/more.tf", "a = \"b\n", "", "infra/more.tf:1:0 : infra/more.tf cannot be read: a text does not end"},
		"a block without end":  {"infra/more.tf", "a {\n", "", "1 of \"{ [ (\" are not closed"},
		"nothing to close":     {"infra/more.tf", "}", "", `"}" closes nothing`},
		"a comment without":    {"infra/more.tf", "/*", "", "a comment does not end"},
		"a heredoc without":    {"infra/more.tf", "a = <<END\nb\n", "", "the text until END does not end"},
		"a deep template":      {"infra/more.tf", "a = " + strings.Repeat(`"${`, 100_000), "", "nested too deep"},
		"an unknown option":    {"infra/a.tf", "", "--vars=a=b", `with has the key "vars", which is not known; allowed: apply_limit, backend, engine, id, module, variable_files, variables, workspace`},
		"a variable of none":   {"infra/a.tf", "", "--variables=a", "write each as NAME=VALUE, once"},
		"a folder of none":     {"infra/a.tf", "", "--module=other", "names a folder without .tf files; there are some in: infra, infra/net"},
		"a file of none":       {"infra/a.tf", "", "--variable_files=x.tfvars", "no source in from lists"},
		"a secret":             {"infra/a.tf", "", "--backend=secret_key=hunter2", "which is a secret: write secret_key=env:VARIABLE"},
		"a limit of a week":    {"infra/a.tf", "", "--apply_limit=168h", "with: {apply_limit: 168h}: write a duration of at most 24h"},
		"no limit":             {"infra/a.tf", "", "--apply_limit=long", "with: {apply_limit: long}: write a duration"},
		"two modules":          {"other/a.tf", "", "", "there are several modules, in infra, other, infra/net: write with: {module: FOLDER}"},
		"an id that is none":   {"infra/a.tf", "", "--id=../x", `asset id "../x"`},
		"a blob that is large": {"infra/data", strings.Repeat("x", intent.MaxBlobBytes+1), "", "at most 10000000 are allowed"},
	} {
		files := moduleFiles()
		files[c.file] = c.text
		var arguments []string
		if c.argument != "" {
			arguments = []string{c.argument}
		}
		got := render(t, "terraform", files, arguments...)
		if said := told(got); len(got.Assets) > 0 || !strings.Contains(said, c.want) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: %d assets, and it was said %.400s\nwant %s", name, len(got.Assets), said, c.want)
		}
	}
	if said := told(render(t, "terraform", map[string]string{"a.txt": ""})); !strings.Contains(said, "no source in from lists a .tf file") {
		t.Error(said)
	}
}

// FuzzModuleCalls: no text crashes the scanner, or keeps it.
func FuzzModuleCalls(f *testing.F) {
	f.Add(mainModule)
	f.Add(`a = "${"${b}"}" x = <<A` + "\nA\n")
	f.Fuzz(func(t *testing.T, text string) {
		calls, err := moduleCalls("a.tf", []byte(text))
		for _, call := range calls {
			if err == nil && (call.line < 1 || call.line > 1+strings.Count(text, "\n")) {
				t.Errorf("%+v is in no line of the text", call)
			}
		}
	})
}

// TestSQLSchema: each file is a schema, or all together; what a file says counts
// before what with: does.
func TestSQLSchema(t *testing.T) {
	const table = "-- lehr: version 2\nCREATE TABLE a (id INTEGER);\n"
	read := func(result work.Result) (all []string) {
		t.Helper()
		for _, asset := range result.Assets {
			content, err := schema.Decode(asset.Body)
			s := &sqlschemapb.Schema{}
			if err == nil {
				err = schema.Payload(content, s)
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(asset.ID, " ", asset.File, " ", s.Database, " ", s.Version, " ", s.Schema, " ", s.Password.GetEnv(), " ", len(s.Sql)))
		}
		return append(all, told(result))
	}
	files := map[string]string{"schema/a.sql": table, "schema/b.sql": "-- lehr: database postgres://b@db/b\nCREATE TABLE b (id INTEGER);\n"}
	each := read(render(t, "sql-schema", files, "--database=sqlite:/tmp/a.db", "--password=env:PGPASSWORD", "--version=1"))
	if got, want := strings.Join(each, "\n"), fmt.Sprintf("schema/a schema/a.sql sqlite:/tmp/a.db 2  PGPASSWORD %d\nschema/b schema/b.sql postgres://b@db/b 1  PGPASSWORD %d\n", len(table), len(files["schema/b.sql"])); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	all := read(render(t, "sql-schema", files, "--id=main", "--schema=x"))
	if got, want := strings.Join(all, "\n"), fmt.Sprintf("main schema/a.sql postgres://b@db/b 2 x  %d\n", len(table)+1+len(files["schema/b.sql"])); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for name, c := range map[string]struct{ file, text, argument, want string }{
		"no database":     {"a.sql", table, "", "a.sql:1:0 : nothing says of which database a.sql is the schema"},
		"another engine":  {"a.sql", table, "--database=mysql://a", "is of no kind that is known"},
		"a password":      {"a.sql", table, "--database=postgres://a:hunter2@b/c", "a.sql:1:0 : the database has a password in it"},
		"the password":    {"a.sql", "-- lehr: password hunter2\n" + table, "--database=postgres://a@b/c", "a.sql:1:0 : the password is not said by where it is"},
		"an unknown line": {"a.sql", "\n-- lehr: databas x\n" + table, "--database=postgres://a@b/c", `a.sql:2:0 : "-- lehr: databas" is not known (allowed: database, password, schema, version)`},
		"a line twice":    {"a.sql", "-- lehr: version 1\n" + table, "--database=postgres://a@b/c", `a.sql:2:0 : "-- lehr: version" is said twice`},
		"nothing":         {"a.sql", " \n", "--database=postgres://a@b/c", "a.sql is empty"},
		"no SQL":          {"a.txt", "x", "--database=postgres://a@b/c", "a.txt is no .sql file"},
		"an option":       {"a.sql", table, "--db=x", `with has the key "db"`},
		"too large":       {"a.sql", table + strings.Repeat("-", 150_000), "--database=postgres://a@b/c", "at most 150000 are allowed"},
	} {
		var arguments []string
		if c.argument != "" {
			arguments = []string{c.argument}
		}
		got := render(t, "sql-schema", map[string]string{c.file: c.text}, arguments...)
		if said := told(got); len(got.Assets) > 0 || !strings.Contains(said, c.want) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: %d assets, and it was said %.400s\nwant %s", name, len(got.Assets), said, c.want)
		}
	}
	two := map[string]string{"a.sql": table, "b.sql": "-- lehr: version 3\nx"}
	if said := told(render(t, "sql-schema", two, "--id=main", "--database=sqlite:/a")); !strings.Contains(said, `b.sql:1:0 : a.sql says that the version is "2", this file that it is "3"`) {
		t.Error(said)
	}
}
