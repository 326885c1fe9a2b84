// Command textfile is an example of a plugin: it keeps text files as their
// assets say. The payload is a google.protobuf.Struct {path, text}; "lehr plugin
// new" makes one with a message of its own. docs/extend/plugins.md goes through it;
// lehr starts it.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/types/known/structpb"

	"lehr.dev/sdk/serve"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "list" {
		os.Exit(list(os.Args[2]))
	}
	os.Exit(serve.Main(serve.Plugin{Name: "textfile", Version: "1", Resources: []serve.Kind{
		// A rename cannot be bound to what was read, so the class is N. It
		// takes far less than the second that is the default longest effect.
		serve.For(files{}, serve.Serving{Guarantee: serve.Unguarded}),
	}}))
}

// files serves text files of this machine.
type files struct{}

// Read tells what is there now. It changes nothing.
func (files) Read(_ context.Context, assets []serve.Asset[*structpb.Struct]) ([]serve.State[*structpb.Struct], error) {
	states := make([]serve.State[*structpb.Struct], len(assets))
	for i, asset := range assets {
		states[i] = read(field(asset.Payload, "path"))
	}
	return states, nil
}

func read(path string) serve.State[*structpb.Struct] {
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Nothing is there: the difference is a creation.
		return serve.State[*structpb.Struct]{Key: key(path)}
	case err != nil:
		// Not known, which is never taken for in sync, nor for absent.
		return serve.State[*structpb.Struct]{Err: fmt.Errorf("reading %s: %w", path, err)}
	}
	return serve.State[*structpb.Struct]{
		Current: file(path, string(content)),
		Base:    fmt.Sprintf("%x", sha256.Sum256(content)),
		Key:     key(path),
		Health:  serve.Health{State: serve.Healthy},
	}
}

// Resolve says how the file should be, in the form in which Read tells of it.
func (files) Resolve(_ context.Context, asset serve.Asset[*structpb.Struct]) (*structpb.Struct, error) {
	path := field(asset.Payload, "path")
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("path %q is not absolute: write the whole path", path)
	}
	return file(path, field(asset.Payload, "text")), nil
}

// Apply writes the text beside the file and renames it into place, so that
// nobody reads half of it.
func (files) Apply(ctx context.Context, change serve.Change[*structpb.Struct], permit serve.Permit) error {
	path := field(change.Target, "path")
	temporary, err := os.CreateTemp(filepath.Dir(path), ".textfile-*")
	if err != nil {
		return serve.Retryable(err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(field(change.Target, "text"))
	if err := errors.Join(err, temporary.Close()); err != nil {
		return serve.Retryable(err)
	}
	// Asked right before each effect: without a permit nothing happens.
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// Remove deletes the file: the asset has the addon Turndown. Without this
// method it could not be turned down.
func (files) Remove(ctx context.Context, change serve.Change[*structpb.Struct], permit serve.Permit) error {
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	// Target is empty; what goes is what was found.
	err := os.Remove(field(change.State.Current, "path"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// key names the real thing, so that no two assets manage it.
func key(path string) serve.ResourceKey {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return serve.ResourceKey("textfile:" + host + filepath.Clean(path))
}

func field(payload *structpb.Struct, name string) string {
	return payload.GetFields()[name].GetStringValue()
}

func file(path, text string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"path": structpb.NewStringValue(path), "text": structpb.NewStringValue(text),
	}}
}
