package derive

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
)

// Outputs is the name of the derivation that fills in what other assets told. No other
// has it.
const Outputs = outputs.Document

var readsOutputs = intent.TypeName((&intentpb.ReadsOutputs{}).ProtoReflect().Descriptor().FullName())

// AsksOutputs reports whether an asset's canonical bytes may ask for outputs, or say that
// they do.
func AsksOutputs(body []byte) bool {
	return bytes.Contains(body, []byte(outputs.Begin)) || bytes.Contains(body, []byte(readsOutputs))
}

// WithOutputs returns the same rules, which also fill in these outputs. What payloads ask
// for beside them is not known: of another partition, because no source reads its outputs,
// where grants has none of it, or because it does not grant it.
func (r *Rules) WithOutputs(values outputs.Values, grants map[intent.PartitionID]outputs.Grants) *Rules {
	next := *r
	next.values, next.grants = values, grants
	next.valuesDigest = intent.Digest{}
	if len(values)+len(grants) > 0 {
		next.valuesDigest = next.digestOfValues(slices.SortedFunc(keysOf(values), compareIDs))
		for _, partition := range slices.Sorted(maps.Keys(grants)) {
			text := fmt.Sprintf("%s %q", partition, grants[partition])
			next.valuesDigest = intent.Sum("lehr.grants.v1", next.valuesDigest[:], []byte(text))
		}
	}
	return &next
}

// missing says why an output is unknown.
func (r *Rules) missing(id outputs.ID) intentpb.ReadOutput_Missing {
	if id.Partition == "" {
		return intentpb.ReadOutput_MISSING_UNSPECIFIED
	}
	grants, ok := r.grants[id.Partition]
	switch {
	case !ok:
		return intentpb.ReadOutput_MISSING_NO_SOURCE
	case !grants.Allows(id.Asset, id.Name):
		return intentpb.ReadOutput_MISSING_NOT_GRANTED
	}
	return intentpb.ReadOutput_MISSING_UNSPECIFIED
}

func keysOf(values outputs.Values) iter.Seq[outputs.ID] {
	return func(yield func(outputs.ID) bool) {
		for id := range values {
			if !yield(id) {
				return
			}
		}
	}
}

func compareIDs(a, b outputs.ID) int { return strings.Compare(a.String(), b.String()) }

func (r *Rules) digestOfValues(ids []outputs.ID) intent.Digest {
	var parts [][]byte
	for _, id := range slices.Compact(ids) {
		parts = append(parts, []byte(id.String()), r.values[id], []byte(r.missing(id).String()))
	}
	return intent.Sum("lehr.outputs.v2", parts...)
}

// filledIn covers the outputs that what a run gave asks for; nil: all that are known.
// Zero: none.
func (r *Rules) filledIn(assets Assets) intent.Digest {
	if r == nil {
		return intent.Digest{}
	}
	if assets == nil {
		return r.valuesDigest
	}
	ids := slices.SortedFunc(assets.Asked, compareIDs)
	if len(ids) == 0 {
		return intent.Digest{}
	}
	return r.digestOfValues(ids)
}

// fillOutputs replaces what the payload asks for by what other assets told, and lists that
// in its ReadsOutputs. What nobody told yet stays as it is: nothing is guessed.
func (r *Rules) fillOutputs(asset intent.Asset) (intent.Asset, []Derived, []intent.Finding) {
	if _, ok := asset.Addon(readsOutputs); ok {
		asset.Addons = slices.DeleteFunc(slices.Clone(asset.Addons), func(m intent.Message) bool { return m.Type == readsOutputs })
	}
	if !AsksOutputs(asset.Payload.Bytes) {
		return asset, nil, nil
	}
	refuse := func(field string, err error) (intent.Asset, []Derived, []intent.Finding) {
		message, hint := explain(err)
		return asset, nil, []intent.Finding{{Rule: "output", Severity: intent.Error, Asset: asset.ID, Line: 1, Field: field, Message: fmt.Sprintf("asset %s: %s: %s", asset.ID, field, message), Hint: hint}}
	}
	payload, err := r.set.Unpack(asset.Payload)
	if err != nil {
		return refuse("payload", err)
	}
	filler := filler{values: r.values}
	if err := filler.message(payload.ProtoReflect(), "payload"); err != nil {
		return refuse(filler.field, err)
	}
	if asset.Payload, err = r.set.Pack(payload); err != nil {
		return refuse("payload", err)
	}
	addon := &intentpb.ReadsOutputs{}
	for _, use := range outputs.Merge(filler.uses) {
		read := &intentpb.ReadOutput{Output: use.Name, Unknown: !use.Known}
		if use.Partition == "" {
			read.Asset = string(use.Asset)
		} else {
			read.Partition, read.Elsewhere = string(use.Partition), string(use.Asset)
			if addon.Partitions == nil {
				addon.Partitions = map[string]uint32{}
			}
			addon.Partitions[read.Partition]++
		}
		if !use.Known {
			read.Missing = r.missing(use.ID)
		}
		addon.Reads = append(addon.Reads, read)
	}
	if len(addon.Reads) == 0 { // All were written with $$.
		return asset, filler.derived, nil
	}
	packed, err := r.set.Pack(addon)
	if err != nil {
		return refuse("payload", err)
	}
	asset.Addons = append(slices.Clone(asset.Addons), packed)
	return asset, filler.derived, nil
}

