package sim

import (
	"encoding/base64"
	"fmt"
	"testing"

	"lehr.dev/internal/sim/virtual"
)

func TestSecretsAreSeenInEveryForm(t *testing.T) {
	for before := range 6 {
		text := "abcdef"[:before] + canary + " of v1"
		for form, shown := range map[string]string{
			"as it is": text, "in hexadecimal": fmt.Sprintf("%x", text), "in base64": base64.StdEncoding.EncodeToString([]byte(text)),
		} {
			l := &Lab{Scheduler: virtual.New(1, beginnings[0])}
			if l.shows("a try", "{"+shown+"}"); len(l.found) != 1 || l.found[0].Property != "S13" {
				t.Errorf("%s, after %d letters: %v", form, before, l.found)
			}
		}
	}
	l := &Lab{Scheduler: virtual.New(1, beginnings[0])}
	if l.shows("a try", "(redacted)"); len(l.found) != 0 {
		t.Errorf("%v", l.found)
	}
}
