package remote

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
)

// librarian says of each asset what the content is that its first file names.
type librarian struct{}

func (librarian) Served() serve.Served { return serve.Served{Type: "lehr.terraform.v1.Module"} }

func (librarian) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	differences := make([]serve.Difference, len(assets))
	for i, asset := range assets {
		module := &terraformpb.Module{}
		reason := ""
		if err := proto.Unmarshal(asset.Payload.Bytes, module); err != nil {
			reason = err.Error()
		} else if content, err := asset.Blob(ctx, module.Files[0].GetExternal()); err != nil {
			reason = err.Error()
		} else {
			reason = fmt.Sprintf("got %d bytes of %s", len(content), intent.BlobSum(content))
		}
		differences[i] = serve.Difference{Outcome: intent.Unknown, Reason: reason}
	}
	return differences
}

func (librarian) Push(context.Context, serve.Push, serve.Permits) serve.Outcome {
	return serve.Outcome{}
}

func librarianPlugin([]string) int {
	return serve.Main(serve.Plugin{Name: "librarian", Version: "1", Resources: []serve.Kind{librarian{}}})
}

// blobs is a Contents with blobs, by the asset that may have them.
type blobs struct {
	*intents
	of map[intent.AssetID][]byte
}

func (b *blobs) Blob(_ context.Context, _ intent.IncarnationID, asset intent.AssetID, digest intent.Digest) ([]byte, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.asked["blob of "+asset]++
	content := b.of[asset]
	if content == nil {
		return nil, fault.New(fault.NotFound, "%s does not name the blob %s", asset, digest)
	}
	return content, nil
}

// TestBlobs: a plugin has what the assets of its call name, whole and verified,
// though it comes in parts; nothing else.
func TestBlobs(t *testing.T) {
	t.Parallel()
	contents := &blobs{newIntents(), map[intent.AssetID][]byte{}}
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	digest := intent.BlobSum(large)
	for _, id := range []intent.AssetID{"whole", "changed", "none"} {
		contents.put(id, &terraformpb.Module{Root: ".", Files: []*terraformpb.File{{Path: "a", Content: &terraformpb.File_External{
			External: &intentpb.ExternalRef{Uri: intent.BlobURI(digest), Sha256: digest[:]},
		}}}})
	}
	contents.put("elsewhere", &terraformpb.Module{Root: ".", Files: []*terraformpb.File{{Path: "a", Content: &terraformpb.File_External{
		External: &intentpb.ExternalRef{Uri: "https://example.com/a", Sha256: digest[:]},
	}}}})
	contents.of["whole"], contents.of["changed"] = large, append([]byte("x"), large[1:]...)
	child := started(t, Options{Run: self(t, "librarian"), Contents: contents})
	found := diffed(t, child, "whole", "changed", "none", "elsewhere")
	for id, want := range map[intent.AssetID]string{
		"whole":     fmt.Sprintf("got 3200000 bytes of %s", digest),
		"changed":   "have another digest",
		"none":      "none does not name the blob",
		"elsewhere": "is no blob of Lehr's",
	} {
		if reason := found[id].Reason; !strings.Contains(reason, want) {
			t.Errorf("%s: %s, want %s", id, reason, want)
		}
	}
	if asked := contents.asked["blob of whole"]; asked != 1 {
		t.Errorf("the blob was looked up %d times, for its parts", asked)
	}
}

// TestBlobsOfOtherCalls are refused, also where a plugin asks by itself.
func TestBlobsOfOtherCalls(t *testing.T) {
	contents := &blobs{newIntents(), map[intent.AssetID][]byte{"a": []byte("a"), "b": []byte("b")}}
	s := newAnswers(contents).newScope()
	s.open(head, "a")
	digest := intent.BlobSum([]byte("a"))
	ask := func(asset string, sum []byte, offset int64) string {
		reply := s.lookUpBlob(t.Context(), &pluginpb.Need{Incarnation: head.String()}, &pluginpb.NeedBlob{Asset: asset, Sha256: sum, Offset: offset})
		return reply.Refused + string(reply.Content)
	}
	for want, got := range map[string]string{
		"a":                     ask("a", digest[:], 0),
		"no open call names b":  ask("b", digest[:], 0),
		"a digest has 32 bytes": ask("a", digest[:9], 0),
		"none from 2 on":        ask("a", digest[:], 2),
		"none from -1 on":       ask("a", digest[:], -1),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
