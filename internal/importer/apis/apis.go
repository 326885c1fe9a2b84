// Package apis reads things behind a JSON REST API into a partition's files, for the
// renderer http, as the endpoint's profile says. It only sends GET, and leaves out what
// looks like a secret (S13). cmd/lehr lists its kind.
package apis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/http/restapi"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// Kind imports things behind a JSON REST API.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "http", Short: "Things behind a JSON REST API, such as Grafana's dashboards",
		Long: `Read all things of one or more kinds from an API on the list of HTTP endpoints, as its
profile says, and write them as documents of the renderer http. What the API itself writes
into a thing is left out, and so is what looks like a secret. Nothing is changed there. A
list whose pages change while they are read is read again, and refused in the end.

  lehr import http --endpoints endpoints.yaml --endpoint grafana --resource folder,dashboard --to boards`,
	}
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		list := flags.String("endpoints", "", "the list of HTTP endpoints, as lehr-http has it")
		name := flags.String("endpoint", "", "the API's name in that list")
		resources := flags.StringSlice("resource", nil, "kinds of things, by their names in the API's profile")
		given := flags.StringToString("identity", nil, "what the list asks for, such as the owner of repositories, as NAME=VALUE; the whole identity where there is no list")
		return func(ctx context.Context, _ []string) (importer.Import, error) {
			if *list == "" || *name == "" || len(*resources) == 0 {
				return importer.Import{}, fault.New(fault.Invalid, "which things of which API?").WithHint("--endpoints FILE --endpoint NAME --resource KIND")
			}
			s := survey{identity: *given, file: *list, result: importer.Import{Files: map[string][]byte{}}}
			return s.read(ctx, *list, *name, *resources)
		}
	}
	return kind
}

// survey is one import.
type survey struct {
	endpoint *endpoint.Endpoint
	api      *restapi.API
	file     string
	identity map[string]string
	result   importer.Import
}

func (s *survey) read(ctx context.Context, list, name string, resources []string) (importer.Import, error) {
	opened, err := endpoint.Open(list, ownSecrets{})
	if err != nil {
		return importer.Import{}, fault.New(fault.Invalid, "%w", err).WithHint("docs/operate/http-endpoints.md shows such a list")
	}
	if s.endpoint, err = opened.Named(name); err != nil {
		return importer.Import{}, fault.New(fault.NotFound, "%w", err).WithHint("name one of those, or add it")
	}
	s.api = restapi.New(s.endpoint, secret.Request{})
	for _, resource := range resources {
		if err := s.resource(ctx, resource); err != nil {
			return importer.Import{}, err
		}
	}
	if len(s.result.Files) == 0 {
		return importer.Import{}, fault.New(fault.NotFound, "there is nothing of %s at endpoint %s", strings.Join(resources, ", "), name).WithHint("is its user allowed to see any?")
	}
	path, err := filepath.Abs(s.file)
	if err != nil {
		return importer.Import{}, fault.New(fault.Invalid, "the list %q: %w", s.file, err)
	}
	quoted, _ := json.Marshal(path) // A text is always JSON, and JSON is YAML.
	s.result.Definition = fmt.Sprintf(`sources:
  things: {dir: things, files: ["**/*.yaml"]}

generate:
  objects: {render: http, from: [things], with: {endpoint: %s}}

plugins:
  lehr.http.v1.Resource: {run: [lehr-http, --endpoints, %s]}
`, name, quoted)
	return s.result, nil
}

// resource reads all things of a kind.
func (s *survey) resource(ctx context.Context, name string) error {
	resource, err := s.endpoint.Resource(name)
	if err != nil {
		return fault.New(fault.NotFound, "%w", err).WithHint("the profile has %s", strings.Join(slices.Sorted(maps.Keys(s.endpoint.Profile.Resources)), ", "))
	}
	count := 0
	if resource.List == nil {
		thing := restapi.Thing{Name: name, Resource: resource, Identity: s.identity}
		if err := thing.CheckIdentity(); err != nil {
			return fault.New(fault.Invalid, "its profile has no list of %s, and %w", name, err).WithHint("name the one thing that is meant: --identity NAME=VALUE,…")
		}
		found, err := s.api.Read(ctx, thing)
		switch {
		case err != nil:
			return unreadable(err)
		case !found.Exists:
			return fault.New(fault.NotFound, "there is no %s", thing).WithHint("name one that is there")
		}
		s.result.Read = append(s.result.Read, fmt.Sprintf("%s: 1", name))
		return s.write(name, thing.Identity, found)
	}
	items, err := s.api.List(ctx, name, resource, s.identity)
	if err != nil {
		return unreadable(err)
	}
	for _, item := range items {
		found, err := s.api.Open(ctx, name, resource, item)
		switch {
		case err != nil:
			return unreadable(err)
		case !found.Exists:
			s.leave(name, item.Identity, "it went while it was read")
			continue
		}
		if err := s.write(name, item.Identity, found); err != nil {
			return err
		}
		count++
	}
	s.result.Read = append(s.result.Read, fmt.Sprintf("%s: %d", name, count))
	return nil
}

