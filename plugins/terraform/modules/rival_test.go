package modules

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// rival is somebody who runs Terraform by hand on the same state.
type rival struct {
	process *exec.Cmd
	site    *site
	once    sync.Once
}

// newRival has an apply of another folder wait in the cloud, with the state's lock held.
func newRival(t *testing.T, s *site) *rival {
	t.Helper()
	l, err := s.modules.look(t.Context(), s.subject())
	if err != nil {
		t.Fatal(err)
	}
	defer l.forget()
	folder := filepath.Join(s.folder, "rival")
	if output, err := exec.Command("cp", "-r", l.run.Content.Path, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	s.fault("update", "logo", "wait")
	r := &rival{site: s, process: exec.Command(l.run.Engine.Binary, "apply", "-auto-approve", "-input=false", "-var", "folder="+s.cloud, "-var", "env=rival")}
	r.process.Dir, r.process.Env = filepath.Join(folder, "files"), os.Environ()
	for name, value := range l.run.Environment() {
		if name == "TF_DATA_DIR" {
			value = filepath.Join(folder, "data")
		}
		r.process.Env = append(r.process.Env, name+"="+value)
	}
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	s.until("the rival to be at work", func() bool { return s.count("begin update logo") == 1 })
	return r
}

// end lets it end.
func (r *rival) end() {
	r.once.Do(func() {
		r.site.mend()
		_ = r.process.Wait()
	})
}
