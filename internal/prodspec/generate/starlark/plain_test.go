package starlark

import (
	"strings"
	"testing"

	"lehr.dev/internal/prodspec/generate/manifest"
)

func plainOf(text string) (string, error) {
	d, err := manifest.Parse("a.yaml", []byte(text))
	if err != nil {
		return "", err
	}
	left := maxNodes
	value, err := unfold(d, d.Root, "", &left)
	if err != nil {
		return "", err
	}
	return value.String(), nil
}

// TestPlainValues: yaml and json give integers with all their digits, and a block
// scalar its newline, also at the end of a file.
func TestPlainValues(t *testing.T) {
	for text, want := range map[string]string{
		"9007199254740993":                   "9007199254740993",
		"18446744073709551617":               "18446744073709551617",
		"-123456789012345678901234567890":    "-123456789012345678901234567890",
		"+123456789012345678901234567890":    "123456789012345678901234567890",
		"{\"a\": 18446744073709551617}":      `{"a": 18446744073709551617}`,
		"[0x1F, 0X1f, 0B11, 0b11, 0644]":     "[31, 31, 3, 3, 420]",
		"[1.5, 1e3, 12345678901234567890.5]": "[1.5, 1000.0, 1.2345678901234567e+19]",
		"[y, N, yes]":                        `["y", "N", "yes"]`,
		"{y: 1, n: 2}":                       `{"y": 1, "n": 2}`,
		"a: |\n  one":                        `{"a": "one\n"}`,
		"a: |-\n  one":                       `{"a": "one"}`,
		"a: >\n  one\n  two":                 `{"a": "one two\n"}`,
	} {
		if got, err := plainOf(text); err != nil || got != want {
			t.Errorf("%q is %s (%v), want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"a: 1\nb: 2\na: 3\n":              "a.yaml:3:1: not valid YAML: mapping key \"a\" already defined",
		"1: a\n'1': b\n":                  "a.yaml:2:1: not valid YAML: mapping key \"1\" already defined",
		"&x a: 1\nb: {*x : 2, a: 3}\n":    "a.yaml:2:13: the key \"a\" is there twice",
		"? [a]\n: b\n":                    "a.yaml:1:1: not valid YAML: invalid map key",
		"a: 1" + strings.Repeat("0", 120): "has more than 99 digits",
	} {
		if _, err := plainOf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %q it says %v, want %q", text, err, want)
		}
	}
}
