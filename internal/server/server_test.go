package server_test

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/quota"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/sdk/client"
)

// world is a real store in memory behind a real, guarded server.
type world struct {
	testing.TB
	store  store.All
	lease  store.Lease
	url    string
	client *client.Client
	// launch is the launch token.
	launch  string
	pushLog *pushlog.Book
	// grants of what is published.
	grants []intent.Grant
	// sources of what is published.
	sources []intent.SourceRevision
}

type builtin struct{}

func (builtin) Schema(context.Context, intent.PartitionID, intent.Digest) (*schema.Set, error) {
	return schema.Builtin(), nil
}

var ann = intent.Actor{Name: "ann", Origin: "cli"}

func newWorld(t testing.TB, changes ...func(*quota.Keeper)) *world {
	t.Helper()
	quotas := quota.NewKeeper(quota.DefaultLimits(), time.Now)
	for _, change := range changes {
		change(quotas)
	}
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	opened, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	w := &world{TB: t, store: opened, pushLog: &pushlog.Book{}}
	api := server.New(server.Options{
		Store: opened, Schemas: builtin{}, Runtime: loop.Real(), Identify: access.CallerOf, Location: "memory", Version: "test",
		Quotas: quotas, PushLog: w.readPushLog,
	})
	local := access.Local{Token: access.NewToken(), Tokens: opened}
	listening := httptest.NewServer(local.Guard(api.Handler()))
	t.Cleanup(listening.Close)
	w.url, w.client, w.launch = listening.URL, client.Dial(listening.URL, local.Token, ann), local.Token
	w.must(opened.AddPartition(t.Context(), "shop", "/shop/lehr.yaml", "a try", ann))
	w.lease, err = opened.Acquire(t.Context(), "shop", "test")
	w.must(err)
	return w
}

// bear returns a client that bears a new token.
func (w *world) bear(token store.Token) *client.Client {
	w.Helper()
	token, bearer := access.Mint(token)
	_, err := w.store.CreateToken(w.Context(), token, 0)
	w.must(err)
	c := client.Dial(w.url, bearer, intent.Actor{Name: "somebody else", Origin: "cli"})
	w.Cleanup(c.Close)
	return c
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// refused checks an error's kind, and that message and hint say something.
func (w *world) refused(err error, kind fault.Kind, says string) {
	w.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), says) {
		w.Fatalf("%v (%s), want %s saying %q", err, fault.KindOf(err), kind, says)
	}
}

// publish makes the next incarnation of the given assets, in the partition of the lease.
func (w *world) publish(base intent.Sequence, assets ...intent.Asset) intent.Incarnation {
	w.Helper()
	set := schema.Builtin()
	parent := intent.IncarnationID{Partition: w.lease.Partition, Sequence: base}
	var delta []store.Entry
	for _, asset := range assets {
		body, digest, err := set.Encode(asset)
		w.must(err)
		references, err := set.References(asset)
		w.must(err)
		fields, err := set.Fields(asset)
		w.must(err)
		delta = append(delta, store.Entry{
			Asset: asset.ID, Body: body, References: references, Fields: fields,
			Member: intent.Member{Asset: asset.ID, Type: asset.Payload.Type, Digest: digest, Effective: digest, Since: base + 1},
		})
	}
	w.must(w.store.Unstage(w.Context(), w.lease))
	w.must(w.store.Stage(w.Context(), w.lease, parent, delta))
	incarnation, err := w.store.Publish(w.Context(), w.lease, intent.Incarnation{
		Grants: w.grants, Sources: w.sources,
		ID: intent.IncarnationID{Partition: w.lease.Partition, Sequence: base + 1}, Parent: parent,
		Schema: set.Digest(), Created: time.Now(), Author: ann, Added: len(assets), Count: len(assets),
	})
	w.must(err)
	return incarnation
}

