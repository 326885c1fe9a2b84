package intent_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

func TestMemoCheck(t *testing.T) {
	large := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		memo intent.Memo
		says string
	}{
		"a run":              {intent.Memo{Key: "task:run/7", Bytes: []byte("started")}, ""},
		"forgotten":          {intent.Memo{Key: "task:run/7"}, ""},
		"as large as it may": {intent.Memo{Key: intent.ResourceKey(large(intent.MaxMemoKeyBytes)), Bytes: []byte(large(intent.MaxMemoBytes))}, ""},
		"too large":          {intent.Memo{Key: "k", Bytes: []byte(large(intent.MaxMemoBytes + 1))}, "16385 bytes"},
		"a megabyte":         {intent.Memo{Key: "k", Bytes: []byte(large(1 << 20))}, "1048576 bytes"},
		"no key":             {intent.Memo{Bytes: []byte("x")}, "names no resource key"},
		"a long key":         {intent.Memo{Key: intent.ResourceKey(large(intent.MaxMemoKeyBytes + 1))}, "513 bytes"},
		"a key of two lines": {intent.Memo{Key: "a\nb"}, "not printable"},
		"a key of no text":   {intent.Memo{Key: "a\xff"}, "not printable"},
	} {
		err := c.memo.Check()
		if c.says == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.says != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want an invalid one that says %q", name, err, c.says)
		}
	}
}
