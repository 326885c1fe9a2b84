package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	httppb "lehr.dev/gen/lehr/http/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/prodspec/generate/manifest"
	"lehr.dev/sdk/generator"
)

// inlineBody bytes of a body are in the asset; a larger one is a blob.
const inlineBody = 100_000

// httpRenderer makes an asset of each document: one that says what it is for, or, where
// with names a resource, the thing's body itself, as an API exports it.
type httpRenderer struct {
	output *generator.Output
	// endpoint and resource of documents that name none.
	endpoint, resource string
	// identity is, by name, where a document has it; set are texts that are put into
	// each body; at is where in the body the document is.
	identity, set map[string]string
	at            string
	// seen assets, by where they were.
	seen map[string]string
}

// httpObjects renders documents as things behind JSON APIs.
func httpObjects(input *generator.Input, output *generator.Output) error {
	options, err := input.Options("endpoint", "resource", "identity", "at", "set")
	if err != nil {
		return err
	}
	r := &httpRenderer{output: output, seen: map[string]string{}}
	for key, into := range map[string]*string{"endpoint": &r.endpoint, "resource": &r.resource, "at": &r.at} {
		if *into, err = options.One(key, ""); err != nil {
			return err
		}
	}
	if r.identity, err = pairs("identity", options["identity"]); err != nil {
		return err
	}
	if r.set, err = pairs("set", options["set"]); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	files, err := runFor(input)
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := input.Read(name)
		if err != nil {
			return err
		}
		r.file(name, text)
	}
	return nil
}

func (r *httpRenderer) check() error {
	if r.resource == "" {
		if len(r.identity) > 0 || len(r.set) > 0 || r.at != "" {
			return errors.New("with has identity, at or set without a resource: they say how a whole document is a body, so name its resource, too")
		}
		return nil
	}
	if r.endpoint == "" || len(r.identity) == 0 {
		return errors.New("with names a resource, so that each document is a body: name its endpoint, and where the document has its identity, as with: {endpoint: grafana, resource: dashboard, identity: [uid=/uid], at: /dashboard}")
	}
	for _, place := range append(slices.Collect(maps.Values(r.identity)), slices.Collect(maps.Keys(r.set))...) {
		if !strings.HasPrefix(place, "/") {
			return fmt.Errorf("with has the place %q: write it as a JSON pointer, such as /uid", place)
		}
	}
	if r.at != "" && !strings.HasPrefix(r.at, "/") {
		return fmt.Errorf("with.at is %q: write it as a JSON pointer, such as /dashboard", r.at)
	}
	return nil
}

func (r *httpRenderer) file(name string, text []byte) {
	documents, err := manifest.ParseAll(name, text)
	if wrong, ok := errors.AsType[*manifest.Error](err); ok {
		for _, f := range wrong.Findings {
			r.output.At(f.File, f.Line).Field(f.Column, f.Field).Error(f.Hint, "%s", f.Message)
		}
		return
	}
	if err != nil {
		r.output.At(name, 1).Error("mend the file", "%s", err)
		return
	}
	for _, d := range documents {
		r.document(name, d.Root)
	}
}

// document makes an asset of one.
func (r *httpRenderer) document(file string, node *yaml.Node) {
	node = resolve(node)
	fail := func(at *yaml.Node, hint, format string, arguments ...any) {
		r.output.At(file, at.Line).Field(at.Column, "").Error(hint, format, arguments...)
	}
	if node.Kind != yaml.MappingNode {
		fail(node, "write a mapping for each thing, in documents of their own", "a thing is a mapping, this is %s", manifest.Describe(node))
		return
	}
	object := &httppb.Resource{Endpoint: r.endpoint, Resource: r.resource, Identity: map[string]string{}}
	id, body := "", node
	var addons []proto.Message
	if r.resource == "" {
		said, ok := r.explicit(file, node, object)
		if !ok {
			return
		}
		id, body = said.id, said.body
		if said.turndown != "" {
			addons = []proto.Message{&intentpb.Turndown{Reason: said.turndown}}
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(r.identity)) {
			found := nodeAt(node, r.identity[name])
			if found == nil || found.Kind != yaml.ScalarNode || found.Tag == "!!null" {
				fail(node, "give it one, or mend identity in with", "it has no %s at %s", name, r.identity[name])
				return
			}
			object.Identity[name] = found.Value
		}
		body = wrapped(node, r.at)
		for _, place := range slices.Sorted(maps.Keys(r.set)) {
			put(body, place, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: r.set[place], Line: node.Line})
		}
	}
	text, problem := canonicalJSON(body)
	if problem != nil {
		fail(problem.node, problem.hint, "%s", problem.message)
		return
	}
	if id == "" {
		id = idOf(object)
	}
	r.give(file, node.Line, id, object, text, addons...)
}

