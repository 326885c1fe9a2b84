package prodspec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/source"
)

// attentive is the disk, all of which is looked at again soon, though nothing was
// told.
type attentive struct{ source.Disk }

func (attentive) Watch(runtime loop.Runtime) source.Watch {
	watcher := source.NewWatcher(runtime)
	watcher.Rely(20 * time.Millisecond)
	return watcher
}

// sourceOf is the revision of a source.
func sourceOf(list []intent.SourceRevision, name string) string {
	if at := slices.IndexFunc(list, func(r intent.SourceRevision) bool { return r.Source == name }); at >= 0 {
		return list[at].Revision
	}
	return ""
}

// TestAnotherRendererIsNoticed with nothing else changed: one that comes, and one
// that takes its place. The incarnation names it, and the same one runs in a trial.
func TestAnotherRendererIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "lehr-kustomize")
	for name, colour := range map[string]string{"red": "red", "blue": "blue"} {
		build := exec.Command("go", "build", "-ldflags", "-X main.colour="+colour, "-o", filepath.Join(folder, name), "./generate/testdata/renderer")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	place := func(name string) {
		t.Helper()
		if err := os.Rename(filepath.Join(folder, name), program); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder)
	w := newWorld(t, "web")
	w.place = attentive{}
	w.write("lehr.yaml", `lehr: v1
partition: shop
sources:
  files: {files: [service.yaml]}
generate:
  told: {render: kustomize, from: [files]}
`)
	w.start()
	if f := w.refused(prodspec.Rejected, 0); !strings.Contains(f.Message, "lehr-kustomize, which is neither at") {
		t.Fatalf("without the program: %+v", f)
	}
	place("red")
	first := w.served(1)
	if got := w.field(1, "told", "build"); got != "red" {
		t.Errorf("the first was %q", got)
	}
	place("blue")
	second := w.served(2)
	if got := w.field(2, "told", "build"); got != "blue" {
		t.Errorf("the second was %q", got)
	}
	before, after := sourceOf(first.Sources, "lehr-kustomize"), sourceOf(second.Sources, "lehr-kustomize")
	if before == "" || after == "" || before == after {
		t.Errorf("the incarnations name %q and %q, want two renderers", before, after)
	}
	w.stop()

	definition := filepath.Join(w.folder, "lehr.yaml")
	trial := prodspec.InChild(generate.DefaultOptions())
	at, death, err := trial(t.Context(), prodspec.Program{Definition: definition, Partition: "shop", Elsewhere: w.elsewhere()})
	if err != nil || death != "" || !slices.Equal(at, second.Sources) {
		t.Errorf("a trial worked on %v (%q, %v), want %v", at, death, err, second.Sources)
	}
}

// TestAnotherNativeProgramIsNoticed, be it put in the other's place or written over
// it, with nothing else changed.
func TestAnotherNativeProgramIsNoticed(t *testing.T) {
	for name, place := range map[string]source.Place{"told of": nil, "looked for": deaf{}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "web")
			w.place, w.runner = place, w.shells()
			w.write("lehr.yaml", `lehr: v1
partition: shop
sources:
  files: {files: [service.yaml]}
generate:
  told: {command: [./gen], from: [files]}
`)
			w.program("gen", "red")
			w.start()
			w.served(1)
			w.program("gen", "blue")
			w.served(2)
			if got := w.field(2, "told", "build"); got != "blue" {
				t.Errorf("of a program in the other's place it is %q", got)
			}
			if err := os.WriteFile(filepath.Join(w.folder, "gen"), []byte(says("green")), 0o755); err != nil {
				t.Fatal(err)
			}
			w.served(3)
			if got := w.field(3, "told", "build"); got != "green" {
				t.Errorf("of a program written over the other it is %q", got)
			}
		})
	}
}

// deaf is a attentive disk of which nothing is told.
type deaf struct{ source.Disk }

func (deaf) Watch(runtime loop.Runtime) source.Watch {
	notices := source.NewNotices(runtime)
	notices.Rely(20 * time.Millisecond)
	return silent{notices}
}

type silent struct{ *source.Notices }

func (silent) Follow([]string) bool { return false }
func (silent) Close() error         { return nil }

// says is a program that gives one asset.
func says(colour string) string {
	return "#!/bin/sh\n" +
		`printf '%s\n' '{"asset":{"id":"told","payload":{"@type":"lehr.intent.v1.Labels","labels":{"build":"` + colour + `"}}}}' '{"end":{"assets":"1"}}'` + "\n"
}

// program puts one in its place at once.
func (w *world) program(name, colour string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	err := os.WriteFile(path+"~", []byte(says(colour)), 0o755)
	if err == nil {
		err = os.Rename(path+"~", path)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// shells runs native programs that see the machine's.
func (w *world) shells() generate.Runner {
	policy := native.Policy{Sandbox: native.Required, Visible: []string{"/usr", "/bin", "/lib", "/lib64"}}
	policy.Visible = slices.DeleteFunc(policy.Visible, func(folder string) bool { _, err := os.Lstat(folder); return err != nil })
	return generate.NewProcess(generate.Options{
		Child: generatorChild(w.t), Limits: w.limits,
		Native: func(intent.PartitionID) (native.Policy, error) { return policy, nil },
	})
}

// field is a label of an asset of labels.
func (w *world) field(sequence intent.Sequence, id intent.AssetID, label string) string {
	w.t.Helper()
	labels := &intentpb.Labels{}
	if err := schema.Payload(w.content(sequence, id), labels); err != nil {
		w.t.Fatal(err)
	}
	return labels.Labels[label]
}

// content of an asset of an incarnation.
func (w *world) content(sequence intent.Sequence, id intent.AssetID) intent.Asset {
	w.t.Helper()
	head := intent.IncarnationID{Partition: "shop", Sequence: sequence}
	m, err := w.store.Member(w.t.Context(), head, id)
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := w.store.Body(w.t.Context(), m.Digest)
	if err != nil {
		w.t.Fatal(err)
	}
	asset, err := schema.Decode(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return asset
}
