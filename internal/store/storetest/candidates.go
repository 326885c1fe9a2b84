package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func candidate(text string, state intent.CandidateState) intent.Candidate {
	return intent.Candidate{
		ID: intent.CandidateID{Partition: shop, Digest: digestOf("candidate " + text)}, Base: at(1), State: state,
		Sources:  []intent.SourceRevision{{Source: "dir", Revision: text}},
		Findings: []intent.Finding{{Rule: "shrink", Severity: intent.Error, Message: "too few", File: "service.yaml", Line: 3}},
		Count:    2, Added: 1, Created: noon,
	}
}

func testCandidates(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Delta", func(t *testing.T) { candidateDelta(newWorld(t, open)) })
	t.Run("Acknowledge", func(t *testing.T) { acknowledge(newWorld(t, open)) })
	t.Run("Find", func(t *testing.T) { findCandidate(newWorld(t, open)) })
}

func candidateDelta(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"), entry("b", "1"))
	moved := entry("b", "1")
	moved.Body, moved.Member.Effective = nil, digestOf("moved")
	own := entry("c", "candidate's own", intent.Reference{Field: "on", To: "b", Types: []intent.TypeName{job}})
	own.Fields = []intent.Field{{Path: "size", Value: "s"}, {Path: "addon"}}
	delta := []store.Entry{removal("a"), moved, own}
	heldCandidate := candidate("one", intent.CandidateHeld)
	w.must(w.SaveCandidate(ctx, w.lease, heldCandidate, delta))

	got, err := w.Candidate(ctx, shop, heldCandidate.ID.Digest.String())
	w.must(err)
	if diff := cmp.Diff(heldCandidate, got); diff != "" {
		t.Errorf("a candidate reads differently:\n%s", diff)
	}
	read, err := w.CandidateDelta(ctx, heldCandidate.ID)
	w.must(err)
	if diff := cmp.Diff(delta, read, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("its delta reads differently:\n%s", diff)
	}
	if diff := cmp.Diff(map[intent.AssetID]string{"a": "1", "b": "1"}, content(t, w, at(1))); diff != "" {
		t.Errorf("a candidate changed head:\n%s", diff)
	}
	// Its bodies outlive a staging of the same that is thrown away.
	w.must(w.Stage(ctx, w.lease, at(1), delta))
	w.must(w.Unstage(ctx, w.lease))
	_, err = w.CandidateDelta(ctx, heldCandidate.ID)
	w.must(err)

	// Without a delta: generation failed.
	failed := candidate("two", intent.CandidateRejected)
	w.must(w.SaveCandidate(ctx, w.lease, failed, nil))
	read, err = w.CandidateDelta(ctx, failed.ID)
	w.must(err)
	if len(read) != 0 {
		t.Errorf("a candidate without a delta has %v", read)
	}
	_, err = w.CandidateDelta(ctx, intent.CandidateID{Partition: shop, Digest: digestOf("none")})
	w.refused(err, fault.NotFound)

	lie := entry("c", "1")
	lie.Body = []byte("another")
	w.refused(w.SaveCandidate(ctx, w.lease, candidate("lie", intent.CandidateHeld), []store.Entry{lie}), fault.Invalid)
	foreign := candidate("foreign", intent.CandidateHeld)
	foreign.ID.Partition = theatre
	w.refused(w.SaveCandidate(ctx, w.lease, foreign, nil), fault.Invalid)
}

func acknowledge(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"))
	first, second := candidate("one", intent.CandidateHeld), candidate("two", intent.CandidateHeld)
	acknowledged := func(id intent.CandidateID) bool {
		t.Helper()
		actor, yes, err := w.Acknowledged(ctx, id)
		w.must(err)
		if yes != (actor == alice) {
			t.Errorf("acknowledged by %v: %t", actor, yes)
		}
		return yes
	}
	state := func(id intent.CandidateID) intent.CandidateState {
		t.Helper()
		c, err := w.Candidate(ctx, shop, id.Digest.String())
		w.must(err)
		return c.State
	}
	w.refused(w.Acknowledge(ctx, first.ID, "fine", alice), fault.NotFound)
	w.must(w.SaveCandidate(ctx, w.lease, first, nil))
	if acknowledged(first.ID) {
		t.Fatal("acknowledged by nobody")
	}
	w.must(w.Acknowledge(ctx, first.ID, "fine", alice))
	if !acknowledged(first.ID) || acknowledged(second.ID) {
		t.Error("the acknowledgement is not of exactly the one candidate")
	}
	// The pipeline sees it again: the acknowledgement may still be used.
	w.must(w.SaveCandidate(ctx, w.lease, first, nil))
	if !acknowledged(first.ID) {
		t.Error("saving the same candidate again lost its acknowledgement")
	}
	// A newer one supersedes it, and with it what was acknowledged.
	w.must(w.SaveCandidate(ctx, w.lease, second, nil))
	if state(first.ID) != intent.CandidateSuperseded || acknowledged(first.ID) || acknowledged(second.ID) {
		t.Errorf("after a newer one the first is %s, acknowledged %t", state(first.ID), acknowledged(first.ID))
	}
	w.refused(w.Acknowledge(ctx, first.ID, "too late", alice), fault.Conflict)
	w.must(w.SaveCandidate(ctx, w.lease, first, nil))
	if acknowledged(first.ID) {
		t.Error("an old acknowledgement came back")
	}
	w.must(w.Acknowledge(ctx, first.ID, "fine", alice))
	published := first
	published.State = intent.CandidatePublished
	w.must(w.SaveCandidate(ctx, w.lease, published, nil))
	if acknowledged(first.ID) || state(first.ID) != intent.CandidatePublished {
		t.Error("an acknowledgement may be used again after publication")
	}
	w.refused(w.Acknowledge(ctx, first.ID, "again", alice), fault.Conflict)

	list, err := w.ListCandidates(ctx, shop, 0)
	w.must(err)
	var order []intent.CandidateID
	for _, c := range list {
		order = append(order, c.ID)
	}
	if !slices.Equal(order, []intent.CandidateID{first.ID, second.ID}) {
		t.Errorf("newest first: %v", order)
	}
	list, err = w.ListCandidates(ctx, shop, 1)
	w.must(err)
	if len(list) != 1 {
		t.Errorf("a page of one has %d", len(list))
	}
}

