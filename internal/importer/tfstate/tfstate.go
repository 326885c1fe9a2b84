// Package tfstate reads what Terraform manages, from the JSON of "terraform show
// -json" or a raw state of version 4, into a partition's files: one asset of
// lehr.terraform.v1.Resource, a model, for each resource. It only reads, and never
// copies what is sensitive, or sounds so (S13).
package tfstate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer"
)

// MaxBytes of a state that is read.
const MaxBytes = 64 << 20

// partition is what becomes of a state.
type partition struct{ importer.Import }

// Read reads a state.
func Read(state []byte) (importer.Import, error) {
	if len(state) > MaxBytes {
		return importer.Import{}, fault.New(fault.Invalid, "the state has %d bytes, at most %d are read", len(state), MaxBytes)
	}
	resources, leftOut, secrets, err := parse(state)
	if err != nil {
		return importer.Import{}, err
	}
	if len(resources) == 0 {
		return importer.Import{}, fault.New(fault.Invalid, "the state manages nothing").
			WithHint("an empty state is not taken for intent: is it the one of another workspace? terraform show -json > state.json")
	}
	slices.SortFunc(resources, func(a, b resource) int { return cmp.Compare(a.address, b.address) })
	p := partition{importer.Import{LeftOut: leftOut, Files: map[string][]byte{}, Read: []string{fmt.Sprintf("%d resources of the state", len(resources))}}}
	err = p.resources(resources, secrets)
	return p.Import, err
}

// resource is one instance that the state tells of.
type resource struct {
	address, kind, provider string
	attributes              map[string]any
	// sensitive marks, in the shape of the attributes: true, or nested.
	sensitive any
}

// resources become assets, a file each.
func (p *partition) resources(resources []resource, secrets *secrecy.Known) error {
	p.Definition = `sources:
  resources: {dir: resources, files: ["**/*.json"]}
generate:
  assets: {render: assets, from: [resources]}
# People and rules read them, nothing enforces them.
models: [lehr.terraform.v1.Resource]
`
	used := map[string]bool{}
	for _, r := range resources {
		if secrets.In(r.address) {
			p.LeftOut = append(p.LeftOut, importer.LeftOut{What: "a resource of type " + r.kind, Why: "its address holds what is sensitive elsewhere"})
			continue
		}
		id := assetID(r.address)
		if used[id] {
			sum := intent.Sum("lehr.tfstate.v1", []byte(r.address))
			id += "-" + sum.Short()
		}
		used[id] = true
		c := &cleaner{kind: r.kind, secrets: secrets, hidden: []string{}}
		attributes, err := canonical(c.clean(r.attributes, r.sensitive, "", ""))
		if err != nil {
			return err
		}
		hidden := c.hidden
		slices.Sort(hidden)
		if len(hidden) > 0 {
			p.LeftOut = append(p.LeftOut, importer.LeftOut{What: r.address + ": " + strings.Join(hidden, ", "), Why: "it is sensitive, or sounds so"})
		}
		if len(attributes) > mostAttributes {
			p.LeftOut = append(p.LeftOut, importer.LeftOut{What: r.address + ": its attributes", Why: fmt.Sprintf("they have %d bytes, and an asset at most 150 000", len(attributes))})
			attributes = []byte("{}")
		}
		text, err := json.MarshalIndent(map[string]any{
			"id": id, "type": "lehr.terraform.v1.Resource",
			"payload": map[string]any{"address": r.address, "provider": r.provider, "type": r.kind, "attributes": string(attributes), "sensitive": hidden},
		}, "", "  ")
		if err != nil {
			return err
		}
		p.Files["resources/"+strings.TrimPrefix(id, "resource/")+".json"] = append(text, '\n')
	}
	p.Hints = append(p.Hints, "lehr import terraform --module FOLDER has the module itself as an asset, from its own files")
	return nil
}

// mostAttributes leaves room for the rest of an asset.
const mostAttributes = 140_000

var notInID = regexp.MustCompile(`[^a-z0-9._-]+`)

// assetID is like the address: a segment for each module.
func assetID(address string) string {
	clean := strings.Trim(notInID.ReplaceAllString(strings.ToLower(address), "-"), "._-")
	id := "resource/" + clean
	if _, err := intent.ParseAssetID(id); err != nil || len(id) > 200 {
		sum := intent.Sum("lehr.tfstate.v1", []byte(address))
		return "resource/" + strings.Trim(clean[:min(len(clean), 100)]+"-"+sum.Short(), "._-")
	}
	return id
}

// canonical JSON: sorted keys, numbers as they were.
func canonical(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fault.New(fault.Invalid, "the attributes have no JSON: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
