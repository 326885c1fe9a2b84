package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"

	"google.golang.org/protobuf/proto"
)

// with adds addons to an asset.
func (w *world) with(asset intent.Asset, addons ...proto.Message) intent.Asset {
	w.Helper()
	for _, addon := range addons {
		packed, err := schema.Builtin().Pack(addon)
		w.must(err)
		asset.Addons = append(asset.Addons, packed)
	}
	return asset
}

// TestWhyOfGroups: a name is an asset's, else a group's, else the partition's; a group
// and a partition are answered by root cause, with the owner of each root.
func TestWhyOfGroups(t *testing.T) {
	w := newWorld(t)
	w.publish(0,
		w.with(w.command("db", "x"), &intentpb.Owner{Owner: "data"}),
		w.with(w.command("web/a", "x", "db"), &intentpb.Group{Service: "web", Instance: "web/a"}),
		w.with(w.command("web/b", "x", "db"), &intentpb.Group{Service: "web", Instance: "web/b"}),
		w.with(w.command("mail", "x"), &intentpb.Group{Service: "mail"}),
		w.with(w.command("new", "x"), &intentpb.Group{Service: "news", Instance: "a"}),
	)
	head := intent.IncarnationID{Partition: "shop", Sequence: 1}
	order := []intent.WaitingOn{{Kind: intent.WaitOrder, Reason: "db first", Blockers: []intent.AssetID{"db"}}}
	w.report(intent.Report{Asset: "db", State: intent.StateWaiting, Target: head, Waiting: []intent.WaitingOn{{Kind: intent.WaitHold, Reason: "ann holds it", Owner: "ann"}}})
	w.report(intent.Report{Asset: "web/a", State: intent.StateWaiting, Target: head, Waiting: order})
	w.report(intent.Report{Asset: "web/b", State: intent.StateInSync, Target: head})
	w.report(intent.Report{Asset: "mail", State: intent.StateInSync, Target: head})
	why := func(name, subject string) *apipb.WhyResponse {
		t.Helper()
		response, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: name, Subject: subject})
		w.must(err)
		return response
	}
	for name, c := range map[string]struct {
		asset, as, subject, summary string
		also                        string
	}{
		"a service":                  {"web", "", "group", "web: 1 of 2 wait: db: ann holds it", ""},
		"an asset, and an instance":  {"web/a", "", "asset", "web/a waits for db: ann holds it", "group"},
		"the instance of that name":  {"web/a", "group", "group", "web/a: 1 of 1 wait: db: ann holds it", ""},
		"an asset, and a service":    {"mail", "", "asset", "mail: shop@1 changed it", "group"},
		"a service that is well":     {"mail", "group", "group", "mail: its one asset is in sync", ""},
		"what nothing was said of":   {"news/a", "", "group", "news/a: 1 unseen", ""},
		"the partition by its name":  {"shop", "", "partition", "partition shop: 2 of 5 wait: db: ann holds it (2 wait for that)", ""},
		"the partition without one":  {"", "", "partition", "partition shop: 2 of 5 wait", ""},
		"the partition, said to be":  {"web", "partition", "partition", "partition shop: 2 of 5 wait", ""},
		"an asset, and said to be":   {"db", "asset", "asset", "db waits (hold): ann holds it", ""},
		"an instance by its service": {"web/b", "group", "group", "web/b: its one asset is in sync", ""},
	} {
		got := why(c.asset, c.as)
		if got.Subject != c.subject || !strings.HasPrefix(got.Summary, c.summary) || strings.Join(got.Also, ",") != c.also {
			t.Errorf("%s: %s %v %q", name, got.Subject, got.Also, got.Summary)
		}
	}
	web := why("web", "")
	if len(web.Causes) != 1 || web.Causes[0].Root.Responsible != "data" || web.Causes[0].Root.Owner != "ann" || web.Causes[0].Chain[0].Causes[0].Responsible != "data" ||
		web.Hint != "lehr unhold db --reason WHY lets it be pushed" || web.States["waiting"] != 1 || web.Standing.Members["in-sync"] != 1 || web.Root.Next == nil {
		t.Errorf("web: %v", web)
	}
	if asset := why("web/a", "asset"); asset.Standing.Desired != "shop@1" || asset.Standing.TargetBy != "head" || asset.Root.Responsible != "data" {
		t.Errorf("web/a: %v", asset)
	}
	for subject, hint := range map[string]string{"asset": "lehr get assets", "group": "lehr get groups", "": "lehr get assets", "thing": "asset, group, partition"} {
		_, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "nothing/at-all", Subject: subject})
		kind := fault.NotFound
		if subject == "thing" {
			kind = fault.Invalid
		}
		w.refused(err, kind, hint)
	}
}

