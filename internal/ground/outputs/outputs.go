// Package outputs is what assets tell that others need: the document in which a partition
// has the outputs of its assets, the form in which intent asks for one, and how often one
// that keeps changing is taken up. It is pure: the enforcer writes the document
// (internal/annealing/enforcer/output_writer.go), and package derive fills values in.
package outputs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Document is its name, and that of the source as which generators may read it.
const Document = "outputs"

// Limits of what one asset may tell.
const (
	MaxName       = 100
	MaxValueBytes = 4_000
	MaxOutputs    = 64
	MaxAssetBytes = 16_000
)

// ID names an output.
type ID struct {
	// Partition is another one; empty: the asset is of the same partition.
	Partition intent.PartitionID
	Asset     intent.AssetID
	Name      string
}

// String is as intent asks for it, without what is around it: storage/bucket#name.
func (o ID) String() string {
	prefix := ""
	if o.Partition != "" {
		prefix = string(o.Partition) + "//"
	}
	return prefix + string(o.Asset) + "#" + o.Name
}

// ParseID reads what String writes.
func ParseID(text string) (o ID, err error) {
	asset, name, ok := strings.Cut(text, "#")
	if !ok {
		return o, fault.New(fault.Invalid, "%.300q has no #", text).WithHint("write ${output:ASSET#NAME}, for example ${output:storage/bucket#name}")
	}
	if partition, own, elsewhere := strings.Cut(asset, "//"); elsewhere {
		if o.Partition, err = intent.ParsePartitionID(partition); err != nil {
			return o, err
		}
		asset = own
	}
	if o.Asset, err = intent.ParseAssetID(asset); err != nil {
		return o, err
	}
	o.Name = name
	return o, CheckName(name)
}

// CheckName refuses what is no name of an output.
func CheckName(name string) error {
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '.' && c != '-' && (c < '0' || c > '9')) {
			return fault.New(fault.Invalid, "the output %.100q is not of the form [A-Za-z_][A-Za-z0-9_.-]*", name)
		}
	}
	if name == "" || len(name) > MaxName {
		return fault.New(fault.Invalid, "the name of an output has %d bytes, from 1 to %d are allowed", len(name), MaxName)
	}
	return nil
}

// Values are outputs, each as canonical JSON.
type Values map[ID]json.RawMessage

// Table is what a document has: outputs, and in which line of its text each stands, from 1.
type Table struct {
	Values Values
	Lines  map[ID]int
}

// PathOf an asset's outputs in the document.
func PathOf(asset intent.AssetID) document.Path { return document.Path{string(asset)} }

// File is where generators and findings have the document.
func File() string { return Document + "/" + document.File(Document) }

// Parse reads the document, which people may edit too: of assets that no plugin serves.
// What is wrong with it is told with its line; nothing of it counts then.
func Parse(content []byte) (Table, []intent.Finding) {
	p := &parser{table: Table{Values{}, map[ID]int{}}}
	var root yaml.Node
	if err := yaml.Unmarshal(content, &root); err != nil || len(root.Content) != 1 {
		p.refuse(1, "", "it cannot be read")
		return Table{}, p.findings
	}
	p.pairs(root.Content[0], "", func(key, node *yaml.Node) {
		asset, err := intent.ParseAssetID(key.Value)
		if err != nil {
			p.refuse(key.Line, key.Value, "%s", err)
			return
		}
		p.pairs(node, PathOf(asset).String(), func(name, node *yaml.Node) { p.value(ID{Asset: asset, Name: name.Value}, name.Line, node) })
	})
	if len(p.findings) > 0 {
		return Table{}, p.findings
	}
	return p.table, nil
}

type parser struct {
	table    Table
	findings []intent.Finding
}

func (p *parser) refuse(line int, field, format string, arguments ...any) {
	p.findings = append(p.findings, intent.Finding{
		Rule: "output", Severity: intent.Error, File: File(), Line: max(line, 1), Field: field,
		Message: "the document " + Document + ": " + fmt.Sprintf(format, arguments...),
		Hint:    "undo the edit: lehr document history " + Document + " lists them",
	})
}

func (p *parser) pairs(node *yaml.Node, at string, take func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		p.refuse(node.Line, at, "a map belongs at %s", cmp.Or(at, "/"))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		take(node.Content[i], node.Content[i+1])
	}
}

func (p *parser) value(o ID, line int, node *yaml.Node) {
	field := PathOf(o.Asset).Then(o.Name).String()
	if err := CheckName(o.Name); err != nil {
		p.refuse(line, field, "%s", err)
		return
	}
	var read any
	text, err := []byte(nil), node.Decode(&read)
	if err == nil {
		text, err = json.Marshal(read)
	}
	if err == nil {
		text, err = document.Canonicalize(text)
	}
	if err != nil {
		p.refuse(line, field, "the value of %s cannot be read: %s", o, err)
		return
	}
	p.table.Values[o], p.table.Lines[o] = text, line
}

// ByAsset are the outputs of the partition's own assets, by asset and name.
func (v Values) ByAsset() map[intent.AssetID]map[string]json.RawMessage {
	assets := map[intent.AssetID]map[string]json.RawMessage{}
	for o, value := range v {
		if o.Partition != "" {
			continue
		}
		if assets[o.Asset] == nil {
			assets[o.Asset] = map[string]json.RawMessage{}
		}
		assets[o.Asset][o.Name] = value
	}
	return assets
}

// Changes are what an edit makes of the outputs of one asset: the current ones in place
// of those that the document has.
func Changes(asset intent.AssetID, stored, current map[string]json.RawMessage) (operations []document.Operation) {
	path := PathOf(asset)
	switch {
	case len(current) == 0 && len(stored) > 0:
		return []document.Operation{{Path: path.String()}}
	case len(stored) == 0 && len(current) > 0:
		text, err := json.Marshal(current)
		if err != nil { // They are JSON.
			return nil
		}
		return []document.Operation{{Path: path.String(), Value: text}}
	}
	for _, name := range sortedNames(stored, current) {
		previous, inDocument := stored[name]
		now, ok := current[name]
		switch {
		case !ok:
			operations = append(operations, document.Operation{Path: path.Then(name).String()})
		case !inDocument || !bytes.Equal(previous, now):
			operations = append(operations, document.Operation{Path: path.Then(name).String(), Value: now})
		}
	}
	return operations
}

// ChangedNames are those whose values differ, or are in one of the two alone.
func ChangedNames(stored, current map[string]json.RawMessage) []string {
	return slices.DeleteFunc(sortedNames(stored, current), func(name string) bool {
		previous, inDocument := stored[name]
		now, ok := current[name]
		return inDocument == ok && bytes.Equal(previous, now)
	})
}

func sortedNames(maps ...map[string]json.RawMessage) (names []string) {
	for _, m := range maps {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