func (w *world) command(id intent.AssetID, input string, on ...string) intent.Asset {
	w.Helper()
	set := schema.Builtin()
	payload, err := set.Pack(&commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}, Input: input})
	w.must(err)
	asset := intent.Asset{ID: id, Payload: payload}
	if len(on) > 0 {
		dependencies := &intentpb.Dependencies{}
		for _, other := range on {
			dependencies.Dependencies = append(dependencies.Dependencies, &intentpb.Dependency{On: other, Rule: intentpb.Dependency_RULE_ORDER})
		}
		addon, err := set.Pack(dependencies)
		w.must(err)
		asset.Addons = []intent.Message{addon}
	}
	return asset
}

// report stores one asset's report.
func (w *world) report(r intent.Report) {
	w.Helper()
	r.Partition, r.At = "shop", time.Now()
	w.must(w.store.SaveReports(w.Context(), w.lease, []intent.Report{r}))
}

func TestReadingAssets(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{Partition: "shop"})
	w.refused(err, fault.NotFound, "no incarnation yet")
	w.publish(0, w.command("db", "x"), w.command("web/a", "y", "db"), w.command("web/b", "z"))
	w.report(intent.Report{Asset: "db", State: intent.StateInSync})

	list, err := w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{Partition: "shop", Limit: 2})
	w.must(err)
	if len(list.Assets) != 2 || list.Assets[0].Id != "db" || list.Assets[0].State != "in-sync" || list.Next != "web/a" {
		t.Fatalf("first page: %v", list)
	}
	list, err = w.client.Assets.ListAssets(t.Context(), &apipb.ListAssetsRequest{Partition: "shop", Limit: 2, After: list.Next, Prefix: "web/"})
	w.must(err)
	if len(list.Assets) != 1 || list.Assets[0].Id != "web/b" || list.Next != "" {
		t.Fatalf("last page: %v", list)
	}
	one, err := w.client.Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: "web/a"})
	w.must(err)
	if one.Payload.Fields["input"].GetStringValue() != "y" || len(one.References) != 1 || one.References[0].To != "db" {
		t.Fatalf("asset: %v", one)
	}
	one, err = w.client.Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: "db", Incarnation: "shop@1"})
	w.must(err)
	if len(one.ReferencedBy) != 1 || one.ReferencedBy[0].From != "web/a" || one.Report.GetState() != "in-sync" {
		t.Fatalf("asset: %v", one)
	}
	for request, want := range map[*apipb.GetAssetRequest]fault.Kind{
		{Partition: "shop", Asset: "gone"}:                           fault.NotFound,
		{Partition: "shop", Asset: "UPPER"}:                          fault.Invalid,
		{Partition: "mall", Asset: "db"}:                             fault.NotFound,
		{Partition: "", Asset: "db"}:                                 fault.Invalid,
		{Partition: "shop", Asset: "db", Incarnation: "mall@1"}:      fault.Invalid,
		{Partition: "shop", Asset: "db", Incarnation: "shop@99"}:     fault.NotFound,
		{Partition: "shop", Asset: "db", Incarnation: "shop@-1"}:     fault.Invalid,
		{Partition: "shop", Asset: strings.Repeat("a", 1<<16)}:       fault.Invalid,
		{Partition: "shop", Asset: "db", Incarnation: "shop@\x1b[m"}: fault.Invalid,
	} {
		_, err := w.client.Assets.GetAsset(t.Context(), request)
		if !fault.Is(err, want) {
			t.Errorf("%v: %v, want %s", request, err, want)
		}
	}
	incarnation, err := w.client.Incarnations.GetIncarnation(t.Context(), &apipb.GetIncarnationRequest{Id: "shop@1"})
	w.must(err)
	if len(incarnation.Changes) != 3 || incarnation.Changes[0].What != "added" {
		t.Fatalf("changes: %v", incarnation.Changes)
	}
}

