package validate

import (
	"testing"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
)

// TestPathsGoOnWithinJSON: fields of an object may be left to production, but not all of
// it, and other texts have no fields.
func TestPathsGoOnWithinJSON(t *testing.T) {
	object := (&kubernetespb.Object{}).ProtoReflect().Descriptor()
	for path, want := range map[string]struct {
		whole string
		wrong bool
	}{
		"json.spec.replicas": {}, `json.metadata.labels["a.b/c"]`: {}, "json": {whole: "json"}, "name.first": {wrong: true}, "jsn.spec": {wrong: true},
	} {
		whole, wrong, _ := resolvePath(object, path)
		if string(whole) != want.whole || (wrong != "") != want.wrong {
			t.Errorf("%s: covers %q, wrong: %q", path, whole, wrong)
		}
	}
}
