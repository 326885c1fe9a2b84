// Package work holds what a run of a generator is given and what it gives, in
// whatever language the generator is written. It does nothing by itself;
// package generate and the languages below it use it.
package work

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// Language is what a generator is written in, by its key in lehr.yaml.
type Language string

const (
	Starlark Language = "starlark"
	// WASM is a WebAssembly module for WASI preview 1.
	WASM Language = "wasm"
	// Native is a program of this machine.
	Native Language = "command"
	// Model is one of Lehr's own programs, in Starlark.
	Model Language = "model"
	// Render is one of Lehr's own renderers, by its format.
	Render Language = "render"
)

// Input is a file or an asset that a run may read.
type Input struct {
	// Name is a path or an asset id.
	Name   string          `json:"name"`
	Digest intent.Digest   `json:"digest"`
	Type   intent.TypeName `json:"type,omitempty"`
}

// Keys say where in a file there is a mapping or a list, of which each entry has
// a run of its own.
type Keys struct {
	// Path of keys that leads to it; empty: it is the whole file.
	Path []string `json:"path,omitempty"`
	// By is the field that is the key of a list's elements that are mappings.
	By string `json:"by"`
}

// Entry of a file. Value is JSON.
type Entry struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Job is one run of a generator. Its lists are sorted by name.
type Job struct {
	Partition intent.PartitionID `json:"partition"`
	Generator string             `json:"generator"`
	// Language of the program; empty: Starlark.
	Language Language `json:"language,omitempty"`
	// Check: the program gives findings about what it reads, and no assets.
	Check bool `json:"check,omitempty"`
	// Program is the path of the Starlark file that defines generate, of the
	// module, or of the native program, or a renderer's format; Arguments of all
	// but the first.
	Program   string   `json:"program"`
	Arguments []string `json:"arguments,omitempty"`
	// Definition is the file that names the format, and Renderer the path of a
	// renderer that is a program of its own.
	Definition string `json:"definition,omitempty"`
	Renderer   string `json:"renderer,omitempty"`
	// File is the one this run is for; empty: the run is for all. Of an entry it
	// is the file's name and the key's.
	File string `json:"file,omitempty"`
	// Layers of a manifest, by their paths: of a model. Each is laid over those
	// before it.
	Layers []string `json:"layers,omitempty"`
	// Key and Value, in JSON, of the entry that the run is for; empty: it is for
	// none.
	Key   string `json:"key,omitempty"`
	Value []byte `json:"value,omitempty"`
	// Files are the declared sources', Programs what load may name, Assets
	// what the generators it takes from gave.
	Files    []Input `json:"files,omitempty"`
	Programs []Input `json:"programs,omitempty"`
	Assets   []Input `json:"assets,omitempty"`
}

// Name is for people: the generator, and the file it runs for.
func (j Job) Name() string {
	if j.File == "" {
		return j.Generator
	}
	return j.Generator + " for " + j.File
}

// Where is the file of what is said about its program.
func (j Job) Where() string {
	if j.Language == Render || j.Check {
		return j.Definition
	}
	return j.Program
}

// Kind says what a read was of.
type Kind string

const (
	ReadFile    Kind = "file"
	ReadProgram Kind = "program"
	ReadAsset   Kind = "asset"
	// ReadKey is an entry of a file: its key and its value.
	ReadKey Kind = "key"
	// The lists of names, when a program looked through them.
	ReadFiles  Kind = "files"
	ReadAssets Kind = "assets"
)

// Read is something that a run depended on.
type Read struct {
	Kind   Kind          `json:"kind"`
	Name   string        `json:"name,omitempty"`
	Digest intent.Digest `json:"digest"`
}

// Asset is one asset that a run returned.
type Asset struct {
	ID     intent.AssetID  `json:"id"`
	Type   intent.TypeName `json:"type"`
	Digest intent.Digest   `json:"digest"`
	// Body is the canonical bytes.
	Body []byte `json:"body"`
	// File and Line of what made it: where asset was called, or what the
	// program says it was made from. Line 0: it did not say.
	File string `json:"file"`
	Line int    `json:"line"`
}

// Blob is content that assets name by its digest (intent.BlobSum).
type Blob struct {
	Digest intent.Digest `json:"digest"`
	Bytes  []byte        `json:"bytes"`
}

// Report is what a checking program says of something that it was given.
type Report struct {
	// Finding has neither file nor line where it is about an asset: then Line is that of the
	// asset's text, from 1.
	intent.Finding
	// Excerpt of that text, by which the line is looked for in the asset's files. Its last
	// line is that of the place.
	Excerpt string `json:"excerpt,omitempty"`
	// Path to the value within the asset's JSON: keys, and indices of lists from 0.
	Path []string `json:"path,omitempty"`
}

// Result of a run. It is complete, or has findings and no assets.
type Result struct {
	Assets   []Asset          `json:"assets,omitempty"`
	Blobs    []Blob           `json:"blobs,omitempty"`
	Findings []intent.Finding `json:"findings,omitempty"`
	// Warnings do not keep the assets from being taken.
	Warnings []intent.Finding `json:"warnings,omitempty"`
	// Reported is what a checking program said. Findings are then of a run that failed.
	Reported []Report `json:"reported,omitempty"`
	Reads    []Read   `json:"reads,omitempty"`
	// Log is what the program printed, cut at 64 kB.
	Log string `json:"log,omitempty"`
	// Stopped from outside, by the context: another time it may end well.
	Stopped bool `json:"stopped,omitempty"`
}

// Opener returns the content of an input: ReadFile, ReadProgram or ReadAsset.
type Opener func(kind Kind, input Input) ([]byte, error)

// Listing is the digest of the names and types of a list of inputs.
func Listing(inputs []Input) intent.Digest {
	var parts intent.Parts
	parts.Begin("lehr.listing.v1")
	for i := range inputs {
		parts.AddText(inputs[i].Name)
		parts.AddText(string(inputs[i].Type))
	}
	return parts.Sum()
}

// ByName orders inputs as lists of them are.
func ByName(a, b Input) int { return strings.Compare(a.Name, b.Name) }

// Find looks a name up in a sorted list.
func Find(inputs []Input, name string) (Input, bool) {
	at, ok := slices.BinarySearchFunc(inputs, Input{Name: name}, ByName)
	if !ok {
		return Input{}, false
	}
	return inputs[at], true
}

// Reads gathers what a run depends on.
type Reads map[Read]bool

// Note that a run read something.
func (r Reads) Note(kind Kind, name string, digest intent.Digest) {
	r[Read{Kind: kind, Name: name, Digest: digest}] = true
}

// Sorted lists them by kind and name.
func (r Reads) Sorted() []Read {
	return slices.SortedFunc(maps.Keys(r), func(a, b Read) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
}

// Everything is the reads of a run that may have read all it could.
func Everything(job Job) []Read {
	reads := []Read{{Kind: ReadFiles, Digest: Listing(job.Files)}, {Kind: ReadAssets, Digest: Listing(job.Assets)}}
	for _, group := range []struct {
		kind   Kind
		inputs []Input
	}{{ReadFile, job.Files}, {ReadProgram, job.Programs}, {ReadAsset, job.Assets}} {
		for _, input := range group.inputs {
			reads = append(reads, Read{Kind: group.kind, Name: input.Name, Digest: input.Digest})
		}
	}
	return reads
}
