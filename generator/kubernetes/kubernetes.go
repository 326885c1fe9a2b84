// Package kubernetes turns Kubernetes manifests into assets: one
// lehr.kubernetes.v1.Object each, with canonical JSON, a readable id, scopes,
// and the order that objects need. It is the renderer kubernetes; those of
// Kustomize and Helm, and lehr import, give it what they make or find. It
// reads text and nothing else, and quotes no values: they may be secret (S13).
package kubernetes

import (
	"slices"

	"google.golang.org/protobuf/proto"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/generator"
)

// Manifest is text with objects: YAML of any number of documents, or JSON.
type Manifest struct {
	// File that findings name, and that objects are made from.
	File string
	Text []byte
	// Rendered says that Text is what File renders, so that lines of the one are
	// not lines of the other. Line is then the line of File; 0: the whole file.
	Rendered bool
	Line     int
	// Name is that of the one object without what a renderer appends to it for its
	// content; empty: nothing is appended. Omit may use it.
	Name string
}

// Finding is what is wrong with a manifest, or probably not meant.
type Finding struct {
	// File that it is about; empty: the partition's definition.
	File    string
	Line    int
	Warning bool
	// Secret: the warning is of something that looks like one.
	Secret  bool
	Message string
	Hint    string
}

// Object of a manifest.
type Object struct {
	ID      string
	File    string
	Line    int
	Payload *kubernetespb.Object
	Addons  []proto.Message

	value map[string]any
}

// Render is the renderer kubernetes: of all declared files, or with for_each:
// file of one.
func Render(in *generator.Input, out *generator.Output) error {
	options, err := in.Options(Keys...)
	if err != nil {
		return err
	}
	settings, err := SettingsOf(options)
	if err != nil {
		return err
	}
	files := []string{in.File()}
	if in.File() == "" {
		if files, err = in.Files(); err != nil {
			return err
		}
	}
	manifests := make([]Manifest, len(files))
	for i, file := range files {
		text, err := in.Read(file)
		if err != nil {
			return err
		}
		manifests[i] = Manifest{File: file, Text: text}
	}
	objects, findings := Read(manifests, settings)
	Tell(out, objects, findings)
	return nil
}

// Read gives the objects of manifests, in the order of their ids, and what is
// to be said of them. With an error among the findings no object may be used.
func Read(manifests []Manifest, settings Settings) ([]Object, []Finding) {
	r := &reader{settings: settings}
	for _, manifest := range manifests {
		r.manifest(manifest)
	}
	r.identify()
	for i := range r.objects {
		r.describe(&r.objects[i])
	}
	return r.objects, r.findings
}

// Tell gives objects and findings to Lehr, with the JSON of what is too large for
// an asset as a blob.
func Tell(out *generator.Output, objects []Object, findings []Finding) {
	for _, f := range findings {
		say := out.At(f.File, f.Line).Error
		if f.Warning {
			say = out.At(f.File, f.Line).Warn
		}
		say(f.Hint, "%s", f.Message)
	}
	if slices.ContainsFunc(findings, func(f Finding) bool { return !f.Warning }) {
		return
	}
	for _, o := range objects {
		payload := o.Payload
		if o.spilled() {
			payload = proto.CloneOf(payload)
			payload.External, payload.Json = out.Blob([]byte(payload.Json)), ""
		}
		out.At(o.File, o.Line).Asset(o.ID, payload, o.Addons...)
	}
}
