package job

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

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
	// It ends by itself, should the test be killed.
	first := &processpb.Job{Name: fmt.Sprintf("test-%d/conformance", os.Getpid()), Replicas: 2, Binary: "/bin/sleep", Args: []string{"120"}, Version: "1"}
	second := proto.CloneOf(first)
	second.Args[0], second.Version = "121", "2"
	t.Cleanup(func() { killAll(t, first.Name) })
	plugintest.Run(t, plugintest.Target{
		Run: []string{program, "--logs=" + t.TempDir()}, First: first, Second: second,
		Production: func(context.Context) (string, error) {
			all, err := processes()
			all = slices.DeleteFunc(all, func(p process) bool { return p.job != first.Name })
			return fmt.Sprint(all), err
		},
	})
}
