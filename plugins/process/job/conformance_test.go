package job

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/plugintest"
	"lehr.dev/test/building"
)

func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	program := filepath.Join(t.TempDir(), "lehr-process")
	if err := (building.Program{Of: ".."}).At(program); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password, key := write("password", "hunter2-of-the-suite\n"), write("key", rand.Text()+rand.Text())
	list := write("list.yaml", fmt.Sprintf("lehr-secrets: v1\nkey: %s\nsecrets:\n- {file: %s, partitions: ['*'], plugins: [lehr-process]}\n", key, password))
	// It ends by itself, should the test be killed.
	first := &processpb.Job{
		Name: fmt.Sprintf("test-%d/conformance", os.Getpid()), Replicas: 2, Binary: "/bin/sleep", Args: []string{"240"}, Version: "1",
		SecretEnv: map[string]*intentpb.SecretRef{"PASSWORD": {Source: &intentpb.SecretRef_File{File: password}}},
	}
	second := proto.CloneOf(first)
	second.Args[0], second.Version = "241", "2"
	t.Cleanup(func() { killAll(t, first.Name) })
	plugintest.Run(t, plugintest.Target{
		Run: []string{program, "--logs=" + t.TempDir(), "--secret-list=" + list}, First: first, Second: second,
		Secret: &plugintest.Secret{File: password},
		Production: func(context.Context) (string, error) {
			all, err := processes()
			all = slices.DeleteFunc(all, func(p process) bool { return p.job != first.Name })
			return fmt.Sprint(all), err
		},
	})
}
