package tfstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer"
)

// stateJSON is the JSON of "terraform show -json".
type stateJSON struct {
	FormatVersion string          `json:"format_version"`
	PlannedValues json.RawMessage `json:"planned_values"`
	Values        *struct {
		Root    shownModule       `json:"root_module"`
		Outputs map[string]output `json:"outputs"`
	} `json:"values"`
	// Of a raw state.
	Version   int               `json:"version"`
	Resources []rawResource     `json:"resources"`
	Outputs   map[string]output `json:"outputs"`
}

type shownModule struct {
	Resources []struct {
		Address   string         `json:"address"`
		Mode      string         `json:"mode"`
		Type      string         `json:"type"`
		Provider  string         `json:"provider_name"`
		Values    map[string]any `json:"values"`
		Sensitive any            `json:"sensitive_values"`
	} `json:"resources"`
	Children []shownModule `json:"child_modules"`
}

type rawResource struct {
	Module    string `json:"module"`
	Mode      string `json:"mode"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Instances []struct {
		Key        any            `json:"index_key"`
		Deposed    string         `json:"deposed"`
		Attributes map[string]any `json:"attributes"`
		Sensitive  [][]rawStep    `json:"sensitive_attributes"`
	} `json:"instances"`
}

// rawStep is a step of a path in a raw state.
type rawStep struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

// parse reads either form.
// What is secret anywhere in it is known: of outputs, and of what is not taken over, too.
func parse(text []byte) (resources []resource, leftOut []importer.LeftOut, _ *secrecy.Known, _ error) {
	const hint = "make it anew: terraform show -json > state.json"
	state := &stateJSON{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(state); err != nil {
		return nil, nil, nil, fault.New(fault.Invalid, "the state is no JSON that is known: %w", err).WithHint(hint)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, nil, fault.New(fault.Invalid, "the state is followed by something else").WithHint(hint)
	}
	leave := func(subject, reason string) { leftOut = append(leftOut, importer.LeftOut{What: subject, Why: reason}) }
	switch {
	case len(state.PlannedValues) > 0:
		return nil, nil, nil, fault.New(fault.Invalid, "this is a plan, not a state").WithHint(hint)
	case state.FormatVersion != "":
		if state.Values != nil {
			resources = state.Values.Root.collect(nil, leave)
		}
	case state.Version == 4:
		for _, r := range state.Resources {
			resources = append(resources, r.collect(leave)...)
		}
	case state.Version != 0:
		return nil, nil, nil, fault.New(fault.Invalid, "a raw state of version %d is not known, only of version 4", state.Version).WithHint(hint)
	default:
		return nil, nil, nil, fault.New(fault.Invalid, "this is neither a state of Terraform nor the JSON of one").WithHint(hint)
	}
	for _, r := range resources {
		if r.address == "" || r.kind == "" {
			return nil, nil, nil, fault.New(fault.Invalid, "the state has a resource without an address or a type").WithHint(hint)
		}
	}
	return resources, leftOut, learn(state), nil
}

// learn what is secret.
func learn(state *stateJSON) *secrecy.Known {
	secrets := &secrecy.Known{}
	outputs := []map[string]output{state.Outputs}
	for _, r := range state.Resources {
		for _, instance := range r.Instances {
			var marks any
			for _, path := range instance.Sensitive {
				marks = mark(marks, path)
			}
			c := &cleaner{kind: r.Type, secrets: secrets, learn: true}
			c.clean(instance.Attributes, marks, "", "")
		}
	}
	if state.Values != nil {
		outputs = append(outputs, state.Values.Outputs)
		state.Values.Root.learn(secrets)
	}
	for _, some := range outputs {
		for name, o := range some {
			if o.Sensitive || sounds(name) {
				secrets.Add(o.Value)
			}
		}
	}
	return secrets
}

func (m shownModule) learn(secrets *secrecy.Known) {
	for _, r := range m.Resources {
		c := &cleaner{kind: r.Type, secrets: secrets, learn: true}
		c.clean(r.Values, r.Sensitive, "", "")
	}
	for _, child := range m.Children {
		child.learn(secrets)
	}
}

type output struct {
	Value     any  `json:"value"`
	Sensitive bool `json:"sensitive"`
}

const dataWhy = "it is read, not managed"

func (m shownModule) collect(resources []resource, leave func(subject, reason string)) []resource {
	for _, r := range m.Resources {
		if r.Mode != "managed" {
			leave(r.Address, dataWhy)
			continue
		}
		resources = append(resources, resource{address: r.Address, kind: r.Type, provider: r.Provider, attributes: r.Values, sensitive: r.Sensitive})
	}
	for _, child := range m.Children {
		resources = child.collect(resources, leave)
	}
	return resources
}

func (r rawResource) collect(leave func(subject, reason string)) (resources []resource) {
	address := r.Type + "." + r.Name
	if r.Module != "" {
		address = r.Module + "." + address
	}
	if r.Mode != "managed" {
		leave(address, dataWhy)
		return nil
	}
	for _, instance := range r.Instances {
		at := address
		switch key := instance.Key.(type) {
		case string:
			at += "[" + strconv.Quote(key) + "]"
		case json.Number:
			at += "[" + key.String() + "]"
		}
		if instance.Deposed != "" {
			leave(at, "it is deposed: Terraform is about to destroy it")
			continue
		}
		var marks any
		for _, path := range instance.Sensitive {
			marks = mark(marks, path)
		}
		resources = append(resources, resource{address: at, kind: r.Type, provider: r.Provider, attributes: instance.Attributes, sensitive: marks})
	}
	return resources
}

// mark sets a path to true, in the shape of the attributes. Of a path that leads
// into a list or a set, all of that is marked.
func mark(marks any, path []rawStep) any {
	if len(path) == 0 || path[0].Type != "get_attr" && path[0].Type != "index" {
		return true
	}
	name, ok := path[0].Value.(string)
	if !ok {
		if step, nested := path[0].Value.(map[string]any); nested {
			name, ok = step["value"].(string)
		}
	}
	if !ok || marks == true {
		return true
	}
	inner, _ := marks.(map[string]any)
	if inner == nil {
		inner = map[string]any{}
	}
	inner[name] = mark(inner[name], path[1:])
	return inner
}
