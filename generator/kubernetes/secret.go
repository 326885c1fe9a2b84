package kubernetes

import (
	"maps"
	"regexp"
	"slices"
)

// secrets refuses a Secret that has content, and warns of texts elsewhere that
// look like secrets. It never says what they are (S13).
func (r *reader) secrets(m Manifest, line int, kind, name string, fields map[string]any) bool {
	if kind == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			if held, _ := fields[field].(map[string]any); len(held) > 0 {
				r.wrong(m, line, "let what holds secrets make it in the cluster (External Secrets, Sealed Secrets, a Secrets Store driver; or by hand), name it in secretKeyRef as now, and write with: {omit: Secret/"+name+"}",
					"Secret %s has %s: no secret may enter an incarnation, which everybody who may read the partition reads, for ever", name, field)
				return false
			}
		}
	}
	walk(fields, "", func(at, text string) {
		for _, token := range tokens {
			if token.pattern.MatchString(text) {
				r.find(m, line, true, "keep it in a Secret, and name that by secretKeyRef or in a volume", "%s of %s %s looks like %s", at, kind, name, token.is)
				return
			}
		}
	})
	return true
}

// tokens are secrets that are known by their form.
var tokens = []struct {
	is      string
	pattern *regexp.Regexp
}{
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)},
	{"a key of AWS", regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a token of GitHub", regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22})`)},
	{"a token of GitLab", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20}`)},
	{"a token of Slack", regexp.MustCompile(`\bxox[abposr]-[A-Za-z0-9-]{10}`)},
	{"a key of Google", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`)},
	{"a key of Stripe", regexp.MustCompile(`\b[rs]k_live_[A-Za-z0-9]{16}`)},
	{"a token of npm", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
	{"a JSON Web Token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+`)},
	{"a URL with a password", regexp.MustCompile(`[a-z][a-z0-9+]*://[^/\s:@$({]*:[^/\s:@$({]+@`)},
}

// walk visits the texts of a value, in the order of keys.
func walk(value any, at string, visit func(at, text string)) {
	switch value := value.(type) {
	case string:
		// The shortest that can be one.
		if len(value) >= 12 {
			visit(at, value)
		}
	case []any:
		for _, element := range value {
			walk(element, at+"[]", visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			walk(value[key], join(at, key), visit)
		}
	}
}
