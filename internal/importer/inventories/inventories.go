// Package inventories imports what a plugin's program lists (sdk/inventory). It runs the program
// that a person names, believes nothing that it prints before it is checked, and leaves out
// what holds a secret (S13). cmd/lehr lists its kind.
package inventories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer"
	"lehr.dev/sdk/inventory"
	"lehr.dev/sdk/subprocess"
)

// perFile is how many assets a file holds.
const perFile = 200

// Kind imports what a program lists.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "plugin", Arguments: "-- COMMAND …", Short: "What the program of a plugin lists",
		Long: `Run a program that lists what exists as assets, such as that of a plugin of your own, and
write files that the renderer "assets" reads back to the same assets:

  lehr import plugin --to texts -- bin/textfile list /srv/texts

The program prints one JSON document (see docs/extend/plugins.md) and changes nothing. It has
your environment, but for the variables of Lehr. Assets that hold a secret are left out.`,
	}
	kind.Args.Least, kind.Args.Most = 1, -1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		limit := flags.Duration("within", time.Minute, "how long the program may take")
		types := flags.String("types", "", "a folder of .proto files with the payloads' types, which are copied")
		run := flags.String("run", "", "the plugin that serves the types; none: the program itself")
		return func(ctx context.Context, argv []string) (importer.Import, error) {
			document, err := list(ctx, argv, *limit)
			if err != nil {
				return importer.Import{}, err
			}
			if *run == "" {
				*run = argv[0]
			}
			return imported(document, *types, *run)
		}
	}
	return kind
}

// list runs the program and reads what it prints.
func list(ctx context.Context, argv []string, within time.Duration) (document inventory.Document, err error) {
	folder, err := os.Getwd()
	if err != nil {
		return document, fault.New(fault.Unavailable, "finding the current folder: %w", err)
	}
	command := subprocess.Command{Argv: argv, Directory: folder, Limits: subprocess.Limits{Time: within, Stdout: subprocess.Kept{Head: inventory.MaxBytes}}}
	for _, variable := range os.Environ() {
		// A token of Lehr is none of the program's business.
		if name, _, _ := strings.Cut(variable, "="); name != "" && !strings.HasPrefix(name, "LEHR_") {
			command.Keep = append(command.Keep, name)
		}
	}
	result, err := subprocess.New(subprocess.Options{Redact: secrecy.Redact}).Run(ctx, command)
	if err != nil {
		return document, err
	}
	if result.Exit != 0 {
		return document, fault.New(fault.Unavailable, "%s ended with %s", argv[0], result)
	}
	text, ok := result.Stdout.Bytes()
	if !ok {
		return document, fault.New(fault.Invalid, "%s prints more than %d MiB", argv[0], inventory.MaxBytes>>20).WithHint("let it list a part")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&document)
	if err == nil && !errors.Is(decoder.Decode(new(any)), io.EOF) {
		err = errors.New("more follows it")
	}
	if err != nil {
		return document, fault.New(fault.Invalid, "%s prints no inventory: %w", argv[0], err).WithHint("docs/extend/plugins.md shows one; what is for people belongs on standard error")
	}
	if err := document.Check(); err != nil {
		return document, fault.New(fault.Invalid, "what %s prints: %w", argv[0], err)
	}
	return document, nil
}

// imported makes files of a document.
func imported(document inventory.Document, types, run string) (importer.Import, error) {
	result := importer.Import{Files: map[string][]byte{}}
	for _, hint := range document.Hints {
		result.Hints = append(result.Hints, secrecy.Redact(hint))
	}
	for _, item := range document.LeftOut {
		result.LeftOut = append(result.LeftOut, importer.LeftOut{What: secrecy.Redact(item.What), Why: secrecy.Redact(item.Why)})
	}
	byType := map[string][]any{}
	for _, asset := range document.Assets {
		var payload map[string]any
		if err := json.Unmarshal(asset.Payload, &payload); err != nil {
			return importer.Import{}, fault.New(fault.Invalid, "the payload of asset %s is no JSON object: %w", asset.ID, err)
		}
		if hits := secrecy.Find(payload); len(hits) > 0 {
			result.LeftOut = append(result.LeftOut, importer.LeftOut{What: "asset " + asset.ID, Why: fmt.Sprintf("%s looks like %s", hits[0].Path, hits[0].Is)})
			continue
		}
		byType[asset.Type] = append(byType[asset.Type], written{ID: asset.ID, Type: asset.Type, Payload: payload})
	}
	if len(byType) == 0 {
		return importer.Import{}, fault.New(fault.NotFound, "the program lists no asset that can be imported")
	}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		result.Read = append(result.Read, fmt.Sprintf("%s: %d", name, len(byType[name])))
		for i := 0; i*perFile < len(byType[name]); i++ {
			text, err := documents(byType[name][i*perFile : min((i+1)*perFile, len(byType[name]))])
			if err != nil {
				return importer.Import{}, err
			}
			result.Files[fmt.Sprintf("assets/%s-%03d.yaml", name, i+1)] = text
		}
	}
	if err := addTypes(result.Files, types); err != nil {
		return importer.Import{}, err
	}
	result.Definition = definition(slices.Sorted(maps.Keys(byType)), types != "", run)
	return result, nil
}

// written is an asset in a file.
type written struct {
	ID      string         `yaml:"id"`
	Type    string         `yaml:"type"`
	Payload map[string]any `yaml:"payload"`
}

func documents(assets []any) ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	for _, asset := range assets {
		if err := encoder.Encode(asset); err != nil {
			return nil, fault.New(fault.Internal, "writing an asset: %w", err)
		}
	}
	return text.Bytes(), encoder.Close()
}

func definition(types []string, own bool, run string) string {
	text := "sources:\n  found: {dir: assets, files: [\"*.yaml\"]}\ngenerate:\n  assets: {render: assets, from: [found]}\n"
	if own {
		text += "types: {dir: types}\n"
	}
	// A path is relative to where lehr.yaml is, and the folder of this may be moved.
	if strings.Contains(run, "/") {
		if whole, err := filepath.Abs(run); err == nil {
			run = whole
		}
	}
	text += "plugins:\n"
	for _, name := range types {
		quoted, _ := json.Marshal(run) // A JSON string is one of YAML.
		text += fmt.Sprintf("  %s: {run: %s}\n", name, quoted)
	}
	return text
}

// addTypes copies the .proto files of a folder.
func addTypes(into map[string][]byte, folder string) error {
	if folder == "" {
		return nil
	}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".proto" {
			return err
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		into[path.Join("types", filepath.ToSlash(relative))], err = files.Read(name, files.MostGiven)
		return err
	})
	if err != nil {
		return fault.New(fault.NotFound, "copying the types in %s: %w", folder, err).WithHint("name a folder of .proto files with --types")
	}
	return nil
}
