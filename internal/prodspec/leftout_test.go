package prodspec_test

import (
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

const leftOutDefinition = `lehr: v1
partition: shop
sources: {m: {dir: m, files: ["*.yaml"]}, n: {dir: n, files: ["*.yaml"]}}
models: [lehr.kubernetes.v1.Object]
validate: {shrink: {max: 100%}}
generate:
  one: {render: kubernetes, from: [m], with: {cluster: eu}}
  two: {render: kubernetes, from: [n], with: {cluster: eu}}
`

func configMap(name, rest string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" + rest + "\n"
}

// TestWhatIsWrongIsLeftOut: one object that is wrong keeps no other back, unless head
// has it, or may have it: no asset leaves because it cannot be read.
func TestWhatIsWrongIsLeftOut(t *testing.T) {
	w := newWorld(t, "web")
	w.write("lehr.yaml", leftOutDefinition)
	w.write("m/a.yaml", configMap("a", "data: {x: yes}")+"---\n"+configMap("b", ""))
	w.write("m/c.yaml", configMap("c", ""))
	w.write("m/job.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: once-}\n")
	w.write("n/d.yaml", configMap("d", "")+"---\n"+configMap("e", ""))
	w.start()
	status := w.served(1)
	want := []intent.AssetID{"kubernetes/eu/default/configmap/b", "kubernetes/eu/default/configmap/c", "kubernetes/eu/default/configmap/d", "kubernetes/eu/default/configmap/e", "lehr/policy"}
	if got := w.assets(); !slices.Equal(got, want) {
		t.Errorf("assets %v, want %v", got, want)
	}
	if len(status.Findings) < 2 || status.Findings[0].Severity != intent.Warning || !strings.Contains(status.Findings[0].Message, "left out: data.x is yes") {
		t.Errorf("it says %+v", status.Findings)
	}

	// What is served becomes wrong.
	w.write("m/c.yaml", configMap("c", "data: {x: no}"))
	f := w.refused(prodspec.Rejected, 1)
	if f.Rule != "left-out" || f.Asset != "kubernetes/eu/default/configmap/c" || f.File != "m/c.yaml" || f.Line != 4 {
		t.Errorf("it says %+v", f)
	}
	w.write("m/c.yaml", configMap("c", "data: {x: 'no'}"))
	w.served(2)

	// It cannot be told what it was; a restart changes nothing about it.
	w.write("m/c.yaml", "metadata: {name: c}\n")
	if f = w.refused(prodspec.Rejected, 2); f.Rule != "left-out" || f.File != "m/c.yaml" || !strings.Contains(f.Message, "configmap/c") {
		t.Errorf("it says %+v", f)
	}
	w.stop()
	w.start()
	w.refused(prodspec.Rejected, 2)

	// Another generator's assets may leave meanwhile, and what is left out may stay.
	w.write("m/c.yaml", configMap("c", ""))
	w.served(3)
	w.write("m/f.yaml", "metadata: {name: f}\n")
	w.write("n/d.yaml", configMap("d", ""))
	w.served(4)
	want = []intent.AssetID{"kubernetes/eu/default/configmap/b", "kubernetes/eu/default/configmap/c", "kubernetes/eu/default/configmap/d", "lehr/policy"}
	if got := w.assets(); !slices.Equal(got, want) {
		t.Errorf("assets %v, want %v", got, want)
	}
	// An asset of the same generator that leaves may be what cannot be read.
	w.remove("m/c.yaml")
	if f = w.refused(prodspec.Rejected, 4); f.File != "m/f.yaml" || !strings.Contains(f.Message, "configmap/c") {
		t.Errorf("it says %+v", f)
	}
	w.remove("m/f.yaml")
	w.served(5)
}
