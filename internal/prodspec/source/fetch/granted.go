package fetch

import (
	"context"
	"encoding/json"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
)

// granted is what another partition's assets tell, as far as it grants that: the document,
// and the grants themselves, so that it is known why something is missing.
type granted struct {
	inMemory
	partition intent.PartitionID
	options   Options
}

func (g *granted) fetch(ctx context.Context, last *State) (*State, error) {
	if g.options.Outputs == nil {
		return g.nothing("what assets of partition " + string(g.partition) + " tell is known to a server, and none is asked here: what needs it stays unknown")
	}
	read, err := g.options.Outputs(ctx, g.partition, g.options.Partition)
	switch {
	case fault.Is(err, fault.NotFound) && last == nil:
		// What needs it waits, and all else of the partition goes on.
		return g.nothing("the outputs of partition " + string(g.partition) + " cannot be read, and what needs them waits: " + text(err))
	case err != nil:
		return nil, err
	}
	content := read.Document.Content
	if len(content) == 0 {
		content = []byte("{}")
	}
	allowed, findings := outputs.Granted(content, read.Grants)
	if len(findings) > 0 {
		return nil, fault.New(fault.Unavailable, "the document of outputs of partition %s is damaged: %s", g.partition, findings[0].Message).
			WithHint("%s", findings[0].Hint)
	}
	state, err := grantedState(allowed, read.Grants)
	if err != nil {
		return nil, err
	}
	if r := read.Document.Revision; r.ID != "" {
		state.Commit = intent.Commit{Author: r.By.Name, Subject: r.Reason, Time: r.At.UTC().Truncate(time.Second)}
	}
	if last != nil && same(last, state) {
		return last, nil // What changed is not granted.
	}
	return state, nil
}

// nothing is what there is where nothing can be known.
func (g *granted) nothing(warning string) (*State, error) {
	state, err := grantedState(json.RawMessage("{}"), nil)
	if err == nil {
		state.Warning = warning
	}
	return state, err
}

func grantedState(allowed json.RawMessage, grants outputs.Grants) (*State, error) {
	value, err := document.Parse(allowed)
	if err != nil {
		return nil, err
	}
	if grants == nil {
		grants = outputs.Grants{}
	}
	text, err := json.Marshal(grants)
	if err != nil {
		return nil, err
	}
	// A field a line, so that it is known where each is.
	return newState(map[string][]byte{document.File(outputs.Document): document.Pretty(value), outputs.GrantFile: append(text, '\n')}), nil
}
