package rule

import (
	"fmt"
	"math"
	"strconv"

	"cel.dev/cel-go/common/types"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Expression gives a value for an asset.
type Expression struct{ *program }

// Compile compiles an expression over assets of one payload type; empty: of
// any, whose fields are then found when it is evaluated.
func (e *Environment) Compile(text string, payloadType intent.TypeName) (*Expression, error) {
	program, err := e.program(text, payloadType, Alone)
	if err != nil {
		return nil, err
	}
	return &Expression{program}, nil
}

// Number evaluates to a finite number of at least 0; anything else is Invalid.
func (x *Expression) Number(asset intent.Asset) (float64, error) {
	value, err := x.evaluate(asset)
	if err != nil {
		return 0, err
	}
	var number float64
	switch value := value.(type) {
	case types.Int:
		number = float64(value)
	case types.Uint:
		number = float64(value)
	case types.Double:
		number = float64(value)
	default:
		return 0, x.failf(asset, "gives %s, not a number", value.Type().TypeName())
	}
	if math.IsNaN(number) || math.IsInf(number, 0) || number < 0 {
		return 0, x.failf(asset, "gives %v, not a finite number of at least 0", number)
	}
	return number + 0, nil // No negative zero.
}

// Text evaluates to a text; numbers and truth values are written out.
func (x *Expression) Text(asset intent.Asset) (string, error) {
	value, err := x.evaluate(asset)
	if err != nil {
		return "", err
	}
	switch value := value.(type) {
	case types.String:
		return string(value), nil
	case types.Bool:
		return strconv.FormatBool(bool(value)), nil
	case types.Int:
		return strconv.FormatInt(int64(value), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(value), 10), nil
	case types.Double:
		if number := float64(value); !math.IsNaN(number) && !math.IsInf(number, 0) {
			return strconv.FormatFloat(number, 'f', -1, 64), nil
		}
	}
	return "", x.failf(asset, "gives %s, not a text", value.Type().TypeName()).WithHint("string(…) writes other values out")
}

// Bool evaluates to a truth value.
func (x *Expression) Bool(asset intent.Asset) (bool, error) {
	value, err := x.evaluate(asset)
	if err != nil {
		return false, err
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, x.failf(asset, "gives %s, not a truth value", value.Type().TypeName())
	}
	return bool(truth), nil
}

// failf is an error in evaluating the expression for an asset.
func (p *program) failf(asset intent.Asset, format string, arguments ...any) *fault.Error {
	return p.fails(asset, &EvaluationError{Problem: fmt.Sprintf(format, arguments...)})
}

func (p *program) fails(asset intent.Asset, problem *EvaluationError) *fault.Error {
	return fault.New(fault.Invalid, "expression %.200q of asset %s %w", p.text, asset.ID, problem)
}

// EvaluationError is the cause of an error in evaluating an expression for an asset.
type EvaluationError struct {
	// Problem continues a sentence of which the expression is the subject.
	Problem string
	cause   error
}

func (e *EvaluationError) Error() string { return e.Problem }
func (e *EvaluationError) Unwrap() error { return e.cause }
