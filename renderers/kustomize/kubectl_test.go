package main

import (
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"lehr.dev/renderers/kubectl"
)

// TestAsKustomizeBuild: what is read of a kustomization is what kubectl reads of what
// kustomize build writes, or it is refused.
func TestAsKustomizeBuild(t *testing.T) {
	read, refused := 0, map[string]int{}
	for seed := range uint64(2_000) {
		sample := kubectl.NewSample(seed)
		files := map[string][]byte{
			"kustomization.yaml": []byte("resources: [a.yaml]\nnamePrefix: p-\n"),
			"a.yaml":             []byte(sample.File()),
		}
		if seed%3 == 0 {
			files["kustomization.yaml"] = append(files["kustomization.yaml"], "patches: [{path: p.yaml}]\n"...)
			files["p.yaml"] = []byte(sample.Manifest("n0"))
		}
		objects, findings := build(files, ".", settings)
		if len(findings) > 0 {
			refused[findings[0].Message]++
			continue
		}
		want := map[string]any{}
		written, err := kustomizeBuild(files)
		if err != nil {
			t.Errorf("seed %d: kustomize build fails: %v\n%s", seed, err, files["a.yaml"])
			continue
		}
		all, err := kubectl.Read(written)
		if err != nil || len(all) != len(objects) {
			t.Errorf("seed %d: kubectl reads %d objects (%v), and Lehr %d, of\n%s", seed, len(all), err, len(objects), files["a.yaml"])
			continue
		}
		for _, object := range all {
			want[object["metadata"].(map[string]any)["name"].(string)] = object["spec"]
		}
		for _, o := range objects {
			got, err := kubectl.Value(o.Payload.Json)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if differ := kubectl.Same(got["spec"], want[o.Payload.Name]); differ != "" {
				t.Errorf("seed %d: Lehr and kubectl read\n%s\npatched by\n%s\n%s", seed, files["a.yaml"], files["p.yaml"], differ)
			}
		}
		read++
	}
	t.Logf("%d kustomizations read alike", read)
	if read < 200 {
		t.Errorf("only %d were read: %v", read, refused)
	}
}

func kustomizeBuild(files map[string][]byte) ([]byte, error) {
	system := filesys.MakeFsInMemory()
	for name, text := range files {
		if err := system.WriteFile("/"+name, text); err != nil {
			return nil, err
		}
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	made, err := krusty.MakeKustomizer(options).Run(system, "/")
	if err != nil {
		return nil, err
	}
	return made.AsYaml()
}
