package secrecy

import "strings"

// Shown is a value as it may be shown of the field at a path, as spec.env["TOKEN"].
func Shown(path, value string) string {
	if value == "" || value == Redacted {
		return value
	}
	name := strings.TrimRight(path, `"]`)
	if at := strings.LastIndexAny(name, `."[`); at >= 0 {
		name = name[at+1:]
	}
	named := Name(name)
	if named && secretValue(strings.Trim(value, `"`)) {
		return Redacted
	}
	if redacted := Redact(value); redacted != value {
		return redacted
	}
	if _, ok := beyondText(name, named, value); ok {
		return Redacted
	}
	return value
}
