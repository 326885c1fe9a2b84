package sim

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate"
)

// inProcess generates as children do, and compiles the same types once for all
// runs: simulated processes begin every few minutes, and nothing of a run can be
// told from another's.
type inProcess struct{ generate.InProcess }

type compiled struct {
	set      *schema.Set
	findings []intent.Finding
}

var types struct {
	sync.Mutex
	known map[intent.Digest]compiled
}

// mostTypes are known at once.
const mostTypes = 100

// Compile implements generate.Runner.
func (p inProcess) Compile(ctx context.Context, files []schema.SourceFile) (*schema.Set, []intent.Finding, error) {
	text, err := json.Marshal(files)
	if err != nil {
		return nil, nil, err
	}
	key := intent.Sum("types", text)
	types.Lock()
	defer types.Unlock()
	found, ok := types.known[key]
	if !ok {
		if found.set, found.findings, err = p.InProcess.Compile(ctx, files); err != nil {
			return nil, nil, err
		}
		if len(types.known) >= mostTypes || types.known == nil {
			types.known = map[intent.Digest]compiled{}
		}
		types.known[key] = found
	}
	return found.set, slices.Clone(found.findings), nil
}
