package pgserver_test

import (
	"testing"

	"lehr.dev/test/pgserver"
)

// TestClustersOfOneTestDiffer: what one test compares are two databases, though a cluster
// is made once in a process and unpacked for the tests that follow.
func TestClustersOfOneTestDiffer(t *testing.T) {
	for _, name := range []string{"first", "unpacked"} {
		t.Run(name, func(t *testing.T) {
			identifiers := map[string]bool{}
			for range 2 {
				server := pgserver.New(t)
				server.Start()
				identifier, err := server.Query(server.Database(), "SELECT system_identifier::text FROM pg_control_system()")
				if err != nil {
					t.Fatal(err)
				}
				identifiers[identifier] = true
			}
			if len(identifiers) != 2 {
				t.Errorf("two clusters have the identifiers %v", identifiers)
			}
		})
	}
}
