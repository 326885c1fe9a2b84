package definition_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// TestUnknownTagsAreRefused: a definition says what is written in it.
func TestUnknownTagsAreRefused(t *testing.T) {
	for _, text := range []string{"lehr: v1\npartition: !secret p\n", "lehr: v1\npartition: p\nsources: !include x.yaml\n", "lehr: v1\npartition: p\nsources: !x {}\n", "!x\nlehr: v1\npartition: p\n"} {
		_, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
		if len(findings) != 1 || !strings.Contains(findings[0].Message, "is not known") || findings[0].Line == 0 {
			t.Errorf("%q: %v", text, findings)
		}
	}
}
