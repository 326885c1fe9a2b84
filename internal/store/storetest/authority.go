package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// caused is a write that a person or program causes.
type caused struct {
	method string
	// role it takes, in a partition or in all; none: no token may.
	role      intent.Role
	partition intent.PartitionID
	// prepare makes it possible.
	prepare func()
	do      func(ctx context.Context) error
}

func (w *world) caused() []caused {
	ctx := w.t.Context()
	person := intent.RankPerson
	heldCandidate := candidate("held", intent.CandidateHeld)
	count := 0
	var voted intent.WorkflowRun
	none := func() {}
	stopped := func(partition intent.PartitionID) func() {
		return func() { w.must(w.SetStop(ctx, intent.Stop{Partition: partition, Owner: bob})) }
	}
	resumed := func(partition intent.PartitionID) func() {
		return func() { _ = w.Resume(ctx, partition, "", bob) }
	}
	rejected := func() {
		w.must(w.Reject(ctx, intent.Rejection{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: bob}))
	}
	// One document for all who try is enough, if it is not in their way.
	drafted := func() {
		count++
		_, err := w.CreateDocument(ctx, shop, fmt.Sprint("draft-", count), []byte("{}"), "", alice)
		w.must(err)
	}
	return []caused{
		{"SetPin", intent.Operator, shop, none, func(ctx context.Context) error {
			_, err := w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: at(1), Rank: person, Holder: bob})
			return err
		}},
		{"Unpin", intent.Operator, shop, func() {
			_, err := w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: at(1), Rank: person, Holder: bob})
			w.must(err)
		}, func(ctx context.Context) error { return w.Unpin(ctx, shop, "a", person, "done", bob) }},
		{"SetHold", intent.Operator, shop, none, func(ctx context.Context) error { return w.SetHold(ctx, shop, intent.Hold{Asset: "a", Owner: bob}) }},
		{"Unhold", intent.Operator, shop, func() { w.must(w.SetHold(ctx, shop, intent.Hold{Asset: "a", Owner: bob})) },
			func(ctx context.Context) error { return w.Unhold(ctx, shop, "a", "done", bob) }},
		{"Retry", intent.Operator, shop, none, func(ctx context.Context) error { return w.Retry(ctx, shop, "a", "mended", bob) }},
		{"OrderRollout", intent.Operator, shop, none, func(ctx context.Context) error {
			_, err := w.OrderRollout(ctx, intent.RolloutOrder{Partition: shop, Name: "web", Kind: intent.OrderPause, By: bob})
			return err
		}},
		{"OrderRollout", intent.Approver, shop, none, func(ctx context.Context) error {
			_, err := w.OrderRollout(ctx, intent.RolloutOrder{Partition: shop, Name: "web", Kind: intent.OrderApprove, Run: 1, Stage: "rest", By: bob, Roles: []intent.Role{intent.Approver}})
			return err
		}},
		{"RecordDelivery", intent.Operator, shop, none, func(ctx context.Context) error { return delivered(ctx, w) }},
		{"StartWorkflow", intent.Operator, shop, none, func(ctx context.Context) error {
			_, err := w.StartWorkflow(ctx, workflowRun("promote"), nil, intent.Operator)
			return err
		}},
		{"StepWorkflowAs", intent.Approver, shop, func() { voted = w.started(workflowRun("promote")) }, func(ctx context.Context) error {
			_, err := w.StepWorkflowAs(ctx, store.WorkflowStep{Run: voted}, []intent.Role{intent.Approver}, "workflow-vote", "")
			return err
		}},
		{"SetStop", intent.Operator, shop, resumed(shop), func(ctx context.Context) error { return w.SetStop(ctx, intent.Stop{Partition: shop, Owner: bob}) }},
		{"SetStop", intent.Operator, "", resumed(""), func(ctx context.Context) error { return w.SetStop(ctx, intent.Stop{Owner: bob}) }},
		{"Resume", intent.Operator, shop, stopped(shop), func(ctx context.Context) error { return w.Resume(ctx, shop, "", bob) }},
		{"Resume", intent.Operator, "", stopped(""), func(ctx context.Context) error { return w.Resume(ctx, "", "", bob) }},
		{"Approve", intent.Approver, shop, none, func(ctx context.Context) error {
			return w.Approve(ctx, intent.Approval{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: bob})
		}},
		{"Reject", intent.Approver, shop, none, func(ctx context.Context) error {
			return w.Reject(ctx, intent.Rejection{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: bob})
		}},
		{"Withdraw", intent.Approver, shop, rejected, func(ctx context.Context) error { return w.Withdraw(ctx, shop, "a", bob.Name, "", bob) }},
		{"Withdraw", intent.Operator, shop, rejected, func(ctx context.Context) error { return w.Withdraw(ctx, shop, "a", bob.Name, "", alice) }},
		{"Override", intent.Operator, shop, none, func(ctx context.Context) error {
			return w.Override(ctx, intent.Override{Partition: shop, Asset: "a", Effective: digestOf("x"), Check: "order", By: bob, Reason: "blind", Until: noon.Add(time.Hour)})
		}},
		{"Acknowledge", intent.Approver, shop, func() { w.must(w.SaveCandidate(ctx, w.lease, heldCandidate, nil)) },
			func(ctx context.Context) error { return w.Acknowledge(ctx, heldCandidate.ID, "", bob) }},
		{"SetLabel", intent.Operator, shop, func() { count++ },
			func(ctx context.Context) error { return w.SetLabel(ctx, at(1), "try", fmt.Sprint(count), "", bob) }},
		{"Disown", intent.Operator, shop, func() {
			_, err := w.SaveEnforced(ctx, w.lease, []store.Enforced{{Asset: "gone", Type: job, Effective: digestOf("x"), Incarnation: at(1), At: noon}})
			w.must(err)
		}, func(ctx context.Context) error { return w.Disown(ctx, shop, "gone", "", bob) }},
		{"CreateDocument", intent.Editor, shop, func() { count++ }, func(ctx context.Context) error {
			_, err := w.CreateDocument(ctx, shop, fmt.Sprint("made-", count), []byte("{}"), "", bob)
			return err
		}},
		{"EditDocument", intent.Editor, shop, drafted, func(ctx context.Context) error {
			_, err := w.EditDocument(ctx, shop, fmt.Sprint("draft-", count), setting("1", "/a", "2"), bob)
			return err
		}},
		{"UndoDocument", intent.Editor, shop, drafted, func(ctx context.Context) error {
			_, err := w.UndoDocument(ctx, shop, fmt.Sprint("draft-", count), "1", "", bob)
			return err
		}},
		{"DeleteDocument", intent.Editor, shop, drafted, func(ctx context.Context) error {
			_, err := w.DeleteDocument(ctx, shop, fmt.Sprint("draft-", count), "1", "", bob)
			return err
		}},
		{"RecordCommit", intent.Editor, shop, none, func(ctx context.Context) error { return w.RecordCommit(ctx, shop, "knobs", "", "", bob) }},
		{"AddPartition", intent.Admin, shop, none, func(ctx context.Context) error {
			return w.AddPartition(ctx, shop, fmt.Sprintf("/srv/%d.yaml", count), "", bob)
		}},
		{"AddPartition", intent.Admin, "", func() { _ = w.RemovePartition(ctx, "new", "", bob) },
			func(ctx context.Context) error { return w.AddPartition(ctx, "new", "/srv/new.yaml", "", bob) }},
		{"RemovePartition", intent.Admin, "old", func() { w.must(w.AddPartition(ctx, "old", "/srv/old.yaml", "", bob)) },
			func(ctx context.Context) error { return w.RemovePartition(ctx, "old", "", bob) }},
		{"CreateToken", intent.Admin, "", func() { count++ }, func(ctx context.Context) error {
			id := fmt.Sprint("made-", count)
			_, err := w.CreateToken(ctx, store.Token{ID: id, Hash: sha256.Sum256([]byte(id)), Owner: "somebody"}, 0)
			return err
		}},
		{"RevokeToken", intent.Admin, "", func() { count++; w.token(fmt.Sprint("ended-", count), "somebody", nil) },
			func(ctx context.Context) error {
				_, err := w.RevokeToken(ctx, fmt.Sprint("ended-", count), "")
				return err
			}},
		// It ends the lease, and what follows it the grants.
		{"Adopt", intent.Admin, "", none, func(ctx context.Context) error {
			_, err := w.Adopt(ctx, store.Adoption{By: bob, Reason: "compared", Beyond: 1})
			return err
		}},
		{"SetPolicy", "", "", none, func(ctx context.Context) error { return w.SetPolicy(ctx, nil, bob) }},
		{"SetCommonPolicy", "", "", none, func(ctx context.Context) error { return w.SetCommonPolicy(ctx, store.CommonPolicy{}, bob) }},
	}
}

