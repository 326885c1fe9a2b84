// Package trial reads what a plugin is tried with: the types that it serves,
// from a folder of .proto files, and examples of what it looks after. The
// command "lehr plugin test" calls it, and hands the examples to package
// conformance.
package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// Example is two intents for one resource.
type Example struct {
	File          string
	First, Second proto.Message
}

// Types compiles the .proto files below a folder; without one they are those
// that come with Lehr.
func Types(ctx context.Context, folder string) (*schema.Set, error) {
	if folder == "" {
		return schema.Builtin(), nil
	}
	var sources []schema.SourceFile
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		text, err := files.Read(path, files.MostGiven)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		sources = append(sources, schema.SourceFile{Path: filepath.ToSlash(name), Text: text})
		return err
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading the types in %s: %w", folder, err)
	}
	if len(sources) == 0 {
		return nil, fault.New(fault.Invalid, "there is no .proto file in %s", folder).WithHint("name the folder from which the sources import each other")
	}
	compiled, findings := schema.Compile(ctx, sources, nil)
	for _, finding := range findings {
		if finding.Severity == intent.Error {
			return nil, fault.New(fault.Invalid, "%s:%d:%d: %s", filepath.Join(folder, finding.File), finding.Line, finding.Column, finding.Message).WithHint("%s", finding.Hint)
		}
	}
	return compiled.Set, nil
}

// Read reads an example: a file of two YAML or JSON documents, each with a type
// and a payload, as "lehr build --out" writes them.
func Read(file string, schemas *schema.Set) (Example, error) {
	text, err := files.Read(file, files.MostGiven)
	if err != nil {
		return Example{}, fault.New(fault.Invalid, "reading the example: %w", err)
	}
	example := Example{File: file}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for i, message := range []*proto.Message{&example.First, &example.Second} {
		if *message, err = next(documents, schemas); err != nil {
			return Example{}, fault.New(fault.Invalid, "document %d of the example %s: %w", i+1, file, err).
				WithHint("an example has two documents, divided by ---: type: lehr.process.v1.Job, and payload: {…}; two intents for one resource that does not exist yet")
		}
	}
	if _, err := next(documents, schemas); !errors.Is(err, io.EOF) {
		return Example{}, fault.New(fault.Invalid, "the example %s has more than two documents", file)
	}
	return example, nil
}

func next(documents *yaml.Decoder, schemas *schema.Set) (proto.Message, error) {
	var document struct {
		Type    string `yaml:"type"`
		Payload any    `yaml:"payload"`
	}
	if err := documents.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.Join(errors.New("it is missing"), err)
		}
		return nil, err
	}
	if document.Type == "" || document.Payload == nil {
		return nil, errors.New("it has no type, or no payload")
	}
	name := intent.TypeName(document.Type)
	if !strings.Contains(document.Type, ".") {
		var err error
		if name, err = schemas.Resolve(document.Type); err != nil {
			return nil, err
		}
	}
	message, err := schemas.New(name)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(document.Payload)
	if err != nil {
		return nil, err
	}
	if err := (protojson.UnmarshalOptions{Resolver: schemas.Types()}).Unmarshal(payload, message); err != nil {
		return nil, err
	}
	return message, nil
}
