package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestListedPartitionsAreAsEachIs: the list says of each partition what is said of it alone.
func TestListedPartitionsAreAsEachIs(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "1"), w.enforcing())
	w.report(intent.Report{Asset: "web", State: intent.StateInSync})
	w.must(w.store.AddPartition(t.Context(), "theatre", "/theatre/lehr.yaml", "a try", ann))
	w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: "theatre", Owner: ann, Reason: "fire", Since: time.Now()}))
	for range 2 {
		listed, err := w.client.Partitions.ListPartitions(t.Context(), &apipb.ListPartitionsRequest{})
		w.must(err)
		if len(listed.Partitions) < 2 {
			t.Fatalf("%d are listed", len(listed.Partitions))
		}
		for _, p := range listed.Partitions {
			alone, err := w.client.Partitions.GetPartition(t.Context(), &apipb.GetPartitionRequest{Id: p.Id})
			w.must(err)
			if diff := cmp.Diff(alone.Partition, p, protocmp.Transform()); diff != "" {
				t.Errorf("%s alone is, and listed:\n%s", p.Id, diff)
			}
		}
	}
}

// TestOverviewIsOfWhatOneMayRead: overview and search tell nothing of partitions that their caller may not read, and the
// same as the calls about one partition.
func TestOverviewIsOfWhatOneMayRead(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "1"))
	waiting := intent.Report{
		Asset: "web", State: intent.StateWaiting, PlanDigest: intent.Digest{1}, Effective: intent.Digest{2},
		Waiting: []intent.WaitingOn{{Kind: intent.WaitApproval, Reason: "needs approval"}},
	}
	w.report(waiting)
	w.must(w.store.AddPartition(t.Context(), "theatre", "/theatre/lehr.yaml", "a try", ann))
	for _, id := range []intent.PartitionID{"shop", "theatre"} {
		w.must(w.store.SetHold(t.Context(), id, intent.Hold{Asset: "web", Owner: ann, Reason: "racks", Created: time.Now(), Until: time.Now().Add(time.Hour)}))
	}
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{
		{Subject: "user:vera", Role: intent.Viewer, Partition: "theatre"}, {Subject: "user:paul", Role: intent.Approver, Partition: "shop"},
	}, ann))
	describeOwner := func(owner string) (text string) {
		c := w.bear(store.Token{Owner: owner})
		overview, err := c.Partitions.GetOverview(t.Context(), &apipb.GetOverviewRequest{})
		w.must(err)
		for _, o := range overview.Partitions {
			text += fmt.Sprintf("%s: %d requests, may approve: %v, %d holds; ", o.Partition, len(o.Requests), o.MayApprove, len(o.Holds))
		}
		found, err := c.Partitions.Search(t.Context(), &apipb.SearchRequest{Query: ann.Name})
		w.must(err)
		for _, hit := range found.Hits {
			text += fmt.Sprintf("%s %s %s in %s; ", hit.Kind, hit.Name, hit.Note, hit.Partition)
		}
		found, err = c.Partitions.Search(t.Context(), &apipb.SearchRequest{Query: "web", Kind: "asset"})
		w.must(err)
		return text + fmt.Sprintf("%d assets in %d partitions", len(found.Hits), found.Searched)
	}
	for owner, want := range map[string]string{
		"vera":   "theatre: 0 requests, may approve: false, 1 holds; person ann holds web in theatre; 0 assets in 1 partitions",
		"paul":   "shop: 1 requests, may approve: true, 1 holds; person ann holds web in shop; 1 assets in 1 partitions",
		"nobody": "0 assets in 0 partitions",
	} {
		if got := describeOwner(owner); got != want {
			t.Errorf("%s reads\n%s\nwant\n%s", owner, got, want)
		}
	}
	overview, err := w.client.Partitions.GetOverview(t.Context(), &apipb.GetOverviewRequest{})
	w.must(err)
	approvals, err := w.client.Approvals.ListApprovals(t.Context(), &apipb.ListApprovalsRequest{Partition: "shop"})
	w.must(err)
	holds, err := w.client.Brakes.ListHolds(t.Context(), &apipb.ListHoldsRequest{Partition: "shop"})
	w.must(err)
	shop := overview.Partitions[0]
	if diff := cmp.Diff(approvals.Requests, shop.Requests, protocmp.Transform()) + cmp.Diff(holds.Holds, shop.Holds, protocmp.Transform()); diff != "" || len(shop.Requests) != 1 {
		t.Errorf("the lists and the overview say:\n%s", diff)
	}
	for _, request := range []*apipb.SearchRequest{{Query: "x"}, {Query: "web", Kind: "thing"}, {}} {
		_, err := w.client.Partitions.Search(t.Context(), request)
		w.refused(err, fault.Invalid, "")
	}
}

