package prodspec_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/store"
)

// set is the one that an incarnation was published with.
func (w *world) set(id intent.IncarnationID) *schema.Set {
	w.t.Helper()
	incarnation, err := w.store.Incarnation(w.t.(*testing.T).Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	files, err := w.store.GetBlob(w.t.(*testing.T).Context(), "shop", prodspec.SchemaBlobs, incarnation.Schema.String())
	if err != nil {
		w.t.Fatal(err)
	}
	set, err := schema.FromFiles(files)
	if err != nil {
		w.t.Fatal(err)
	}
	return set
}

func (w *world) found(id intent.IncarnationID, field, value string) string {
	w.t.Helper()
	members, err := w.store.Members(w.t.(*testing.T).Context(), id, store.AssetFilter{Field: field, Value: value, Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, m := range members {
		ids = append(ids, string(m.Asset))
	}
	return strings.Join(ids, " ")
}

// TestOwnTypes: payloads and addons of .proto files are like built-in ones.
func TestOwnTypes(t *testing.T) {
	w := newWorld(t, "zones")
	w.start()
	head := w.served(1).Head
	zone := member(t, w, head, "zone/example.com")
	if zone.Type != "acme.dns.v1.Zone" {
		t.Errorf("the zone is a %s", zone.Type)
	}
	if got := w.found(head, "acme.v1.Contact.team", "dns-usual"); got != "zone/example.com zone/example.org" {
		t.Errorf("found %q by a field of an addon", got)
	}
	body, err := w.store.Body(t.Context(), zone.Digest)
	if err != nil {
		t.Fatal(err)
	}
	asset, err := schema.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := w.set(head).JSON(asset); err != nil || !strings.Contains(string(text), `"template": "template/usual"`) || !strings.Contains(string(text), `"team": "dns-usual"`) {
		t.Errorf("%s, %v", text, err)
	}
	edges, err := w.store.EdgesTo(t.Context(), head, "template/usual")
	if err != nil || len(edges) != 2 || !edges[0].Read {
		t.Errorf("edges %+v, %v", edges, err)
	}
	// The template is read, so its readers' effective digests follow it.
	w.replace("zones.yaml", "[www]", "[www, api]")
	next := w.served(2).Head
	if after := member(t, w, next, "zone/example.com"); after.Digest != zone.Digest || after.Effective == zone.Effective {
		t.Errorf("the zone was %+v and is %+v, want another effective digest alone", zone, after)
	}
	if after := member(t, w, next, "zone/plain.net"); after.Since != 1 {
		t.Errorf("a zone with another template changed: %+v", after)
	}
	changes, err := w.store.Changes(t.Context(), head, next, "", 100)
	if err != nil || len(changes) != 3 {
		t.Errorf("%d changes, %v: want the template and its two readers", len(changes), err)
	}
}

// TestTypesChange: assets whose bytes stay are not rewritten, a change of the
// types alone is an incarnation, and one of comments is nothing.
func TestTypesChange(t *testing.T) {
	w := newWorld(t, "zones")
	w.start()
	before := w.served(1)
	executions := before.Executions
	old := w.set(before.Head).Digest()

	w.replace("types/contact.proto", "// Contact is", "// A Contact is")
	covered := w.wait("new source revision", func(s prodspec.Status) bool { return !slices.Equal(s.Sources, before.Sources) })
	if covered.Head != before.Head || covered.Executions != executions {
		t.Errorf("a comment made head %s and %d runs", covered.Head, covered.Executions-executions)
	}

	w.replace("types/contact.proto", "string team = 1", "string pager = 2;\n  string team = 1")
	head := w.served(2).Head
	incarnation, err := w.store.Incarnation(t.Context(), head)
	if err != nil || incarnation.Changed+incarnation.Added+incarnation.Removed != 0 || incarnation.Schema == old {
		t.Errorf("%+v, %v: want the new schema and no changed asset", incarnation, err)
	}
	if m := member(t, w, head, "zone/example.com"); m.Since != 1 {
		t.Errorf("the zone was rewritten: %+v", m)
	}
	if w.set(before.Head).Digest() != old {
		t.Error("the older incarnation has other types than it was published with")
	}

	// A field that is marked finds what is there already.
	w.replace("types/acme/dns.proto", "string name = 1 [", "string name = 1 [(lehr.intent.v1.indexed) = true, ")
	head = w.served(3).Head
	if got := w.found(head, "acme.dns.v1.Zone.name", "plain.net"); got != "zone/plain.net" {
		t.Errorf("found %q by a field that was just marked", got)
	}
	if got := w.found(head, "acme.dns.v1.Zone.name", ""); got != "zone/example.com zone/example.org zone/plain.net" {
		t.Errorf("found %q", got)
	}
	if m := member(t, w, head, "template/usual"); m.Since != 1 {
		t.Errorf("an asset without the field was rewritten: %+v", m)
	}

	// A restart runs nothing again, and finds what was published.
	w.stop()
	w.start()
	again := w.wait("a build", func(s prodspec.Status) bool { return s.State == prodspec.Serving })
	if again.Head != head || again.Executions != 0 {
		t.Errorf("after a restart head is %s with %d runs", again.Head, again.Executions)
	}
}

// TestReferenceIsMarked: a field that becomes a reference is one for assets
// that are there already.
func TestReferenceIsMarked(t *testing.T) {
	w := newWorld(t, "zones")
	w.replace("types/acme/dns.proto", ` [(lehr.intent.v1.reference) = {types: ["acme.dns.v1.Template"], read: true}]`, "")
	w.start()
	head := w.served(1).Head
	edges, err := w.store.EdgesTo(t.Context(), head, "template/usual")
	if err != nil || len(edges) != 0 {
		t.Fatalf("edges %+v, %v", edges, err)
	}
	effective := member(t, w, head, "zone/example.com").Effective
	w.replace("types/acme/dns.proto", "string template = 2", `string template = 2 [(lehr.intent.v1.reference).read = true]`)
	head = w.served(2).Head
	edges, err = w.store.EdgesTo(t.Context(), head, "template/usual")
	if err != nil || len(edges) != 2 {
		t.Errorf("edges %+v, %v", edges, err)
	}
	if member(t, w, head, "zone/example.com").Effective == effective {
		t.Error("the effective digest does not cover what is read now")
	}
}

// TestTypesAreRefused: what is wrong with types is a finding at its place, and
// head stays.
func TestTypesAreRefused(t *testing.T) {
	w := newWorld(t, "zones")
	w.start()
	w.served(1)
	w.replace("types/acme/dns.proto", "string name = 1", "strin name = 1")
	f := w.refused(prodspec.Rejected, 1)
	if f.File != "types/acme/dns.proto" || f.Line != 11 || f.Column != 3 || !strings.Contains(f.Message, "unknown type strin") {
		t.Errorf("finding %+v", f)
	}
	w.replace("types/acme/dns.proto", "strin name = 1", "string name = 1")
	w.wait("mended types", func(s prodspec.Status) bool { return s.State == prodspec.Serving })

	// A stricter rule judges what was served before it.
	w.replace("types/acme/dns.proto", "min_len = 3", "min_len = 10")
	f = w.refused(prodspec.Rejected, 1)
	if f.Rule != "content" || f.Asset != "zone/plain.net" || f.Field != "acme.dns.v1.Zone.name" || f.File != "zones.star" {
		t.Errorf("finding %+v", f)
	}
	w.replace("types/acme/dns.proto", "min_len = 10", "min_len = 2")
	w.served(2)

	// Types that are gone are not taken for none.
	w.remove("types")
	if f := w.refused(prodspec.Unavailable, 2); f.Field != "types" {
		t.Errorf("finding %+v", f)
	}
}

// TestHostileTypes: a .proto file harms only its own partition (S12).
func TestHostileTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for limits")
	}
	head := "syntax = \"proto3\";\npackage acme.v1;\n"
	for name, c := range map[string]struct{ proto, message, file string }{
		"many fields":   {head + "message Contact {\n" + many(22_000, "int32 f%d=%d;\n") + "}", "together", "types/contact.proto"},
		"huge enum":     {head + "enum E {\n" + many(25_000, "E%[1]d=%[1]d;\n") + "}", "together", "types/contact.proto"},
		"deep messages": {head + strings.Repeat("message M {", 30_000) + strings.Repeat("}", 30_000), "nest", "types/contact.proto"},
		"deep option":   {head + "import \"google/protobuf/descriptor.proto\";\nmessage N { N n = 1; }\nextend google.protobuf.FileOptions { N n = 50000; }\noption (n) = " + strings.Repeat("{n ", 60_000) + strings.Repeat("}", 60_000) + ";", "", ""},
		"costly rule": {head + "import \"buf/validate/validate.proto\";\nmessage Contact {\n  option (buf.validate.message).cel = {id: \"slow\", message: \"slow\", expression: \"" +
			"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, [1,2,3,4,5,6,7,8,9,10].all(g, [1,2,3,4,5,6,7,8,9,10].all(h, this.team != string(a+b+c+d+e+f+g+h)))))))))\"};\n  string team = 1;\n}", "took longer", "lehr.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "zones")
			if name == "costly rule" {
				w.limits.Milliseconds = 1500
			}
			w.write("types/contact.proto", c.proto)
			built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.processes()}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if built.OK() || !strings.Contains(built.Findings[0].Message, c.message) {
				t.Errorf("findings %.500v", built.Findings)
			}
			if c.file != "" && built.Findings[0].File != c.file {
				t.Errorf("the finding is in %q", built.Findings[0].File)
			}
		})
	}
}

