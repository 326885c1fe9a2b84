package objectdiff

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxShown is the longest value that is shown whole; the digest of the rest stands for it.
const maxShown = 1000

// Redacted stands for a value that nobody is to see.
const Redacted = "(redacted)"

// Show writes a value for people.
func Show(value any, ok bool) string {
	if !ok {
		return ""
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	text := string(encoded)
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes, sha256 %x)", len(text), sha256.Sum256(encoded))
	}
	return text
}

// IsSecret reports whether a field of a kind may hold what nobody is to see: the content of
// a Secret, and the copy of an object that kubectl keeps.
func IsSecret(kind, path string) bool {
	return kind == "Secret" && (strings.HasPrefix(path, "data") || strings.HasPrefix(path, "stringData")) ||
		strings.Contains(path, "kubectl.kubernetes.io/last-applied-configuration")
}

// RedactSecret takes the content out of an object that may have some.
func RedactSecret(object map[string]any) {
	if object["kind"] == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			content, _ := object[field].(map[string]any)
			hidden := make(map[string]any, len(content))
			for key := range content {
				hidden[key] = Redacted
			}
			if len(content) > 0 {
				object[field] = hidden
			}
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		kept := map[string]any{}
		for name, value := range annotations {
			if name != "kubectl.kubernetes.io/last-applied-configuration" {
				kept[name] = value
			}
		}
		metadata["annotations"] = kept
	}
}

// sameQuantity reports whether two texts are one quantity, such as 1 and 1000m.
func sameQuantity(one, other any) bool {
	a, err := resource.ParseQuantity(fmt.Sprint(one))
	if err != nil {
		return false
	}
	b, err := resource.ParseQuantity(fmt.Sprint(other))
	return err == nil && a.Cmp(b) == 0
}
