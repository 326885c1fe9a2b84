// Package kindhealth judges how objects of kinds fare that kstatus does not know, by expressions
// in CEL that the operator of the plugin writes. It asks no cluster. Packages clusterfile and
// workload call it.
package kindhealth

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"lehr.dev/sdk/serve"
)

const (
	// maxText of an expression, in bytes.
	maxText = 4096
	// maxCost of one judgement, in CEL's units: an expression that takes more is an error.
	maxCost = 100_000
)

// Rule is an expression over an object.
type Rule struct{ program cel.Program }

// Compile reads an expression over object, as kubectl get -o json shows it. It is true where the
// object is healthy and false where it is not, or a text that says why it is not, empty where it
// is.
func Compile(text string) (*Rule, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(text), maxText)
	}
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.StringType) && !kind.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives a %s: write what is true where the object is healthy, or a text that says why it is not", kind)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost))
	if err != nil {
		return nil, err
	}
	return &Rule{program}, nil
}

// Judge says how an object fares. One of which the expression cannot be computed, as where a
// field is not there yet, is of unknown health.
func (r *Rule) Judge(object map[string]any) serve.Health {
	result, _, err := r.program.Eval(map[string]any{"object": object})
	if err != nil {
		return serve.Health{State: serve.HealthUnknown, Reason: "its health cannot be computed: " + err.Error()}
	}
	switch value := result.(type) {
	case types.Bool:
		if value {
			return serve.Health{State: serve.Healthy}
		}
		return serve.Health{State: serve.Unhealthy, Reason: "the expression for its kind says that it is not healthy"}
	case types.String:
		if value == "" {
			return serve.Health{State: serve.Healthy}
		}
		return serve.Health{State: serve.Unhealthy, Reason: string(value)}
	}
	return serve.Health{State: serve.HealthUnknown, Reason: fmt.Sprintf("the expression for its kind gives a %s, neither a truth value nor a text", result.Type())}
}
