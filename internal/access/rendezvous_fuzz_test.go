package access_test

import (
	"os"
	"path/filepath"
	"testing"

	"lehr.dev/internal/access"
)

// FuzzRendezvous: whatever stands beside a store is a server's word, or an error.
func FuzzRendezvous(f *testing.F) {
	for _, seed := range []string{`{"url":"http://127.0.0.1:1","token":"t","pid":1}`, ``, `{`, `{"pid":-1e99}`, `null`, `[]`, "\xff"} {
		f.Add([]byte(seed))
	}
	store := filepath.Join(f.TempDir(), "lehr.db")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(access.RendezvousPath(store), text, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := access.ReadRendezvous(store)
		if err != nil {
			return
		}
		if err := found.Write(store); err != nil {
			t.Fatal(err)
		}
		if again, err := access.ReadRendezvous(store); err != nil || again != found {
			t.Errorf("%+v is read as %+v: %v", found, again, err)
		}
	})
}