func TestBrakesNameWhoAndEnd(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "x"))
	hold, err := w.client.Brakes.SetHold(t.Context(), &apipb.SetHoldRequest{Partition: "shop", Asset: "web", Reason: "r", Period: durationpb.New(time.Hour)})
	w.must(err)
	if hold.Hold.Owner.Name != "ann" || hold.Hold.Owner.Origin != "cli" || hold.Hold.Until == nil {
		t.Fatalf("hold: %v", hold)
	}
	_, err = w.client.Brakes.SetHold(t.Context(), &apipb.SetHoldRequest{Partition: "shop", Asset: "web", Reason: "r", Period: durationpb.New(-1)})
	w.refused(err, fault.Invalid, "period")
	_, err = w.client.Brakes.RemoveHold(t.Context(), &apipb.RemoveHoldRequest{Partition: "shop", Asset: "web", Reason: "done"})
	w.must(err)
	_, err = w.client.Brakes.SetPin(t.Context(), &apipb.SetPinRequest{Partition: "shop", Asset: "web", Incarnation: "mall@1", Reason: "r"})
	w.refused(err, fault.Invalid, "another partition")
	pin, err := w.client.Brakes.SetPin(t.Context(), &apipb.SetPinRequest{Partition: "shop", Asset: "web", Incarnation: "shop@1", Reason: "r"})
	w.must(err)
	if pin.Pin.Rank != "person" || pin.Pin.Revision == 0 || pin.Pin.Holder.Name != "ann" {
		t.Fatalf("pin: %v", pin)
	}
	_, err = w.client.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Reason: "fire"})
	w.must(err)
	again, err := w.client.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Reason: "later"})
	w.must(err)
	if again.Stop.Reason != "fire" {
		t.Fatalf("stopping again changed the stop: %v", again.Stop)
	}
	_, err = w.client.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Partition: "shop", Reason: "also"})
	w.must(err)
	resumed, err := w.client.Brakes.Resume(t.Context(), &apipb.ResumeRequest{Partition: "shop", Reason: "out"})
	w.must(err)
	if len(resumed.Remaining) != 1 || resumed.Remaining[0].Partition != "" {
		t.Fatalf("still stopped: %v", resumed.Remaining)
	}
	audit, err := w.client.Audit.VerifyAudit(t.Context(), &apipb.VerifyAuditRequest{Partition: "shop"})
	w.must(err)
	if !audit.Intact {
		t.Fatalf("audit: %v", audit)
	}
}

