package intent

import (
	"strings"
	"testing"
)

func TestShortRevision(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for revision, want := range map[string]string{
		digest[:40]:              "0123456789ab",
		"17":                     "17",
		"":                       "",
		"sha256:" + digest:       "0123456789ab",
		"1.4.2@sha256:" + digest: "1.4.2@0123456789ab",
		"1.4.2@sha256:" + digest + "+charts:fedcba987654": "1.4.2@0123456789ab+charts:fedcba987654",
		strings.Repeat("v", 100) + "@sha256:0":            strings.Repeat("v", 40) + "@0",
	} {
		if got := ShortRevision(revision); got != want {
			t.Errorf("%s: %s, want %s", revision, got, want)
		}
	}
}