// unreadable ends an import: one that misses something would be taken for intent.
func unreadable(err error) error {
	hint := "nothing was written; mend what the API says, and import again"
	if pause, ok := serve.BusyPause(err); ok {
		hint = fmt.Sprintf("nothing was written; import again after %v", pause)
	}
	return fault.New(fault.Unavailable, "%w", err).WithHint("%s", hint)
}

func (s *survey) leave(name string, identity map[string]string, reason string) {
	what := restapi.Thing{Name: name, Identity: identity}
	s.result.LeftOut = append(s.result.LeftOut, importer.LeftOut{What: what.String(), Why: reason})
}

// document is a thing, as the renderer http reads it.
type document struct {
	ID       string            `yaml:"id,omitempty"`
	Resource string            `yaml:"resource"`
	Identity map[string]string `yaml:"identity"`
	Body     *yaml.Node        `yaml:"body"`
}

// write makes a file of a thing.
func (s *survey) write(name string, identity map[string]string, found restapi.Found) error {
	body := found.Body
	for _, hit := range secretsOf(body) {
		place, ok := placeOf(hit.Path)
		if !ok {
			s.leave(name, identity, fmt.Sprintf("it holds %s at %s", hit.Is, hit.Path))
			return nil
		}
		place.Delete(body)
		s.leave(name, identity, fmt.Sprintf("field %s holds %s", place, hit.Is))
	}
	if len(secretsOf(body)) > 0 {
		s.leave(name, identity, "it holds a secret")
		return nil
	}
	node, err := bodyNode(body)
	if err != nil {
		return fault.New(fault.Internal, "writing %s: %w", name, err)
	}
	path, number := fileOf(name, identity), 1
	for s.result.Files[path+".yaml"] != nil {
		number++
		path = fmt.Sprintf("%s-%d", fileOf(name, identity), number)
	}
	d := document{Resource: name, Identity: identity, Body: node}
	if number > 1 { // Two names that differ in their capitals only, or in what no id has.
		d.ID = "http/" + s.endpoint.Name() + strings.TrimPrefix(path, "things")
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(d), encoder.Close()); err != nil {
		return fault.New(fault.Internal, "writing %s: %w", name, err)
	}
	s.result.Files[path+".yaml"] = text.Bytes()
	return nil
}

// bodyNode writes a body as YAML with all digits of its numbers: JSON is YAML, and is
// written in the form that people read.
func bodyNode(body map[string]any) (*yaml.Node, error) {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(jsonvalue.Canonical(body)), &node); err != nil {
		return nil, err
	}
	restyle(node.Content[0])
	return node.Content[0], nil
}

var (
	plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// otherWord is a key that some readers of YAML take for no text.
	otherWord = regexp.MustCompile(`(?i)^(y|yes|n|no|on|off|true|false|null)$`)
)

// restyle writes mappings and lists over lines. Texts stay quoted, so that all readers of
// YAML take them for texts; keys that are words are not.
func restyle(node *yaml.Node) {
	if len(node.Content) > 0 {
		node.Style &^= yaml.FlowStyle
	}
	for i, below := range node.Content {
		isKey := node.Kind == yaml.MappingNode && i%2 == 0
		if isKey && plainKey.MatchString(below.Value) && !otherWord.MatchString(below.Value) {
			below.Style = 0
		}
		restyle(below)
	}
}

func secretsOf(body map[string]any) []secrecy.Hit {
	var plain any
	if json.Unmarshal([]byte(jsonvalue.Canonical(body)), &plain) != nil {
		return nil
	}
	return secrecy.Find(plain)
}

// placeOf reads the path of a field through objects, such as spec.password.
func placeOf(path string) (place jsonvalue.Pointer, ok bool) {
	if path == "" || strings.ContainsAny(path, `["`) {
		return nil, false // It is in a list: without it, the list would be another.
	}
	return strings.Split(path, "."), true
}

// fileOf is where a thing is written, without an extension.
func fileOf(name string, identity map[string]string) string {
	path := "things/" + segment(name)
	for _, key := range slices.Sorted(maps.Keys(identity)) {
		path += "/" + segment(identity[key])
	}
	return path
}

const maxSegment = 80

// segment writes a name as a part of a path and of an asset's id.
func segment(name string) string {
	var b strings.Builder
	for _, c := range []byte(strings.ToLower(name)) {
		isPlain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		switch {
		case b.Len() >= maxSegment:
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