// bearer is somebody who writes.
type bearer struct {
	name string
	ctx  context.Context
	// may says what they may, by a rule of its own.
	may func(role intent.Role, partition intent.PartitionID) bool
}

// bearers are one of each role, place and kind of token. The grants are set.
func (w *world) bearers() (all []bearer) {
	never := func(intent.Role, intent.PartitionID) bool { return false }
	add := func(name string, token store.Token, may func(intent.Role, intent.PartitionID) bool) {
		all = append(all, bearer{name, w.contextOf(token), may})
	}
	var byPolicy, byDefinition []intent.Grant
	limit := func(roles []intent.Role, partitions ...intent.PartitionID) func(*store.Token) {
		return func(n *store.Token) { n.Roles, n.Partitions = roles, partitions }
	}
	for _, role := range intent.Roles() {
		for _, scope := range []intent.PartitionID{shop, theatre, "old", ""} {
			owner := fmt.Sprintf("%s-%s", role, scope)
			byPolicy = append(byPolicy, intent.Grant{Subject: "user:" + owner, Role: role, Partition: scope})
			may := func(needed intent.Role, partition intent.PartitionID) bool {
				return (needed == role || role == intent.Admin && needed != "") && (scope == "" || scope == partition)
			}
			add(owner, w.token(owner, owner, nil), may)
			add(owner+" in a group", w.token(owner+"+g", "member", func(n *store.Token) { n.Groups = []string{owner} }), may)
			byPolicy = append(byPolicy, intent.Grant{Subject: "group:" + owner, Role: role, Partition: scope})
			add(owner+" only as viewer", w.token(owner+"+v", owner, limit([]intent.Role{intent.Viewer})), never)
			add(owner+" only as approver", w.token(owner+"+a", owner, limit([]intent.Role{intent.Approver})), func(needed intent.Role, partition intent.PartitionID) bool {
				return may(needed, partition) && needed == intent.Approver
			})
			add(owner+" only in shop", w.token(owner+"+s", owner, limit(nil, shop)), func(needed intent.Role, partition intent.PartitionID) bool {
				return may(needed, partition) && partition == shop
			})
			add(owner+" only elsewhere", w.token(owner+"+e", owner, limit(nil, theatre)), func(needed intent.Role, partition intent.PartitionID) bool {
				return may(needed, partition) && partition == theatre
			})
		}
		if role != intent.Admin {
			owner := string(role) + " by definition"
			byDefinition = append(byDefinition, intent.Grant{Subject: "user:" + owner, Role: role, Partition: shop})
			add(owner, w.token(owner, owner, nil), func(needed intent.Role, partition intent.PartitionID) bool {
				// An approver counts later: testApproverSettles.
				return needed == role && needed != intent.Approver && partition == shop
			})
		}
	}
	w.policy(byPolicy...)
	next := w.next()
	next.Grants = byDefinition
	_, err := w.Publish(w.t.Context(), w.lease, next)
	w.must(err)
	add("nobody", store.Token{}, never)
	add("unknown", store.Token{ID: "unknown", Owner: "admin-"}, never)
	revoked := w.token("revoked", "admin-", nil)
	_, err = w.RevokeToken(w.t.Context(), "revoked", "")
	w.must(err)
	add("revoked", revoked, never)
	expired := w.tokenThatEnds("ended", "admin-")
	add("ended", expired, never)
	time.Sleep(time.Until(expired.Until)) // Tokens end by the clock, and by nothing else.
	return append(all,
		bearer{"local", store.WithCaller(w.t.Context(), local), func(intent.Role, intent.PartitionID) bool { return true }},
		bearer{"Lehr itself", w.t.Context(), func(intent.Role, intent.PartitionID) bool { return true }})
}

