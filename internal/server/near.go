package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/store"
)

// suggestNearest adds to a refusal which asset was probably meant, among the first that
// share the misspelt id's folder, else among the first of all.
func (s *Server) suggestNearest(ctx context.Context, source reading, asset intent.AssetID, refusal error) error {
	const longest, most = 64, 1000
	faultErr, ok := errors.AsType[*fault.Error](refusal)
	if !ok || faultErr.Kind != fault.NotFound || len(asset) > longest {
		return refusal
	}
	hint := "lehr get assets lists what is"
	folder := string(asset[:strings.LastIndexByte(string(asset), '/')+1])
	for _, prefix := range []string{folder, ""} {
		members, err := source.store.Members(ctx, source.id, store.AssetFilter{Prefix: prefix, Limit: most})
		if err != nil {
			return refusal // It says more than why nothing is proposed.
		}
		var names []string
		for _, member := range members {
			if len(member.Asset) <= longest {
				names = append(names, string(member.Asset))
			}
		}
		if nearest := spell.Nearest(string(asset), names); nearest != "" {
			hint = fmt.Sprintf("did you mean %s? %s", nearest, hint)
			break
		}
	}
	return fault.New(fault.NotFound, "%s", faultErr.Message).WithHint("%s", hint)
}