func TestApprovalBindsToWhatWasShown(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "x"))
	_, err := w.client.Approvals.ApproveAsset(t.Context(), &apipb.ApproveAssetRequest{Partition: "shop", Asset: "web"})
	w.refused(err, fault.NotFound, "web")
	w.report(intent.Report{Asset: "web", State: intent.StateInSync})
	_, err = w.client.Approvals.ApproveAsset(t.Context(), &apipb.ApproveAssetRequest{Partition: "shop", Asset: "web"})
	w.refused(err, fault.Conflict, "no plan")
	plan := intent.Plan{Action: intent.ActionReplace}
	w.report(intent.Report{
		Asset: "web", State: intent.StateWaiting, Effective: intent.Sum("e"), Plan: plan, PlanDigest: plan.Digest(),
		Waiting: []intent.WaitingOn{{Kind: intent.WaitApproval, Reason: "destructive"}},
	})
	_, err = w.client.Approvals.ApproveAsset(t.Context(), &apipb.ApproveAssetRequest{Partition: "shop", Asset: "web", Plan: "0123456789"})
	read := intent.Reading(intent.Sum("e"), plan.Digest()).Short()
	w.refused(err, fault.Conflict, read)
	// The plan alone names no content, and nothing names nothing.
	for _, named := range []string{plan.Digest().Short(), intent.Reading(intent.Sum("older"), plan.Digest()).Short()} {
		_, err = w.client.Approvals.ApproveAsset(t.Context(), &apipb.ApproveAssetRequest{Partition: "shop", Asset: "web", Plan: named})
		w.refused(err, fault.Conflict, "or is of other content")
		_, err = w.client.Approvals.RejectAsset(t.Context(), &apipb.RejectAssetRequest{Partition: "shop", Asset: "web", Plan: named, Reason: "no"})
		w.refused(err, fault.Conflict, "or is of other content")
	}
	_, err = w.client.Approvals.ApproveAsset(t.Context(), &apipb.ApproveAssetRequest{Partition: "shop", Asset: "web"})
	w.refused(err, fault.Invalid, "not named")
	_, err = w.client.Approvals.RejectAsset(t.Context(), &apipb.RejectAssetRequest{Partition: "shop", Asset: "web", Reason: "no"})
	w.refused(err, fault.Invalid, "not named")
	shown, err := w.client.Reports.GetReport(t.Context(), &apipb.GetReportRequest{Partition: "shop", Asset: "web"})
	w.must(err)
	if got := shown.Report.PlanDigest[:len(read)]; got != read {
		t.Fatalf("the report shows %s, and %s is to be named", got, read)
	}
	approved, err := w.client.Approvals.ApproveAsset(t.Context(), &apipb.ApproveAssetRequest{Partition: "shop", Asset: "web", Plan: read, Reason: "seen"})
	w.must(err)
	if left := time.Until(approved.Approval.Until.AsTime()); left < 59*time.Minute || left > time.Hour {
		t.Fatalf("it holds for %s", left)
	}
	consents, err := w.store.Consents(t.Context(), "shop")
	w.must(err)
	stored := consents.Approvals
	if len(stored) != 1 || stored[0].Plan != plan.Digest() || stored[0].Effective != intent.Sum("e") || stored[0].By != ann {
		t.Fatalf("stored: %+v", stored)
	}
	if len(approved.Rejections) != 0 {
		t.Fatalf("nobody rejected it: %v", approved.Rejections)
	}
	_, err = w.client.Approvals.RejectAsset(t.Context(), &apipb.RejectAssetRequest{Partition: "shop", Asset: "web", Plan: read, Reason: "not now"})
	w.must(err)
	approved, err = w.client.Approvals.ApproveAsset(t.Context(), &apipb.ApproveAssetRequest{Partition: "shop", Asset: "web", Plan: read})
	w.must(err)
	if len(approved.Rejections) != 1 || approved.Rejections[0].Reason != "not now" {
		t.Fatalf("whoever approves is not told that it is rejected: %v", approved.Rejections)
	}
}

func TestUnknownStateIsRefused(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.Reports.ListReports(t.Context(), &apipb.ListReportsRequest{Partition: "shop", State: "wating"})
	w.refused(err, fault.Invalid, "there are: in-sync, waiting")
}

func TestWhyCrossesAssets(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("db", "x"), w.command("web", "y", "db"))
	w.report(intent.Report{Asset: "web", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitOrder, Reason: "db first", Blockers: []intent.AssetID{"db"}}}})
	w.report(intent.Report{Asset: "db", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitHold, Reason: "ann holds it", Owner: "ann"}}})
	why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "web"})
	w.must(err)
	if why.Summary != "web waits for db: ann holds it" || why.Hint != "lehr unhold db --reason WHY lets it be pushed" {
		t.Fatalf("why: %v", why)
	}
	if len(why.Reasons) != 1 || len(why.Reasons[0].Causes) != 1 || why.Reasons[0].Causes[0].Kind != "hold" {
		t.Fatalf("chain: %v", why.Reasons)
	}
	_, err = w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "nope"})
	w.refused(err, fault.NotFound, "lehr get assets")
	_, err = w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "webb"})
	w.refused(err, fault.NotFound, "did you mean web?")
	_, err = w.client.Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: "weeb"})
	w.refused(err, fault.NotFound, "did you mean web?")
}