// testAuthority has everybody try every write, and asks whether what should be
// refused was refused, and left no trace.
func testAuthority(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	w.register(theatre)
	w.publish(entry("a", "x"))
	bearers, writes := w.bearers(), w.caused()
	chains := func() (sum int) {
		for _, partition := range []intent.PartitionID{"", shop, theatre, "old", "new"} {
			sum += len(w.auditLines(partition))
		}
		return sum
	}
	allowed, denied := 0, 0
	for _, attempt := range writes {
		attempt.prepare()
		previous := chains()
		for _, bearer := range bearers {
			may := bearer.may(attempt.role, attempt.partition)
			if may {
				continue
			}
			denied++
			if err := attempt.do(bearer.ctx); !fault.Is(err, fault.Denied) {
				t.Errorf("%s may %s in %q, and was told %v", bearer.name, attempt.method, attempt.partition, err)
			}
		}
		if now := chains(); now != previous {
			t.Errorf("%s in %q was denied, and left %d records", attempt.method, attempt.partition, now-previous)
		}
		for _, bearer := range bearers {
			if !bearer.may(attempt.role, attempt.partition) || attempt.role == "" && bearer.name != "local" {
				continue
			}
			allowed++
			attempt.prepare()
			if err := attempt.do(bearer.ctx); err != nil {
				t.Errorf("%s may not %s in %q: %v", bearer.name, attempt.method, attempt.partition, err)
			}
		}
	}
	t.Logf("%d allowed, %d denied", allowed, denied)
	for _, partition := range []intent.PartitionID{"", shop} {
		w.must(w.VerifyAudit(t.Context(), partition))
		records, err := w.AuditRecords(t.Context(), partition, 0, 10_000)
		w.must(err)
		if !slices.ContainsFunc(records, func(r intent.AuditRecord) bool { return r.Token == "operator-" && r.From == "10.0.0.9:1" }) {
			t.Errorf("the records of %q do not say by which token, and where from", partition)
		}
	}
}

