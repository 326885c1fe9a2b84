package store

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"lehr.dev/internal/ground/fault"
)

// Limits of the labels that people set.
const (
	MaxLabelKey   = 128
	MaxLabelValue = 256
	// MaxLabels of one incarnation.
	MaxLabels = 32
)

var labelKey = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$`)

// CheckLabel is Invalid unless a person may set the label. An empty value,
// which removes one, is valid.
func CheckLabel(key, value string) error {
	switch {
	case len(key) > MaxLabelKey || !labelKey.MatchString(key):
		return fault.New(fault.Invalid, "label key %.*q is not valid", MaxLabelKey, key).
			WithHint("write small letters, digits and . _ - in parts joined by /, at most %d bytes", MaxLabelKey)
	case strings.HasPrefix(key, "lehr/"):
		return fault.New(fault.Invalid, `label key %q begins with "lehr/": such labels are Lehr's own`, key).WithHint("choose another key")
	case len(value) > MaxLabelValue:
		return fault.New(fault.Invalid, "the value of label %q has %d bytes, at most %d are allowed", key, len(value), MaxLabelValue)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fault.New(fault.Invalid, "the value of label %q holds control characters, or is not UTF-8", key)
	}
	return nil
}
