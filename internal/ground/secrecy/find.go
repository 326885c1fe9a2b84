package secrecy

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hit is a text in a value that is a secret, or holds one.
type Hit struct {
	// Path is where it is, as spec.containers[0].env[1].value.
	Path string
	// Is what it looks like: "a private key".
	Is string
}

// Field says what a field of a name with a text looks like, if it is a secret: also one
// that holds it as JSON or in base64.
func Field(name, text string) (kind string, ok bool) {
	if kind, ok := Text(text); ok {
		return kind, true
	}
	return beyondText(name, Name(name), text)
}

// beyondText is what Field finds in a text in which Text finds nothing. The field is
// named so if a secret stands behind its name.
func beyondText(name string, named bool, text string) (kind string, ok bool) {
	if named && (secretValue(text) || strings.HasPrefix(name, "-") && plausible(text, leastGiven)) {
		return "a secret, by its name", true
	}
	if kind, ok := inner(text); ok {
		return kind, true
	}
	return encoded(name, text)
}

// secretValue is whether a text is a secret where its name says so: a sentence is none.
func secretValue(text string) bool {
	return plausible(text, leastValue) && (!strings.Contains(strings.TrimSpace(text), " ") || strings.Contains(text, "\n"))
}

// Bounds of what is looked for in base64, and how much of what was packed is read.
const (
	leastEncoded = 12
	mostUnpacked = 1 << 20
)

// isBase64 reports whether a text has the letters of base64 alone, and at most two signs
// behind them.
func isBase64(text string) bool {
	letters := strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	return letters != "" && !strings.ContainsFunc(letters, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '+' || r == '/' || r == '_' || r == '-')
	})
}

// encoded looks into a text in base64, packed or not. A user with a password stands so in
// what logs in to registries.
func encoded(name, text string) (string, bool) {
	if len(text) < leastEncoded {
		return "", false
	}
	text = strings.Join(strings.Fields(text), "")
	if len(text) < leastEncoded || !isBase64(text) {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return "", false
		}
		raw, _ = io.ReadAll(io.LimitReader(reader, mostUnpacked)) // What came before it broke off counts.
	}
	decoded := string(raw)
	if !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return "", false
	}
	if user, password, pair := strings.Cut(decoded, ":"); pair && user != "" && plausible(password, 1) {
		if words := split(name); len(words) > 0 && words[len(words)-1] == "auth" {
			return "a user with a password", true
		}
	}
	if kind, ok := Text(decoded); ok {
		return kind, true
	}
	return inner(decoded)
}

// inner looks into a text that is JSON.
func inner(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if len(trimmed) < 2 || trimmed[0] != '{' && trimmed[0] != '[' {
		return "", false
	}
	var value any
	if json.Unmarshal([]byte(trimmed), &value) != nil {
		return "", false
	}
	if hits := Find(value); len(hits) > 0 {
		return hits[0].Is, true
	}
	return "", false
}

// Find lists the secrets of a value as JSON has it: mappings, lists, texts and others,
// in the order of the keys. It knows pairs of name and value, and options in lists of
// arguments.
func Find(value any) (hits []Hit) {
	find(value, "", "", &hits)
	return hits
}

func find(value any, path, name string, hits *[]Hit) {
	switch value := value.(type) {
	case map[string]any:
		named := PairName(value)
		whole := Holds(value)
		for _, key := range slices.Sorted(maps.Keys(value)) {
			label := key
			if named != "" && IsValueKey(key) {
				label = named
			}
			if whole(key) && holdsText(value[key]) {
				*hits = append(*hits, Hit{join(path, key), "what holds secrets"})
				continue
			}
			find(value[key], join(path, key), label, hits)
		}
	case []any:
		flag := ""
		for i, element := range value {
			label := name
			text, ok := element.(string)
			if ok && strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && Name(flag) && !strings.HasPrefix(text, "-") {
				label = flag
			}
			find(element, fmt.Sprintf("%s[%d]", path, i), label, hits)
			flag = text
		}
	case string:
		if kind, ok := Field(name, value); ok {
			*hits = append(*hits, Hit{path, kind})
		}
	}
}

// PairName is the name of a mapping that is a pair of a name and a value; empty: it is
// none.
func PairName(pair map[string]any) string {
	for _, key := range []string{"name", "Name", "key", "Key"} {
		if name, ok := pair[key].(string); ok {
			return name
		}
	}
	return ""
}

// IsValueKey reports whether a pair has its value under a key.
func IsValueKey(key string) bool {
	return slices.Contains([]string{"value", "Value", "values", "default_value"}, key)
}

// Holds says under which keys a mapping holds secrets by what it says of itself: a Secret
// of Kubernetes, or one with sensitive: true or type: SecureString.
func Holds(value map[string]any) func(key string) bool {
	if value["kind"] == "Secret" {
		return func(key string) bool { return key == "data" || key == "stringData" }
	}
	marked := false
	for _, mark := range []string{"sensitive", "secret", "secure", "masked", "is_secret", "encrypted_value_set", "no_echo"} {
		marked = marked || value[mark] == true
	}
	if kind, ok := value["type"].(string); ok {
		marked = marked || slices.Contains([]string{"securestring", "secret", "secret_text", "secrets_manager", "password", "secure"}, strings.ToLower(kind))
	}
	return func(key string) bool {
		return marked && (IsValueKey(key) || key == "insecure_value" || key == "default")
	}
}

// holdsText reports whether there is any text in a value.
func holdsText(value any) bool {
	switch value := value.(type) {
	case string:
		return value != "" && !elsewhere.MatchString(value)
	case []any:
		return slices.ContainsFunc(value, holdsText)
	case map[string]any:
		for _, element := range value {
			if holdsText(element) {
				return true
			}
		}
	}
	return false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Known are texts that are secret, so that they are found wherever else they stand: as
// they are, in base64 and hexadecimal, and as URLs and JSON write them.
type Known struct{ texts map[string]bool }

// leastKnown is how long a text is at least that is looked for elsewhere: shorter
// ones stand anywhere by chance.
const leastKnown = 6

// Add a value with all its texts.
func (k *Known) Add(value any) {
	switch value := value.(type) {
	case string:
		k.add(value)
	case []any:
		for _, element := range value {
			k.Add(element)
		}
	case map[string]any:
		for _, element := range value {
			k.Add(element)
		}
	}
}

func (k *Known) add(text string) {
	trimmed := strings.TrimSpace(text)
	if len(trimmed) < leastKnown || !plausible(trimmed, leastKnown) || word(trimmed) {
		return
	}
	if k.texts == nil {
		k.texts = map[string]bool{}
	}
	k.texts[trimmed] = true
	encoded, _ := json.Marshal(trimmed)
	for _, form := range []string{
		hex.EncodeToString([]byte(trimmed)), url.QueryEscape(trimmed), url.PathEscape(trimmed), strings.Trim(string(encoded), `"`),
		base64.StdEncoding.EncodeToString([]byte(trimmed)), base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(trimmed)),
	} {
		k.texts[form] = true
	}
}

// word reports whether a text is a word that stands beside others by chance.
func word(text string) bool {
	const mostWord = 12
	return len(text) < mostWord && !strings.ContainsFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })
}

// AddFrom adds what Text finds in a text: the password of a URL, and not its host.
func (k *Known) AddFrom(text string) {
	for _, p := range look(text, false) {
		k.add(text[p.start:p.end])
	}
}

// In reports whether a text holds one of them.
func (k *Known) In(text string) bool {
	if len(text) < leastKnown {
		return false
	}
	for secret := range k.texts {
		if strings.Contains(text, secret) {
			return true
		}
	}
	return false
}