// asksNobody are the methods that no caller's authority is asked for, besides
// those that act under a lease: they read, or are Lehr's own.
var asksNobody = []string{
	"Partition", "ListPartitions", "Hint", "Hints", "Renew", "Retire", "Replicas", "Acquire", "Free", "Document", "ListDocuments", "DocumentRevisions", "Incarnation", "Incarnations", "Member", "Body", "Content", "Contents", "Members", "Changes",
	"FindIncarnation", "EdgesFrom", "EdgesTo", "Candidate", "CandidateDelta", "ListCandidates", "Acknowledged", "GetBlob", "Pins", "PinsOf", "Holds", "Retries",
	"Stops", "Consents", "Authors", "HasMade", "OpenPushes", "Pushes", "Push", "Ended", "Size", "EnforcedPage", "EnforcedCount", "Memos", "MemoAssets", "Orphans", "OrphanCount", "Report", "ListReports",
	"CountReports", "ListGroups", "SurveyStandings", "SurveyMatters", "HeadContents", "SearchAssets", "SearchFields", "SearchIncarnations", "SearchRuns", "SearchWorkflowRuns", "SearchBrakes", "Rollouts", "Observations", "Judgements", "RolloutOrders", "Versions", "VersionsRevision", "Verifications", "DeliveryRecords", "WorkflowRun", "WorkflowRuns", "WorkflowEvents", "RolesOf", "ReportHistory", "ReportsAfter", "LastReport", "Arrivals", "AuditRecords", "AuditEnds", "AuditTrouble", "WalkAudit", "VerifyAudit", "Identity", "History", "Verify", "TokenByID", "Tokens", "Grants", "CommonPolicy", "Authority", "Authorize", "Changed", "Close",
}

