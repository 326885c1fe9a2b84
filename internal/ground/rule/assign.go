package rule

import (
	"lehr.dev/internal/ground/intent"
)

// Assignment gives a field of the payload the value of an expression.
type Assignment struct {
	*program
	field Field
}

// Assign compiles what a field of assets of a type is given.
func (e *Environment) Assign(field Field, text string, payloadType intent.TypeName) (*Assignment, error) {
	p, err := e.program(text, payloadType, Alone)
	if err != nil {
		return nil, err
	}
	if wanted := field.kind(); !wanted.takes(p.result) {
		return nil, p.invalid("gives %s, and %s is %s", p.output(), field.path, wanted.name())
	}
	return &Assignment{program: p, field: field}, nil
}

// Field that is assigned to.
func (a *Assignment) Field() Field { return a.field }

// Apply gives the asset with the field's new value. With onlyUnset, a field that
// is set stays as it is, and an empty value leaves one unset that is not.
func (a *Assignment) Apply(asset intent.Asset, onlyUnset bool) (intent.Asset, error) {
	payload, err := a.field.set.Unpack(asset.Payload)
	if err != nil {
		return asset, err
	}
	message := payload.ProtoReflect()
	if _, isSet := a.field.get(message); isSet && onlyUnset {
		return asset, nil
	}
	value, err := a.evaluate(asset)
	if err != nil {
		return asset, err
	}
	empty, err := a.field.put(message, value, onlyUnset)
	if err != nil {
		return asset, a.failf(asset, "%s", err)
	}
	if empty {
		return asset, nil
	}
	packed, err := a.field.set.Pack(payload)
	if err == nil && string(packed.Bytes) != string(asset.Payload.Bytes) {
		asset.Payload = packed
	}
	return asset, err
}
