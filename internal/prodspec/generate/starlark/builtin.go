package starlark

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	starlarkpb "go.starlark.net/lib/proto"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

// predeclared is all that a program finds beside Starlark itself.
func predeclared(schemas *schema.Set) starlark.StringDict {
	names := starlark.StringDict{
		"asset":              starlark.NewBuiltin("asset", newAsset),
		"decode":             starlark.NewBuiltin("decode", decode),
		"yaml":               starlark.NewBuiltin("yaml", plain),
		"json":               starlark.NewBuiltin("json", plain),
		"kubernetes_objects": starlark.NewBuiltin("kubernetes_objects", kubernetesObjects),
		"duration":           starlark.NewBuiltin("duration", duration),
		"struct":             starlark.NewBuiltin("struct", starlarkstruct.Make),
		"proto":              starlarkpb.Module,
	}
	schemas.Descriptors().RangeFiles(func(file protoreflect.FileDescriptor) bool {
		root, _, _ := strings.Cut(string(file.Package()), ".")
		if root != "" && names[root] == nil {
			names[root] = namespace{set: schemas, name: protoreflect.FullName(root)}
		}
		return true
	})
	return names
}

// Reserved reports whether programs cannot reach a package whose name begins
// so: it is a word of the language, or of Lehr's.
func Reserved(root string) bool {
	_, ours := predeclared(schema.Builtin())[root]
	_, universal := starlark.Universe[root]
	return ours || universal || slices.Contains(keywords, root)
}

var keywords = []string{
	"and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from",
	"global", "if", "import", "in", "is", "lambda", "load", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
}

func setPool(thread *starlark.Thread, schemas *schema.Set) {
	starlarkpb.SetPool(thread, schemas.Descriptors())
}

func current(thread *starlark.Thread) *run {
	r, _ := thread.Local(runKey).(*run)
	return r
}

// assetValue is what asset returns.
type assetValue struct {
	asset work.Asset
	// last is the file that had been opened last when it was made.
	last string
}

// after says what was read before each of two assets was made; empty: the same.
func (a *assetValue) after(other *assetValue) string {
	if a.last == other.last {
		return ""
	}
	return fmt.Sprintf(": once after %s was read, and again after %s", cmp.Or(other.last, "nothing"), cmp.Or(a.last, "nothing"))
}

func (a *assetValue) String() string        { return "asset(" + string(a.asset.ID) + ")" }
func (a *assetValue) Type() string          { return "asset" }
func (a *assetValue) Freeze()               {}
func (a *assetValue) Truth() starlark.Bool  { return true }
func (a *assetValue) Hash() (uint32, error) { return starlark.String(a.asset.ID).Hash() }
func (a *assetValue) AttrNames() []string   { return []string{"id", "type"} }
func (a *assetValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "id":
		return starlark.String(a.asset.ID), nil
	case "type":
		return starlark.String(a.asset.Type), nil
	}
	return nil, nil
}

// newAsset is asset(id, payload, addons=[], field=""). The asset is encoded at
// once, so that what is wrong with it is told where it was made. With a field, it
// is said to be made from that field of the manifest that was decoded last.
func newAsset(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var id, field string
	var payload *starlarkpb.Message
	var addons starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "id", &id, "payload", &payload, "addons?", &addons, "field?", &field); err != nil {
		return nil, err
	}
	r := current(thread)
	content := intent.Asset{ID: intent.AssetID(id)}
	var err error
	if content.Payload, err = r.pack(payload); err != nil {
		return nil, fmt.Errorf("asset %s: payload: %w", id, err)
	}
	if addons != nil {
		iterator := addons.Iterate()
		defer iterator.Done()
		var item starlark.Value
		for iterator.Next(&item) {
			message, ok := item.(*starlarkpb.Message)
			if !ok {
				return nil, fmt.Errorf("asset %s: an addon is %s, not a message", id, item.Type())
			}
			packed, err := r.pack(message)
			if err != nil {
				return nil, fmt.Errorf("asset %s: addon: %w", id, err)
			}
			content.Addons = append(content.Addons, packed)
		}
	}
	body, digest, err := r.schema.Encode(content)
	if err != nil {
		return nil, err
	}
	if r.output += len(body); r.output > r.limits.OutputBytes {
		return nil, fmt.Errorf("%s makes more than %d bytes of assets in one run; split the generator, or use for_each: file", r.job.Name(), r.limits.OutputBytes)
	}
	at := thread.CallFrame(1).Pos
	file, line := at.Filename(), int(at.Line)
	if field != "" {
		if r.decoded == nil {
			return nil, fmt.Errorf("asset %s: field %q of what? decode a manifest first", id, field)
		}
		file, line = r.decoded.WhereIs(field)
	}
	return &assetValue{work.Asset{ID: content.ID, Type: content.Payload.Type, Digest: digest, Body: body, File: file, Line: line}, r.last}, nil
}

// pack takes a message, or one that an Any holds, as those of a decoded
// lehr.intent.v1.Asset do.
func (r *run) pack(value *starlarkpb.Message) (intent.Message, error) {
	message := value.Message()
	if message.ProtoReflect().Descriptor().FullName() != "google.protobuf.Any" {
		return r.schema.Pack(message)
	}
	anyMessage := &anypb.Any{}
	wire, err := proto.Marshal(message)
	if err == nil {
		err = proto.Unmarshal(wire, anyMessage)
	}
	return schema.OfAny(anyMessage), err
}

// duration is duration("10s"), a google.protobuf.Duration.
func duration(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &text); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("duration: %q is not a length of time such as 10s or 5m", text)
	}
	return wrap(durationpb.New(d))
}

// wrap makes a message a Starlark value; it is copied.
func wrap(message proto.Message) (*starlarkpb.Message, error) {
	wire, err := proto.Marshal(message)
	if err != nil {
		return nil, err
	}
	return starlarkpb.Unmarshal(message.ProtoReflect().Descriptor(), wire)
}

// namespace is a protobuf package or a part of its name, so that a program
// writes lehr.process.v1.Job(...).
type namespace struct {
	set  *schema.Set
	name protoreflect.FullName
}

func (n namespace) String() string        { return string(n.name) }
func (n namespace) Type() string          { return "proto.package" }
func (n namespace) Freeze()               {}
func (n namespace) Truth() starlark.Bool  { return true }
func (n namespace) Hash() (uint32, error) { return starlark.String(n.name).Hash() }

func (n namespace) Attr(name string) (starlark.Value, error) {
	full := n.name.Append(protoreflect.Name(name))
	if descriptor, err := n.set.Descriptors().FindDescriptorByName(full); err == nil {
		switch descriptor := descriptor.(type) {
		case protoreflect.MessageDescriptor:
			return starlarkpb.MessageDescriptor{Desc: descriptor}, nil
		case protoreflect.EnumDescriptor:
			return starlarkpb.EnumDescriptor{Desc: descriptor}, nil
		}
	}
	isPackage := false
	n.set.Descriptors().RangeFiles(func(file protoreflect.FileDescriptor) bool {
		isPackage = file.Package() == full || strings.HasPrefix(string(file.Package()), string(full)+".")
		return !isPackage
	})
	if isPackage {
		return namespace{set: n.set, name: full}, nil
	}
	// The schema's error names near misses.
	_, err := n.set.New(intent.TypeName(full))
	return nil, err
}

func (n namespace) AttrNames() []string { return nil }