// testEveryWriteAsks: a method that is new is one of those that testAuthority
// tries, or of those that ask nobody.
func testEveryWriteAsks(t *testing.T, open func(t *testing.T) store.All) {
	tried := map[string]bool{}
	for _, write := range newWorld(t, open).caused() {
		tried[write.method] = true
	}
	all := reflect.TypeFor[store.All]()
	for i := range all.NumMethod() {
		method := all.Method(i)
		underLease := false
		for j := range method.Type.NumIn() {
			underLease = underLease || method.Type.In(j) == reflect.TypeFor[store.Lease]()
		}
		if !underLease && tried[method.Name] == slices.Contains(asksNobody, method.Name) {
			t.Errorf("%s: does it change something for a caller? then try it in writes; else name it in asksNobody", method.Name)
		}
	}
}

// testReading asks of reads what testAuthority asks of writes.
func testReading(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	w.publish(entry("a", "x"))
	for _, bearer := range w.bearers() {
		authority, err := w.Authority(bearer.ctx)
		if bearer.name != "unknown" {
			w.must(err)
		}
		for _, role := range intent.Roles() {
			for _, partition := range []intent.PartitionID{shop, theatre, ""} {
				if role == intent.Viewer {
					continue // Which every role includes: testAuthority's rule says nothing of it.
				}
				want := bearer.may(role, partition)
				err := w.Authorize(bearer.ctx, role, partition)
				if (err == nil) != want || err != nil && !fault.Is(err, fault.Denied) {
					t.Errorf("%s as %s in %q: %v, want %v", bearer.name, role, partition, err, want)
				}
				effective := slices.ContainsFunc(authority.Effective(), func(g store.Grant) bool {
					return g.Role.Includes(role) && (g.Partition == "" || g.Partition == partition)
				})
				if bearer.name != "Lehr itself" && effective != want {
					t.Errorf("%s as %s in %q: listed %v, want %v", bearer.name, role, partition, effective, want)
				}
			}
		}
	}
}

// testApproverSettles: who is made an approver by a definition that changes
// approves nothing at first, in the very transaction; who was one from the
// beginning, or is one by the server's policy, does at once (S24, S9).
func testApproverSettles(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	grant := func(name string) intent.Grant {
		return intent.Grant{Subject: "user:" + name, Role: intent.Approver, Partition: shop}
	}
	publish := func(grants ...intent.Grant) {
		next := w.next()
		next.Grants = grants
		_, err := w.Publish(t.Context(), w.lease, next)
		w.must(err)
	}
	bearing := map[string]context.Context{"ann": w.contextOf(w.token("ann", "ann", nil)), "bob": w.contextOf(w.token("bob", "bob", nil))}
	approves := func(name string) error {
		return w.Approve(bearing[name], intent.Approval{
			Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("plan"), By: intent.Actor{Name: name}, Reason: "seen",
		})
	}
	publish(grant("ann"))
	publish(grant("ann"), grant("bob"))
	w.must(approves("ann"))
	if err := approves("bob"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "bob was made approver of partition") {
		t.Errorf("bob approved what made him an approver: %v", err)
	}
	// As time goes by it counts, however often the definition is published.
	publish(grant("bob"), grant("ann"))
	authority, err := w.All.Authority(bearing["bob"])
	w.must(err)
	for elapsed, may := range map[time.Duration]bool{store.ApproverSettles - time.Minute: false, store.ApproverSettles + time.Second: true} {
		later := authority
		later.Now, later.Token.Until = authority.Now.Add(elapsed), time.Now().Add(30*24*time.Hour)
		if got := later.May(intent.Approver, shop); got != may {
			t.Errorf("after %s bob may approve: %t", elapsed, got)
		}
	}
	// Given anew, it is new.
	publish(grant("bob"))
	publish(grant("bob"), grant("ann"))
	if err := approves("ann"); !fault.Is(err, fault.Denied) {
		t.Errorf("ann's role was taken away and given anew: %v", err)
	}
	w.policy(grant("ann"))
	w.must(approves("ann"))
}
