package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"sigs.k8s.io/kustomize/api/resource"

	"lehr.dev/sdk/generator/kubernetes"
)

// substitution are the variables that objects take after the build, as postBuild of a
// Kustomization of Flux gives them. Nil: nothing is substituted.
type substitution map[string]string

var variableName = regexp.MustCompile(`^[_A-Za-z][_A-Za-z0-9]*$`)

// readSubstitution reads NAME=VALUE. Like Flux it takes line ends out of values.
func readSubstitution(texts []string) (substitution, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	variables := substitution{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || !variableName.MatchString(name) {
			return nil, fmt.Errorf("with.substitute %q is no variable: write NAME=VALUE, with a name of letters, digits and _", shortened(text))
		}
		variables[name] = strings.ReplaceAll(value, "\n", "")
	}
	return variables, nil
}

func shortened(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name[:min(len(name), 60)]
}

// substituteKey is the label or annotation by which an object is left as it is.
const substituteKey = "kustomize.toolkit.fluxcd.io/substitute"

// unset is the variable that Flux's library names when there is none of the name.
var unset = regexp.MustCompile(`variable not set \(strict mode\): "([^"]*)"`)

// textOfResource is an object as text, with its variables replaced. Missing are those that
// have neither a value nor a default: the text is not to be used then.
func (s substitution) textOfResource(r *resource.Resource) (text string, missing []string, err error) {
	// Not AsYAML, which makes floats of large integers.
	text, err = r.RNode.String()
	if err != nil || s == nil || !strings.Contains(text, "$") {
		return text, nil, err
	}
	if r.GetLabels()[substituteKey] == "disabled" || r.GetAnnotations()[substituteKey] == "disabled" {
		return text, nil, nil
	}
	// Flux substitutes in what AsYAML writes, where quotes that no reader needs are gone: "${port}"
	// becomes a number.
	plain, err := r.AsYAML()
	if err != nil {
		return "", nil, err
	}
	for {
		replaced, err := envsubst.Eval(string(plain), func(name string) (string, bool) {
			value, ok := s[name]
			return value, ok || slices.Contains(missing, name)
		})
		if err == nil {
			return replaced, missing, nil
		}
		found := unset.FindStringSubmatch(err.Error())
		if found == nil || slices.Contains(missing, found[1]) {
			return "", nil, fmt.Errorf("variables of %s %s: %w", r.GetKind(), r.GetName(), err)
		}
		missing = append(missing, found[1])
	}
}

// leaveUnset leaves an object out whose variables have no value: Flux would write nothing in
// their place, and what is applied would not be what anybody meant.
func (t *tree) leaveUnset(file string, line int, subject string, missing []string) {
	slices.Sort(missing)
	for _, name := range missing {
		if !slices.Contains(t.unset, name) {
			t.unset = append(t.unset, name)
		}
	}
	t.leftOut = append(t.leftOut, kubernetes.Finding{
		File: file, Line: line, LeftOut: true, Unknown: true,
		Message: fmt.Sprintf("%s takes the variable %s, which has no value and no default", subject, strings.Join(missing, ", ")),
		Hint:    "give it: with: {substitute: [NAME=VALUE]}; nothing after the = if nothing is meant",
	})
}
