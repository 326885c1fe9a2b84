package main

import (
	"bytes"
	"os"
	"testing"

	"lehr.dev/checkers/kubernetesobjects/builtin"
)

// TestTablesAreCurrent: the committed tables are what this program makes of the modules of Kubernetes.
func TestTablesAreCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads three releases of Kubernetes")
	}
	for _, release := range releases {
		if _, err := download("k8s.io/kubernetes", "v"+release); err != nil {
			t.Skip(err)
		}
	}
	tables, err := read()
	if err != nil {
		t.Fatal(err)
	}
	made, err := builtin.Pack(tables)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../builtin/tables.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, committed) {
		t.Error("the tables are not current: run go generate ./kubernetesobjects/builtin in checkers, and commit what it writes")
	}
	if len(committed) > 60_000 {
		t.Errorf("the tables have %d bytes", len(committed))
	}
}
