package secret

import (
	"strings"
	"testing"
)

func TestRedactLikely(t *testing.T) {
	const key = "AKIA0123456789ABCDEF"
	Know("file:/likely", []byte("correct horse"), Digest{})
	got := RedactLikely("cannot use " + key + " with correct horse: password=hunter2hunter2, 3 tries")
	for _, secret := range []string{key, "correct horse", "hunter2hunter2"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q shows %q", got, secret)
		}
	}
	if !strings.HasPrefix(got, "cannot use ") || !strings.HasSuffix(got, ", 3 tries") {
		t.Errorf("%q lacks what is none", got)
	}
}
