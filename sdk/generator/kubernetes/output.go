package kubernetes

import (
	"regexp"
	"strings"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
)

// outputPrefix, behind AnnotationPrefix, of the annotations that name an output of an object:
// lehr.dev/output.NAME, with the place of its value.
const outputPrefix = "output."

var outputName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,99}$`)

// takeOutput notes an output in the payload. False: it is wrong, and it was said.
func (r *reader) takeOutput(m Manifest, line int, annotation, name string, value any, o *kubernetespb.Object) bool {
	const hint = `write where the value is in the object as the cluster has it: lehr.dev/output.address: /status/loadBalancer/ingress/0/ip`
	pointer, ok := value.(string)
	switch {
	case o.Kind == "Secret" && o.ApiVersion == "v1":
		r.wrong(m, line, "outputs become part of intent, which many may read: use a secret reference instead", "the annotation %s: no output is told of a Secret", annotation)
	case !outputName.MatchString(name):
		r.wrong(m, line, hint, "the annotation %s: %.100q is no name of an output: letters, digits, _, . and -, from a letter on, at most 100", annotation, name)
	case !ok || !strings.HasPrefix(pointer, "/"):
		r.wrong(m, line, hint, "the annotation %s is no JSON pointer, which begins with /", annotation)
	default:
		if o.Outputs == nil {
			o.Outputs = map[string]string{}
		}
		o.Outputs[name] = pointer
		return true
	}
	return false
}
