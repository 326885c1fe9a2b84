package render

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"strings"

	"buf.build/go/protovalidate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/generate/manifest"
	"lehr.dev/sdk/generator"
)

// assetReader reads files of assets.
type assetReader struct {
	set    *schema.Set
	input  *generator.Input
	output *generator.Output
	rules  protovalidate.Validator
	// places assets, by where they are.
	places map[string]string
	// blobs that were given.
	blobs map[intent.Digest]bool
}

// blobFolder is where blobs lie, as in an exported tar.
const blobFolder = "blobs"

// assets renders files that hold assets.
func assets(schemas *schema.Set, input *generator.Input, output *generator.Output) error {
	if _, err := input.Options(); err != nil {
		return err
	}
	rules, err := schemas.Rules()
	if err != nil {
		return err
	}
	r := &assetReader{set: schemas, input: input, output: output, rules: rules, places: map[string]string{}, blobs: map[intent.Digest]bool{}}
	files := []string{input.File()}
	if input.File() == "" {
		if files, err = input.Files(); err != nil {
			return err
		}
	}
	for _, file := range files {
		if path.Base(path.Dir(file)) == blobFolder {
			continue
		}
		if err := r.file(file); err != nil {
			return err
		}
	}
	return nil
}

// file reads one. An error is that it cannot be opened; what is wrong with it is
// said.
func (r *assetReader) file(name string) error {
	text, err := r.input.Read(name)
	if err != nil {
		return err
	}
	switch path.Ext(name) {
	case ".textproto", ".txtpb", ".textpb", ".pbtxt":
		return r.textproto(name, text)
	case ".yaml", ".yml", ".json", ".jsonl":
	default:
		r.output.At(name, 1).Error("let the source list *.yaml, *.yml, *.json, *.jsonl, *.textproto and *.txtpb files only", "%s is of no kind that holds assets", name)
		return nil
	}
	documents, err := manifest.ParseAll(name, text)
	if err != nil {
		return r.wrong(err)
	}
	for _, d := range documents {
		if d.Root.Kind != yaml.SequenceNode {
			if err := r.node(d, d.Root, ""); err != nil {
				return err
			}
			continue
		}
		for i, node := range d.Root.Content {
			if err := r.node(d, node, manifest.Index("", i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrong says what is wrong with a file; other errors are returned.
func (r *assetReader) wrong(err error) error {
	e, ok := errors.AsType[*manifest.Error](err)
	if !ok {
		return err
	}
	for _, f := range e.Findings {
		r.output.At(f.File, f.Line).Field(f.Column, f.Field).Error(f.Hint, "%s", f.Message)
	}
	return nil
}

// say something about a node.
func (r *assetReader) say(d *manifest.Document, node *yaml.Node, field, hint, format string, arguments ...any) {
	r.output.At(d.File, node.Line).Field(node.Column, field).Error(hint, format, arguments...)
}

// assetKeys of an asset in YAML or JSON.
var assetKeys = []string{"id", "type", "payload", "addons"}

// node reads one asset.
func (r *assetReader) node(d *manifest.Document, node *yaml.Node, at string) error {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		r.say(d, node, at, "write id: some/asset, type: SomeType, payload: {…}", "an asset is a mapping, this is %s", manifest.Describe(node))
		return nil
	}
	fields, fine := map[string]*yaml.Node{}, true
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		switch key.Value {
		case "id", "type", "payload", "addons":
			fields[key.Value] = resolve(node.Content[i+1])
		default:
			fine = false
			hint := "allowed: " + strings.Join(assetKeys, ", ")
			if suggestion := spell.Nearest(key.Value, assetKeys); suggestion != "" {
				hint = "did you mean " + suggestion + "? " + hint
			}
			r.say(d, key, manifest.Join(at, key.Value), hint, "an asset has no field %q", key.Value)
		}
	}
	a := &assetNode{assetReader: r, document: d, node: node, at: at}
	id := a.id(fields["id"])
	payload, err := a.payload(fields["type"], fields["payload"])
	if err != nil {
		return err
	}
	addons, err := a.addons(fields["addons"])
	if err != nil || !fine || a.failed || id == "" {
		return err
	}
	return r.give(d.File, node.Line, node.Column, at, id, payload, addons)
}

// assetNode is an asset of which parts are read.
type assetNode struct {
	*assetReader
	document *manifest.Document
	node     *yaml.Node
	at       string
	// failed: something was said.
	failed bool
}

func (a *assetNode) fail(node *yaml.Node, field, hint, format string, arguments ...any) {
	a.failed = true
	a.say(a.document, node, manifest.Join(a.at, field), hint, format, arguments...)
}

func (a *assetNode) id(node *yaml.Node) string {
	switch {
	case node == nil:
		a.fail(a.node, "id", "write id: some/asset", "the asset has no id")
	case node.Kind != yaml.ScalarNode || node.Tag != "!!str":
		a.fail(node, "id", `write id: "some/asset"`, "id must be a text, is %s", manifest.Describe(node))
	default:
		return node.Value
	}
	return ""
}

// payload is by the type beside it, or by the @type in it.
func (a *assetNode) payload(named, node *yaml.Node) (proto.Message, error) {
	if node == nil {
		a.fail(a.node, "payload", "write payload: {…}, empty if nothing is to be said", "the asset has no payload")
		return nil, nil
	}
	if named == nil {
		return a.typedMessage(node, "payload")
	}
	if named.Kind != yaml.ScalarNode {
		a.fail(named, "type", "write type: Job", "type must be a text, is %s", manifest.Describe(named))
		return nil, nil
	}
	return a.message(named, "type", node, "payload")
}

// addons are a mapping by type, or a list with @type in each.
func (a *assetNode) addons(node *yaml.Node) (list []proto.Message, _ error) {
	add := func(m proto.Message, at *yaml.Node, field string) {
		for _, existing := range list {
			if m != nil && existing != nil && m.ProtoReflect().Descriptor().FullName() == existing.ProtoReflect().Descriptor().FullName() {
				a.fail(at, field, "remove one", "the asset has two addons of type %s", m.ProtoReflect().Descriptor().FullName())
			}
		}
		list = append(list, m)
	}
	switch {
	case node == nil:
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			field := "addons." + key.Value
			m, err := a.message(key, field, resolve(node.Content[i+1]), field)
			if err != nil {
				return nil, err
			}
			add(m, key, field)
		}
	case node.Kind == yaml.SequenceNode:
		for i, element := range node.Content {
			field := manifest.Index("addons", i)
			m, err := a.typedMessage(resolve(element), field)
			if err != nil {
				return nil, err
			}
			add(m, element, field)
		}
	default:
		a.fail(node, "addons", "write addons: {Owner: {owner: web@example.com}}", "addons are a mapping by type, or a list, this is %s", manifest.Describe(node))
	}
	return list, nil
}

// typedMessage is a message with its type within, as in protobuf's JSON of an Any.
func (a *assetNode) typedMessage(node *yaml.Node, field string) (proto.Message, error) {
	if node.Kind != yaml.MappingNode {
		a.fail(node, field, "write type: SomeType beside it, or @type within", "%s must be a mapping with its type, is %s", field, manifest.Describe(node))
		return nil, nil
	}
	rest := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: node.Style, Line: node.Line, Column: node.Column}
	var named, value *yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch node.Content[i].Value {
		case "@type":
			named = resolve(node.Content[i+1])
			continue
		case "value":
			value = resolve(node.Content[i+1])
		}
		rest.Content = append(rest.Content, node.Content[i], node.Content[i+1])
	}
	if named == nil || named.Kind != yaml.ScalarNode {
		a.fail(node, field, `write type: SomeType beside it, or "@type": some.v1.Type within`, "%s does not say of which type it is", field)
		return nil, nil
	}
	if name := named.Value[strings.LastIndexByte(named.Value, '/')+1:]; strings.HasPrefix(name, "google.protobuf.") && value != nil && len(rest.Content) == 2 {
		// Well-known types have a JSON of their own, in value.
		rest, field = value, field+".value"
	}
	return a.message(named, field+".@type", rest, field)
}

