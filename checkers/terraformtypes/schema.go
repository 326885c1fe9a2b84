package main

import (
	"encoding/json"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// blockSchema is one of the JSON of "terraform providers schema".
type blockSchema struct {
	Attributes map[string]*attributeSchema `json:"attributes"`
	Blocks     map[string]*nestedSchema    `json:"block_types"`
}

type attributeSchema struct {
	Type     json.RawMessage `json:"type"`
	Nested   json.RawMessage `json:"nested_type"`
	Required bool            `json:"required"`
	Optional bool            `json:"optional"`
	Computed bool            `json:"computed"`
}

type nestedSchema struct {
	Mode  string      `json:"nesting_mode"`
	Block blockSchema `json:"block"`
	Least int         `json:"min_items"`
	Most  int         `json:"max_items"`
}

// schemas are those of all files that were given.
type schemas struct {
	resources, data map[string]*blockSchema
}

func newSchemas() *schemas {
	return &schemas{resources: map[string]*blockSchema{}, data: map[string]*blockSchema{}}
}

// typeOf an attribute; false: it is nested, or not told.
func (a *attributeSchema) typeOf() (cty.Type, bool) {
	if len(a.Type) == 0 || len(a.Nested) > 0 {
		return cty.DynamicPseudoType, false
	}
	found, err := ctyjson.UnmarshalType(a.Type)
	return found, err == nil
}

// isBlocks reports whether an attribute may be written as blocks: a list or set of objects.
func (a *attributeSchema) isBlocks() bool {
	found, ok := a.typeOf()
	return ok && (found.IsListType() || found.IsSetType()) && found.ElementType().IsObjectType()
}

// add reads a file of JSON. One that has no schemas is passed over: it may be anything.
func (s *schemas) add(name string, text []byte) error {
	var file struct {
		Providers map[string]struct {
			Resources map[string]struct {
				Block *blockSchema `json:"block"`
			} `json:"resource_schemas"`
			Data map[string]struct {
				Block *blockSchema `json:"block"`
			} `json:"data_source_schemas"`
		} `json:"provider_schemas"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		var anything any
		if json.Unmarshal(text, &anything) == nil {
			return nil
		}
		return fmt.Errorf("%s is no JSON: %w", name, err)
	}
	for _, provider := range file.Providers {
		for kind, one := range provider.Resources {
			s.resources[kind] = one.Block
		}
		for kind, one := range provider.Data {
			s.data[kind] = one.Block
		}
	}
	return nil
}