// TestWhyNamesApprovers: whoever is asked is told, and from when on, where a change of
// the definition has just made somebody one.
func TestWhyNamesApprovers(t *testing.T) {
	w := newWorld(t)
	approver := func(subject string) intent.Grant {
		return intent.Grant{Subject: subject, Role: intent.Approver, Partition: "shop"}
	}
	w.grants = []intent.Grant{approver("user:ann")}
	w.publish(0, w.command("web", "x"))
	w.grants = append(w.grants, approver("group:leads"))
	w.publish(1, w.command("web", "y"))
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{
		{Subject: "user:root", Role: intent.Admin}, {Subject: "user:eve", Role: intent.Approver, Partition: "other"}, {Subject: "user:op", Role: intent.Operator, Partition: "shop"},
	}, ann))
	w.report(intent.Report{Asset: "web", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitApproval, Reason: "needs a person"}}})
	why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "web"})
	w.must(err)
	if !regexp.MustCompile(`^needs a person\. Approvers: ann, group:leads \(from 20[0-9-]+ [0-9:]+ UTC on\), root$`).MatchString(why.Reasons[0].Text) {
		t.Errorf("why: %s", why.Reasons[0].Text)
	}
}

// TestWhyOfTheUnknownLooksAtWhatComesBefore: what an asset cannot be looked at
// through is often one that it comes after.
func TestWhyOfTheUnknownLooksAtWhatComesBefore(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("proxy", "x"), w.command("balancer", "y", "proxy"))
	w.report(intent.Report{Asset: "balancer", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitUnknown, Reason: "connection refused"}}})
	w.report(intent.Report{Asset: "proxy", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitHold, Reason: "ann holds it", Owner: "ann"}}})
	why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "balancer"})
	w.must(err)
	if why.Summary != "balancer waits for proxy: ann holds it" || !strings.Contains(why.Reasons[0].Text, "connection refused") {
		t.Errorf("why: %v", why)
	}
	w.report(intent.Report{Asset: "proxy", State: intent.StateInSync})
	why, err = w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "balancer"})
	w.must(err)
	if !strings.Contains(why.Summary, "connection refused") || len(why.Reasons[0].Causes) != 0 {
		t.Errorf("why: %v", why)
	}
}

func TestWatchSendsAllThenChanges(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("db", "x"), w.command("web", "y"))
	w.report(intent.Report{Asset: "db", State: intent.StateInSync})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := w.client.Reports.WatchReports(ctx, &apipb.WatchReportsRequest{Partition: "shop"})
	w.must(err)
	defer stream.Close()
	states := map[string]string{}
	follow := func(until func(*apipb.WatchReportsResponse) bool) {
		t.Helper()
		for stream.Receive() {
			for _, r := range stream.Msg().Reports {
				states[r.Asset] = r.State
			}
			if until(stream.Msg()) {
				return
			}
		}
		t.Fatalf("the watch ended: %v", stream.Err())
	}
	follow(func(m *apipb.WatchReportsResponse) bool { return m.Complete })
	if states["db"] != "in-sync" || states["web"] != "" {
		t.Fatalf("first round: %v", states)
	}
	w.report(intent.Report{Asset: "web", State: intent.StateWaiting})
	follow(func(*apipb.WatchReportsResponse) bool { return states["web"] == "waiting" })
	w.must(w.store.SetStop(ctx, intent.Stop{Owner: ann, Reason: "x", Since: time.Now()}))
	follow(func(m *apipb.WatchReportsResponse) bool { return m.Partition.GetStop() != nil })
}

func TestWithoutTheTokenNothingIsAnswered(t *testing.T) {
	w := newWorld(t)
	stranger := client.Dial(w.url, "guess", ann)
	_, err := stranger.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Reason: "x"})
	w.refused(err, fault.Denied, "token")
	stops, err := w.store.Stops(t.Context())
	w.must(err)
	if len(stops) != 0 {
		t.Fatalf("a stranger stopped it: %v", stops)
	}
	gone := client.Dial("http://127.0.0.1:1", "x", ann)
	_, err = gone.Server.GetServer(t.Context(), &apipb.GetServerRequest{})
	w.refused(err, fault.Unavailable, "lehr serve")
	_, err = w.client.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Reason: strings.Repeat("x", 2<<20)})
	if err == nil || fault.KindOf(err) == fault.Internal {
		t.Fatalf("a request of 2 MB: %v", err)
	}
}