func findCandidate(w *world) {
	ctx := w.t.Context()
	one := candidate("one", intent.CandidateRejected)
	two := candidate("two", intent.CandidateRejected)
	two.ID.Digest = one.ID.Digest
	two.ID.Digest[31] ^= 1
	w.must(w.SaveCandidate(ctx, w.lease, one, nil))
	got, err := w.Candidate(ctx, shop, one.ID.Digest.String()[:8])
	w.must(err)
	if got.ID != one.ID {
		w.t.Errorf("found %s by a prefix of %s", got.ID.Digest, one.ID.Digest)
	}
	w.must(w.SaveCandidate(ctx, w.lease, two, nil))
	_, err = w.Candidate(ctx, shop, one.ID.Digest.String()[:8])
	w.refused(err, fault.Invalid)
	got, err = w.Candidate(ctx, shop, two.ID.Digest.String())
	w.must(err)
	if got.ID != two.ID {
		w.t.Errorf("found %s by the digest %s", got.ID.Digest, two.ID.Digest)
	}
	_, err = w.Candidate(ctx, shop, "0000000")
	w.refused(err, fault.Invalid)
	_, err = w.Candidate(ctx, shop, "not hexadecimal")
	w.refused(err, fault.Invalid)
	_, err = w.Candidate(ctx, theatre, one.ID.Digest.String())
	w.refused(err, fault.NotFound)
}

func testBlobs(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	get := func(kind, name string) string {
		t.Helper()
		value, err := w.GetBlob(ctx, shop, kind, name)
		w.must(err)
		return string(value)
	}
	w.must(w.PutBlobs(ctx, w.lease, "output", map[string][]byte{"a": []byte("1"), "b": []byte("2"), "empty": {}}))
	w.must(w.PutBlobs(ctx, w.lease, "schema", map[string][]byte{"a": []byte("other kind")}))
	w.must(w.PutBlobs(ctx, w.lease, "output", map[string][]byte{"a": []byte("changed"), "b": nil, "c": []byte("3")}))
	if get("output", "a") != "changed" || get("output", "c") != "3" || get("schema", "a") != "other kind" || get("output", "empty") != "" {
		t.Error("blobs read differently")
	}
	_, err := w.GetBlob(ctx, shop, "output", "b")
	w.refused(err, fault.NotFound)
	_, err = w.GetBlob(ctx, theatre, "output", "a")
	w.refused(err, fault.NotFound)
}

func testApprovals(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	approval := intent.Approval{
		Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("plan"), By: alice, Reason: "reviewed",
		Created: noon, Until: noon.Add(time.Hour),
	}
	w.moves("an approval", func() { w.must(w.Approve(ctx, approval)) })
	list, err := w.Consents(ctx, shop)
	w.must(err)
	if diff := cmp.Diff(store.Consents{Approvals: []intent.Approval{approval}}, list); diff != "" {
		t.Errorf("approvals are:\n%s", diff)
	}
	voidedApprovals(w, approval)
	nowhere := approval
	nowhere.Partition = "nowhere"
	w.refused(w.Approve(ctx, nowhere), fault.NotFound)
	for _, vague := range []intent.Approval{{Partition: shop, Asset: "a", Plan: digestOf("plan")}, {Partition: shop, Asset: "a", Effective: digestOf("x")}} {
		w.refused(w.Approve(ctx, vague), fault.Invalid)
	}
}

// voidedApprovals: an approval does not outlive a change of mind.
func voidedApprovals(w *world, approval intent.Approval) {
	w.t.Helper()
	ctx := w.t.Context()
	approve := func() {
		w.must(w.Approve(ctx, approval))
		w.must(w.Reject(ctx, intent.Rejection{Partition: shop, Asset: "a", Effective: approval.Effective, Plan: approval.Plan, By: bob, Reason: "no"}))
		w.must(w.Override(ctx, intent.Override{Partition: shop, Asset: "a", Effective: approval.Effective, Check: "order", By: bob, Reason: "now", Until: noon.Add(time.Hour)}))
	}
	listed := func(want int, label string) {
		w.t.Helper()
		list, err := w.Consents(ctx, shop)
		w.must(err)
		if len(list.Approvals) != want || len(list.Rejections) != want || len(list.Overrides) != want {
			w.t.Errorf("%s %d approvals, %d rejections and %d overrides are listed, want %d of each: %+v",
				label, len(list.Approvals), len(list.Rejections), len(list.Overrides), want, list)
		}
	}
	first := w.publish(entry("a", "one"), entry("b", "one"))
	member, err := w.Member(ctx, first.ID, "a")
	w.must(err)
	approval.Effective = member.Effective
	listed(0, "after a change of the asset")
	approve()
	w.publish(entry("b", "two"))
	listed(1, "after a change of another asset")
	w.publish(entry("a", "two"))
	listed(0, "after a change of the asset")
	w.publish(entry("a", "one"))
	listed(0, "when the old content is back")
	approve()
	w.publish(store.Entry{Asset: "a", Removed: true})
	listed(0, "after its removal")
}