// counting counts how often types are compiled.
type counting struct {
	generate.InProcess
	compiled atomic.Int32
}

func (c *counting) Compile(ctx context.Context, files []schema.SourceFile) (*schema.Set, []intent.Finding, error) {
	c.compiled.Add(1)
	return c.InProcess.Compile(ctx, files)
}

// TestTypesAreCompiledOnce: neither good nor broken ones are compiled again
// before they change.
func TestTypesAreCompiledOnce(t *testing.T) {
	w := newWorld(t, "zones")
	runner := &counting{InProcess: generate.InProcess{Limits: generate.DefaultLimits()}}
	w.runner = runner
	w.start()
	w.served(1)
	w.replace("zones.yaml", "[www]", "[www, api]")
	w.served(2)
	w.replace("types/contact.proto", "string team", "strin team")
	w.refused(prodspec.Rejected, 2)
	before := w.pipeline.Status().Sources
	w.replace("lehr.yaml", "mode: enforce", "mode: observe")
	w.wait("the new definition", func(s prodspec.Status) bool { return !slices.Equal(s.Sources, before) })
	if n := runner.compiled.Load(); n != 2 {
		t.Errorf("types were compiled %d times for two versions of them", n)
	}
}

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		number := i + 1
		if number >= 19_000 {
			number += 1000
		}
		fmt.Fprintf(&b, format, i, number)
	}
	return b.String()
}

// TestSchemasAreForgotten: descriptors of which no incarnation is left go.
func TestSchemasAreForgotten(t *testing.T) {
	w := newWorld(t, "zones")
	w.runner = generate.InProcess{Limits: generate.DefaultLimits()}
	w.start()
	first := w.served(1).Head
	incarnation, err := w.store.Incarnation(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	w.replace("types/contact.proto", "string team = 1", "string more = 3;\n  string team = 1")
	w.served(2)
	if _, err := w.store.Collect(t.Context(), w.lease, store.Retention{Incarnations: 1}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Incarnation(t.Context(), first); err == nil {
		t.Skip("the first incarnation is retained")
	}
	w.replace("types/contact.proto", "string more = 3", "string most = 3")
	w.served(3)
	if _, err := w.store.GetBlob(t.Context(), "shop", prodspec.SchemaBlobs, incarnation.Schema.String()); err == nil {
		t.Error("the descriptors of a collected incarnation are still there")
	}
	w.set(intent.IncarnationID{Partition: "shop", Sequence: 2})
}
