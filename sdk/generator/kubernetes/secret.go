package kubernetes

import (
	"cmp"
	"regexp"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/internal/ground/secrecy"
)

// secrets refuses a Secret that has content, and warns of texts elsewhere that
// look like secrets. It never says what they are (S13).
func (r *reader) secrets(m Manifest, line int, o *kubernetespb.Object, fields map[string]any) bool {
	kind, name := kindOf(o), o.Name
	if kind == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			if content, _ := fields[field].(map[string]any); len(content) > 0 {
				r.lose(o, m, line, "let what holds secrets make it in the cluster (External Secrets, Sealed Secrets, a Secrets Store driver; or by hand), name it in secretKeyRef as now, and write with: {omit: Secret/"+cmp.Or(m.Name, name)+"}",
					"Secret %s has %s: no secret may enter an incarnation, which everybody who may read the partition reads, for ever", name, field)
				return false
			}
		}
	}
	for _, hit := range secrecy.Find(fields) {
		r.find(m, line, true, "keep it in a Secret, and name that by secretKeyRef or in a volume", "%s of %s %s looks like %s", indices.ReplaceAllString(hit.Path, "[]"), kind, name, hit.Is)
		r.findings[len(r.findings)-1].Secret = true
	}
	return true
}

// indices of lists are left out of places, so that equal findings are told once.
var indices = regexp.MustCompile(`\[\d+\]`)
