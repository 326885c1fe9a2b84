package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lehr.dev/test/faults/production"
)

// readEffects returns the log, in the order in which it was written.
func readEffects(t *testing.T, folder string) []production.Effect {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, production.EffectLog))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var effects []production.Effect
	for line := range bytes.Lines(content) {
		var e production.Effect
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("the log of effects has the line %q: %v", line, err)
		}
		effects = append(effects, e)
	}
	return effects
}
