package cli

import (
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// TestConsenting: who approved, and who is not asked, are told also where nobody's
// approval counts.
func TestConsenting(t *testing.T) {
	for want, consent := range map[string]*apipb.Consent{
		"nobody whose approval counts; not asked, for they made the change: ann": {Need: 1, Authors: []string{"ann"}},
		"bob": {Need: 2, Approved: []string{"bob"}},
		"bob; not asked, for they made the change: ann, cem": {Need: 2, Approved: []string{"bob"}, Authors: []string{"ann", "cem"}},
	} {
		if got := consenting(consent); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