// explicitThing is what a document says beside what goes into the object.
type explicitThing struct {
	id, turndown string
	body         *yaml.Node
}

// explicit reads a document that says what it is for.
func (r *httpRenderer) explicit(file string, node *yaml.Node, object *httppb.Resource) (said explicitThing, ok bool) {
	fail := func(at *yaml.Node, hint, format string, arguments ...any) (explicitThing, bool) {
		r.output.At(file, at.Line).Field(at.Column, "").Error(hint, format, arguments...)
		return explicitThing{}, false
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		var err error
		switch key.Value {
		case "id":
			err = value.Decode(&said.id)
		case "endpoint":
			err = value.Decode(&object.Endpoint)
		case "resource":
			err = value.Decode(&object.Resource)
		case "identity":
			err = value.Decode(&object.Identity)
		case "initial":
			err = value.Decode(&object.Initial)
		case "body":
			said.body = value
		case "turndown":
			if err = value.Decode(&said.turndown); err == nil && said.turndown == "" {
				return fail(value, "write turndown: \"why it is to go\"", "turndown has no reason")
			}
		default:
			return fail(key, "allowed: id, endpoint, resource, identity, body, initial, turndown; fields of the thing belong into body", "there is no key %q", key.Value)
		}
		if err != nil {
			return fail(value, "write id, endpoint, resource and turndown as a text, identity as {uid: ops}, initial as [/size]", "%s cannot be read: it is %s", key.Value, manifest.Describe(value))
		}
	}
	if said.body == nil || said.body.Kind != yaml.MappingNode {
		return fail(node, "write body: {title: Operations}", "it has no body with fields")
	}
	return said, true
}

// give the asset, if it can be one.
func (r *httpRenderer) give(file string, line int, id string, object *httppb.Resource, body string, addons ...proto.Message) {
	place := r.output.At(file, line)
	checked := proto.CloneOf(object)
	checked.Body = body
	if err := protovalidate.Validate(checked); err != nil {
		place.Error("write endpoint, resource, identity and body as docs/use/http.md shows", "it is no thing of an API: %s", strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	if firstPlace := r.seen[id]; firstPlace != "" {
		place.Error("write id: http/SOMETHING to tell them apart, or drop one", "asset %s is in %s, too", id, firstPlace)
		return
	}
	r.seen[id] = fmt.Sprintf("%s:%d", file, line)
	for _, hit := range secretsIn(body) {
		place.Warn("let the API keep it, or leave the field out", "body.%s looks like %s, and everybody who reads intent reads it", hit.Path, hit.Is)
	}
	if object.Body = body; len(body) > inlineBody {
		object.Body, object.External = "", r.output.Blob([]byte(body))
	}
	place.Asset(id, object, addons...)
}

func secretsIn(body string) []secrecy.Hit {
	var value any
	if json.Unmarshal([]byte(body), &value) != nil {
		return nil
	}
	return secrecy.Find(value)
}

// idOf makes an id of what the thing is.
func idOf(object *httppb.Resource) string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(object.Identity)) {
		values = append(values, segment(object.Identity[name]))
	}
	return "http/" + segment(object.Endpoint) + "/" + segment(object.Resource) + "/" + strings.Join(values, "/")
}

// segment writes a name as a segment of an id.
func segment(name string) string {
	var b strings.Builder
	for _, c := range []byte(strings.ToLower(name)) {
		isPlain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		switch {
		case isPlain, b.Len() > 0 && (c == '.' || c == '_' || c == '-'):
			b.WriteByte(c)
		case b.Len() > 0:
			b.WriteByte('-')
		}
	}
	if b.Len() == 0 {
		return "x"
	}
	return b.String()
}

// nodeAt is what a JSON pointer leads to through mappings; nil: nothing.
func nodeAt(node *yaml.Node, place string) *yaml.Node {
	for part := range strings.SplitSeq(strings.TrimPrefix(place, "/"), "/") {
		var below *yaml.Node
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == part {
				below = resolve(node.Content[i+1])
			}
		}
		if below == nil {
			return nil
		}
		node = below
	}
	return node
}

// wrapped puts a node at a place of a mapping; "" is the node itself.
func wrapped(node *yaml.Node, place string) *yaml.Node {
	if place == "" {
		return node
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: node.Line}
	put(root, place, node)
	return root
}

// put sets a field of a mapping, and makes the mappings above it.
func put(root *yaml.Node, place string, value *yaml.Node) {
	parts := strings.Split(strings.TrimPrefix(place, "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		below := nodeAt(root, part)
		if !last && below != nil && below.Kind == yaml.MappingNode {
			root = below
			continue
		}
		next := value
		if !last {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: value.Line}
		}
		setKey(root, part, next)
		root = next
	}
}

func setKey(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: value.Line}, value)
}
