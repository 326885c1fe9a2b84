package prodspec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// TestEvolvedEqualsFresh: after any sequence of changes to types, derivations
// and sources, what is published, found and referred to is what a first
// publication of the last state gives.
func TestEvolvedEqualsFresh(t *testing.T) {
	if testing.Short() {
		t.Skip("builds hundreds of times")
	}
	const zone = `syntax = "proto3"; package acme.dns.v1; import "lehr/intent/v1/options.proto"; import "buf/validate/validate.proto";
message Template { repeated string records = 1; }
message Zone { %s }
`
	protos := []string{
		fmt.Sprintf(zone, "string name = 1; string template = 2;"),
		fmt.Sprintf(zone, "string name = 1 [(lehr.intent.v1.indexed) = true]; string template = 2;"),
		fmt.Sprintf(zone, "string name = 1; string template = 2 [(lehr.intent.v1.reference).read = true];"),
		fmt.Sprintf(zone, "string name = 1; string template = 2 [(lehr.intent.v1.reference) = {}, (lehr.intent.v1.indexed) = true]; string more = 3;"),
		fmt.Sprintf(zone, "string name = 1 [(buf.validate.field).string.min_len = 12]; string template = 2;"),
		fmt.Sprintf(zone, "strin name = 1;"),
	}
	contact := `syntax = "proto3"; package acme.v1; import "lehr/intent/v1/options.proto"; message Contact { string team = 1%s; }`
	edits := map[string][]string{
		"types/acme/dns.proto": protos,
		"types/contact.proto":  {fmt.Sprintf(contact, ""), fmt.Sprintf(contact, " [(lehr.intent.v1.indexed) = true]")},
		"zones.yaml": {
			"zones: [{name: example.com, template: usual}, {name: plain.net, template: usual}]\ntemplates: {usual: [www]}\n",
			"zones: [{name: example.com, template: usual}]\ntemplates: {usual: [www, mail], other: [x]}\n",
			"zones: [{name: example.com, template: gone}]\ntemplates: {usual: [www]}\n",
		},
	}
	original, err := os.ReadFile("testdata/zones/lehr.yaml")
	if err != nil {
		t.Fatal(err)
	}
	edits["lehr.yaml"] = []string{string(original)}
	for _, derive := range []string{
		`{derive: Owner, owner: '"a@b"'}`, `{derive: Owner, where: type == "Zone", owner: payload.name}`,
		`{derive: Dependencies, where: type == "Zone", edges: [{rule: order, on: payload.template}]}`,
		`{derive: Owner, where: type == "Zone", owner: payload.more}`,
	} {
		edits["lehr.yaml"] = append(edits["lehr.yaml"], string(original)+"validate: {shrink: {max: 100%, floor: 100}}\n")
		last := &edits["lehr.yaml"][len(edits["lehr.yaml"])-1]
		*last = "# derived\n" + replaceOnce(*last, "plugins:", "  extra: "+derive+"\nplugins:")
	}
	files := []string{"lehr.yaml", "types/acme/dns.proto", "types/contact.proto", "zones.yaml"}
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "lehr-evolve-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(folder)
		if err := os.CopyFS(folder, os.DirFS("testdata/zones")); err != nil {
			t.Fatal(err)
		}
		kept := newDriven(t, folder)
		defer kept.close()
		serving := kept.round(source.Changes{All: true})
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			changes := source.Changes{Paths: map[string]bool{}}
			for range rapid.IntRange(1, 2).Draw(t, "edits") {
				name := rapid.SampledFrom(files).Draw(t, "file")
				content := edits[name][rapid.IntRange(0, len(edits[name])-1).Draw(t, "content")]
				path := filepath.Join(folder, name)
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
				changes.Paths[path] = true
			}
			serving = kept.round(changes)
		}
		fresh := newDriven(t, folder)
		defer fresh.close()
		if wanted := fresh.round(source.Changes{All: true}); wanted != serving {
			t.Fatalf("serving is %v, and of a fresh one %v: %+v", serving, wanted, kept.findings)
		}
		if !serving {
			return
		}
		if diff := cmp.Diff(fresh.published(), kept.published()); diff != "" {
			t.Fatalf("a fresh publication differs: %s", diff)
		}
	})
}

func replaceOnce(text, old, by string) string {
	for i := range text {
		if len(text) >= i+len(old) && text[i:i+len(old)] == old {
			return text[:i] + by + text[i+len(old):]
		}
	}
	return text
}

// driven is a pipeline of which a test carries out the rounds.
type driven struct {
	t        *rapid.T
	store    *sqlite.Store
	pipeline *Pipeline
	findings []intent.Finding
	close    func()
}

func newDriven(t *rapid.T, folder string) *driven {
	ctx := context.Background()
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := sqlite.Open(ctx, sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	d := &driven{t: t, store: opened, close: func() { opened.Close(); memory.Close() }}
	by := intent.Actor{Name: "ann", Origin: "test"}
	definition := filepath.Join(folder, "lehr.yaml")
	if err := opened.AddPartition(ctx, "shop", definition, "a try", by); err != nil {
		t.Fatal(err)
	}
	lease, err := opened.Acquire(ctx, "shop", "test")
	if err != nil {
		t.Fatal(err)
	}
	runner := generate.InProcess{Limits: generate.DefaultLimits()}
	d.pipeline, err = New(Options{Partition: store.Partition{ID: "shop", Definition: definition}, Store: opened, Runner: runner, Runtime: loop.Real()})
	if err != nil {
		t.Fatal(err)
	}
	d.pipeline.lease, d.pipeline.cold, d.pipeline.attempts = lease, true, &attempts{}
	program := Program{Definition: definition, Partition: "shop", Runner: runner, Limits: source.DefaultLimits()}
	if d.pipeline.builder, err = newBuilder(program, blobs{opened, lease}); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *driven) round(changes source.Changes) bool {
	if err := d.pipeline.buildRound(context.Background(), changes); err != nil {
		d.t.Fatal(err)
	}
	status := d.pipeline.Status()
	if status.State == Unavailable {
		d.t.Fatalf("status %+v", status)
	}
	d.findings = status.Findings
	return status.State == Serving
}

// published is all that can be asked of head.
func (d *driven) published() map[string]string {
	ctx := context.Background()
	head := d.pipeline.Status().Head
	out := map[string]string{}
	incarnation, err := d.store.Incarnation(ctx, head)
	if err != nil {
		d.t.Fatal(err)
	}
	out["schema"], out["digest"] = incarnation.Schema.String(), incarnation.Digest.String()
	members, err := d.store.Members(ctx, head, store.AssetFilter{Limit: 1000})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, m := range members {
		edges, err := d.store.EdgesFrom(ctx, head, m.Asset)
		if err != nil {
			d.t.Fatal(err)
		}
		out[string(m.Asset)] = fmt.Sprintf("%s %s %+v", m.Digest, m.Effective, edges)
	}
	for _, field := range []string{"acme.dns.v1.Zone.name", "acme.dns.v1.Zone.template", "acme.v1.Contact.team", "lehr.intent.v1.Owner.owner", "acme.v1.Contact"} {
		found, err := d.store.Members(ctx, head, store.AssetFilter{Field: field, Limit: 1000})
		if err != nil {
			d.t.Fatal(err)
		}
		for _, m := range found {
			out[field] += " " + string(m.Asset)
		}
	}
	return out
}
