package prodspec_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

func TestChangeBecomesAnIncarnation(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	w.served(1)
	want := []intent.AssetID{"lehr/policy", "shop/a/frontend", "shop/b/frontend"}
	if diff := cmp.Diff(want, w.assets()); diff != "" {
		t.Fatal(diff)
	}
	saved := time.Now()
	w.replace("service.yaml", `version: "1.0"`, `version: "2.0"`)
	status := w.served(2)
	t.Logf("saved to published: %s, build %s", time.Since(saved), status.Took)
	incarnation, err := w.store.Incarnation(t.Context(), status.Head)
	if err != nil {
		t.Fatal(err)
	}
	if incarnation.Changed != 1 || incarnation.Added != 0 || incarnation.Removed != 0 || incarnation.Count != 3 {
		t.Errorf("incarnation %+v, want one change among 3", incarnation)
	}
	body, err := w.store.Body(t.Context(), member(t, w, status.Head, "shop/a/frontend").Digest)
	if err != nil {
		t.Fatal(err)
	}
	if asset, err := schema.Decode(body); err != nil || len(asset.Addons) != 1 {
		t.Errorf("asset %+v, %v: want its addon", asset, err)
	}
	const version = "lehr.process.v1.Job.version"
	for _, c := range []struct {
		sequence     intent.Sequence
		field, value string
		want         []intent.AssetID
	}{
		{1, version, "1.0", []intent.AssetID{"shop/a/frontend"}},
		{2, version, "1.0", nil},
		{2, version, "2.0", []intent.AssetID{"shop/a/frontend"}},
		{2, version, "", []intent.AssetID{"shop/a/frontend", "shop/b/frontend"}},
		{2, `lehr.intent.v1.ImpactedScope.scopes["cluster"]`, "b", []intent.AssetID{"shop/b/frontend"}},
	} {
		members, err := w.store.Members(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: c.sequence}, store.AssetFilter{Field: c.field, Value: c.value})
		var got []intent.AssetID
		for _, m := range members {
			got = append(got, m.Asset)
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("as of %d, %s %q: %v (-want +got):\n%s", c.sequence, c.field, c.value, err, diff)
		}
	}
}

func TestSameContentMakesNoIncarnationButIsCovered(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	before := w.served(1)
	w.replace("service.yaml", "service: shop", "# a comment\nservice: shop")
	after := w.wait("new source revision", func(s prodspec.Status) bool { return !cmp.Equal(s.Sources, before.Sources) })
	if after.Head != before.Head || after.State != prodspec.Serving {
		t.Errorf("status %+v, want head %s served", after, before.Head)
	}
	partition, err := w.store.Partition(t.Context(), "shop")
	if err != nil || !cmp.Equal(partition.Covered, after.Sources) {
		t.Errorf("covered %v (%v), want %v", partition.Covered, err, after.Sources)
	}
}

func member(t *testing.T, w *world, head intent.IncarnationID, id intent.AssetID) intent.Member {
	t.Helper()
	m, err := w.store.Member(t.Context(), head, id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
