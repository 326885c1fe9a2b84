package tfcommand

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"lehr.dev/sdk/serve"
	"lehr.dev/sdk/subprocess"
)

// mostOutput bytes a secret has.
const mostOutput = 64 << 10

// Output reads one output out of the state, without its lock. A text is returned as it is,
// anything else as JSON. NotFound: there is none of that name.
func (c *Commands) Output(ctx context.Context, r Run, name string) ([]byte, error) {
	result, err := c.run(ctx, r, subprocess.Kept{Head: mostShown}, "output", "-json", "-no-color")
	if err != nil {
		return nil, err
	}
	text, isWhole := result.Stdout.Bytes()
	defer clear(text) // It holds secrets.
	if result.Exit != 0 || !isWhole {
		return nil, serve.Errorf(serve.Unavailable, "%s output failed: %s", filepath.Base(r.Engine.Binary), plain(result.Stderr.Text()))
	}
	var all map[string]struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("reading the outputs: %w", err)
	}
	one, ok := all[name]
	if !ok {
		return nil, serve.Errorf(serve.NotFound, "the state has no output %q", name).WithHint("correct the name, or apply the module first")
	}
	if len(one.Value) > mostOutput {
		return nil, serve.Errorf(serve.Invalid, "the output %s has %d bytes, more than a secret has", name, len(one.Value))
	}
	var words string
	if json.Unmarshal(one.Value, &words) == nil {
		return []byte(words), nil
	}
	return one.Value, nil
}
