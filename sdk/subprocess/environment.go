package subprocess

import (
	"maps"
	"os"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// environment is made of nothing: a variable that the plugin has, such as a token of its
// provider, is no variable of a program that nobody gave it to.
func (c Command) environment() ([]string, error) {
	variables := map[string]string{}
	for _, name := range c.Keep {
		if value, ok := os.LookupEnv(name); ok {
			variables[name] = value
		}
	}
	maps.Copy(variables, c.Set)
	list := make([]string, 0, len(variables))
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		value := variables[name]
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			// The value is not told: it may be a secret.
			return nil, fault.New(fault.Invalid, "the variable %q of %s cannot be given to a program", name, c.Argv[0]).WithHint("write its name without =, and both without NUL bytes")
		}
		list = append(list, name+"="+value)
	}
	return list, nil
}
