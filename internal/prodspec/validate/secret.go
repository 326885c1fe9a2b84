package validate

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
)

// secrets judges to which secrets an asset refers. One that refers to nothing is named by
// another rule.
func (b *breaches) secrets(r *ownRule, asset intent.Asset) error {
	references, err := b.types.Secrets(asset)
	if err != nil {
		return err
	}
	for _, ref := range references {
		if ref.Name == "" || slices.ContainsFunc(r.AllowedSecrets, func(pattern string) bool { return commonpolicy.Matches(pattern, ref.Name) }) {
			continue
		}
		b.keep(r, string(asset.ID)+"\x00"+ref.Field, intent.Finding{
			Asset: asset.ID, Field: ref.Field,
			Message: fmt.Sprintf("asset %s: %s refers to the secret %.300q, which is not allowed", asset.ID, ref.Field, ref.Name),
			Hint:    "allowed: " + strings.Join(r.AllowedSecrets, ", "),
		})
	}
	return nil
}
