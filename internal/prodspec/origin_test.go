package prodspec_test

import (
	"context"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
	"lehr.dev/test/gitrepo"
)

type builtinTypes struct{}

func (builtinTypes) Schema(context.Context, intent.PartitionID, intent.Digest) (*schema.Set, error) {
	return schema.Builtin(), nil
}

func (w *world) blame(sequence intent.Sequence, asset intent.AssetID, field string) query.Blame {
	w.t.Helper()
	id := intent.IncarnationID{Partition: "shop", Sequence: sequence}
	b, err := query.New(w.store, builtinTypes{}, loop.Real()).Blame(context.Background(), id, asset, field)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// Each field is blamed on the change that made it what it is, with the commit
// that its file was read at then; what a later change did to others, or to other
// lines of the file, is not its.
func TestBlame(t *testing.T) {
	w, origin := inGit(t)
	first := origin.Commit("Begin")
	w.start()
	w.served(1)
	edit := func(old, by, subject string) string {
		text := origin.Git("show", "HEAD:prod/service.yaml")
		if !strings.Contains(text, old) {
			t.Fatalf("no %q in %s", old, text)
		}
		origin.Write("prod/service.yaml", "# "+subject+"\n"+strings.Replace(text, old, by, 1)+"\n")
		return origin.Commit(subject)
	}
	second := edit("base_port: 20200", "base_port: 20300", "Move b")
	w.served(2)
	w.write("notes.txt", "two")
	w.served(3)

	const asset = "shop/b/frontend"
	for _, of := range []struct {
		field, value, was string
		since             intent.Sequence
		commit, line      string
	}{
		{"payload.base_port", "20300", "20200", 2, second, "service/service.yaml"},
		{"payload.version", `"1.1"`, "", 1, first, "service/service.yaml"},
		{"payload.replicas", "3", "", 1, first, ""}, // There are two such lines.
		{`payload.env["NOTE"]`, `"two"`, `"one"`, 3, second, ""},
		{"", "", "", 3, second, ""},
	} {
		b := w.blame(3, asset, of.field)
		if b.Value != of.value || b.Was != of.was || b.Since.Sequence != of.since || !b.Exact || b.Unknown {
			t.Errorf("%s: %+v, want %+v", of.field, b, of)
			continue
		}
		for _, r := range b.Sources {
			if r.Source == "service" && (r.Revision != of.commit || r.Commit.Author != gitrepo.Author) {
				t.Errorf("%s was read at %+v, want %s", of.field, r, of.commit)
			}
		}
		line := ""
		if b.Line != nil {
			line = b.Line.File
			if b.Line.Source != "service" || b.Line.Line == 0 {
				t.Errorf("%s is in line %+v", of.field, b.Line)
			}
		}
		if line != of.line {
			t.Errorf("%s is in %q, want %q", of.field, line, of.line)
		}
		o := b.Origin
		if o.Generator != "web" || o.Made.File != "web.star" || o.Made.Line == 0 || o.Made.Source == "" || len(o.Inputs) != 2 {
			t.Errorf("%s comes from %+v", of.field, o)
		}
	}
	if b := w.blame(3, asset, "payload.base_port"); b.Before.Sequence != 1 || b.Published.IsZero() {
		t.Errorf("before %s, published %v", b.Before, b.Published)
	}
	if b := w.blame(1, asset, "payload.base_port"); b.Value != "20200" || b.Since.Sequence != 1 {
		t.Errorf("as of the first incarnation: %+v", b)
	}
	if b := w.blame(3, intent.PolicyAsset, ""); b.Origin.Made.File != "lehr.yaml" || b.Origin.Made.Source != "definition" {
		t.Errorf("the policy comes from %+v", b.Origin)
	}
	id := intent.IncarnationID{Partition: "shop", Sequence: 3}
	if _, err := query.New(w.store, builtinTypes{}, loop.Real()).Blame(t.Context(), id, asset, "payload.port"); err == nil || !strings.Contains(err.Error(), "has no value") {
		t.Errorf("a field that is not there: %v", err)
	}
}

// Of a partition without kept origins, as of an older version, it is said.
func TestBlameWithoutOrigins(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	w.served(1)
	names := map[string][]byte{store.OriginName(1): nil, store.OriginName(1) + "/0": nil}
	if _, _, err := provenance.Read(t.Context(), w.store, intent.IncarnationID{Partition: "shop", Sequence: 1}, "shop/a/frontend"); err != nil {
		t.Fatal(err)
	}
	if err := w.store.PutBlobs(t.Context(), w.lease, store.OriginBlobs, names); err != nil {
		t.Fatal(err)
	}
	if b := w.blame(1, "shop/a/frontend", ""); !b.Unknown || b.Published.IsZero() || len(b.Sources) == 0 || b.Origin.Generator != "" {
		t.Errorf("%+v, want that it is unknown", b)
	}
}