func (a *assetNode) message(named *yaml.Node, typeField string, node *yaml.Node, field string) (proto.Message, error) {
	name, err := a.set.Resolve(named.Value[strings.LastIndexByte(named.Value, '/')+1:])
	if err != nil {
		e, _ := errors.AsType[*fault.Error](err)
		a.fail(named, typeField, e.Hint, "%s", e.Message)
		return nil, nil
	}
	m, err := a.set.New(name)
	if err != nil {
		return nil, err
	}
	if err := a.document.Part(node, manifest.Join(a.at, field), m, a.set.Types(), a.rules); err != nil {
		a.failed = true
		return nil, a.wrong(err)
	}
	return m, nil
}

func resolve(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// give checks what decoding has not: id, size and what other files say.
func (r *assetReader) give(file string, line, column int, at, id string, payload proto.Message, addons []proto.Message) error {
	place := r.output.At(file, line)
	if strings.HasPrefix(id, "lehr/") {
		place.Field(column, at).Warn("take it out", "%s is made of lehr.yaml, and left out here", id)
		return nil
	}
	if previous := r.places[id]; previous != "" {
		place.Field(column, manifest.Join(at, "id")).Error("an id names one asset: rename or drop one of them", "asset %s is in %s, too", id, previous)
		return nil
	}
	r.places[id] = file
	content := intent.Asset{ID: intent.AssetID(id)}
	var err error
	if content.Payload, err = r.set.Pack(payload); err == nil {
		for _, addon := range addons {
			packed, err := r.set.Pack(addon)
			if err != nil {
				return err
			}
			content.Addons = append(content.Addons, packed)
		}
		_, _, err = r.set.Encode(content)
	}
	if err != nil {
		message, hint := err.Error(), ""
		if e, ok := errors.AsType[*fault.Error](err); ok {
			message, hint = e.Message, e.Hint
		}
		place.Field(column, at).Error(hint, "%s", message)
		return nil
	}
	place.Asset(id, payload, addons...)
	return r.external(file, content)
}

// external gives the blobs that an asset names and that lie in the folder blobs
// beside its file, or beside the folder that the file is in.
func (r *assetReader) external(file string, content intent.Asset) error {
	refs, err := r.set.Externals(content)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		digest, ok := intent.BlobDigest(ref.URI)
		if !ok || r.blobs[digest] {
			continue
		}
		name := hex.EncodeToString(digest[:])
		for folder := path.Dir(file); ; folder = path.Dir(folder) {
			bytes, err := r.input.Read(path.Join(folder, blobFolder, name))
			if err == nil {
				r.blobs[digest] = true
				r.output.Blob(bytes)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil || folder == "." {
				break
			}
		}
	}
	return nil
}

// unpack an Any of a type that is known.
func (r *assetReader) unpack(packed *anypb.Any) (proto.Message, error) {
	name, err := r.set.Resolve(string(packed.MessageName()))
	if err != nil {
		return nil, err
	}
	return r.set.Unpack(intent.Message{Type: name, Bytes: packed.GetValue()})
}
