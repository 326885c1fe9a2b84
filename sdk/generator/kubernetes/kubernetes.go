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
	"lehr.dev/sdk/generator"
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
	// LeftOut: what is wrong is one object, which is not among those that were read;
	// the others may be used. ID is the one that it would have, empty where it
	// could have none; Unknown: it has one that cannot be told.
	LeftOut bool
	ID      string
	Unknown bool
	// Secret: the warning is of something that looks like one.
	Secret  bool
	Message string
	Hint    string
}

// Fails reports whether no object may be used.
func (f Finding) Fails() bool { return !f.Warning && !f.LeftOut }

// Object of a manifest.
type Object struct {
	ID      string
	File    string
	Line    int
	Payload *kubernetespb.Object
	Addons  []proto.Message

	value map[string]any
	// given are the addons of its annotations.
	given []proto.Message
	// rank by the annotations of hooks and waves.
	rank rank
}

// Render is the renderer kubernetes: of all declared files, or with for_each:
// file of one.
func Render(input *generator.Input, output *generator.Output) error {
	options, err := input.Options(Keys...)
	if err != nil {
		return err
	}
	settings, err := SettingsOf(options)
	if err != nil {
		return err
	}
	files := []string{input.File()}
	if input.File() == "" {
		if files, err = input.Files(); err != nil {
			return err
		}
	}
	manifests := make([]Manifest, len(files))
	for i, file := range files {
		text, err := input.Read(file)
		if err != nil {
			return err
		}
		manifests[i] = Manifest{File: file, Text: text}
	}
	objects, findings := Read(manifests, settings)
	if input.File() == "" {
		findings = Whole(objects, findings)
	}
	Tell(output, objects, findings)
	return nil
}

// Whole makes errors of what is left out where nothing else is there: then it is
// probably not some objects that are wrong, but what is read.
func Whole(objects []Object, findings []Finding) []Finding {
	if len(objects) > 0 {
		return findings
	}
	for i := range findings {
		findings[i].LeftOut = false
	}
	return findings
}

// Read gives the objects of manifests, in the order of their ids, and what is
// to be said of them. With an error among the findings no object may be used; an
// object that is wrong by itself is left out.
func Read(manifests []Manifest, settings Settings) ([]Object, []Finding) {
	r := &reader{settings: settings}
	for _, manifest := range manifests {
		r.manifest(manifest)
	}
	r.identify()
	for i := range r.objects {
		r.describe(&r.objects[i])
	}
	r.objects = slices.DeleteFunc(r.objects, func(o Object) bool { return o.ID == "" })
	return r.objects, r.findings
}

// Tell gives objects and findings to Lehr, with the JSON of what is too large for
// an asset as a blob.
func Tell(output *generator.Output, objects []Object, findings []Finding) {
	for _, f := range findings {
		at := output.At(f.File, f.Line)
		switch {
		case f.Warning:
			at.Warn(f.Hint, "%s", f.Message)
		case f.LeftOut && f.ID == "" && !f.Unknown:
			at.Warn(f.Hint, "left out: %s", f.Message)
		case f.LeftOut:
			at.LeaveOut(f.ID, f.Hint, "left out: %s", f.Message)
		default:
			at.Error(f.Hint, "%s", f.Message)
		}
	}
	if slices.ContainsFunc(findings, Finding.Fails) {
		return
	}
	for _, o := range objects {
		payload := o.Payload
		if o.spilled() {
			payload = proto.CloneOf(payload)
			payload.External, payload.Json = output.Blob([]byte(payload.Json)), ""
		}
		output.At(o.File, o.Line).Asset(o.ID, payload, o.Addons...)
	}
}
