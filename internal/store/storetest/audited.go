package storetest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Spoiled is a store whose audit can be made unwritable, and mended.
type Spoiled struct {
	store.All
	Spoil, Mend func()
}

// write is one that is recorded before it has an effect.
type write struct {
	// prepare is what it needs.
	prepare func(w *world)
	do      func(w *world) error
	// want is its record, as far as it is set: whoever causes a write says why
	// in Reason, Lehr itself in Detail.
	want intent.AuditRecord
	// all: it is recorded of all partitions together.
	all bool
}

var lehr = intent.Actor{Name: "server-1", Origin: "server"}

// writes are all that are recorded, by the method that makes them.
var writes = map[string]write{
	"AddPartition": {
		do:   func(w *world) error { return w.AddPartition(w.t.Context(), theatre, "/srv/theatre.yaml", "new", alice) },
		want: intent.AuditRecord{Partition: theatre, By: alice, Verb: "add-partition", Subject: "theatre", Reason: "new", Detail: "/srv/theatre.yaml"},
	},
	"RemovePartition": {
		do:   func(w *world) error { return w.RemovePartition(w.t.Context(), shop, "closed", bob) },
		want: intent.AuditRecord{By: bob, Verb: "remove-partition", Subject: "shop", Reason: "closed"},
	},
	"Acquire": {
		do: func(w *world) error {
			_, err := w.Acquire(w.t.Context(), shop, "server-1")
			return err
		},
		want: intent.AuditRecord{By: lehr, Verb: "acquire", Subject: "shop", Detail: "epoch 2"},
	},
	"Release": {
		do:   func(w *world) error { return w.Release(w.t.Context(), w.lease) },
		want: intent.AuditRecord{By: lehr, Verb: "release", Subject: "shop", Detail: "epoch 1"},
	},
	"Retire": {
		do:   func(w *world) error { return w.Retire(w.t.Context(), "server-1") },
		want: intent.AuditRecord{By: lehr, Verb: "release", Subject: "shop", Detail: "epoch 1"},
	},
	"SetLabel": {
		prepare: func(w *world) { w.publish(entry("a", "x")) },
		do:      func(w *world) error { return w.SetLabel(w.t.Context(), at(1), "release", "spring", "shipped", bob) },
		want:    intent.AuditRecord{By: bob, Verb: "label", Subject: "shop@1", Reason: "shipped", Detail: "release=spring"},
	},
	"Publish": {
		prepare: func(w *world) {
			w.must(w.Stage(w.t.Context(), w.lease, intent.IncarnationID{Partition: shop}, []store.Entry{entry("a", "x")}))
		},
		do: func(w *world) error {
			_, err := w.Publish(w.t.Context(), w.lease, w.next())
			return err
		},
		want: intent.AuditRecord{By: alice, Verb: "publish", Subject: "shop@1", Detail: "under epoch 1"},
	},
	"Cover": {
		prepare: func(w *world) { w.publish(entry("a", "x")) },
		do: func(w *world) error {
			return w.Cover(w.t.Context(), w.lease, at(1), []intent.SourceRevision{{Source: "dir", Revision: "9"}})
		},
		want: intent.AuditRecord{By: lehr, Verb: "cover", Subject: "shop@1", Detail: "dir at 9"},
	},
	"SaveCandidate": {
		do: func(w *world) error {
			return w.SaveCandidate(w.t.Context(), w.lease, candidate("one", intent.CandidateHeld), nil)
		},
		want: intent.AuditRecord{By: lehr, Verb: "save-candidate", Detail: "held"},
	},
	"Acknowledge": {
		prepare: func(w *world) {
			w.must(w.SaveCandidate(w.t.Context(), w.lease, candidate("one", intent.CandidateHeld), nil))
		},
		do: func(w *world) error {
			return w.Acknowledge(w.t.Context(), candidate("one", intent.CandidateHeld).ID, "meant", alice)
		},
		want: intent.AuditRecord{By: alice, Verb: "acknowledge", Reason: "meant"},
	},
	"SetPin": {
		prepare: func(w *world) { w.publish(entry("a", "x")) },
		do: func(w *world) error {
			_, err := w.SetPin(w.t.Context(), intent.Pin{Asset: "a", Incarnation: at(1), Rank: intent.RankPerson, Holder: bob, Reason: "slow"})
			return err
		},
		want: intent.AuditRecord{By: bob, Verb: "pin", Subject: "a", Reason: "slow", Detail: "to shop@1, revision 1"},
	},
	"Unpin": {
		prepare: func(w *world) {
			w.publish(entry("a", "x"))
			_, err := w.SetPin(w.t.Context(), intent.Pin{Asset: "a", Incarnation: at(1), Rank: intent.RankPerson, Holder: bob})
			w.must(err)
		},
		do: func(w *world) error {
			return w.Unpin(w.t.Context(), shop, "a", intent.RankPerson, "quick again", alice)
		},
		want: intent.AuditRecord{By: alice, Verb: "unpin", Subject: "a", Reason: "quick again"},
	},
	"SetHold": {
		do: func(w *world) error {
			return w.SetHold(w.t.Context(), shop, intent.Hold{Asset: "a", Owner: bob, Reason: "looking"})
		},
		want: intent.AuditRecord{By: bob, Verb: "hold", Subject: "a", Reason: "looking"},
	},
	"Unhold": {
		prepare: func(w *world) { w.must(w.SetHold(w.t.Context(), shop, intent.Hold{Asset: "a", Owner: bob})) },
		do:      func(w *world) error { return w.Unhold(w.t.Context(), shop, "a", "looked", alice) },
		want:    intent.AuditRecord{By: alice, Verb: "unhold", Subject: "a", Reason: "looked"},
	},
	"Govern": {
		prepare: func(w *world) { w.publish(entry("a", "x")) },
		do: func(w *world) error {
			return w.Govern(w.t.Context(), w.lease, at(2), []store.Governed{{Asset: "a", Rollout: "web"}})
		},
		want: intent.AuditRecord{By: intent.RolloutHolder("web"), Verb: "pin", Subject: "a", Reason: "governed from here on", Detail: "to shop@0, revision 1"},
	},
	"SaveRollout": {
		do: func(w *world) error {
			return w.SaveRollout(w.t.Context(), w.lease, w.step(w.run(1, intent.RolloutRunning, 1, 0)))
		},
		want: intent.AuditRecord{By: intent.RolloutHolder("web"), Verb: "rollout-begin", Subject: "web", Detail: "to shop@1"},
	},
	"OrderRollout": {
		do: func(w *world) error {
			_, err := w.OrderRollout(w.t.Context(), intent.RolloutOrder{Partition: shop, Name: "web", Kind: intent.OrderPause, Reason: "lunch", By: bob})
			return err
		},
		want: intent.AuditRecord{By: bob, Verb: "rollout-pause", Subject: "web", Reason: "lunch"},
	},
	"Retry": {
		do:   func(w *world) error { return w.Retry(w.t.Context(), shop, "a", "mended", bob) },
		want: intent.AuditRecord{By: bob, Verb: "retry", Subject: "a", Reason: "mended"},
	},
	"SetStop": {
		do: func(w *world) error {
			return w.SetStop(w.t.Context(), intent.Stop{Partition: shop, Owner: bob, Reason: "fire"})
		},
		want: intent.AuditRecord{By: bob, Verb: "stop", Subject: "shop", Reason: "fire"},
	},
	"Resume": {
		prepare: func(w *world) { w.must(w.SetStop(w.t.Context(), intent.Stop{Partition: shop, Owner: bob})) },
		do:      func(w *world) error { return w.Resume(w.t.Context(), shop, "out", alice) },
		want:    intent.AuditRecord{By: alice, Verb: "resume", Subject: "shop", Reason: "out"},
	},
	"Approve": {
		do: func(w *world) error {
			return w.Approve(w.t.Context(), intent.Approval{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: alice, Reason: "fine", Until: noon})
		},
		want: intent.AuditRecord{By: alice, Verb: "approve", Subject: "a", Reason: "fine", Detail: "until 2026-03-01T12:00:00Z"},
	},
	"Admit": {
		prepare: func(w *world) { w.publish(entry("a", "x")) },
		do: func(w *world) error {
			_, err := w.Admit(w.t.Context(), w.lease, []store.Admission{w.admission("p1", "a", at(1))})
			return err
		},
		want: intent.AuditRecord{By: lehr, Verb: "admit", Subject: "a", Detail: "; passed order hold"},
	},
	"ClosePushes": {
		prepare: func(w *world) {
			w.publish(entry("a", "x"))
			w.admitted(w.admission("p1", "a", at(1)))
		},
		do: func(w *world) error {
			return w.ClosePushes(w.t.Context(), w.lease, []store.Closing{{Push: "p1", Ending: "failed", Reason: "no answer", At: noon}})
		},
		want: intent.AuditRecord{By: lehr, Verb: "close", Subject: "a", Detail: "push p1 failed: no answer"},
	},
	"Disown": {
		prepare: func(w *world) {
			w.publish(entry("a", "x"))
			w.enforced("a", "k")
			w.publish(removal("a"))
		},
		do:   func(w *world) error { return w.Disown(w.t.Context(), shop, "a", "burned", bob) },
		want: intent.AuditRecord{By: bob, Verb: "disown", Subject: "a", Reason: "burned", Detail: "gave up k"},
	},
	"Reject": {
		do: func(w *world) error {
			return w.Reject(w.t.Context(), intent.Rejection{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: bob, Reason: "too much"})
		},
		want: intent.AuditRecord{By: bob, Verb: "reject", Subject: "a", Reason: "too much", Detail: "plan " + digestOf("p").Short()},
	},
	"Withdraw": {
		prepare: func(w *world) {
			w.must(w.Reject(w.t.Context(), intent.Rejection{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: bob}))
		},
		do:   func(w *world) error { return w.Withdraw(w.t.Context(), shop, "a", "bob", "a mistake", alice) },
		want: intent.AuditRecord{By: alice, Verb: "withdraw", Subject: "a", Reason: "a mistake", Detail: "the rejection by bob"},
	},
	"Override": {
		do: func(w *world) error {
			return w.Override(w.t.Context(), intent.Override{Partition: shop, Asset: "a", Effective: digestOf("x"), Check: "order", By: bob, Reason: "it is blind", Until: noon.Add(100 * 365 * 24 * time.Hour)})
		},
		want: intent.AuditRecord{By: bob, Verb: "override", Subject: "a", Reason: "it is blind", Detail: "check order of content " + digestOf("x").Short()},
	},
	"Adopt": {
		do: func(w *world) error {
			_, err := w.Adopt(w.t.Context(), store.Adoption{By: bob, Reason: "it was compared", Beyond: 40})
			return err
		},
		want: intent.AuditRecord{By: bob, Verb: "adopt", Subject: "store", Reason: "it was compared", Detail: "generation 2"},
		all:  true,
	},
	"CreateToken": {
		do: func(w *world) error {
			_, err := w.CreateToken(store.WithCaller(w.t.Context(), store.Caller{Actor: alice, Local: true, From: "127.0.0.1:9"}), store.Token{ID: "t1", Hash: [32]byte{1}, Owner: "alice", Partitions: []intent.PartitionID{"shop"}, Description: "a try"}, 0)
			return err
		},
		want: intent.AuditRecord{By: alice, From: "127.0.0.1:9", Verb: "create-token", Subject: "t1", Detail: ", limited to partitions shop: a try"},
		all:  true,
	},
	"RevokeToken": {
		prepare: func(w *world) {
			_, err := w.CreateToken(w.t.Context(), store.Token{ID: "t1", Hash: [32]byte{1}, Owner: "alice"}, 0)
			w.must(err)
		},
		do: func(w *world) error {
			_, err := w.RevokeToken(store.WithCaller(w.t.Context(), store.Caller{Actor: alice, Local: true}), "t1", "lost")
			return err
		},
		want: intent.AuditRecord{By: alice, Verb: "revoke-token", Subject: "t1", Reason: "lost"},
		all:  true,
	},
	"SetPolicy": {
		do: func(w *world) error {
			return w.SetPolicy(w.t.Context(), []intent.Grant{{Subject: "user:ann", Role: intent.Operator, Partition: shop}}, alice)
		},
		want: intent.AuditRecord{Partition: shop, By: alice, Verb: "grant", Subject: "user:ann", Detail: "operator, by the server"},
	},
	"SetCommonPolicy": {
		do:   func(w *world) error { return w.SetCommonPolicy(w.t.Context(), commonPolicy("freeze"), alice) },
		want: intent.AuditRecord{By: alice, Verb: "common-policy", Subject: "/etc/lehr-policy.yaml", Detail: "in place of"},
		all:  true,
	},
	"CreateDocument": {
		do: func(w *world) error {
			_, err := w.CreateDocument(w.t.Context(), shop, knobs, []byte(`{"a":1}`), "begun", bob)
			return err
		},
		want: intent.AuditRecord{By: bob, Verb: "create-document", Subject: "knobs", Reason: "begun", Detail: "revision 1"},
	},
	"EditDocument": {
		prepare: func(w *world) { w.created(`{"a":1}`) },
		do: func(w *world) error {
			_, err := w.EditDocument(w.t.Context(), shop, knobs, setting("1", "/a", "2"), bob)
			return err
		},
		want: intent.AuditRecord{By: bob, Verb: "edit-document", Subject: "knobs", Reason: "a try", Detail: "revision 2: set /a"},
	},
	"SetFields": {
		prepare: func(w *world) { w.created(`{"a":1}`) },
		do: func(w *world) error {
			_, err := w.SetFields(w.t.Context(), w.lease, w.revision(), knobs, setting("1", "/a", "2"), intent.RolloutHolder("sizes"))
			return err
		},
		want: intent.AuditRecord{By: intent.RolloutHolder("sizes"), Verb: "edit-document", Subject: "knobs", Reason: "a try", Detail: "revision 2: set /a"},
	},
	"SaveOutputs": {
		prepare: func(*world) {},
		do: func(w *world) error {
			_, err := w.SaveOutputs(w.t.Context(), w.lease, document.Edit{Reason: "told by db", Operations: []document.Operation{{Path: "/db", Value: []byte(`{"port":1}`)}}})
			return err
		},
		want: intent.AuditRecord{By: intent.OutputActor, Verb: "edit-document", Subject: "outputs", Reason: "told by db", Detail: "revision 1: set the whole document"},
	},
	"SavePreviews": {
		prepare: func(*world) {},
		do: func(w *world) error {
			_, err := w.SavePreviews(w.t.Context(), w.lease, "review", document.Edit{Reason: "made pr-7", Operations: []document.Operation{{Path: "/pr-7", Value: []byte(`{"commit":"c"}`)}}})
			return err
		},
		want: intent.AuditRecord{By: intent.PreviewActor, Verb: "edit-document", Subject: "previews-review", Reason: "made pr-7", Detail: "revision 1: set the whole document"},
	},
	"UndoDocument": {
		prepare: func(w *world) {
			w.created(`{"a":1}`)
			_, err := w.EditDocument(w.t.Context(), shop, knobs, setting("1", "/a", "2"), bob)
			w.must(err)
		},
		do: func(w *world) error {
			_, err := w.UndoDocument(w.t.Context(), shop, knobs, "2", "no", alice)
			return err
		},
		want: intent.AuditRecord{By: alice, Verb: "undo-document", Subject: "knobs", Reason: "no", Detail: "revision 3: undid 2"},
	},
	"DeleteDocument": {
		prepare: func(w *world) { w.created(`{"a":1}`) },
		do: func(w *world) error {
			_, err := w.DeleteDocument(w.t.Context(), shop, knobs, "1", "over", bob)
			return err
		},
		want: intent.AuditRecord{By: bob, Verb: "delete-document", Subject: "knobs", Reason: "over", Detail: "revision 2"},
	},
	"RecordCommit": {
		do: func(w *world) error {
			return w.RecordCommit(w.t.Context(), shop, knobs, "commit 0123: set /a", "sale", bob)
		},
		want: intent.AuditRecord{By: bob, Verb: "commit-document", Subject: "knobs", Reason: "sale", Detail: "commit 0123"},
	},
	"SaveMemo": {
		prepare: func(w *world) {
			w.publish(entry("a", "x"))
			w.admitted(w.admission("p1", "a", at(1)))
		},
		do: func(w *world) error {
			return w.SaveMemo(w.t.Context(), w.lease, "p1", intent.Memo{Key: "task:run 7", Bytes: []byte("started")})
		},
		want: intent.AuditRecord{By: lehr, Verb: "memo", Subject: "a", Detail: `push p1: "task:run 7", 7 bytes, digest `},
	},
	"RecordDelivery": {
		do:   func(w *world) error { return delivered(w.t.Context(), w) },
		want: intent.AuditRecord{By: alice, Verb: "delivery-pin", Subject: "web", Reason: "seen", Detail: "environment test, version 1.0, d"},
	},
	"Promote": {
		prepare: func(w *world) { w.created(`{"test":{"version":"0.9"}}`) },
		do:      func(w *world) error { return w.Promote(w.t.Context(), w.lease, w.promotes("1", "1.0", 0)) },
		want: intent.AuditRecord{
			By: intent.DeliveryHolder(shop, "web"), Verb: "edit-document", Subject: "knobs", Reason: "let in", Detail: "revision 2: set /test/version",
		},
	},
	"StartWorkflow": {
		do: func(w *world) error {
			_, err := w.StartWorkflow(w.t.Context(), workflowRun("promote"), workflowEvents(intent.WorkflowStarted), intent.Operator)
			return err
		},
		want: intent.AuditRecord{By: alice, Verb: "workflow-start", Subject: "promote#1", Reason: "a release", Detail: "definition d1"},
	},
	"StepWorkflowAs": {
		prepare: func(w *world) { w.started(workflowRun("promote")) },
		do: func(w *world) error {
			step := store.WorkflowStep{Run: w.workflowRun(1), By: bob, Events: []intent.WorkflowEvent{{Kind: intent.WorkflowVoted, Key: "ask", Good: true}}}
			_, err := w.StepWorkflowAs(w.t.Context(), step, []intent.Role{intent.Approver}, "workflow-vote", "seen")
			return err
		},
		want: intent.AuditRecord{By: bob, Verb: "workflow-vote", Subject: "promote#1", Reason: "seen", Detail: "approval of the action ask"},
	},
	"StepWorkflow": {
		prepare: func(w *world) {
			w.created(`{"version":"0.9"}`)
			w.started(workflowRun("promote"))
		},
		do: func(w *world) error {
			_, err := w.StepWorkflow(w.t.Context(), w.lease, w.edits(1, "1", "1.0"))
			return err
		},
		want: intent.AuditRecord{
			By: intent.WorkflowHolder(shop, "promote"), Verb: "edit-document", Subject: "knobs", Reason: "promoted", Detail: "revision 2: set /version",
		},
	},
	"Collect": {
		prepare: func(w *world) {
			w.publish(entry("a", "x"))
			w.admitted(w.admission("p1", "a", at(1)))
			w.closePush("p1", "pushed")
		},
		do: func(w *world) error {
			_, err := w.Collect(w.t.Context(), w.lease, store.Retention{Incarnations: 1, History: time.Hour}, noon.Add(24*time.Hour))
			return err
		},
		want: intent.AuditRecord{By: lehr, Verb: "collect", Subject: "shop", Detail: "1 ended pushes"},
	},
}

