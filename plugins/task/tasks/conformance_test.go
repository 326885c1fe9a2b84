package tasks

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/sdk/plugintest"
	"lehr.dev/test/building"
)

// Once with runs that a push sees end, and once with runs that go on after it.
func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	for _, await := range []string{"30s", "100ms"} {
		t.Run(await, func(t *testing.T) {
			t.Parallel() // Most of it waits.
			folder := t.TempDir()
			program := filepath.Join(folder, "lehr-task")
			if err := (building.Program{Of: ".."}).At(program); err != nil {
				t.Fatal(err)
			}
			ran := filepath.Join(folder, "ran")
			first := &taskpb.Task{
				// Longer than a permit's interval.
				Command: script(`echo begun >>"$RAN"; sleep 0.5; echo "$LEHR_RUN" >>"$RAN"`),
				Env:     map[string]string{"RAN": ran}, Input: "one", RunOnReturn: true,
			}
			second := proto.CloneOf(first)
			second.Input = "two"
			plugintest.Run(t, plugintest.Target{
				Run:   []string{program, "--records=" + filepath.Join(folder, "records"), "--host=here", "--await=" + await},
				First: first, Second: second,
				Production: func(context.Context) (string, error) {
					content, err := os.ReadFile(ran)
					if os.IsNotExist(err) {
						return "nothing", nil
					}
					return string(content), err
				},
			})
		})
	}
}

func script(text string) []string { return []string{"/bin/sh", "-c", text} }
