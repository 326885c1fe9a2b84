package procedures

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	workflowpb "lehr.dev/gen/lehr/workflow/v1"
	"lehr.dev/sdk/plugintest"
	"lehr.dev/test/building"
)

// slow rests longer than a permit's interval, so that the suite can take permits away in the
// middle.
const slow = `
workflow: v1
name: set-value
inputs: {value: string}
machines:
  change:
    initial: resting
    states:
      resting:
        action: {wait: {for: 1200ms}}
      setting:
        action: {tell: {url: /value, method: PUT, body: '{"value": "${inputs.value}"}'}, runs: at-least-once, leaves: []}
      set: {end: success}
      failed: {end: failure}
    transitions:
      - {from: resting, to: setting, on: done}
      - {from: setting, to: set, on: done}
      - {from: setting, to: failed, on: failed}
`

func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	folder := t.TempDir()
	program, list := filepath.Join(folder, "lehr-workflow"), filepath.Join(folder, "list.yaml")
	if err := (building.Program{Of: ".."}).At(program); err != nil {
		t.Fatal(err)
	}
	d := newDevice(t)
	text := fmt.Sprintf("http-endpoints: v1\nendpoints: [{name: device, url: %q, profile: calls, partitions: ['*'], requests_per_second: 1000, timeout: 1s}]\n", d.URL)
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	payload := func(value string) *workflowpb.Procedure {
		p := procedure(value)
		p.Also, p.Definition = nil, slow
		return p
	}
	plugintest.Run(t, plugintest.Target{
		Run: []string{program, "--endpoints", list}, First: payload("1"), Second: payload("2"),
		Production: func(context.Context) (string, error) {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			state, err := json.Marshal(d.state)
			return string(state), err
		},
	})
}
