// Package inventory is how a plugin's program lists what exists as assets, for "lehr import
// plugin". The program only looks, and prints one document; Lehr checks it, leaves out what
// holds a secret, and writes the files. The document is JSON, so a program in any language
// can print it.
package inventory

import (
	"cmp"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

const (
	// Version of the document.
	Version = "v1"
	// MaxAssets of one document, and MaxBytes of its JSON.
	MaxAssets = 10_000
	MaxBytes  = 32 << 20
)

// Listing is what a program found.
type Listing struct {
	Assets []Asset
	// LeftOut says what was seen and is no asset, and Hints what a person has to do.
	LeftOut []LeftOut
	Hints   []string
}

// Asset is a real thing, in the form in which the plugin's Read tells of it. The plugin
// finds it in sync when its intent is this.
type Asset struct {
	// ID is an asset's id; ID makes one of names.
	ID      string
	Payload proto.Message
}

// LeftOut is something that was seen and not taken over, and why.
type LeftOut struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Document is a listing as JSON.
type Document struct {
	Version string    `json:"inventory"`
	Assets  []Listed  `json:"assets"`
	LeftOut []LeftOut `json:"leftOut,omitempty"`
	Hints   []string  `json:"hints,omitempty"`
}

// Listed is an asset of a document. Payload is the message as protojson has it.
type Listed struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

var notInSegment = regexp.MustCompile(`[^a-z0-9._-]+`)

// ID makes an asset's id of names, a segment each: small letters, and "-" for what an id
// cannot have. Different names may give one id, which Write refuses.
func ID(names ...string) string {
	var segments []string
	for _, name := range names {
		segment := strings.TrimLeft(notInSegment.ReplaceAllString(strings.ToLower(name), "-"), "._-")
		if segment = strings.TrimRight(segment, "-"); segment == "" {
			segment = "unnamed"
		}
		segments = append(segments, segment)
	}
	return strings.Join(segments, "/")
}

// Write prints a listing, in the order of the ids. Invalid: it has too many assets, an id
// that is none or that two assets have, or a payload that cannot be written.
func Write(w io.Writer, listing Listing) error {
	document := Document{Version: Version, Assets: []Listed{}, LeftOut: listing.LeftOut, Hints: listing.Hints}
	for _, asset := range listing.Assets {
		if asset.Payload == nil {
			return fault.New(fault.Invalid, "asset %q has no payload", asset.ID)
		}
		payload, err := protojson.Marshal(asset.Payload)
		if err != nil {
			return fault.New(fault.Invalid, "writing asset %q: %w", asset.ID, err)
		}
		document.Assets = append(document.Assets, Listed{ID: asset.ID, Type: string(asset.Payload.ProtoReflect().Descriptor().FullName()), Payload: payload})
	}
	if err := document.Check(); err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// Check sorts the assets by id, and says what is wrong with a document.
func (d *Document) Check() error {
	if d.Version != Version {
		return fault.New(fault.Invalid, "it is no inventory of version %s: it has %.40q for inventory", Version, d.Version)
	}
	if len(d.Assets) > MaxAssets {
		return fault.New(fault.Invalid, "it lists %d assets, and at most %d are imported at a time", len(d.Assets), MaxAssets).WithHint("let the program list a part of them")
	}
	slices.SortStableFunc(d.Assets, func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	for i, asset := range d.Assets {
		if _, err := intent.ParseAssetID(asset.ID); err != nil {
			return err
		}
		switch {
		case i > 0 && d.Assets[i-1].ID == asset.ID:
			return fault.New(fault.Invalid, "two assets have the id %s", asset.ID).WithHint("make ids of what tells the things apart, such as their full names")
		case !typeName.MatchString(asset.Type):
			return fault.New(fault.Invalid, "asset %s has the type %.100q, which is no full name of a message", asset.ID, asset.Type)
		}
	}
	return nil
}

var typeName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$`)