// filler fills in the texts of a message.
type filler struct {
	values  outputs.Values
	uses    []outputs.Use
	derived []Derived
	// field that it is at.
	field string
}

func (f *filler) message(m protoreflect.Message, path string) (err error) {
	if value, ok := m.Interface().(*structpb.Value); ok {
		if done, err := f.anyValue(value, path); done || err != nil {
			return err
		}
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		at := path + "." + string(field.Name())
		switch {
		case field.IsMap():
			err = f.mapping(field, value.Map(), at)
		case field.IsList():
			err = f.list(field, value.List(), at)
		case field.Message() != nil:
			err = f.message(value.Message(), at)
		case field.Kind() == protoreflect.StringKind:
			var filled string
			if filled, err = f.text(value.String(), at); err == nil {
				m.Set(field, protoreflect.ValueOfString(filled))
			}
		}
		return err == nil
	})
	return err
}

func (f *filler) mapping(field protoreflect.FieldDescriptor, m protoreflect.Map, path string) (err error) {
	type entry struct {
		key  protoreflect.MapKey
		text string
	}
	var filled []entry // A map is not changed while it is gone through.
	m.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		at := path + "[" + strconv.Quote(key.String()) + "]"
		switch {
		case field.MapValue().Message() != nil:
			err = f.message(value.Message(), at)
		case field.MapValue().Kind() == protoreflect.StringKind:
			var text string
			if text, err = f.text(value.String(), at); err == nil && text != value.String() {
				filled = append(filled, entry{key, text})
			}
		}
		return err == nil
	})
	for _, e := range filled {
		m.Set(e.key, protoreflect.ValueOfString(e.text))
	}
	return err
}

func (f *filler) list(field protoreflect.FieldDescriptor, list protoreflect.List, path string) error {
	for i := range list.Len() {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case field.Message() != nil:
			if err := f.message(list.Get(i).Message(), at); err != nil {
				return err
			}
		case field.Kind() == protoreflect.StringKind:
			filled, err := f.text(list.Get(i).String(), at)
			if err != nil {
				return err
			}
			list.Set(i, protoreflect.ValueOfString(filled))
		}
	}
	return nil
}

func (f *filler) text(text, path string) (string, error) {
	f.field = path
	filled, uses, err := outputs.Fill(text, f.values)
	if err != nil {
		return "", err
	}
	f.note(path, uses)
	return filled, nil
}

func (f *filler) note(path string, uses []outputs.Use) {
	f.uses = append(f.uses, uses...)
	for _, use := range outputs.Merge(slices.Clone(uses)) {
		f.derived = append(f.derived, Derived{Derivation: Outputs, Field: path, Was: "${output:" + use.String() + "}", Output: use.ID, Unknown: !use.Known})
	}
}

// anyValue fills in a value of any kind that asks for an output and holds nothing else.
func (f *filler) anyValue(value *structpb.Value, path string) (bool, error) {
	id, whole := outputs.Whole(value.GetStringValue())
	if !whole {
		return false, nil
	}
	f.field = path
	told, ok := f.values[id]
	f.note(path, []outputs.Use{{ID: id, Known: ok}})
	if !ok {
		return true, nil
	}
	proto.Reset(value)
	return true, protojson.Unmarshal(told, value)
}
