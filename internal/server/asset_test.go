package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

func TestListingByWhatAssetsSay(t *testing.T) {
	w := newWorld(t)
	owned := w.command("web/a", "y", "db")
	addon, err := schema.Builtin().Pack(&intentpb.Owner{Owner: "sre"})
	w.must(err)
	owned.Addons = append(owned.Addons, addon)
	w.publish(0, w.command("db", "x"), owned, w.command("web/b", "z", "db"))
	for _, c := range []struct {
		request *apipb.ListAssetsRequest
		want    string
	}{
		{&apipb.ListAssetsRequest{Field: "Owner"}, "web/a"},
		{&apipb.ListAssetsRequest{Field: "lehr.intent.v1.Owner.owner", Value: "sre", Type: "Command"}, "web/a"},
		{&apipb.ListAssetsRequest{Field: "Owner.owner", Value: "dba"}, ""},
		{&apipb.ListAssetsRequest{Field: "Dependencies"}, "web/a web/b"},
		{&apipb.ListAssetsRequest{RefersTo: "db"}, "web/a web/b"},
		{&apipb.ListAssetsRequest{RefersTo: "db", Field: "Owner"}, "web/a"},
		{&apipb.ListAssetsRequest{RefersTo: "web/a"}, ""},
		{&apipb.ListAssetsRequest{Type: "lehr.process.v1.Job"}, ""},
	} {
		c.request.Partition = "shop"
		list, err := w.client.Assets.ListAssets(t.Context(), c.request)
		w.must(err)
		var ids []string
		for _, asset := range list.Assets {
			ids = append(ids, asset.Id)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.request, got, c.want)
		}
	}
	for _, c := range []struct {
		request *apipb.ListAssetsRequest
		says    string
	}{
		{&apipb.ListAssetsRequest{Field: "Command.input"}, "lehr.process.v1.Job.version"},
		{&apipb.ListAssetsRequest{Type: "Comand"}, "lehr.command.v1.Command"},
		{&apipb.ListAssetsRequest{Value: "sre"}, "no field"},
		{&apipb.ListAssetsRequest{RefersTo: "UPPER"}, "UPPER"},
	} {
		c.request.Partition = "shop"
		_, err := w.client.Assets.ListAssets(t.Context(), c.request)
		w.refused(err, fault.Invalid, c.says)
	}
}

// TestListedWithTheirReports: dense or sparse among the others, each asset is
// listed with the state of its own report.
func TestListedWithTheirReports(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	want := map[string]string{}
	owner, err := schema.Builtin().Pack(&intentpb.Owner{Owner: "sre"})
	w.must(err)
	for i := range 300 {
		id := fmt.Sprintf("web/%03d", i)
		asset := w.command(intent.AssetID(id), "x")
		if i%7 == 0 || i > 100 && i < 140 {
			asset.Addons = []intent.Message{owner}
		}
		assets = append(assets, asset)
		if i%5 != 0 {
			want[id] = string([]intent.State{intent.StateInSync, intent.StateWaiting, intent.StatePushing}[i%3])
			w.report(intent.Report{Asset: asset.ID, State: intent.State(want[id])})
		}
	}
	w.publish(0, assets...)
	for field, count := range map[string]int{"": 300, "Owner": 77} {
		list, err := w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{Partition: "shop", Field: field, Limit: 1000})
		w.must(err)
		if len(list.Assets) != count {
			t.Errorf("by field %q there are %d assets, want %d", field, len(list.Assets), count)
		}
		for _, asset := range list.Assets {
			if asset.State != want[asset.Id] {
				t.Errorf("%s is listed as %q, its report says %q", asset.Id, asset.State, want[asset.Id])
			}
		}
	}
}

// TestPayloadsWhoseJSONIsNoObject: those of well-known types are shown under "value".
func TestPayloadsWhoseJSONIsNoObject(t *testing.T) {
	w := newWorld(t)
	list, err := structpb.NewList([]any{"a", 1.0})
	w.must(err)
	payloads := map[intent.AssetID]proto.Message{
		"value": structpb.NewStringValue("x"), "null": structpb.NewNullValue(), "list": list, "time": timestamppb.New(time.Unix(0, 0)),
		"duration": durationpb.New(time.Second), "bool": wrapperspb.Bool(true), "number": wrapperspb.Int64(1 << 60),
	}
	want := map[intent.AssetID]string{
		"value": `"x"`, "null": `null`, "list": `["a",1]`, "time": `"1970-01-01T00:00:00Z"`, "duration": `"1s"`, "bool": `true`, "number": `"1152921504606846976"`,
	}
	var assets []intent.Asset
	for id, payload := range payloads {
		packed, err := schema.Builtin().Pack(payload)
		w.must(err)
		assets = append(assets, intent.Asset{ID: id, Payload: packed, Addons: []intent.Message{packed}})
	}
	w.publish(0, assets...)
	for id, want := range want {
		got, err := w.client.Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: string(id)})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		shown := []*structpb.Struct{got.Payload}
		for _, addon := range got.Addons {
			shown = append(shown, addon)
		}
		for _, of := range shown {
			text, err := of.Fields["value"].MarshalJSON()
			w.must(err)
			if strings.ReplaceAll(string(text), " ", "") != want || len(of.Fields) != 1 || len(shown) != 2 {
				t.Errorf("%s is shown as %v, want %s", id, of, want)
			}
		}
	}
}
