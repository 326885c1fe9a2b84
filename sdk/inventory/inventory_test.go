package inventory_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/inventory"
)

func TestIDsAreValid(t *testing.T) {
	for want, names := range map[string][]string{
		"job/web": {"job", "web"}, "host/web-7.example.com": {"host", "Web 7.example.com"}, "a/unnamed": {"a", "///"}, "a/etc-passwd": {"a", "../etc/passwd"}, "x/b-c": {"x", "--b\u00e4c--"},
	} {
		got := inventory.ID(names...)
		if _, err := intent.ParseAssetID(got); got != want || err != nil {
			t.Errorf("%q gives %q (%v), want %q", names, got, err, want)
		}
	}
}

func TestTheOrderOfFindingDoesNotMatter(t *testing.T) {
	asset := func(id string) inventory.Asset {
		return inventory.Asset{ID: id, Payload: structpb.NewStringValue(id)}
	}
	var texts []string
	for _, listing := range [][]inventory.Asset{{asset("a"), asset("b/c"), asset("b")}, {asset("b"), asset("a"), asset("b/c")}} {
		var out bytes.Buffer
		if err := inventory.Write(&out, inventory.Listing{Assets: listing}); err != nil {
			t.Fatal(err)
		}
		// Protobuf's JSON has spaces by chance, which the encoder evens out.
		texts = append(texts, out.String())
	}
	if texts[0] != texts[1] {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
}

func TestWhatIsRefused(t *testing.T) {
	value := structpb.NewStringValue("x")
	many := make([]inventory.Asset, inventory.MaxAssets+1)
	for i := range many {
		many[i] = inventory.Asset{ID: fmt.Sprint("a", i), Payload: value}
	}
	for name, assets := range map[string][]inventory.Asset{
		"no id": {{Payload: value}}, "no payload": {{ID: "a"}}, "twice": {{ID: "a", Payload: value}, {ID: "a", Payload: value}}, "too many": many,
		"no text": {{ID: "a", Payload: structpb.NewStringValue("\xff")}},
	} {
		if err := inventory.Write(&bytes.Buffer{}, inventory.Listing{Assets: assets}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
