package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

// job is an asset of several fields.
func (w *world) job(id intent.AssetID, replicas int, version string, addons ...proto.Message) intent.Asset {
	w.Helper()
	payload, err := schema.Builtin().Pack(&processpb.Job{Name: string(id), Replicas: uint32(replicas), Binary: "/bin/" + string(id), Version: version})
	w.must(err)
	asset := intent.Asset{ID: id, Payload: payload}
	for _, addon := range addons {
		packed, err := schema.Builtin().Pack(addon)
		w.must(err)
		asset.Addons = append(asset.Addons, packed)
	}
	return asset
}

// remove publishes the next incarnation, without some assets.
func (w *world) remove(base intent.Sequence, gone ...intent.AssetID) {
	w.Helper()
	parent := intent.IncarnationID{Partition: "shop", Sequence: base}
	var delta []store.Entry
	for _, id := range gone {
		delta = append(delta, store.Entry{Asset: id, Removed: true})
	}
	w.must(w.store.Unstage(w.Context(), w.lease))
	w.must(w.store.Stage(w.Context(), w.lease, parent, delta))
	_, err := w.store.Publish(w.Context(), w.lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: "shop", Sequence: base + 1}, Parent: parent,
		Schema: schema.Builtin().Digest(), Created: time.Now(), Author: ann, Removed: len(gone),
	})
	w.must(err)
}

// listed follows pages to their end.
func (w *world) listed(request *apipb.ListAssetsRequest) (ids []string, pages int) {
	w.Helper()
	request.Partition = "shop"
	for {
		list, err := w.client.Assets.ListAssets(w.Context(), request)
		w.must(err)
		pages++
		for _, asset := range list.Assets {
			ids = append(ids, asset.Id)
		}
		if request.After, request.Incarnation = list.Next, list.Incarnation; list.Next == "" {
			return ids, pages
		}
		request.At, request.Label = nil, ""
	}
}

func TestListingByFilter(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 2500 {
		asset := w.job(intent.AssetID(fmt.Sprintf("web/%04d", i)), i%5, fmt.Sprintf("v%d", i%3))
		if i%100 == 0 {
			asset = w.job(asset.ID, i%5, "v9", &intentpb.Owner{Owner: "sre"})
		}
		assets = append(assets, asset)
	}
	assets = append(assets, w.command("db", "x"))
	w.publish(0, assets...)
	for filter, want := range map[string]int{
		`type == "Job"`: 2500,
		`type == "Job" && payload.version == "v9"`:            25,
		`payload.replicas > 3`:                                500,
		`type == "Job" && payload.replicas == 2`:              500,
		`payload.input == "x"`:                                1,
		`id == "web/0007"`:                                    1,
		`id.endsWith("99")`:                                   25,
		`owner == "sre" && payload.replicas == 0`:             25,
		`has(addons.Owner) && payload.replicas > 0`:           0,
		`type == "Command" || payload.replicas == 4 && false`: 1,
		`false`: 0,
	} {
		ids, _ := w.listed(&apipb.ListAssetsRequest{Filter: filter, Limit: 300})
		if len(ids) != want || !slices.IsSorted(ids) || len(slices.Compact(ids)) != want {
			t.Errorf("%s lists %d, want %d: %.100v", filter, len(ids), want, ids)
		}
	}
	// What is asked of the index and what is asked by a filter add up.
	for request, want := range map[*apipb.ListAssetsRequest]int{
		{Filter: `payload.replicas == 1`, Prefix: "web/00"}:                        20,
		{Filter: `id.startsWith("web/00")`, Prefix: "web/001"}:                     10,
		{Filter: `id.startsWith("web/001")`, Prefix: "web/00"}:                     10,
		{Filter: `id.startsWith("db")`, Prefix: "web/"}:                            0,
		{Filter: `type == "Job"`, Type: "Command"}:                                 0,
		{Filter: `owner == "sre"`, Field: "Job.version", Value: "v9"}:              25,
		{Filter: `owner == "other"`, Field: "Job.version", Value: "v9"}:            0,
		{Filter: `type == "Job" && payload.version == "v9"`, Field: "Owner"}:       25,
		{Filter: `type == "Job" && payload.version == "v1"`, Field: "Owner"}:       0,
		{Filter: `type == "Job" && payload.version == "v9"`, Field: "Job.version"}: 25,
	} {
		if ids, _ := w.listed(request); len(ids) != want {
			t.Errorf("%v lists %d, want %d", request, len(ids), want)
		}
	}
	// A page costs what it may, and says where to go on.
	list, err := w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{Partition: "shop", Filter: `payload.replicas == 77`})
	w.must(err)
	if len(list.Assets) != 0 || list.Next == "" {
		t.Errorf("a page of a filter that matches nothing: %v", list)
	}
	if ids, pages := w.listed(&apipb.ListAssetsRequest{Filter: `payload.replicas == 77`}); len(ids) != 0 || pages < 3 {
		t.Errorf("%d assets on %d pages", len(ids), pages)
	}
}

