package workfolder

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	terraformpb "lehr.dev/gen/lehr/terraform/v1"
)

func file(path, text string) *terraformpb.File {
	sum := sha256.Sum256([]byte(text))
	return &terraformpb.File{Path: path, Sha256: sum[:], Content: &terraformpb.File_Text{Text: text}}
}

func TestAModuleIsLaidOutOnce(t *testing.T) {
	asset := Of(t.TempDir(), "shop", "terraform/net")
	module := &terraformpb.Module{Root: "live/net", Files: []*terraformpb.File{file("live/net/main.tf", "a"), file("live/net/.terraform.lock.hcl", "l"), file("modules/x/x.tf", "b")}}
	one, err := asset.Lay(module, Blobs{}, "engine")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(one.Root, "../../modules/x/x.tf")); string(text) != "b" || !one.HasLockFile {
		t.Errorf("%q, %v, %+v", text, err, one)
	}
	if info, err := os.Stat(asset.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, err := asset.Lay(module, Blobs{}, "engine")
	other, err2 := asset.Lay(module, Blobs{}, "other engine")
	if err != nil || err2 != nil || again != one || other.Path == one.Path {
		t.Errorf("%+v %v, %+v %v", again, err, other, err2)
	}
	if err := os.WriteFile(one.ErroredState(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(one.Path, old, old); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		current, err := asset.Lay(module, Blobs{}, key)
		if err != nil {
			t.Fatal(err)
		}
		asset.Collect(current)
	}
	left, err := asset.Errored()
	if err != nil || len(left) != 1 || left[0] != one.ErroredState() {
		t.Errorf("the state that could not be written is not kept: %v, %v", left, err)
	}
	if entries, err := os.ReadDir(asset.Path); err != nil || len(entries) > mostContents+1 {
		t.Errorf("%d folders are kept, %v", len(entries), err)
	}
}

func TestWhatLeadsOutOfTheFolderIsRefused(t *testing.T) {
	asset := Of(t.TempDir(), "shop", "net")
	for _, c := range []struct {
		module *terraformpb.Module
		want   string
	}{
		{&terraformpb.Module{Root: ".", Files: []*terraformpb.File{file("/etc/x.tf", "a")}}, "no path of a file"},
		{&terraformpb.Module{Root: ".", Files: []*terraformpb.File{file("a/../../x.tf", "a")}}, "no path of a file"},
		{&terraformpb.Module{Root: "../x", Files: []*terraformpb.File{file("x.tf", "a")}}, "no folder among"},
		{&terraformpb.Module{Root: "y", Files: []*terraformpb.File{file("x.tf", "a")}}, "none of the module's files is there"},
		{&terraformpb.Module{Root: ".", Files: []*terraformpb.File{{Path: "x.tf", Sha256: make([]byte, 32), Content: &terraformpb.File_Text{Text: "a"}}}}, "another digest"},
	} {
		if _, err := asset.Lay(c.module, Blobs{}, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.module, err, c.want)
		}
	}
}

func TestBlobsAreFetchedOnce(t *testing.T) {
	folder := t.TempDir()
	blobs := Blobs{Path: filepath.Join(folder, "blobs")}
	module := &terraformpb.Module{Root: ".", Files: []*terraformpb.File{file("main.tf", "a"), file("large", "large content")}}
	module.Files[1].Content = &terraformpb.File_External{External: &intentpb.ExternalRef{Uri: "blob:sha256:x", Sha256: module.Files[1].Sha256}}
	asked := 0
	ask := func(context.Context, *intentpb.ExternalRef) ([]byte, error) {
		asked++
		return []byte("large content"), nil
	}
	if err := errors.Join(blobs.Fetch(t.Context(), module, ask), blobs.Fetch(t.Context(), module, ask)); err != nil || asked != 1 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	content, err := Of(folder, "shop", "net").Lay(module, blobs, "")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(content.Root, "large")); string(text) != "large content" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAStateThatWouldBeLostIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"none":          {"main.tf", `resource "a" "b" {}`, "has no backend"},
		"cloud":         {"main.tf", "terraform {\n  cloud {}\n}", "main.tf:2: a block cloud"},
		"remote":        {"main.tf", "terraform {\n  backend \"remote\" {}\n}", "main.tf:2: a block backend"},
		"no HCL":        {"main.tf", "terraform {", "main.tf:1"},
		"s3":            {"main.tf", "terraform {\n  backend \"s3\" {}\n}", ""},
		"JSON":          {"main.tf.json", `{"terraform": {"backend": {"s3": {}}}}`, ""},
		"JSON list":     {"main.tf.json", `{"terraform": [{"backend": {"s3": {}}}]}`, ""},
		"cloud in JSON": {"main.tf.json", `{"terraform": [{"cloud": {}}]}`, "main.tf.json: a block cloud"},
		"nested":        {"main.tf", "a = " + strings.Repeat("[", 400_000), "nested deeper than can be read"},
		"none in JSON":  {"main.tf.json", `{}`, "has no backend"},
	} {
		content, err := Of(t.TempDir(), "shop", "net").Lay(&terraformpb.Module{Root: ".", Files: []*terraformpb.File{file(c.file, c.text)}}, Blobs{}, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := content.CheckBackend(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestThePlaceOfAStateHasNoSecret(t *testing.T) {
	module := &terraformpb.Module{Backend: map[string]*terraformpb.Setting{"bucket": {Source: &terraformpb.Setting_Value{Value: "states"}}, "address": {Source: &terraformpb.Setting_Env{Env: "LEHR_X"}}}}
	backend := Backend{Type: "s3", Config: map[string]any{"bucket": "states", "key": "net.tfstate", "secret_key": "hunter2", "address": "hunter2", "prefix": nil}}
	place, err := backend.Place("prod", module)
	if want := "s3/bucket=states/key=net.tfstate/workspace=prod"; err != nil || place != want {
		t.Errorf("%q, %v, want %q", place, err, want)
	}
	for workspace, config := range map[string]map[string]any{"": {"path": "x"}, "prod": {"path": "/x", "workspace_dir": nil}} {
		if _, err := (Backend{Type: "local", Config: config}).Place(workspace, module); err == nil {
			t.Errorf("a local state at %v in the workspace %q is taken", config, workspace)
		}
	}
}
