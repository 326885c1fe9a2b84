package kubectl_test

import (
	"testing"

	"lehr.dev/renderers/kubectl"
	"lehr.dev/sdk/generator/kubernetes"
)

// TestManifestsAsKubectl: what is read of a manifest is what kubectl reads, or it is
// refused.
func TestManifestsAsKubectl(t *testing.T) {
	settings := kubernetes.Settings{Cluster: "c", Namespace: "default"}
	read, refused := 0, map[string]int{}
	for seed := range uint64(10_000) {
		text := []byte(kubectl.NewSample(seed).File())
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: text}}, settings)
		if len(findings) > 0 {
			for _, f := range findings {
				if f.Line == 0 || f.File == "" || f.Hint == "" {
					t.Errorf("seed %d: refused without its place: %+v", seed, f)
				}
			}
			refused[findings[0].Message]++
			continue
		}
		want, err := kubectl.Read(text)
		if err != nil || len(want) != len(objects) {
			t.Errorf("seed %d: kubectl reads %d objects (%v), and Lehr %d, of\n%q", seed, len(want), err, len(objects), text)
			continue
		}
		for i, o := range objects {
			got, err := kubectl.Value(o.Payload.Json)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if differ := kubectl.Same(got["spec"], want[i]["spec"]); differ != "" {
				t.Errorf("seed %d: Lehr and kubectl read\n%s\n%s", seed, text, differ)
			}
		}
		read++
	}
	t.Logf("%d files read alike", read)
	if read < 2_000 {
		t.Errorf("only %d files were read: %v", read, refused)
	}
}
