package modules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/sdk/serve"
)

// A state that a newer version wrote is refused by name, by looks and pushes, and not changed.
func TestAStateOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	text, err := os.ReadFile(s.state)
	if err != nil {
		t.Fatal(err)
	}
	newer := regexp.MustCompile(`"terraform_version": "[^"]*"`).ReplaceAllString(string(text), `"terraform_version": "99.1.0"`)
	if err := os.WriteFile(s.state, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	s.module.Variables["env"] = "prod"
	_, version := terraform(t)
	s.expect(serve.Unknown, "the state was written by version 99.1.0, and the engine default is of version "+version+", which is older")
	outcome := s.modules.Push(t.Context(), serve.Push{ID: "p", Asset: s.asset(), Progress: func(string) {}, SaveMemo: s.save}, s)
	if after, err := os.ReadFile(s.state); outcome.Ending != serve.Failed || err != nil || string(after) != newer {
		t.Errorf("%+v, %v", outcome, err)
	}
	if s.count("begin update logo") != 0 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// A server of states does not say who wrote one, but the state does: it is refused by name there,
// too, also behind a password. What else is newer Terraform refuses: a format, and resources of a provider.
func TestANewerStateElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	states := s.useServer()
	for name, value := range map[string]string{"username": "reader", "password": "not a secret"} {
		s.module.Backend[name] = &terraformpb.Setting{Source: &terraformpb.Setting_Value{Value: value}}
	}
	states.setPassword("not a secret")
	s.mustPush()
	good := string(states.get())
	for want, newer := range map[string]string{
		"the state was written by version 99.1.0, and the engine default is of version":    regexp.MustCompile(`"terraform_version": *"[^"]*"`).ReplaceAllString(good, `"terraform_version": "99.1.0"`),
		"plan failed: Unsupported state file format: The state file uses format version 5": regexp.MustCompile(`"version": *4`).ReplaceAllString(good, `"version": 5`),
		"newer provider version": regexp.MustCompile(`"schema_version": *0`).ReplaceAllString(good, `"schema_version": 7`),
	} {
		if newer == good {
			t.Fatalf("nothing is newer in %s", good)
		}
		states.set(newer)
		s.expect(serve.Unknown, want)
	}
	states.set(good)
	s.expect(serve.InSync)
}

// A lock file of intent says which providers are used: another version or another content of
// one is refused, and the file is never changed.
func TestALockFileBindsProviders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	found, err := filepath.Glob(filepath.Join(s.subject().folder.Path, "*", "files", ".terraform.lock.hcl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	lock := string(text)
	s.file(".terraform.lock.hcl", lock)
	s.expect(serve.InSync)
	s.file(".terraform.lock.hcl", strings.ReplaceAll(lock, `"1.0.0"`, `"2.0.0"`))
	s.expect(serve.Unknown, "init failed", "2.0.0")
	s.file(".terraform.lock.hcl", regexp.MustCompile(`"h1:[^"]*"`).ReplaceAllString(lock, `"h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`))
	s.expect(serve.Unknown, "init failed", "checksum")
	s.file(".terraform.lock.hcl", "# no provider is chosen yet\n")
	s.expect(serve.Unknown, "init failed", "lock file")
	s.file(".terraform.lock.hcl", lock)
	s.expect(serve.InSync)
}
