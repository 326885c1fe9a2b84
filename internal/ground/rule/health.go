package rule

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"lehr.dev/internal/ground/intent"
)

// HealthRule says of an asset, as it is in production, whether it is well.
type HealthRule struct{ *program }

// HealthRule compiles the expression of a Health addon over assets of one payload type.
// Invalid says where it is wrong, and what may have been meant.
func (e *Environment) HealthRule(text string, payloadType intent.TypeName) (*HealthRule, error) {
	p, err := e.program(text, payloadType, Alone)
	if err != nil {
		return nil, err
	}
	if !p.gives(cel.BoolType) && !p.gives(cel.StringType) {
		return nil, p.invalid("gives %s, neither a truth value nor a text", p.output()).
			WithHint("write what is true where the asset is well, for example payload.replicas > 0, or a text that says what is wrong, empty where nothing is")
	}
	return &HealthRule{p}, nil
}

// Problem is what is wrong with the asset, of at most some 300 bytes; empty: it is well. An
// error means that there is no answer, which is neither.
func (h *HealthRule) Problem(asset intent.Asset) (string, error) {
	value, err := h.evaluate(asset)
	if err != nil {
		return "", err
	}
	switch value := value.(type) {
	case types.Bool:
		if value {
			return "", nil
		}
		return shorten(h.text) + " is false", nil
	case types.String:
		return intent.Shown(shorten(string(value))), nil
	}
	return "", h.failf(asset, "gives %s, neither a truth value nor a text", value.Type().TypeName())
}
