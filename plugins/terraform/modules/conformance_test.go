package modules

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"lehr.dev/sdk/plugintest"
	"lehr.dev/test/building"
)

func TestConforms(t *testing.T) {
	t.Parallel() // Most of it waits.
	s := newSite(t)
	program := filepath.Join(t.TempDir(), "lehr-terraform")
	if err := (building.Program{Of: "..", Flags: []string{"-ldflags", "-s -w"}}).At(program); err != nil {
		t.Fatal(err)
	}
	// The suite's partition is its own.
	path := filepath.Join(s.folder, "engines.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), "[shop]", `["*"]`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	first := proto.CloneOf(s.module)
	second := proto.CloneOf(first)
	second.Variables["env"] = "prod"
	plugintest.Run(t, plugintest.Target{
		Run:   []string{program, "--engines=" + path, "--secret-list=" + filepath.Join(s.folder, "secrets.yaml"), "--folder=" + filepath.Join(s.folder, "conforming"), "--host=here", "--every=5m"},
		First: first, Second: second, Patience: 4 * time.Minute,
		Production: func(context.Context) (string, error) { return production(s.cloud) },
	})
}

// production is all buckets of the cloud.
func production(folder string) (string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	sort.Strings(names)
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			return "", err
		}
		fmt.Fprintf(&all, "%s %s\n", filepath.Base(name), text)
	}
	return all.String(), err
}