// However much is published meanwhile, pages are of one incarnation.
func TestPagesAreOfOneIncarnation(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.job("a", 1, "v1"), w.job("b", 1, "v1"), w.job("c", 1, "v1"))
	first, err := w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{Partition: "shop", Filter: `payload.replicas == 1`, Limit: 2})
	w.must(err)
	w.publish(1, w.job("c", 2, "v1"), w.job("d", 1, "v1"))
	rest, err := w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{
		Partition: "shop", Filter: `payload.replicas == 1`, Limit: 2, After: first.Next, Incarnation: first.Incarnation,
	})
	w.must(err)
	if first.Incarnation != "shop@1" || len(rest.Assets) != 1 || rest.Assets[0].Id != "c" {
		t.Errorf("after %v comes %v", first, rest)
	}
}

func TestFilterMistakes(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.job("web", 2, "v1"), w.command("db", strings.Repeat("y", 100_000)))
	for filter, says := range map[string]string{
		`type == "Jbo"`:                            "did you mean lehr.process.v1.Job?",
		`type == "Job" && payload.replica > 1`:     "did you mean replicas?",
		`type == "Job" && payload.name > 1`:        "does not work on (string, int)",
		`id == "mall@1"`:                           "mall@1",
		`"mall@3/db" in refs`:                      "mall@3/db",
		`payload.replicas`:                         "truth value",
		`payload.replicas > `:                      "not CEL",
		strings.Repeat("(", 50):                    "not CEL",
		strings.Repeat("(", 5000):                  "nested more than 60 deep",
		`true` + strings.Repeat(" ", 20_000):       "at most 10000",
		`[1].exists(i, id.matches("(a{50}){50}"))`: "invalid repeat count",
		`type == "Command" && payload.input.split("").exists(a, payload.input.split("").exists(b, a != b))`: "costs more",
	} {
		_, err := w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{Partition: "shop", Filter: filter})
		w.refused(err, fault.Invalid, says)
		if len(err.Error()) > 2000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		stream, err := w.client.Assets.WatchAssets(t.Context(), &apipb.WatchAssetsRequest{Partition: "shop", Filter: filter})
		w.must(err)
		for stream.Receive() {
		}
		if err := client.Fault(stream.Err()); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("watching %.50s ends with %v", filter, stream.Err())
		}
		stream.Close()
	}
}

