package modules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/sdk/serve"
)

// A module is planned, applied as planned, in sync, changed, and turned down.
func TestAModuleFromNothingToNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.expect(serve.Differs, "create", "testcloud_bucket.logo:  → created", `testcloud_bucket.logo.env:  → "dev"`, "testcloud_bucket.logo.url:  → (known after apply)", "testcloud_bucket.logo.key:  → secret (digest ")
	if !strings.HasPrefix(string(d.ResourceKey), "terraform:local/path="+s.state) || d.Base != "none" || d.Current != nil {
		t.Errorf("key %q, base %q, current %q", d.ResourceKey, d.Base, d.Current)
	}
	if again := s.diff(); again.Plan.Digest() != d.Plan.Digest() || again.Base != d.Base {
		t.Errorf("two looks differ:\n%s\n%s", shown(d), shown(again))
	}
	s.mustPush()
	if s.count("begin create logo") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
	if text := strings.Join(s.progress, "\n"); !strings.Contains(text, "testcloud_bucket.logo: Creation complete") {
		t.Errorf("progress: %q", text)
	}
	d = s.diff()
	if len(d.Outputs) != 1 || d.Outputs[0].Name != "url" || string(d.Outputs[0].Value) != `"cloud://eu/logo"` {
		t.Errorf("outputs: %+v", d.Outputs)
	}
	s.module.Variables["env"] = "prod"
	d = s.expect(serve.Differs, "update", `testcloud_bucket.logo.env: "dev" → "prod"`)
	if d.Plan.Destructive() || len(d.Plan.Changes) != 1 || d.Plan.Changes[0].Reason != "" || d.Plan.Changes[0].Writer != "" {
		t.Errorf("a change in place: %s", shown(d))
	}
	s.mustPush()
	s.turnDown()
	d = s.expect(serve.Differs, "delete", "! testcloud_bucket.logo: exists → destroyed", `! testcloud_bucket.logo.env: "prod" → `)
	if outcome := s.pushOf(t.Context(), d); outcome.Ending != serve.Pushed {
		t.Fatalf("turndown: %+v", outcome)
	}
	if d = s.expect(serve.InSync); d.Current != nil || len(d.Outputs) > 0 {
		t.Errorf("after the turndown there is %q, %v", d.Current, d.Outputs)
	}
	if s.count("begin delete logo") != 1 || len(s.memos) > 0 {
		t.Errorf("the cloud did %q; kept: %v", s.log(), s.memos)
	}
	s.nothingLeft()
}