// TestOverviewOfAService: what is of assets is of the service's, in the partitions that have it.
func TestOverviewOfAService(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.with(w.command("web/a", "x"), &intentpb.Group{Service: "web", Instance: "a"}), w.with(w.command("mail", "x"), &intentpb.Group{Service: "mail"}))
	asks := func(asset intent.AssetID) intent.Report {
		return intent.Report{
			Asset: asset, State: intent.StateWaiting, Target: intent.IncarnationID{Partition: "shop", Sequence: 1}, PlanDigest: intent.Digest{1}, Effective: intent.Digest{2},
			Waiting: []intent.WaitingOn{{Kind: intent.WaitApproval, Reason: "needs approval"}},
		}
	}
	w.report(asks("web/a"))
	w.report(asks("mail"))
	w.must(w.store.AddPartition(t.Context(), "theatre", "/theatre/lehr.yaml", "a try", ann))
	for _, asset := range []intent.AssetID{"web/a", "mail"} {
		w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: asset, Owner: ann, Reason: "racks", Created: time.Now(), Until: time.Now().Add(time.Hour)}))
	}
	for service, want := range map[string]string{"web": "shop: web/a web/a map[waiting:1]; ", "mail": "shop: mail mail map[waiting:1]; ", "": "shop: mail web/a mail web/a map[]; ", "w": ""} {
		overview, err := w.client.Partitions.GetOverview(t.Context(), &apipb.GetOverviewRequest{Service: service})
		w.must(err)
		got := ""
		for _, o := range overview.Partitions {
			got += o.Partition + ":"
			for _, request := range o.Requests {
				got += " " + request.Asset
			}
			for _, hold := range o.Holds {
				got += " " + hold.Asset
			}
			got += fmt.Sprintf(" %v; ", o.States)
		}
		if got != want {
			t.Errorf("of service %q it tells\n%s\nwant\n%s", service, got, want)
		}
	}
}

// TestSearchFindsRunsOfWorkflows: by workflow, number, request, reason and who started them, with their state; and
// workflows that never ran.
func TestSearchFindsRunsOfWorkflows(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "1"), w.policy(&intentpb.Policy{Owner: "shop@example.com", Workflows: []*intentpb.Workflow{{Name: "promote"}, {Name: "drain"}}}))
	for _, run := range []intent.WorkflowRun{
		{Workflow: "promote", Request: "CHG-7134", Reason: "the spring release"},
		{Workflow: "promote", Reason: "again", Ended: time.Now(), Outcome: "succeeded"},
	} {
		run.Partition, run.Started, run.By, run.State = "shop", time.Now(), ann, []byte("{}")
		_, err := w.store.StartWorkflow(t.Context(), run, []intent.WorkflowEvent{{Kind: intent.WorkflowStarted, At: time.Now()}}, intent.Operator)
		w.must(err)
	}
	describe := func(query, kind string) (text string) {
		t.Helper()
		found, err := w.client.Partitions.Search(t.Context(), &apipb.SearchRequest{Query: query, Kind: kind})
		w.must(err)
		for _, hit := range found.Hits {
			text += fmt.Sprintf("%s %s#%d (%s); ", hit.Kind, hit.Workflow, hit.Run, hit.Note)
		}
		return text
	}
	const first, second = "workflow promote#1 (goes on, the spring release); ", "workflow promote#2 (succeeded, again); "
	for query, want := range map[string]string{
		"promote": "workflow promote#0 (); " + second + first, "drain": "workflow drain#0 (); ", "promote run 2": second, "run 1": first, "chg-7134": first, "SPRING": first, "summer": "",
	} {
		if got := describe(query, "workflow"); got != want {
			t.Errorf("%q finds\n%s\nwant\n%s", query, got, want)
		}
	}
	if got, want := describe(ann.Name, "person"), "person promote#2 (started promote run 2); person promote#1 (started promote run 1); "; got != want {
		t.Errorf("%s is found as\n%s\nwant\n%s", ann.Name, got, want)
	}
}
