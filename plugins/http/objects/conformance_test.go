package objects

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lehr.dev/sdk/plugintest"
	"lehr.dev/test/apiserver"
	"lehr.dev/test/building"
)

// TestConforms, with ETags that never come again: class C is declared and measured.
func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	api := apiserver.NewCRUD("")
	defer api.Close()
	conforms(t, api.URL, "crud, unique_versions: true", "object", "collection=shelves,id=a", func(context.Context) (string, error) { return api.Get("shelves", "a"), nil })
}

// TestConformsWithGrafana: class N, though each change is compared.
func TestConformsWithGrafana(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	api := apiserver.NewGrafana("")
	defer api.Close()
	conforms(t, api.URL, "grafana", "folder", "uid=ops", func(context.Context) (string, error) { return api.Folder("ops"), nil })
}

func conforms(t *testing.T, url, profile, resource, identity string, production func(context.Context) (string, error)) {
	t.Helper()
	folder := t.TempDir()
	program, list := filepath.Join(folder, "lehr-http"), filepath.Join(folder, "list.yaml")
	if err := (building.Program{Of: ".."}).At(program); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("http-endpoints: v1\nendpoints: [{name: api, url: %q, partitions: ['*'], requests_per_second: 1000, timeout: 1s, profile: %s}]\n", url, profile)
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	plugintest.Run(t, plugintest.Target{
		Run: []string{program, "--endpoints", list}, Production: production,
		First: object(resource, identity, `{"title":"first"}`), Second: object(resource, identity, `{"title":"second"}`),
	})
}
