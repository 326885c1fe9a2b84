package provenance

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// blobs keeps what is written, and how much at once.
type blobs struct {
	store.Blobs
	kept map[string][]byte
	most int
}

func (b *blobs) PutBlobs(_ context.Context, _ store.Lease, _ string, written map[string][]byte) error {
	b.most = max(b.most, len(written))
	maps.Copy(b.kept, written)
	return nil
}

func (b *blobs) GetBlob(_ context.Context, _ intent.PartitionID, _, name string) ([]byte, error) {
	if text, ok := b.kept[name]; ok {
		return text, nil
	}
	return nil, fault.New(fault.NotFound, "no blob %s", name)
}

// What is written of many assets, in many parts, is read of each.
func TestManyOrigins(t *testing.T) {
	const assets = 50_000
	id := intent.IncarnationID{Partition: "shop", Sequence: 7}
	sources := []intent.SourceRevision{{Source: "s", Revision: "r"}}
	w := NewWriter(intent.Incarnation{ID: id, Added: assets, Sources: sources})
	run := func(i int) *Run { return &Run{Generator: fmt.Sprint("g", i), Inputs: []Place{{File: fmt.Sprint(i)}}} }
	runs := []*Run{run(0), run(1), run(2)}
	name := func(i int) intent.AssetID { return intent.AssetID(fmt.Sprint("a/", i)) }
	want := func(i int) Origin {
		o := Origin{Run: *runs[i%3], Made: Place{File: "p.star", Line: 1 + i%5, Source: "programs"}}
		if i%7 == 0 {
			o.Lines = map[string]Place{"payload.n": {File: "f", Line: i + 1}}
			o.Derived = []Derived{{Derivation: "d", Addon: "lehr.intent.v1.Owner", Place: Place{File: "lehr.yaml", Line: 3}}}
		}
		return o
	}
	for i := range assets {
		o := want(i)
		w.Add(name(i), runs[i%3], o.Made, o.Derived, o.Lines)
	}
	b := &blobs{kept: map[string][]byte{}}
	if err := w.Save(t.Context(), b, store.Lease{}); err != nil {
		t.Fatal(err)
	}
	if b.most > perWrite {
		t.Errorf("%d blobs in one transaction, at most %d", b.most, perWrite)
	}
	for i := 0; i < assets; i += 997 {
		published, got, err := Read(t.Context(), b, id, name(i))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want(i), got); diff != "" || !cmp.Equal(published.Sources, sources) {
			t.Fatalf("%s (-want +got):\n%s%+v", name(i), diff, published)
		}
	}
	for asset, of := range map[intent.AssetID]intent.IncarnationID{"b": id, name(0): {Partition: "shop", Sequence: 8}} {
		if _, _, err := Read(t.Context(), b, of, asset); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s in %s: %v", asset, of, err)
		}
	}
	// What does not hold together is an error, never another asset's origin.
	for name := range b.kept {
		if name != store.OriginName(7) {
			b.kept[name] = []byte(`{"assets": {"a/0": {"r": 3}}}`)
		}
	}
	if _, _, err := Read(t.Context(), b, id, "a/0"); !fault.Is(err, fault.Internal) {
		t.Errorf("a damaged origin: %v", err)
	}
}
