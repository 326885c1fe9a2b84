package starlark

import (
	"fmt"

	starlarkpb "go.starlark.net/lib/proto"
	"go.starlark.net/starlark"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

// contextValue is ctx: what the run may see.
type contextValue struct{ run *run }

func (c *contextValue) String() string        { return "ctx" }
func (c *contextValue) Type() string          { return "ctx" }
func (c *contextValue) Freeze()               {}
func (c *contextValue) Truth() starlark.Bool  { return true }
func (c *contextValue) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: ctx") }
func (c *contextValue) AttrNames() []string {
	return []string{"assets", "file", "files", "generator", "key", "layers", "partition", "value"}
}

func (c *contextValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "partition":
		return starlark.String(c.run.job.Partition), nil
	case "generator":
		return starlark.String(c.run.job.Generator), nil
	case "files":
		return &files{c.run}, nil
	case "assets":
		return &assets{c.run}, nil
	case "layers":
		return c.run.layers(), nil
	case "file":
		if c.run.job.File == "" || c.run.job.Key != "" {
			return nil, fmt.Errorf("ctx.file is there only with for_each: file; this run has ctx.files")
		}
		return starlark.String(c.run.job.File), nil
	case "key", "value":
		if c.run.job.Key == "" {
			return nil, fmt.Errorf("ctx.%s is there only with for_each: key; this run has ctx.files", name)
		}
		if name == "key" {
			return starlark.String(c.run.job.Key), nil
		}
		return c.run.value(&starlark.Thread{Name: "ctx.value"})
	}
	return nil, nil
}

// text reads a declared file, and notes that it did.
func (r *run) text(path string) ([]byte, error) {
	input, ok := work.Find(r.job.Files, path)
	if !ok {
		r.reads.Note(work.ReadFiles, "", work.Listing(r.job.Files))
		return nil, fmt.Errorf("%s is not a declared file; declared: %s", path, names(r.job.Files))
	}
	r.reads.Note(work.ReadFile, path, input.Digest)
	r.last = path
	return r.open(work.ReadFile, input)
}

// files is ctx.files, a mapping from path to text. Contents are fetched when
// they are looked at.
type files struct{ run *run }

var (
	_ starlark.IterableMapping = (*files)(nil)
	_ starlark.Sequence        = (*files)(nil)
	_ starlark.HasAttrs        = (*files)(nil)
)

func (f *files) String() string        { return "ctx.files" }
func (f *files) Type() string          { return "files" }
func (f *files) Freeze()               {}
func (f *files) Truth() starlark.Bool  { return f.Len() > 0 }
func (f *files) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: files") }

func (f *files) Len() int {
	f.run.reads.Note(work.ReadFiles, "", work.Listing(f.run.job.Files))
	return len(f.run.job.Files)
}

func (f *files) Get(key starlark.Value) (starlark.Value, bool, error) {
	path, ok := starlark.AsString(key)
	if !ok {
		return nil, false, fmt.Errorf("ctx.files: a path is a string, not %s", key.Type())
	}
	if _, declared := work.Find(f.run.job.Files, path); !declared {
		f.Len()
		return nil, false, nil
	}
	text, err := f.run.text(path)
	return starlark.String(text), err == nil, err
}

func (f *files) Iterate() starlark.Iterator { return f.keys().Iterate() }

func (f *files) keys() *starlark.List {
	list := make([]starlark.Value, f.Len())
	for i, input := range f.run.job.Files {
		list[i] = starlark.String(input.Name)
	}
	return starlark.NewList(list)
}

// Items reads every file.
func (f *files) Items() []starlark.Tuple {
	var items []starlark.Tuple
	f.Len()
	for _, input := range f.run.job.Files {
		text, err := f.run.text(input.Name)
		if err != nil {
			// The interface has no way to say it; the run ends with it.
			panic(err)
		}
		items = append(items, starlark.Tuple{starlark.String(input.Name), starlark.String(text)})
	}
	return items
}

func (f *files) AttrNames() []string { return []string{"items", "keys"} }

func (f *files) Attr(name string) (starlark.Value, error) {
	switch name {
	case "keys":
		return method("keys", func() starlark.Value { return f.keys() }), nil
	case "items":
		return method("items", func() starlark.Value {
			var list []starlark.Value
			for _, item := range f.Items() {
				list = append(list, item)
			}
			return starlark.NewList(list)
		}), nil
	}
	return nil, nil
}

func method(name string, f func() starlark.Value) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0); err != nil {
			return nil, err
		}
		return f(), nil
	})
}

// assets is ctx.assets, the list of what other generators gave.
type assets struct{ run *run }

var (
	_ starlark.Indexable = (*assets)(nil)
	_ starlark.Sequence  = (*assets)(nil)
)

func (a *assets) String() string        { return "ctx.assets" }
func (a *assets) Type() string          { return "assets" }
func (a *assets) Freeze()               {}
func (a *assets) Truth() starlark.Bool  { return a.Len() > 0 }
func (a *assets) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: assets") }

func (a *assets) Len() int {
	a.run.reads.Note(work.ReadAssets, "", work.Listing(a.run.job.Assets))
	return len(a.run.job.Assets)
}

func (a *assets) Index(i int) starlark.Value {
	return &inputAsset{run: a.run, input: a.run.job.Assets[i]}
}

func (a *assets) Iterate() starlark.Iterator {
	a.Len()
	return &assetIterator{assets: a}
}

type assetIterator struct {
	assets *assets
	next   int
}

func (i *assetIterator) Next(value *starlark.Value) bool {
	if i.next >= len(i.assets.run.job.Assets) {
		return false
	}
	*value = i.assets.Index(i.next)
	i.next++
	return true
}

func (i *assetIterator) Done() {}

// inputAsset is one of ctx.assets. Its content is fetched when looked at.
type inputAsset struct {
	run     *run
	input   work.Input
	content *intent.Asset
}

func (a *inputAsset) String() string        { return "asset(" + a.input.Name + ")" }
func (a *inputAsset) Type() string          { return "input_asset" }
func (a *inputAsset) Freeze()               {}
func (a *inputAsset) Truth() starlark.Bool  { return true }
func (a *inputAsset) Hash() (uint32, error) { return starlark.String(a.input.Name).Hash() }
func (a *inputAsset) AttrNames() []string   { return []string{"addons", "id", "payload", "type"} }

func (a *inputAsset) Attr(name string) (starlark.Value, error) {
	switch name {
	case "id":
		return starlark.String(a.input.Name), nil
	case "type":
		return starlark.String(a.input.Type), nil
	case "payload", "addons":
	default:
		return nil, nil
	}
	if err := a.fetch(); err != nil {
		return nil, err
	}
	if name == "payload" {
		return a.message(a.content.Payload)
	}
	var list []starlark.Value
	for _, addon := range a.content.Addons {
		value, err := a.message(addon)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return starlark.NewList(list), nil
}

func (a *inputAsset) fetch() error {
	if a.content != nil {
		return nil
	}
	a.run.reads.Note(work.ReadAsset, a.input.Name, a.input.Digest)
	body, err := a.run.open(work.ReadAsset, a.input)
	if err != nil {
		return err
	}
	content, err := schema.Decode(body)
	a.content = &content
	return err
}

func (a *inputAsset) message(m intent.Message) (starlark.Value, error) {
	empty, err := a.run.schema.New(m.Type)
	if err != nil {
		return nil, err
	}
	return starlarkpb.Unmarshal(empty.ProtoReflect().Descriptor(), m.Bytes)
}