func TestTimeTravel(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.job("web", 1, "v1"))
	first, err := w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 1})
	w.must(err)
	w.publish(1, w.job("web", 2, "v2"), w.job("new", 1, "v1"))
	labelled, err := w.client.Incarnations.LabelIncarnation(t.Context(), &apipb.LabelIncarnationRequest{Id: "shop@1", Key: "release", Value: "spring"})
	w.must(err)
	if labelled.Incarnation.Labels["release"] != "spring" {
		t.Errorf("labelled: %v", labelled)
	}
	then := timestamppb.New(first.Created)
	for request, want := range map[*apipb.ListAssetsRequest]string{
		{}:                                "shop@2",
		{At: then}:                        "shop@1",
		{At: timestamppb.Now()}:           "shop@2",
		{Label: "release"}:                "shop@1",
		{Label: "release=spring"}:         "shop@1",
		{Incarnation: "shop@1"}:           "shop@1",
		{At: then, Filter: `id == "new"`}: "shop@1",
	} {
		request.Partition = "shop"
		list, err := w.client.Assets.ListAssets(t.Context(), request)
		w.must(err)
		if list.Incarnation != want || len(list.Assets) > 1 && want == "shop@1" {
			t.Errorf("%v is %v", request, list)
		}
	}
	asset, err := w.client.Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: "web", At: then})
	w.must(err)
	if asset.Payload.Fields["version"].GetStringValue() != "v1" {
		t.Errorf("then it was %v", asset)
	}
	for request, want := range map[*apipb.GetIncarnationRequest]string{
		{Id: "shop"}:                          "shop@2",
		{Id: "shop", At: then}:                "shop@1",
		{Id: "shop", Label: "release=spring"}: "shop@1",
		{Id: "shop@1"}:                        "shop@1",
	} {
		found, err := w.client.Incarnations.GetIncarnation(t.Context(), request)
		w.must(err)
		if found.Incarnation.Id != want {
			t.Errorf("%v is %v", request, found.Incarnation)
		}
	}
	for request, kind := range map[*apipb.ListAssetsRequest]fault.Kind{
		{At: timestamppb.New(time.Unix(1, 0))}:    fault.NotFound,
		{At: &timestamppb.Timestamp{Nanos: -5}}:   fault.Invalid,
		{Label: "release=autumn"}:                 fault.NotFound,
		{Label: "=x"}:                             fault.Invalid,
		{Label: "release", Incarnation: "shop@1"}: fault.Invalid,
		{Label: "release", At: then}:              fault.Invalid,
	} {
		request.Partition = "shop"
		if _, err := w.client.Assets.ListAssets(t.Context(), request); !fault.Is(err, kind) {
			t.Errorf("%v: %v, want %s", request, err, kind)
		}
	}
	for request, kind := range map[*apipb.GetIncarnationRequest]fault.Kind{
		{Id: "shop@1", Label: "release"}: fault.Invalid,
		{Id: "shop@9"}:                   fault.NotFound,
		{Id: "mall"}:                     fault.NotFound,
		{Id: "shop@"}:                    fault.Invalid,
		{Id: ""}:                         fault.Invalid,
	} {
		if _, err := w.client.Incarnations.GetIncarnation(t.Context(), request); !fault.Is(err, kind) {
			t.Errorf("%v: %v, want %s", request, err, kind)
		}
	}
	for request, kind := range map[*apipb.LabelIncarnationRequest]fault.Kind{
		{Id: "shop@9", Key: "a", Value: "b"}:      fault.NotFound,
		{Id: "shop", Key: "a", Value: "b"}:        fault.Invalid,
		{Id: "shop@1", Key: "lehr/x", Value: "b"}: fault.Invalid,
		{Id: "shop@1", Key: "", Value: "b"}:       fault.Invalid,
	} {
		if _, err := w.client.Incarnations.LabelIncarnation(t.Context(), request); !fault.Is(err, kind) {
			t.Errorf("%v: %v, want %s", request, err, kind)
		}
	}
	audit, err := w.client.Audit.ListAudit(t.Context(), &apipb.ListAuditRequest{Partition: "shop"})
	w.must(err)
	if last := audit.Records[len(audit.Records)-1]; last.Verb != "label" || last.By.Name != "ann" {
		t.Errorf("the audit says %v", last)
	}
}

