// Package tfplan reads what Terraform and OpenTofu tell of a plan, as JSON, and makes of it the
// plan that Lehr shows, admits and has approved: each field that changes, with the reason. It
// is pure: it runs nothing, and the digests of sensitive values come from its caller. Package
// modules calls it.
package tfplan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/sdk/secret"
)

// Plan is what "show -json PLANFILE" prints, as far as it counts here.
type Plan struct {
	FormatVersion    string             `json:"format_version"`
	TerraformVersion string             `json:"terraform_version"`
	ResourceChanges  []ResourceChange   `json:"resource_changes"`
	ResourceDrift    []ResourceChange   `json:"resource_drift"`
	OutputChanges    map[string]*Change `json:"output_changes"`
	PriorState       struct {
		Values *struct {
			Outputs    map[string]Output `json:"outputs"`
			RootModule Module            `json:"root_module"`
		} `json:"values"`
	} `json:"prior_state"`
	Checks  []Check `json:"checks"`
	Errored bool    `json:"errored"`
}

// ResourceChange is what is to become of one resource, or what became of it outside.
type ResourceChange struct {
	Address         string `json:"address"`
	PreviousAddress string `json:"previous_address"`
	Mode            string `json:"mode"`
	Deposed         string `json:"deposed"`
	Change          Change `json:"change"`
	ActionReason    string `json:"action_reason"`
}

// Change is the state before and after.
type Change struct {
	Actions         []string        `json:"actions"`
	Before          json.RawMessage `json:"before"`
	After           json.RawMessage `json:"after"`
	AfterUnknown    json.RawMessage `json:"after_unknown"`
	BeforeSensitive json.RawMessage `json:"before_sensitive"`
	AfterSensitive  json.RawMessage `json:"after_sensitive"`
	ReplacePaths    [][]any         `json:"replace_paths"`
	Importing       *struct {
		ID string `json:"id"`
	} `json:"importing"`
}

// Output of the root module.
type Output struct {
	Sensitive bool            `json:"sensitive"`
	Value     json.RawMessage `json:"value"`
}

// Module of a state.
type Module struct {
	Resources []struct {
		Address         string          `json:"address"`
		Mode            string          `json:"mode"`
		Values          json.RawMessage `json:"values"`
		SensitiveValues json.RawMessage `json:"sensitive_values"`
	} `json:"resources"`
	ChildModules []Module `json:"child_modules"`
}

// Check is a check block, or a condition of a resource.
type Check struct {
	Address struct {
		ToDisplay string `json:"to_display"`
		Kind      string `json:"kind"`
	} `json:"address"`
	Status    string `json:"status"`
	Instances []struct {
		Problems []struct {
			Message string `json:"message"`
		} `json:"problems"`
	} `json:"instances"`
}

// Parse reads a plan. A format of another major version is refused.
func Parse(text []byte) (*Plan, error) {
	var plan Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return nil, fmt.Errorf("reading the plan that Terraform shows: %w", err)
	}
	if !strings.HasPrefix(plan.FormatVersion, "1.") {
		return nil, fmt.Errorf("Terraform %s shows plans in the format %q, and this lehr-terraform reads 1.x: run the one that came with a newer Lehr", plan.TerraformVersion, plan.FormatVersion)
	}
	return &plan, nil
}

// Resources counts what the state has that Terraform manages.
func (p *Plan) Resources() int {
	if p.PriorState.Values == nil {
		return 0
	}
	return p.PriorState.Values.RootModule.count()
}

func (m Module) count() (n int) {
	for _, resource := range m.Resources {
		if resource.Mode == "managed" {
			n++
		}
	}
	for _, child := range m.ChildModules {
		n += child.count()
	}
	return n
}

// State is a text that changes when what the state has, refreshed, does: without what is
// sensitive.
func (p *Plan) State() string {
	if p.PriorState.Values == nil {
		return ""
	}
	var out strings.Builder
	p.PriorState.Values.RootModule.write(&out)
	return out.String()
}

func (m Module) write(out *strings.Builder) {
	for _, resource := range m.Resources {
		if resource.Mode != "managed" {
			continue
		}
		out.WriteString(resource.Address)
		for _, leaf := range flatten(resource.Values, nil, resource.SensitiveValues) {
			if !leaf.isSensitive {
				fmt.Fprintf(out, "\n %s=%s", leaf.path, leaf.text)
			}
		}
		out.WriteString("\n")
	}
	for _, child := range m.ChildModules {
		child.write(out)
	}
}

// Bounds of outputs, as Lehr has them.
const (
	mostOutputs     = 64
	mostOutput      = 4 << 10
	mostOutputBytes = 16 << 10
)

// Outputs are the root module's that are not sensitive, and the names of those that are left
// out because Lehr takes no more, or none as long.
func (p *Plan) Outputs() (outputs map[string]any, left []string) {
	outputs = map[string]any{}
	if p.PriorState.Values == nil {
		return outputs, nil
	}
	all, bytes := p.PriorState.Values.Outputs, 0
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		output := all[name]
		var value any
		if output.Sensitive || json.Unmarshal(output.Value, &value) != nil || value == nil {
			continue
		}
		if secret.Redact(string(output.Value)) != string(output.Value) {
			continue // It holds what another place marks as sensitive.
		}
		if len(output.Value) > mostOutput || len(outputs) == mostOutputs || bytes+len(output.Value)+len(name) > mostOutputBytes {
			left = append(left, name)
			continue
		}
		bytes += len(output.Value) + len(name)
		outputs[name] = value
	}
	return outputs, left
}

// Problems are the messages of the checks that fail; isChecked: there are checks at all.
func (p *Plan) Problems() (problems []string, isChecked bool) {
	for _, check := range p.Checks {
		switch check.Status {
		case "pass":
			isChecked = true
		case "fail", "error":
			isChecked = true
			messages := []string{}
			for _, instance := range check.Instances {
				for _, problem := range instance.Problems {
					messages = append(messages, problem.Message)
				}
			}
			problems = append(problems, strings.TrimSpace(check.Address.ToDisplay+": "+strings.Join(messages, "; ")))
		}
	}
	return problems, isChecked
}
