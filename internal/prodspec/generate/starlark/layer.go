package starlark

import (
	"fmt"

	"go.starlark.net/starlark"

	"lehr.dev/internal/prodspec/generate/manifest"
	"lehr.dev/internal/prodspec/generate/work"
)

// layers is ctx.layers: the paths of a model's manifest and of what is laid over
// it.
func (r *run) layers() *starlark.List {
	r.reads.Note(work.ReadFiles, "", work.Listing(r.job.Files))
	list := make([]starlark.Value, len(r.job.Layers))
	for i, path := range r.job.Layers {
		list[i] = starlark.String(path)
	}
	return starlark.NewList(list)
}

func pathsOf(value starlark.Value) (paths []string, err error) {
	if path, ok := starlark.AsString(value); ok {
		return []string{path}, nil
	}
	list, ok := value.(*starlark.List)
	if !ok || list.Len() == 0 {
		return nil, fmt.Errorf("decode: a path is a text, or a list of texts that is not empty, not %s", value.Type())
	}
	for i := range list.Len() {
		path, ok := starlark.AsString(list.Index(i))
		if !ok {
			return nil, fmt.Errorf("decode: a path is a text, not %s", list.Index(i).Type())
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// layered reads files, each of which is laid over those before it.
func (r *run) layered(paths []string) (*manifest.Document, error) {
	var layers []*manifest.Document
	for _, path := range paths {
		text, err := r.text(path)
		if err != nil {
			return nil, err
		}
		d, err := manifest.Parse(path, text)
		if err != nil {
			return nil, err
		}
		layers = append(layers, d)
	}
	return manifest.Lay(layers)
}