// TestWhyOfGroupsWhileNothingIsServed: newest sources that are rejected make no asset of
// the name of a group, or of the partition.
func TestWhyOfGroupsWhileNothingIsServed(t *testing.T) {
	w := newWorld(t)
	reject := func() {
		w.must(w.store.SaveCandidate(t.Context(), w.lease, intent.Candidate{
			ID: intent.CandidateID{Partition: "shop", Digest: intent.Sum("bad")}, State: intent.CandidateRejected, Created: time.Now(),
			Findings: []intent.Finding{{Severity: intent.Error, Message: "no such field"}},
		}, nil))
	}
	is := func(name, subject string, also ...string) {
		t.Helper()
		response, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: name})
		w.must(err)
		if response.Subject != subject || !slices.Equal(response.Also, also) || len(also) == 0 && !strings.Contains(response.Summary, "no such field") {
			t.Errorf("%s: %s %v %q", name, response.Subject, response.Also, response.Summary)
		}
	}
	reject()
	is("shop", "partition")
	is("web", "asset") // It may be one of those that are not served.
	w.publish(0, w.with(w.command("web/a", "x"), &intentpb.Group{Service: "web", Instance: "web/a"}))
	reject()
	is("shop", "partition")
	is("web", "group")
	is("web/a", "asset", "group")
	is("other", "asset")
}

// TestListGroups pages by service, and lists one.
func TestListGroups(t *testing.T) {
	w := newWorld(t)
	w.publish(0,
		w.with(w.command("a1", "x"), &intentpb.Group{Service: "a", Instance: "1"}), w.with(w.command("a2", "x"), &intentpb.Group{Service: "a", Instance: "2"}),
		w.with(w.command("b1", "x"), &intentpb.Group{Service: "b"}),
	)
	for _, asset := range []intent.AssetID{"a1", "a2", "b1"} {
		w.report(intent.Report{Asset: asset, State: intent.StateInSync, Target: intent.IncarnationID{Partition: "shop", Sequence: 1}})
	}
	names := func(request *apipb.ListGroupsRequest) string {
		t.Helper()
		request.Partition = "shop"
		response, err := w.client.Reports.ListGroups(t.Context(), request)
		w.must(err)
		var names []string
		for _, group := range response.Groups {
			names = append(names, group.Name)
		}
		return strings.Join(names, " ") + " then " + response.Next
	}
	for want, request := range map[string]*apipb.ListGroupsRequest{
		"a/1 a/2 b then ":  {},
		"a/1 a/2 then a":   {Limit: 1},
		"b then ":          {After: "a"},
		"a/2 then ":        {Group: "a/2"},
		"a/1 a/2 then  of": {Group: "a"},
	} {
		if got := names(request); got != strings.TrimSuffix(want, " of") {
			t.Errorf("%v: %q", request, got)
		}
	}
	_, err := w.client.Reports.ListGroups(t.Context(), &apipb.ListGroupsRequest{Partition: "shop", Group: "c"})
	w.refused(err, fault.NotFound, "addon Group")
	reports, err := w.client.Reports.ListReports(t.Context(), &apipb.ListReportsRequest{Partition: "shop", Group: "a/2"})
	w.must(err)
	if len(reports.Reports) != 1 || reports.Reports[0].Asset != "a2" {
		t.Errorf("%v", reports)
	}
	_, err = w.client.Reports.ListReports(t.Context(), &apipb.ListReportsRequest{Partition: "shop", Group: "c"})
	w.refused(err, fault.NotFound, "lehr get groups")
}
