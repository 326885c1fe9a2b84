package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/spell"
	"lehr.dev/store"
)

// meant adds to a refusal which asset was probably meant, among the first that
// share the misspelt id's folder, else among the first of all.
func (s *Server) meant(ctx context.Context, from reading, asset intent.AssetID, refusal error) error {
	const longest, most = 64, 1000
	known, is := errors.AsType[*fault.Error](refusal)
	if !is || known.Kind != fault.NotFound || len(asset) > longest {
		return refusal
	}
	hint := "lehr get assets lists what is"
	folder := string(asset[:strings.LastIndexByte(string(asset), '/')+1])
	for _, prefix := range []string{folder, ""} {
		members, err := from.store.Members(ctx, from.id, store.AssetFilter{Prefix: prefix, Limit: most})
		if err != nil {
			return refusal // It says more than why nothing is proposed.
		}
		var names []string
		for _, member := range members {
			if len(member.Asset) <= longest {
				names = append(names, string(member.Asset))
			}
		}
		if near := spell.Nearest(string(asset), names); near != "" {
			hint = fmt.Sprintf("did you mean %s? %s", near, hint)
			break
		}
	}
	return fault.New(fault.NotFound, "%s", known.Message).WithHint("%s", hint)
}
