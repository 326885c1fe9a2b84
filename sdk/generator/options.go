package generator

import (
	"fmt"
	"slices"
	"strings"
)

// Options are what lehr.yaml has in with: for a renderer: texts by key, in their
// order.
type Options map[string][]string

// Options reads arguments of the form --KEY=VALUE. An error says which keys are
// allowed, and what was found instead.
func (input *Input) Options(allowed ...string) (Options, error) {
	slices.Sort(allowed)
	options := Options{}
	for _, argument := range input.arguments {
		key, value, ok := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		switch {
		case !ok || !strings.HasPrefix(argument, "--"):
			return nil, fmt.Errorf("the argument %q is not of the form --KEY=VALUE", argument)
		case !slices.Contains(allowed, key) && len(allowed) == 0:
			return nil, fmt.Errorf("with has the key %q, and none is known: remove it", key)
		case !slices.Contains(allowed, key):
			return nil, fmt.Errorf("with has the key %q, which is not known; allowed: %s", key, strings.Join(allowed, ", "))
		}
		options[key] = append(options[key], value)
	}
	return options, nil
}

// One is the only text of a key, or otherwise; it is an error to have several.
func (o Options) One(key, otherwise string) (string, error) {
	switch texts := o[key]; len(texts) {
	case 0:
		return otherwise, nil
	case 1:
		return texts[0], nil
	default:
		return "", fmt.Errorf("with has %d values for %s, at most one is allowed", len(texts), key)
	}
}

// PassesNone reports whether a checking program passes where nothing is given to it that it checks:
// with: {if_none: pass}. Without it, or with error, that is an error. Common rules say pass.
func (o Options) PassesNone() (bool, error) {
	word, err := o.One("if_none", "error")
	if err == nil && word != "error" && word != "pass" {
		err = fmt.Errorf("with: {if_none: %s}: write error or pass", word)
	}
	return word == "pass", err
}
