package commands

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/sdk/plugintest"
	"lehr.dev/test/building"
)

func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "lehr-command")
	if err := (building.Program{Of: ".."}).At(program); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(folder, "state")
	first := &commandpb.Command{
		Diff: script(`[ -e "$STATE" ] || { echo "there is no $STATE"; exit 3; }; [ "$(cat)" = "$(cat "$STATE")" ] && exit 0; echo "$STATE is to change"; exit 2`),
		// Longer than a permit's interval.
		Push:   script(`cat >"$STATE.new"; sleep 1.5; mv "$STATE.new" "$STATE"`),
		Remove: script(`rm "$STATE"`),
		Input:  "one", Env: map[string]string{"STATE": state},
	}
	second := proto.CloneOf(first)
	second.Input = "two"
	plugintest.Run(t, plugintest.Target{
		Run: []string{program}, First: first, Second: second,
		Production: func(context.Context) (string, error) {
			content, err := os.ReadFile(state)
			if os.IsNotExist(err) {
				return "nothing", nil
			}
			return string(content), err
		},
	})
}