// unrecorded are the writes that need no record, and why.
var unrecorded = map[string]string{
	"Renew":           "a replica says that it lives: a lease that runs on gives no right that Acquire did not",
	"Stage":           "what is staged is invisible until Publish, which is recorded",
	"Unstage":         "what is staged was never visible",
	"PutBlobs":        "a cache, by the digest of what it was made from; nothing is allowed by it",
	"Hint":            "that sources may have changed, said by a signed webhook; they are only looked at",
	"SaveReports":     "what was seen; it changes nothing, and each look replaces it",
	"EndVerification": "the environment's pushes go on; what it came to is in the rows of the application",
	"SaveVersions":    "what a source lists; it allows nothing, and the promotion that follows is recorded",
	"SaveEnforced":    "what was seen; a claim that passes to another asset, or is given back, is recorded",
}

// reading are the methods that write nothing.
var reading = strings.Fields(`Document ListDocuments DocumentRevisions Partition ListPartitions Hints Check Free Replicas Incarnation Incarnations Member Body Content Contents Members Changes
	FindIncarnation EdgesFrom EdgesTo Candidate CandidateDelta ListCandidates Acknowledged GetBlob Pins PinsOf Holds Retries Stops Consents Authors
	Size Permit HasMade OpenPushes Pushes Push Ended Begun EnforcedPage EnforcedCount Memos MemoAssets Orphans OrphanCount Report ListReports CountReports ListGroups SurveyStandings SurveyMatters HeadContents SearchAssets SearchFields SearchIncarnations SearchRuns SearchWorkflowRuns SearchBrakes Rollouts Observations Judgements RolloutOrders Versions VersionsRevision Verifications DeliveryRecords WorkflowRun WorkflowRuns WorkflowEvents RolesOf ReportHistory ReportsAfter LastReport Arrivals
	AuditRecords AuditEnds WalkAudit VerifyAudit AuditTrouble Identity History Verify TokenByID Tokens Grants CommonPolicy Authority Authorize Changed Close`)

