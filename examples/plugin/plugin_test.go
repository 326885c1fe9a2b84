package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"lehr.dev/sdk/plugintest"
	"lehr.dev/sdk/serve"
)

// TestConforms holds the plugin to the protocol, over the real wire.
func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a program")
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "textfile")
	if output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, output)
	}
	path := filepath.Join(folder, "greeting.txt")
	plugintest.Run(t, plugintest.Target{
		Run:    []string{program},
		First:  file(path, "Hello, world\n"),
		Second: file(path, "Bonjour le monde\n"),
		Production: func(context.Context) (string, error) {
			content, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return "nothing", nil
			}
			return string(content), err
		},
	})
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the suite has not removed its example: %v", err)
	}
}

func TestUnreadableIsUnknown(t *testing.T) {
	folder := t.TempDir() // A folder cannot be read as a file, nor is it absent.
	if state := read(folder); state.Err == nil || state.Current != nil {
		t.Errorf("a folder is told as %v with the error %v", state.Current, state.Err)
	}
}

func TestRelativePathIsRefused(t *testing.T) {
	if _, err := (files{}).Resolve(t.Context(), asset("greeting.txt")); err == nil {
		t.Error("a relative path depends on where the plugin was started, and was taken")
	}
}

func asset(path string) serve.Asset[*structpb.Struct] {
	return serve.Asset[*structpb.Struct]{ID: "greeting", Payload: file(path, "Hello")}
}