func TestComparing(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.job("same", 1, "v1"), w.job("web", 1, "v1", &intentpb.Owner{Owner: "ann"}, &intentpb.Labels{Labels: map[string]string{"team": "a"}}), w.job("gone", 1, "v1"))
	w.publish(1, w.job("web", 3, "", &intentpb.Labels{Labels: map[string]string{"team": "b", "tier": "1"}}, &intentpb.Turndown{Reason: "old"}), w.job("new", 1, "v1"))
	w.remove(2, "gone")
	compared, err := w.client.Incarnations.CompareIncarnations(t.Context(), &apipb.CompareIncarnationsRequest{From: "shop@1", To: "shop@3"})
	w.must(err)
	var got []string
	for _, c := range compared.Comparisons {
		got = append(got, fmt.Sprintf("%s %s %t %t", c.Change.Asset, c.Change.What, c.Before != nil, c.After != nil))
		for _, f := range c.Fields {
			got = append(got, fmt.Sprintf("  %s: %s -> %s", f.Path, f.Current, f.Target))
		}
	}
	want := []string{
		"gone removed true false",
		"new added false true",
		"web changed true true",
		`  addons.Labels.labels["team"]: "a" -> "b"`,
		`  addons.Labels.labels["tier"]:  -> "1"`,
		`  addons.Owner: {} -> `,
		`  addons.Owner.owner: "ann" -> `,
		`  addons.Turndown:  -> {}`,
		`  addons.Turndown.reason:  -> "old"`,
		`  payload.replicas: 1 -> 3`,
		`  payload.version: "v1" -> `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("compared:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	back, err := w.client.Incarnations.CompareIncarnations(t.Context(), &apipb.CompareIncarnationsRequest{From: "shop@3", To: "shop@1", After: "new"})
	w.must(err)
	if len(back.Comparisons) != 1 || back.Comparisons[0].Fields[len(back.Comparisons[0].Fields)-1].Target != `"v1"` {
		t.Errorf("backwards: %v", back)
	}
	all, err := w.client.Incarnations.CompareIncarnations(t.Context(), &apipb.CompareIncarnationsRequest{To: "shop@3", Limit: 2})
	w.must(err)
	if len(all.Comparisons) != 2 || all.Comparisons[0].Change.What != "added" || all.Next != "same" {
		t.Errorf("from nothing: %v", all)
	}
	same, err := w.client.Incarnations.CompareIncarnations(t.Context(), &apipb.CompareIncarnationsRequest{From: "shop@3", To: "shop@3"})
	w.must(err)
	if len(same.Comparisons) != 0 || same.Next != "" {
		t.Errorf("with itself: %v", same)
	}
	for request, kind := range map[*apipb.CompareIncarnationsRequest]fault.Kind{
		{From: "shop@1"}:                  fault.Invalid,
		{From: "mall@1", To: "shop@1"}:    fault.Invalid,
		{From: "shop@1", To: "shop@9"}:    fault.NotFound,
		{From: "shop@9", To: "shop@1"}:    fault.NotFound,
		{From: "mall@1", To: "mall@2"}:    fault.NotFound,
		{From: "shop@~abc", To: "shop@1"}: fault.Invalid,
	} {
		if _, err := w.client.Incarnations.CompareIncarnations(t.Context(), request); !fault.Is(err, kind) {
			t.Errorf("%v: %v, want %s", request, err, kind)
		}
	}
}

// However large the contents are, a page of comparisons is bounded, and the
// pages together hold all.
func TestComparingLargeContents(t *testing.T) {
	w := newWorld(t)
	large := func(letter string) (assets []intent.Asset) {
		for i := range 60 {
			assets = append(assets, w.command(intent.AssetID(fmt.Sprintf("a/%02d", i)), strings.Repeat(letter, 140_000)))
		}
		return assets
	}
	w.publish(0, large("x")...)
	w.publish(1, large("y")...)
	request := &apipb.CompareIncarnationsRequest{From: "shop@1", To: "shop@2", Limit: 1000}
	found, pages := 0, 0
	for {
		compared, err := w.client.Incarnations.CompareIncarnations(t.Context(), request)
		w.must(err)
		found, pages = found+len(compared.Comparisons), pages+1
		if request.After = compared.Next; compared.Next == "" {
			break
		}
	}
	if found != 60 || pages != 2 {
		t.Errorf("%d assets on %d pages", found, pages)
	}
}

// Of many fields that differ, so many are named.
func TestComparingManyFields(t *testing.T) {
	w := newWorld(t)
	many := func(value string) proto.Message {
		labels := &intentpb.Labels{Labels: map[string]string{}}
		for i := range 500 {
			labels.Labels[fmt.Sprintf("k%03d", i)] = value
		}
		return labels
	}
	w.publish(0, w.job("web", 1, "v1", many("a")))
	w.publish(1, w.job("web", 1, strings.Repeat("v", 5000), many("b")))
	compared, err := w.client.Incarnations.CompareIncarnations(t.Context(), &apipb.CompareIncarnationsRequest{From: "shop@1", To: "shop@2"})
	w.must(err)
	fields := compared.Comparisons[0].Fields
	if len(fields) != 100 || fields[99].Path != "(402 more)" {
		t.Errorf("%d fields, the last is %v", len(fields), fields[len(fields)-1])
	}
}
