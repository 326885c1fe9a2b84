// Package turndown is the document of a partition that says what people had turned down by
// command: which assets, why, and of those that left intent also what they were. It reads
// and writes that document's values, and is pure: package server edits the document, and
// package prodspec gives its assets their Turndown.
package turndown

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// Document is its name, and that of the source as which it is read.
const Document = "turndown"

// assetsKey holds the entries, by asset.
const assetsKey = "assets"

// Entry is one asset that is to be removed from production.
type Entry struct {
	Asset intent.AssetID
	// Reason is what its Turndown says.
	Reason string
	// Orphan is what it was, if no generator gave it any more; nil: one did.
	Orphan *Orphan
	// Line of the document's text, from 1.
	Line int
}

// Orphan is the content with which an asset was enforced last.
type Orphan struct {
	// Incarnation that it is from, for people.
	Incarnation string `json:"incarnation"`
	// Body is canonical bytes; in the document they are base64.
	Body []byte `json:"body"`
}

// value of an entry in the document.
type value struct {
	Reason string  `json:"reason"`
	Orphan *Orphan `json:"orphan,omitempty"`
}

// File is where generators and findings have it.
func File() string { return Document + "/" + document.File(Document) }

// PathOf an asset's entry in the document.
func PathOf(asset intent.AssetID) string { return document.Path{assetsKey, string(asset)}.String() }

// ValueOf an entry, in JSON.
func ValueOf(e Entry) (json.RawMessage, error) { return json.Marshal(value{e.Reason, e.Orphan}) }

// Content of a new document that has entries.
func Content(entries []Entry) ([]byte, error) {
	assets := map[intent.AssetID]json.RawMessage{}
	for _, e := range entries {
		text, err := ValueOf(e)
		if err != nil {
			return nil, err
		}
		assets[e.Asset] = text
	}
	return json.Marshal(map[string]any{assetsKey: assets})
}

// Parse reads the document, in the order of the assets. What is wrong with it, as somebody
// may have edited it by hand, is told with its line; nothing of it counts then.
func Parse(content []byte) ([]Entry, []intent.Finding) {
	p := &parser{}
	var root yaml.Node
	if err := yaml.Unmarshal(content, &root); err != nil || len(root.Content) != 1 {
		p.wrong(1, "", "it cannot be read")
		return nil, p.findings
	}
	p.pairs(root.Content[0], "", func(key, node *yaml.Node) {
		if key.Value != assetsKey {
			p.wrong(key.Line, key.Value, "it has no field %.100q", key.Value)
			return
		}
		p.pairs(node, assetsKey, p.entry)
	})
	slices.SortFunc(p.entries, func(a, b Entry) int { return strings.Compare(string(a.Asset), string(b.Asset)) })
	if len(p.findings) > 0 {
		return nil, p.findings
	}
	return p.entries, nil
}

type parser struct {
	entries  []Entry
	findings []intent.Finding
}

func (p *parser) wrong(line int, field, format string, arguments ...any) {
	p.findings = append(p.findings, intent.Finding{
		Rule: "turndown", Severity: intent.Error, File: File(), Line: max(line, 1), Field: field,
		Message: "the document " + Document + ": " + fmt.Sprintf(format, arguments...),
		Hint:    "undo the edit: lehr document history " + Document + " lists them; lehr turndown writes it",
	})
}

func (p *parser) pairs(node *yaml.Node, at string, take func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		p.wrong(node.Line, at, "a map belongs at /%s", at)
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		take(node.Content[i], node.Content[i+1])
	}
}

func (p *parser) entry(key, node *yaml.Node) {
	field := PathOf(intent.AssetID(key.Value))
	id, err := intent.ParseAssetID(key.Value)
	if err == nil && id == intent.PolicyAsset {
		err = fmt.Errorf("%s is the partition's policy, which nothing turns down", id)
	}
	if err != nil {
		p.wrong(key.Line, field, "%s", err)
		return
	}
	var generic any
	var read value
	text, err := []byte(nil), node.Decode(&generic)
	if err == nil {
		text, err = json.Marshal(generic)
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&read)
	}
	switch {
	case err != nil:
		p.wrong(key.Line, field, "what it says of %s cannot be read: %s", id, err)
	case strings.TrimSpace(read.Reason) == "":
		p.wrong(key.Line, field, "%s has no reason", id)
	case read.Orphan != nil && len(read.Orphan.Body) == 0:
		p.wrong(key.Line, field, "the orphan %s has no body", id)
	default:
		p.entries = append(p.entries, Entry{Asset: id, Reason: read.Reason, Orphan: read.Orphan, Line: key.Line})
	}
}
