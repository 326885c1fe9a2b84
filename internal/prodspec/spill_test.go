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
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// full is a store that keeps no more blobs which assets name.
type full struct {
	prodspec.Store
	is atomic.Bool
}

func (f *full) PutBlobs(ctx context.Context, lease store.Lease, kind string, blobs map[string][]byte) error {
	if kind == store.SpillBlobs && f.is.Load() {
		return fault.New(fault.Invalid, "partition shop would keep too many bytes").WithHint("keep them elsewhere")
	}
	return f.Store.PutBlobs(ctx, lease, kind, blobs)
}

// TestBlobsThatAreTooManyToKeep reject what names them, with the asset and its place,
// and head stays; once there is room, it is served.
func TestBlobsThatAreTooManyToKeep(t *testing.T) {
	w, f := newWorld(t, "web"), (*full)(nil)
	w.place = attentive{}
	w.through = func(s prodspec.Store) prodspec.Store { f = &full{Store: s}; return f }
	w.write("lehr.yaml", `lehr: v1
partition: shop
sources:
  files: {dir: files, files: ["**"]}
generate:
  all: {render: assets, from: [files]}
`)
	naming := func(content string) string {
		sum := intent.BlobSum([]byte(content))
		w.write("files/blobs/"+sum.String(), content)
		digest := base64.StdEncoding.EncodeToString(sum[:])
		return fmt.Sprintf("# %s\nid: net\ntype: lehr.terraform.v1.Module\npayload:\n  root: .\n  files: [{path: a, sha256: %s, external: {uri: '%s', sha256: %s}}]\n",
			content, digest, intent.BlobURI(sum), digest)
	}
	w.write("files/net.yaml", naming("one"))
	w.start()
	w.served(1)
	f.is.Store(true)
	w.write("files/net.yaml", naming("other"))
	found := w.refused(prodspec.Rejected, 1)
	if found.Rule != "external" || found.Asset != "net" || found.File != "files/net.yaml" || found.Line == 0 || found.Hint != "keep them elsewhere" ||
		!strings.HasPrefix(found.Message, "asset net names a blob of 5 bytes, which cannot be kept: ") {
		t.Errorf("%+v", found)
	}
	f.is.Store(false)
	w.served(2)
	content, err := w.store.GetBlob(t.Context(), "shop", store.SpillBlobs, intent.BlobSum([]byte("other")).String())
	if err != nil || string(content) != "other" {
		t.Errorf("%q (%v)", content, err)
	}
}