// Audited shows of every method of a store that writes that its record is
// written with it (S25), and that without the record nothing is.
func Audited(t *testing.T, open func(t *testing.T) Spoiled) {
	t.Run("every method", func(t *testing.T) {
		all := reflect.TypeFor[store.All]()
		for i := range all.NumMethod() {
			name := all.Method(i).Name
			_, ok := writes[name]
			_, exempt := unrecorded[name]
			places := 0
			for _, listed := range []bool{ok, exempt, slices.Contains(reading, name)} {
				if listed {
					places++
				}
			}
			if places != 1 {
				t.Errorf("%s must be in one of writes, unrecorded (with the reason) and reading; it is in %d", name, places)
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(writes)) {
		t.Run(name, func(t *testing.T) { writes[name].test(t, open(t)) })
	}
	t.Run("admission", func(t *testing.T) { unaudited(t, open(t)) })
}

func (c write) test(t *testing.T, s Spoiled) {
	w := newWorld(t, func(*testing.T) store.All { return s.All })
	if c.prepare != nil {
		c.prepare(w)
	}
	partition := shop
	if c.want.Partition != "" {
		partition = c.want.Partition
	}
	if c.all {
		partition = ""
	}
	previous := w.audited(partition)
	s.Spoil()
	err := c.do(w)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "audit") {
		t.Fatalf("without an audit: %v, want that it is unavailable for the audit's sake", err)
	}
	if trouble := w.AuditTrouble(); !strings.Contains(trouble, "audit") {
		t.Errorf("the store says %q of its audit", trouble)
	}
	s.Mend()
	if got := len(w.audited(partition)); got != len(previous) {
		t.Errorf("%d records, before it were %d", got, len(previous))
	}
	// What was not done then is done now, as if for the first time.
	w.must(c.do(w))
	if trouble := w.AuditTrouble(); trouble != "" {
		t.Errorf("with the audit mended, the store says: %s", trouble)
	}
	records := w.audited(partition)[len(previous):]
	hasRecord := slices.ContainsFunc(records, func(r intent.AuditRecord) bool {
		return r.By == c.want.By && r.Verb == c.want.Verb && strings.Contains(r.Subject, c.want.Subject) && r.Subject != "" &&
			r.Reason == c.want.Reason && strings.Contains(r.Detail, c.want.Detail)
	})
	if !hasRecord {
		t.Errorf("recorded are %+v, want %+v", records, c.want)
	}
	w.must(w.VerifyAudit(t.Context(), partition))
}

func (w *world) audited(partition intent.PartitionID) []intent.AuditRecord {
	w.t.Helper()
	records, err := w.AuditRecords(w.t.Context(), partition, 0, 0)
	w.must(err)
	return records
}

// unaudited: no admission is given, no approval consumed and no stop ended
// while the audit cannot be written; what needs no record goes on.
func unaudited(t *testing.T, s Spoiled) {
	w := newWorld(t, func(*testing.T) store.All { return s.All })
	ctx := t.Context()
	w.publish(entry("a", "x"))
	a := w.admission("p1", "a", at(1))
	w.must(w.Approve(ctx, intent.Approval{Partition: shop, Asset: "a", Effective: a.Effective, Plan: a.Plan, By: bob}))
	a.NeedsApproval, a.Revision = true, w.revision()
	revision := w.revision()
	s.Spoil()
	if refusals, err := w.Admit(ctx, w.lease, []store.Admission{a}); !fault.Is(err, fault.Unavailable) || refusals != nil {
		t.Errorf("admitted without an audit: %v %v", refusals, err)
	}
	w.refused(w.SetHold(ctx, shop, intent.Hold{Asset: "a", Owner: bob}), fault.Unavailable)
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{{Asset: "a", State: intent.StateWaiting}}))
	s.Mend()
	open, err := w.OpenPushes(ctx, shop)
	w.must(err)
	consents, err := w.Consents(ctx, shop)
	w.must(err)
	approvals := consents.Approvals
	holds, err := w.Holds(ctx, shop)
	w.must(err)
	if len(open) != 0 || len(approvals) != 1 || len(holds) != 0 || w.revision() != revision {
		t.Errorf("without an audit: pushes %v, approvals %v, holds %v, revision %d after %d", open, approvals, holds, w.revision(), revision)
	}
	w.admitted(a)
}
