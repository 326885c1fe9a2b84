package sqlite_test

import (
	"path/filepath"
	"testing"

	"lehr.dev/store/storetest"
)

func TestAudited(t *testing.T) {
	storetest.Audited(t, func(t *testing.T) storetest.Spoiled {
		path := filepath.Join(t.TempDir(), "lehr.db")
		return storetest.Spoiled{
			All: openFile(t, path),
			Spoil: func() {
				execute(t, path, "CREATE TRIGGER spoiled BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no more'); END")
			},
			Mend: func() { execute(t, path, "DROP TRIGGER spoiled") },
		}
	})
}
