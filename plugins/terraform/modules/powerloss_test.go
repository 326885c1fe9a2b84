package modules

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
)

// written are the files of the plugin's folder, but for those that Terraform made and that are
// on the disk before the note of it is: an init is noted after a sync.
func (s *site) written() (paths []string) {
	s.t.Helper()
	err := filepath.WalkDir(s.modules.Folder, func(path string, entry fs.DirEntry, err error) error {
		isSynced := strings.Contains(path, "/data/") || entry.Name() == "initialised" || entry.Name() == ".terraform.lock.hcl" || entry.Name() == "cli.tfrc"
		if err == nil && entry.Type().IsRegular() && !isSynced {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return paths
}

// After a power loss each file that nobody waited for may be empty, cut short or gone. Whichever
// it is, a plugin that starts anew finds the module in sync, and the provider does nothing.
func TestAPowerLossCostsNoState(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.file("more.tf", "resource \"testcloud_bucket\" \"second\" {\n  name   = \"second\"\n  region = \"eu\"\n}\n")
	s.mustPush()
	before := len(s.log())
	paths := s.written()
	if len(paths) < 5 {
		t.Fatalf("the plugin wrote %q", paths)
	}
	for kind, damage := range map[string]func(path string, content []byte) error{
		"empty":     func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"cut short": func(path string, content []byte) error { return os.WriteFile(path, content[:len(content)/2], 0o600) },
		"gone":      func(path string, _ []byte) error { return os.Remove(path) },
	} {
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil || filepath.Base(path) == "apply.json" && kind != "gone" { // It is synced before it has its name.
				continue
			}
			if err := damage(path, content); err != nil {
				t.Fatal(err)
			}
		}
		s.modules = newModules(s.modules.Options)
		s.expect(serve.InSync)
	}
	// An init that the power loss cut short: what is left of it cannot be read, and is made anew.
	content := s.subject().folder.Path
	for _, pattern := range []string{"*/initialised", "*/data/terraform.tfstate", "*/files/.terraform.lock.hcl"} {
		found, err := filepath.Glob(filepath.Join(content, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		if err := os.WriteFile(found[0], []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(pattern, "initialised") {
			_ = os.Remove(found[0])
		}
	}
	s.expect(serve.InSync)
	if len(s.log()) != before {
		t.Errorf("the cloud did %q", s.log()[before:])
	}
	s.nothingLeft()
}

// The power goes in the middle of an apply: of what had begun the provider's log and the state
// tell, the record says that nobody saw the end, and what is left is planned anew and done once.
func TestAPowerLossInTheMiddleOfAnApply(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	outcomes, _ := s.begin()
	found, err := os.ReadFile(filepath.Join(s.subject().folder.Path, "apply.json"))
	if err != nil || strings.Contains(string(found), `"end"`) {
		t.Fatalf("%s, %v", found, err)
	}
	memos := s.memos
	s.mend()
	if outcome := <-outcomes; outcome.Ending != serve.Pushed {
		t.Fatalf("%+v", outcome)
	}
	// The machine comes back with the state that was written, its record and Lehr's memo as they
	// were at the beginning, and a state that Terraform had begun to leave.
	if err := os.WriteFile(filepath.Join(s.subject().folder.Path, "apply.json"), found, 0o600); err != nil {
		t.Fatal(err)
	}
	s.memos = memos
	s.modules = newModules(s.modules.Options)
	s.expect(serve.InSync)
	l, err := s.modules.look(t.Context(), s.subject())
	if err != nil {
		t.Fatal(err)
	}
	l.forget()
	if err := os.WriteFile(l.run.Content.ErroredState(), []byte(`{"version": 4, "serial`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(serve.Unknown, "reading the state that an apply left in "+l.run.Content.ErroredState())
	if err := os.Remove(l.run.Content.ErroredState()); err != nil {
		t.Fatal(err)
	}
	s.expect(serve.InSync)
	if s.count("begin create logo") != 1 || s.count("begin create second") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
}
