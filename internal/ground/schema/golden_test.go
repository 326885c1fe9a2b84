package schema_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A golden file that changes means that every digest ever stored is another
// from now on: approvals lapse and all assets look changed.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/asset/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var message intentpb.Asset
			if err := (protojson.UnmarshalOptions{Resolver: schema.Builtin().Types()}).Unmarshal(text, &message); err != nil {
				t.Fatal(err)
			}
			encoded, digest, err := schema.Builtin().Encode(assetOf(&message))
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			got := fmt.Sprintf("sha256 %s\n%s", digest, hexLines(encoded))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("canonical bytes changed (-want +got):\n%s", diff)
			}
			isWireOfAsset(t, encoded)
		})
	}
}

// isWireOfAsset checks that others can read the bytes as a lehr.intent.v1.Asset,
// and that encoding that message gives the same bytes.
func isWireOfAsset(t *testing.T, encoded []byte) {
	t.Helper()
	var message intentpb.Asset
	if err := proto.Unmarshal(encoded, &message); err != nil {
		t.Fatal(err)
	}
	again, err := schema.Builtin().Canonical(&message)
	if err != nil || !bytes.Equal(again, encoded) {
		t.Errorf("as a message: %x, %v\nas an asset:  %x", again, err, encoded)
	}
}

func assetOf(message *intentpb.Asset) intent.Asset {
	content := func(any *anypb.Any) intent.Message {
		return intent.Message{Type: intent.TypeName(any.MessageName()), Bytes: any.GetValue()}
	}
	asset := intent.Asset{ID: intent.AssetID(message.GetId()), Payload: content(message.GetPayload())}
	for _, addon := range message.GetAddons() {
		asset.Addons = append(asset.Addons, content(addon))
	}
	return asset
}

func hexLines(b []byte) string {
	var lines strings.Builder
	for len(b) > 0 {
		n := min(len(b), 32)
		lines.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return lines.String()
}