// nothingLeft: no plan is left, nor a planted secret in what the plugin wrote, but for
// Terraform's own state.
func (s *site) nothingLeft() {
	s.t.Helper()
	err := filepath.WalkDir(s.modules.Folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() && !strings.Contains(path, "/data/") && entry.Name() != ".terraform.lock.hcl" {
			s.t.Errorf("%s has the mode %v", path, info.Mode())
		}
		if strings.HasSuffix(path, ".tfplan") {
			s.t.Errorf("a plan is left: %s", path)
		}
		if strings.HasSuffix(path, "main.tf") || strings.Contains(path, "/data/") {
			return nil // The test planted it there itself; providers.
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "hunter2") {
			s.t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	for _, text := range s.progress {
		if strings.Contains(text, "hunter2") {
			s.t.Errorf("progress has the secret: %s", text)
		}
	}
}

// What somebody changed outside is told apart from what intent changed, and from both.
func TestDriftIsToldFromChange(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	s.write("cloud/logo.json", `{"name":"logo","region":"eu","env":"hacked","key":"hunter2-planted"}`)
	before := s.diff().Base
	d := s.expect(serve.Differs, `testcloud_bucket.logo.env: "hacked" → "dev" (changed outside of Terraform; intent has not moved) [outside of Terraform]`)
	if d.Plan.Destructive() {
		t.Errorf("%s", shown(d))
	}
	s.module.Variables["env"] = "prod"
	s.expect(serve.Differs, `"hacked" → "prod" (changed outside of Terraform, and by intent as well) [outside of Terraform]`)
	s.write("cloud/logo.json", `{"name":"logo","region":"eu","env":"other","key":"hunter2-planted"}`)
	if after := s.diff().Base; after == before {
		t.Errorf("the base is %s before and after another change outside", before)
	}
	if err := os.Remove(filepath.Join(s.cloud, "logo.json")); err != nil {
		t.Fatal(err)
	}
	s.expect(serve.Differs, "created (it was deleted outside of Terraform; intent has not moved)")
	s.mustPush()
}

// Replacements and destroys are destructive, with Terraform's reason; moves are not.
func TestWhatIsDestroyedIsSaidWithItsReason(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.file("more.tf", `resource "testcloud_bucket" "many" {
  for_each = toset(["a", "b"])
  name     = "many-${each.key}"
  region   = "eu"
}
`)
	s.mustPush()
	s.module.Variables["region"] = "us"
	d := s.expect(serve.Differs, "! testcloud_bucket.logo: exists → replaced: destroyed, then created anew (it cannot be changed in place: forced by region)",
		`testcloud_bucket.logo.region: "eu" → "us" (forces replacement)`, `output.url: "cloud://eu/logo" → (known after apply)`)
	if !d.Plan.Destructive() || d.Plan.Action != serve.ActionUpdate {
		t.Errorf("%s", shown(d))
	}
	delete(s.module.Variables, "region")
	s.file("more.tf", `resource "testcloud_bucket" "lots" {
  for_each = toset(["a"])
  name     = "many-${each.key}"
  region   = "eu"
}
moved {
  from = testcloud_bucket.many
  to   = testcloud_bucket.lots
}
`)
	s.expect(serve.Differs, `! testcloud_bucket.lots["b"]: was testcloud_bucket.many["b"], exists → destroyed, moved here (its key is not in the map of for_each)`,
		`  testcloud_bucket.lots["a"]: was testcloud_bucket.many["a"] → moved here`)
	s.mustPush()
	if s.count("begin delete many-b") != 1 || s.count("begin delete many-a") != 0 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.write("cloud/old.json", `{"name":"old","region":"eu"}`)
	s.file("old.tf", `import {
  to = testcloud_bucket.old
  id = "old"
}
resource "testcloud_bucket" "old" {
  name   = "old"
  region = "eu"
}
removed {
  from = testcloud_bucket.lots
  lifecycle { destroy = false }
}
`)
	s.file("more.tf", "")
	s.expect(serve.Differs, `  testcloud_bucket.old: `, `imported from "old"`, `testcloud_bucket.lots["a"]: exists → forgotten: it stays`)
	s.mustPush()
	if s.count("begin delete many-a") != 0 {
		t.Errorf("what was forgotten is gone: %q", s.log())
	}
}

// Two replicas have one plan, by the key that they share; another value is another plan.
func TestTheDigestIsTheSameOnEachReplica(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.diff()
	other := *s.modules
	other.Folder = t.TempDir()
	other.blobs.Path = filepath.Join(other.Folder, "blobs")
	s.modules, other = &other, *s.modules
	if second := s.diff(); second.Plan.Digest() != first.Plan.Digest() || second.ResourceKey != first.ResourceKey {
		t.Errorf("another replica has another plan:\n%s\n%s", shown(first), shown(second))
	}
	s.module.Variables["key"] = "hunter3-planted"
	if third := s.diff(); third.Plan.Digest() == first.Plan.Digest() {
		t.Errorf("another secret has the same plan: %s", shown(third))
	} else if strings.Contains(shown(third), "hunter") {
		t.Errorf("the secret is shown: %s", shown(third))
	}
}

// A workspace has a state of its own; one that is not there is unknown, and not made by a look.
func TestAWorkspaceHasItsOwnState(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	spaces := filepath.Join(s.folder, "spaces")
	s.module.Workspace = "prod"
	s.expect(serve.Unknown, "write an absolute workspace_dir")
	s.module.Backend["workspace_dir"] = &terraformpb.Setting{Source: &terraformpb.Setting_Value{Value: spaces}}
	s.module.Variables["folder"] = filepath.Join(s.folder, "other")
	if err := os.Mkdir(s.module.Variables["folder"], 0o700); err != nil {
		t.Fatal(err)
	}
	s.expect(serve.Unknown, `there is no workspace "prod"`)
	if _, err := os.Stat(spaces); !os.IsNotExist(err) {
		t.Errorf("a look made the workspace: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(spaces, "prod"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := s.expect(serve.Differs, "create")
	if !strings.HasSuffix(string(d.ResourceKey), "/workspace=prod") {
		t.Errorf("its key is %s", d.ResourceKey)
	}
	s.mustPush()
	if _, err := os.Stat(filepath.Join(spaces, "prod", "terraform.tfstate")); err != nil {
		t.Error(err)
	}
}

// Credentials come from the operator's list of secrets, and are shown nowhere; one that cannot
// be read makes the module unknown.
func TestCredentialsAreTheEngines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	binary, version := terraform(t)
	providers, err := mirror()
	if err != nil {
		t.Fatal(err)
	}
	key := s.write("credential", "hunter2-credential\n")
	s.modules = newModules(s.options(binary, version, providers, ", secrets: {TF_VAR_key: {file: "+key+"}}"))
	s.expect(serve.Unknown, "the variable TF_VAR_key of the engine default", "not listed")
	s.write("secrets.yaml", "lehr-secrets: v1\nkey: "+filepath.Join(s.folder, "key")+"\nsecrets:\n  - {file: "+key+", partitions: [shop], plugins: [lehr-terraform]}\n")
	first := s.expect(serve.Differs, "testcloud_bucket.logo.key:  → secret (digest ")
	s.mustPush()
	if text, err := os.ReadFile(filepath.Join(s.cloud, "logo.json")); err != nil || !strings.Contains(string(text), "hunter2-credential") {
		t.Errorf("the cloud has %s, %v", text, err)
	}
	if strings.Contains(shown(first), "hunter2") {
		t.Errorf("it is shown: %s", shown(first))
	}
	s.nothingLeft()
	s.modules = newModules(s.options(binary, "0.0.1", providers, ""))
	s.expect(serve.Unknown, "is of version "+version+", and the list of engines says 0.0.1")
}
