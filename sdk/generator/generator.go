// Package generator is the Go SDK for generators. A generator's main is
//
//	generator.Main(func(in *generator.Input, out *generator.Output) error {
//		text, err := in.Read("service.json")
//		…
//		out.Asset("job/web", &processpb.Job{…}, &intentpb.Owner{Owner: "web@example.com"})
//		return nil
//	})
//
// Built for wasip1 it is for the key wasm in lehr.yaml, built for this machine
// for the key command; it gives the same bytes. It sees the inputs that
// lehr.yaml declares and nothing else. docs/use/generators.md begins with one.
package generator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	generatorpb "lehr.dev/gen/lehr/generator/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// Main runs a generator and ends the process: 0, also with findings; 1 with an
// error, which is said on standard error, and then nothing is taken.
func Main(generate func(input *Input, output *Output) error) {
	if err := run(os.Stdin, os.Stdout, generate); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(stdin io.Reader, stdout io.Writer, generate func(input *Input, output *Output) error) error {
	text, err := io.ReadAll(stdin)
	if err != nil {
		return fmt.Errorf("reading the job from standard input: %w", err)
	}
	job := &generatorpb.Job{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, job); err != nil {
		return fmt.Errorf(`standard input holds no job (%w); Lehr writes one, and by hand: echo '{"partition": "shop"}' | %s`, err, os.Args[0])
	}
	// A module that is started without arguments has not even a name.
	arguments := os.Args[min(1, len(os.Args)):]
	return Run(generate, &Input{job: job, arguments: arguments, files: disk{}}, protoregistry.GlobalTypes, stdout)
}

// Types finds what messages hold of others, by name.
type Types interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// Run runs a generator once, in this process, and writes what it said: nothing
// when it returns an error. Types are those of assets and what they hold.
func Run(generate func(input *Input, output *Output) error, input *Input, types Types, w io.Writer) error {
	input.types = types
	out := &Output{state: &output{types: types, blobs: map[string]bool{}}}
	if err := generate(input, out); err != nil {
		return err
	}
	return out.state.end(w)
}

// Input is what a run may see.
type Input struct {
	job       *generatorpb.Job
	arguments []string
	files     fs.FS
	types     Types
}

// NewInput is for a run that sees files, by their paths from the root, and
// nothing of this process. The paths of the job are there, too.
func NewInput(job *generatorpb.Job, arguments []string, files fs.FS) *Input {
	return &Input{job: job, arguments: arguments, files: files}
}

// disk is the working directory, and what absolute paths name.
type disk struct{}

func (disk) Open(name string) (fs.File, error) { return os.Open(filepath.FromSlash(name)) }

// Partition that assets are generated for.
func (input *Input) Partition() string { return input.job.GetPartition() }

// Generator is its name in lehr.yaml.
func (input *Input) Generator() string { return input.job.GetGenerator() }

// File that this run is for, with for_each: file; else empty.
func (input *Input) File() string { return input.job.GetFile() }

// Key of the entry that this run is for, with for_each: key; else empty.
func (input *Input) Key() string { return input.job.GetKey() }

// Value of the entry, in JSON; else empty. The run depends on it and on no other
// entry.
func (input *Input) Value() json.RawMessage { return json.RawMessage(input.job.GetValue()) }

// Arguments from lehr.yaml.
func (input *Input) Arguments() []string { return input.arguments }

// Read returns the content of a declared file, by its path from the folder of
// lehr.yaml. A module's run depends on the files that it reads, and on no
// others.
func (input *Input) Read(path string) ([]byte, error) { return fs.ReadFile(input.files, path) }

// Files lists the declared files, in order.
func (input *Input) Files() ([]string, error) {
	var paths []string
	err := fs.WalkDir(input.files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	slices.Sort(paths)
	return paths, err
}

// Asset that another generator gave.
type Asset struct {
	ID, Type string
	path     string
}

// Assets lists what the generators in from gave, by id.
func (input *Input) Assets() ([]Asset, error) {
	list := &generatorpb.AssetList{}
	if err := input.load(input.job.GetAssets(), list); err != nil {
		return nil, err
	}
	assets := make([]Asset, len(list.GetAssets()))
	for i, entry := range list.GetAssets() {
		assets[i] = Asset{entry.GetId(), entry.GetType(), path.Join(path.Dir(input.job.GetAssets()), entry.GetPath())}
	}
	return assets, nil
}

// Open reads an asset into a message of its type, and into addons. Addons that
// it does not have are left as they are.
func (input *Input) Open(asset Asset, payload proto.Message, addons ...proto.Message) error {
	content := &intentpb.Asset{}
	if err := input.load(asset.path, content); err != nil {
		return err
	}
	if err := content.GetPayload().UnmarshalTo(payload); err != nil {
		return fmt.Errorf("the payload of %s: %w", asset.ID, err)
	}
	for _, addon := range addons {
		for _, packed := range content.GetAddons() {
			if !packed.MessageIs(addon) {
				continue
			}
			if err := packed.UnmarshalTo(addon); err != nil {
				return fmt.Errorf("an addon of %s: %w", asset.ID, err)
			}
		}
	}
	return nil
}

// Text returns an asset as JSON, as the protocol has it: id, payload with its @type, and addons.
func (input *Input) Text(asset Asset) ([]byte, error) { return fs.ReadFile(input.files, asset.path) }

func (input *Input) load(path string, message proto.Message) error {
	text, err := fs.ReadFile(input.files, path)
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{Resolver: input.types}).Unmarshal(text, message); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// Output takes assets and findings. Nothing is written before the generator
// has returned without an error.
type Output struct {
	state *output
	place *generatorpb.Place
	field string
	// asset, excerpt and path of what is about an asset.
	asset, excerpt string
	path           []string
}

type output struct {
	types  Types
	lines  bytes.Buffer
	assets int64
	blobs  map[string]bool
	err    error
}

// At returns an output for what was made from, or is about, a line of a file.
// Lines begin at 1; 0: the whole file.
func (o *Output) At(file string, line int) *Output {
	return &Output{state: o.state, place: &generatorpb.Place{File: filepath.ToSlash(file), Line: int32(line)}}
}

// Field returns an output for what is about a field, such as payload.size, in a
// column of the line. Columns begin at 1; 0: nobody knows.
func (o *Output) Field(column int, field string) *Output {
	place := &generatorpb.Place{File: o.place.GetFile(), Line: o.place.GetLine(), Column: int32(column)}
	return &Output{state: o.state, place: place, field: field, asset: o.asset, excerpt: o.excerpt, path: o.path}
}

// About returns an output of a checking program for what is about a line of a text that an asset
// holds in a field, such as payload.sql. Lehr looks for that line in the files that the asset was
// made from. Lines begin at 1; 0: the whole of it.
func (o *Output) About(asset, field, text string, line int) *Output {
	about := &Output{state: o.state, place: &generatorpb.Place{Line: int32(line)}, field: field, asset: asset}
	if lines := strings.Split(text, "\n"); line >= 1 && line <= len(lines) {
		start := line - 1
		for size := len(lines[start]); start > 0 && line-start < mostExcerptLines; start-- {
			if size += 1 + len(lines[start-1]); size > mostExcerpt {
				break
			}
		}
		about.excerpt = strings.ToValidUTF8(strings.Join(lines[start:line], "\n"), "")
		if len(about.excerpt) > mostExcerpt { // One line that is so long is not looked for.
			about.excerpt = ""
		}
	}
	return about
}

// AboutValue returns an output of a checking program for what is about a value in the JSON that an
// asset holds in a field, such as payload.json. The path has the keys, and the indices of lists from
// 0, that lead to the value; of a scalar, written is KEY: VALUE, else it is empty. Lehr finds its line
// where the asset was made from a document of YAML or JSON.
func (o *Output) AboutValue(asset, field, written string, path []string) *Output {
	about := o.About(asset, field, written, 1)
	about.path = path
	return about
}

// Bounds of what leads to a place.
const mostExcerpt, mostExcerptLines = 4000, 20

// Asset gives an asset: its id, its payload and at most one addon of a type.
func (o *Output) Asset(id string, payload proto.Message, addons ...proto.Message) {
	asset := &intentpb.Asset{Id: id}
	var err error
	if asset.Payload, err = anypb.New(payload); err != nil {
		o.fail(fmt.Errorf("asset %s: payload: %w", id, err))
	}
	for _, addon := range addons {
		packed, err := anypb.New(addon)
		if err != nil {
			o.fail(fmt.Errorf("asset %s: addon: %w", id, err))
		}
		asset.Addons = append(asset.Addons, packed)
	}
	o.state.assets++
	o.write(&generatorpb.Record{Record: &generatorpb.Record_Asset{Asset: asset}, From: o.place})
}

// Blob gives content that is too large for an asset, at most 10 000 000 bytes,
// and returns what names it: put that into an asset of the same run. Lehr keeps
// it as long as an incarnation names it.
func (o *Output) Blob(content []byte) *intentpb.ExternalRef {
	sum := sha256.Sum256(content)
	name := "blob:sha256:" + hex.EncodeToString(sum[:])
	if !o.state.blobs[name] {
		o.state.blobs[name] = true
		o.write(&generatorpb.Record{Record: &generatorpb.Record_Blob{Blob: &generatorpb.Blob{Content: content}}})
	}
	return &intentpb.ExternalRef{Uri: name, Sha256: sum[:]}
}

// Error says what is wrong with the inputs, and what a person can do. No asset
// of the run is taken then; go on, so that all that is wrong is told at once.
func (o *Output) Error(hint, format string, arguments ...any) {
	o.finding(generatorpb.Finding_SEVERITY_ERROR, hint, fmt.Sprintf(format, arguments...))
}

// Warn says something that keeps nothing back.
func (o *Output) Warn(hint, format string, arguments ...any) {
	o.finding(generatorpb.Finding_SEVERITY_WARNING, hint, fmt.Sprintf(format, arguments...))
}

// LeaveOut says that something would be an asset, and why it is none: the others of
// the run are taken. id is the one that it would have; empty: that cannot be told,
// so that it may be any asset of the generator. Where intent has it already, Lehr
// takes nothing of the build: no asset leaves because it cannot be read.
func (o *Output) LeaveOut(id, hint, format string, arguments ...any) {
	f := &generatorpb.Finding{Severity: generatorpb.Finding_SEVERITY_LEFT_OUT, Message: fmt.Sprintf(format, arguments...), Hint: hint, Field: o.field, Asset: id}
	o.write(&generatorpb.Record{Record: &generatorpb.Record_Finding{Finding: f}, From: o.place})
}

func (o *Output) finding(severity generatorpb.Finding_Severity, hint, message string) {
	f := &generatorpb.Finding{Severity: severity, Message: message, Hint: hint, Field: o.field, Asset: o.asset, Excerpt: o.excerpt, Path: o.path}
	o.write(&generatorpb.Record{Record: &generatorpb.Record_Finding{Finding: f}, From: o.place})
}

func (o *Output) write(record *generatorpb.Record) {
	text, err := (protojson.MarshalOptions{Resolver: o.state.types}).Marshal(record)
	if err == nil {
		// protojson varies its spaces from build to build.
		err = json.Compact(&o.state.lines, text)
	}
	o.fail(err)
	o.state.lines.WriteByte('\n')
}

func (o *Output) fail(err error) { o.state.err = errors.Join(o.state.err, err) }

func (s *output) end(w io.Writer) error {
	(&Output{state: s}).write(&generatorpb.Record{Record: &generatorpb.Record_End{End: &generatorpb.End{Assets: s.assets}}})
	if s.err != nil {
		return s.err
	}
	_, err := w.Write(s.lines.Bytes())
	return err
}
