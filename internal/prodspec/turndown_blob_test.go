package prodspec_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// forgetful is a store that has lost the blobs which assets name.
type forgetful struct {
	prodspec.Store
	is atomic.Bool
}

func (f *forgetful) GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error) {
	if kind == store.SpillBlobs && f.is.Load() {
		return nil, fault.New(fault.NotFound, "there is no blob %s", name)
	}
	return f.Store.GetBlob(ctx, partition, kind, name)
}

// TestAnOrphanWithABlobIsTurnedDown: its content lies in a blob that no generator gives any
// more, and that the store has kept; where it has not, a finding says so.
func TestAnOrphanWithABlobIsTurnedDown(t *testing.T) {
	w, f := newWorld(t, "web"), (*forgetful)(nil)
	w.place = attentive{}
	w.through = func(s prodspec.Store) prodspec.Store { f = &forgetful{Store: s}; return f }
	w.write("lehr.yaml", `lehr: v1
partition: shop
sources:
  files: {dir: files, files: ["**"]}
generate:
  all: {render: assets, from: [files]}
`)
	content := "a module"
	sum := intent.BlobSum([]byte(content))
	digest := base64.StdEncoding.EncodeToString(sum[:])
	w.write("files/blobs/"+sum.String(), content)
	w.write("files/net.yaml", fmt.Sprintf("id: net\ntype: lehr.terraform.v1.Module\npayload:\n  root: .\n  files: [{path: a, sha256: %s, external: {uri: '%s', sha256: %s}}]\n", digest, intent.BlobURI(sum), digest))
	w.write("files/rest.yaml", "id: rest\ntype: Job\npayload: {name: rest, binary: /bin/rest, version: \"1\"}\n")
	w.start()
	w.served(1)
	body := w.body(1, "net")
	w.remove("files/net.yaml")
	w.remove("files/blobs/" + sum.String())
	w.served(2)

	f.is.Store(true)
	w.turnDown(turndown.Entry{Asset: "net", Reason: "left behind", Orphan: &turndown.Orphan{Incarnation: "shop@1", Body: body}})
	found := w.refused(prodspec.Rejected, 2)
	if found.Rule != "turndown" || found.Asset != "net" || found.File != turndown.File() || !strings.Contains(found.Message, "is not kept any more") || !strings.Contains(found.Hint, "--undo net") {
		t.Errorf("%+v", found)
	}
	f.is.Store(false)
	w.write("files/rest.yaml", "id: rest\ntype: Job\npayload: {name: rest, binary: /bin/rest, version: \"2\"}\n")
	w.served(3)
	if got := w.turndownOf(3, "net"); got != "left behind" {
		t.Errorf("the orphan has the Turndown %q", got)
	}
	if was, is := w.content(1, "net").Payload, w.content(3, "net").Payload; string(was.Bytes) != string(is.Bytes) {
		t.Errorf("it came back as %q, was %q", is.Bytes, was.Bytes)
	}
	kept, err := w.store.GetBlob(t.Context(), "shop", store.SpillBlobs, sum.String())
	if err != nil || string(kept) != content {
		t.Errorf("%q (%v)", kept, err)
	}
}
