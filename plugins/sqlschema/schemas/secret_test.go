package schemas

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// listSecrets writes a list with its key into a folder.
func listSecrets(folder string, entries ...string) (path string, err error) {
	key := filepath.Join(folder, "key")
	if err := os.WriteFile(key, []byte("0123456789abcdefghijklmnopqrstuvwxyz"), 0o600); err != nil {
		return "", err
	}
	text := fmt.Sprintf("lehr-secrets: v1\nkey: %s\nsecrets:\n", key)
	for _, entry := range entries {
		text += fmt.Sprintf("- {%s, partitions: ['*'], plugins: [lehr-sqlschema]}\n", entry)
	}
	path = filepath.Join(folder, "lehr-secrets.yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// listForTests lists what the tests name, for this process and those that it starts.
func listForTests() (forget func(), err error) {
	folder, err := os.MkdirTemp("", "secrets-for-tests-")
	if err != nil {
		return nil, err
	}
	list, err := listSecrets(folder, "env: LEHR_TEST_PASSWORD", "env: LEHR_WRONG", "env: LEHR_NOT_THERE")
	if err != nil {
		return nil, err
	}
	kind = newKind(list)
	return func() { os.RemoveAll(folder) }, os.Setenv("LEHR_SECRET_LIST", list)
}

func newKind(list string) serve.Kind {
	return serve.For(New(resolver.New("lehr-sqlschema", list)), Serving())
}

func fileSecret(path string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: path}}
}

// TestAPasswordIsReadWhereTheOperatorListsIt and nowhere else, before the database is
// dialled.
func TestAPasswordIsReadWhereTheOperatorListsIt(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	long := write("long", strings.Repeat("a", maxPassword+1))
	list, err := listSecrets(folder, "file: "+write("good", "hunter2-good"), "file: "+long)
	if err != nil {
		t.Fatal(err)
	}
	kind := newKind(list)
	for path, want := range map[string]string{
		filepath.Join(folder, "good"): "is the server running", long: "more than 4096 bytes", write("other", "hunter2-other"): "not listed for partition shop and plugin lehr-sqlschema",
	} {
		schema := &sqlschemapb.Schema{Database: "postgres://owner@127.0.0.1:1/x?sslmode=disable", Sql: "CREATE TABLE t (a int)", Password: fileSecret(path)}
		d := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "db", schema)})[0]
		if d.Outcome != serve.Unknown || !strings.Contains(d.Reason, want) || strings.Contains(d.Reason, "hunter2") {
			t.Errorf("%s: %d, %s, want %q", path, d.Outcome, d.Reason, want)
		}
	}
}
