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

	"github.com/google/go-cmp/cmp"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// local is the user of the server's machine.
var local = store.Caller{Actor: alice, Local: true, From: "127.0.0.1:1"}

// token makes one as Lehr itself, for a day.
func (w *world) token(id, owner string, change func(*store.Token)) store.Token {
	w.t.Helper()
	token := store.Token{ID: id, Hash: sha256.Sum256([]byte(id)), Owner: owner}
	if change != nil {
		change(&token)
	}
	made, err := w.CreateToken(w.t.Context(), token)
	w.must(err)
	return made
}

// as is a context of who bears a token.
func (w *world) as(token store.Token) context.Context {
	return store.WithCaller(w.t.Context(), store.Caller{Actor: intent.Actor{Name: token.Owner, Origin: "api"}, Token: token.ID, From: "10.0.0.9:1"})
}

func (w *world) policy(grants ...intent.Grant) {
	w.t.Helper()
	w.must(w.SetPolicy(w.t.Context(), grants, alice))
}

// said lists what the audit says of a partition, verb and subject.
func (w *world) said(partition intent.PartitionID) (said []string) {
	w.t.Helper()
	records, err := w.AuditRecords(w.t.Context(), partition, 0, 0)
	w.must(err)
	for _, r := range records {
		said = append(said, strings.TrimSpace(r.Verb+" "+r.Subject+" "+r.Detail))
	}
	return said
}

func testGrants(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	list := func() (said []string) {
		grants, err := w.Grants(ctx)
		w.must(err)
		for _, g := range grants {
			said = append(said, g.String())
		}
		return said
	}
	if got := list(); len(got) != 0 {
		t.Errorf("at first there are %v", got)
	}
	admin := intent.Grant{Subject: "user:ann", Role: intent.Admin}
	sre := intent.Grant{Subject: "group:sre", Role: intent.Operator, Partition: shop}
	w.policy(admin, sre, sre)
	w.policy(sre, admin)
	next := w.next()
	next.Grants = []intent.Grant{{Subject: "everyone", Role: intent.Viewer, Partition: shop}, sre}
	published, err := w.Publish(ctx, w.lease, next)
	w.must(err)
	want := []string{
		"user:ann is admin of all partitions, by the server's policy",
		"everyone is viewer of partition shop, by its definition",
		"group:sre is operator of partition shop, by its definition",
		"group:sre is operator of partition shop, by the server's policy",
	}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Error(diff)
	}
	if read, err := w.Incarnation(ctx, published.ID); err != nil || !cmp.Equal(read.Grants, next.Grants) {
		t.Errorf("the incarnation says %v, %v", read.Grants, err)
	}
	// What it does not say any more does not hold any more; the server's does.
	next = w.next()
	_, err = w.Publish(ctx, w.lease, next)
	w.must(err)
	if diff := cmp.Diff([]string{want[0], want[3]}, list()); diff != "" {
		t.Error(diff)
	}
	w.policy()
	if got := list(); len(got) != 0 {
		t.Errorf("at last there are %v", got)
	}
	if diff := cmp.Diff([]string{"grant user:ann admin, by the server", "ungrant user:ann admin, by the server"}, w.said("")); diff != "" {
		t.Error(diff)
	}
	told := slices.DeleteFunc(w.said(shop), func(s string) bool { return !strings.Contains(s, "grant") })
	if diff := cmp.Diff([]string{
		"grant group:sre operator, by the server", "grant everyone viewer, by the definition", "grant group:sre operator, by the definition",
		"ungrant everyone viewer, by the definition", "ungrant group:sre operator, by the definition", "ungrant group:sre operator, by the server",
	}, told); diff != "" {
		t.Error(diff)
	}
	// A definition gives nothing beyond itself, nor what could give more.
	for _, grant := range []intent.Grant{
		{Subject: "user:ann", Role: intent.Admin, Partition: shop}, {Subject: "user:ann", Role: intent.Viewer, Partition: theatre},
		{Subject: "user:ann", Role: intent.Viewer}, {Subject: "ann", Role: intent.Viewer, Partition: shop}, {Subject: "user:ann", Role: "owner", Partition: shop},
	} {
		next := w.next()
		next.Grants = []intent.Grant{grant}
		_, err := w.Publish(ctx, w.lease, next)
		w.refused(err, fault.Invalid)
		if grant.Partition == shop && grant.Role == intent.Admin {
			continue
		}
		if grant.Role != intent.Viewer || grant.Subject == "ann" {
			w.refused(w.SetPolicy(ctx, []intent.Grant{grant}, alice), fault.Invalid)
		}
	}
	w.refused(w.SetPolicy(ctx, []intent.Grant{{Subject: intent.Everyone, Role: intent.Operator}}, alice), fault.Invalid)
	w.must(w.VerifyAudit(ctx, shop))
}

func testTokens(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.policy(intent.Grant{Subject: "user:root", Role: intent.Admin}, intent.Grant{Subject: "group:sre", Role: intent.Operator})
	before := time.Now()
	ann := w.token("ann1", "ann", func(n *store.Token) { n.Groups, n.Description = []string{"sre"}, "by hand" })
	if ann.Kind != store.TokenByHand || ann.Until.Sub(ann.Created) != store.UsualTokenPeriod || ann.Created.Before(before.Truncate(time.Microsecond)) {
		t.Errorf("made %+v", ann)
	}
	if read, err := w.TokenByID(ctx, "ann1"); err != nil || !cmp.Equal(ann, read) {
		t.Errorf("it reads %v: %s", err, cmp.Diff(ann, read))
	}
	_, err := w.TokenByID(ctx, "other")
	w.refused(err, fault.NotFound)
	root := w.token("root1", "root", nil)
	bob := w.token("bob1", "bob", nil)
	for name, token := range map[string]store.Token{
		"no id":          {Hash: ann.Hash, Owner: "ann"},
		"no secret":      {ID: "x", Owner: "ann"},
		"no owner":       {ID: "x", Hash: ann.Hash},
		"odd owner":      {ID: "x", Hash: ann.Hash, Owner: "a\nb"},
		"odd kind":       {ID: "x", Hash: ann.Hash, Owner: "ann", Kind: "eternal"},
		"odd role":       {ID: "x", Hash: ann.Hash, Owner: "ann", Roles: []intent.Role{"owner"}},
		"odd partition":  {ID: "x", Hash: ann.Hash, Owner: "ann", Partitions: []intent.PartitionID{"Not One"}},
		"ended":          {ID: "x", Hash: ann.Hash, Owner: "ann", Until: before},
		"for ever":       {ID: "x", Hash: ann.Hash, Owner: "ann", Until: before.Add(2 * store.MaxTokenPeriod)},
		"a description":  {ID: "x", Hash: ann.Hash, Owner: "ann", Description: strings.Repeat("a", 400)},
		"an id in use":   {ID: "ann1", Hash: ann.Hash, Owner: "ann"},
		"an owner of it": {ID: "x", Hash: ann.Hash, Owner: strings.Repeat("a", 400)},
	} {
		if _, err := w.CreateToken(ctx, token); err == nil {
			t.Errorf("%s: it was made", name)
		}
	}

	make := func(by store.Token, id string, change func(*store.Token)) (store.Token, error) {
		token := store.Token{ID: id, Hash: sha256.Sum256([]byte(id))}
		if change != nil {
			change(&token)
		}
		return w.CreateToken(w.as(by), token)
	}
	// A token makes one that may do less than itself, and no other.
	narrow, err := make(ann, "ann2", func(n *store.Token) {
		n.Roles, n.Partitions, n.Groups, n.Kind = []intent.Role{intent.Operator}, []intent.PartitionID{shop, theatre}, []string{"admins"}, store.TokenByLogin
	})
	w.must(err)
	if narrow.Owner != "ann" || !slices.Equal(narrow.Groups, ann.Groups) || narrow.Parent != "ann1" || narrow.Until.After(ann.Until) || narrow.Kind != store.TokenByHand {
		t.Errorf("made %+v", narrow)
	}
	same, err := make(narrow, "ann3", nil)
	w.must(err)
	if !slices.Equal(same.Roles, narrow.Roles) || !slices.Equal(same.Partitions, narrow.Partitions) || same.Parent != "ann2" {
		t.Errorf("it inherits nothing: %+v", same)
	}
	less, err := make(narrow, "ann4", func(n *store.Token) { n.Roles, n.Partitions = []intent.Role{intent.Viewer}, []intent.PartitionID{shop} })
	w.must(err)
	if less.Parent != "ann2" || len(less.Roles) != 1 {
		t.Errorf("made %+v", less)
	}
	for name, change := range map[string]func(*store.Token){
		"another role":      func(n *store.Token) { n.Roles = []intent.Role{intent.Approver} },
		"more roles":        func(n *store.Token) { n.Roles = []intent.Role{intent.Operator, intent.Admin} },
		"another partition": func(n *store.Token) { n.Partitions = []intent.PartitionID{"other"} },
		"a later end":       func(n *store.Token) { n.Until = narrow.Until.Add(time.Minute) },
		"another owner":     func(n *store.Token) { n.Owner = "bob" },
	} {
		if _, err := make(narrow, "x", change); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := make(root, "bob2", func(n *store.Token) { n.Owner, n.Groups = "bob", []string{"sre"} })
	w.must(err)
	if other.Owner != "bob" || other.Parent != "root1" {
		t.Errorf("made %+v", other)
	}
	_, err = w.CreateToken(store.WithCaller(ctx, local), store.Token{ID: "alice1", Hash: ann.Hash})
	w.must(err)

	// Each sees their own, an admin all.
	ids := func(ctx context.Context) (ids []string) {
		tokens, err := w.Tokens(ctx)
		w.must(err)
		for _, token := range tokens {
			ids = append(ids, token.ID)
		}
		slices.Sort(ids)
		return ids
	}
	for who, c := range map[string]struct {
		ctx  context.Context
		want []string
	}{
		"ann":   {w.as(ann), []string{"ann1", "ann2", "ann3", "ann4"}},
		"bob":   {w.as(bob), []string{"bob1", "bob2"}},
		"root":  {w.as(root), []string{"alice1", "ann1", "ann2", "ann3", "ann4", "bob1", "bob2", "root1"}},
		"alice": {store.WithCaller(ctx, local), []string{"alice1", "ann1", "ann2", "ann3", "ann4", "bob1", "bob2", "root1"}},
	} {
		if got := ids(c.ctx); !slices.Equal(got, c.want) {
			t.Errorf("%s sees %v, want %v", who, got, c.want)
		}
	}

	// A limited one ends itself and what it made, an unlimited one all of its
	// owner's, an admin any; with it ends what was made with it.
	for _, c := range []struct {
		by store.Token
		id string
	}{{narrow, "ann1"}, {less, "ann3"}, {bob, "ann1"}, {ann, "bob1"}, {bob, "missing"}, {store.Token{ID: "unknown"}, "ann1"}, {store.Token{}, "ann1"}} {
		if _, err := w.RevokeToken(w.as(c.by), c.id, "mine"); !fault.Is(err, fault.Denied) {
			t.Errorf("%s ended %s: %v", c.by.ID, c.id, err)
		}
	}
	_, err = w.RevokeToken(w.as(root), "missing", "")
	w.refused(err, fault.NotFound)
	ended, err := w.RevokeToken(w.as(narrow), "ann4", "a try")
	w.must(err)
	if ended.Revoked.IsZero() {
		t.Errorf("it is not revoked: %+v", ended)
	}
	again, err := w.RevokeToken(w.as(ann), "ann4", "again")
	w.must(err)
	if !again.Revoked.Equal(ended.Revoked) {
		t.Errorf("it was revoked twice: %v, %v", ended.Revoked, again.Revoked)
	}
	_, err = w.RevokeToken(w.as(root), "ann1", "lost")
	w.must(err)
	for id, want := range map[string]bool{"ann1": true, "ann2": true, "ann3": true, "ann4": true, "bob1": false, "bob2": false, "root1": false} {
		if token, err := w.TokenByID(ctx, id); err != nil || token.Revoked.IsZero() == want {
			t.Errorf("%s: revoked %v, %v, want %v", id, token.Revoked, err, want)
		}
	}
	_, err = make(ann, "x", nil)
	w.refused(err, fault.Denied)
	_, err = w.Tokens(w.as(ann))
	w.refused(err, fault.Denied)
	w.refused(w.SetStop(w.as(narrow), intent.Stop{Partition: shop, Owner: alice}), fault.Denied)
	want := []string{
		"revoke-token ann4 a try", "revoke-token ann1 lost", "revoke-token ann2 made with ann1: lost", "revoke-token ann3 made with ann1: lost",
	}
	told := slices.DeleteFunc(w.said(""), func(s string) bool { return !strings.HasPrefix(s, "revoke") })
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	w.must(w.VerifyAudit(ctx, ""))
}

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
	held := candidate("held", intent.CandidateHeld)
	count := 0
	none := func() {}
	stopped := func(partition intent.PartitionID) func() {
		return func() { w.must(w.SetStop(ctx, intent.Stop{Partition: partition, Owner: bob})) }
	}
	resumed := func(partition intent.PartitionID) func() {
		return func() { _ = w.Resume(ctx, partition, "", bob) }
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
		{"SetStop", intent.Operator, shop, resumed(shop), func(ctx context.Context) error { return w.SetStop(ctx, intent.Stop{Partition: shop, Owner: bob}) }},
		{"SetStop", intent.Operator, "", resumed(""), func(ctx context.Context) error { return w.SetStop(ctx, intent.Stop{Owner: bob}) }},
		{"Resume", intent.Operator, shop, stopped(shop), func(ctx context.Context) error { return w.Resume(ctx, shop, "", bob) }},
		{"Resume", intent.Operator, "", stopped(""), func(ctx context.Context) error { return w.Resume(ctx, "", "", bob) }},
		{"Approve", intent.Approver, shop, none, func(ctx context.Context) error {
			return w.Approve(ctx, store.Approval{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: bob})
		}},
		{"Acknowledge", intent.Approver, shop, func() { w.must(w.SaveCandidate(ctx, w.lease, held, nil)) },
			func(ctx context.Context) error { return w.Acknowledge(ctx, held.ID, "", bob) }},
		{"SetLabel", intent.Operator, shop, func() { count++ },
			func(ctx context.Context) error { return w.SetLabel(ctx, at(1), "try", fmt.Sprint(count), "", bob) }},
		{"Disown", intent.Operator, shop, func() {
			_, err := w.SaveEnforced(ctx, w.lease, []store.Enforced{{Asset: "gone", Type: job, Effective: digestOf("x"), Incarnation: at(1), At: noon}})
			w.must(err)
		}, func(ctx context.Context) error { return w.Disown(ctx, shop, "gone", "", bob) }},
		{"AddPartition", intent.Admin, shop, none, func(ctx context.Context) error {
			return w.AddPartition(ctx, shop, fmt.Sprintf("/srv/%d.yaml", count), "", bob)
		}},
		{"AddPartition", intent.Admin, "", func() { _ = w.RemovePartition(ctx, "new", "", bob) },
			func(ctx context.Context) error { return w.AddPartition(ctx, "new", "/srv/new.yaml", "", bob) }},
		{"RemovePartition", intent.Admin, "old", func() { w.must(w.AddPartition(ctx, "old", "/srv/old.yaml", "", bob)) },
			func(ctx context.Context) error { return w.RemovePartition(ctx, "old", "", bob) }},
		{"CreateToken", intent.Admin, "", func() { count++ }, func(ctx context.Context) error {
			id := fmt.Sprint("made-", count)
			_, err := w.CreateToken(ctx, store.Token{ID: id, Hash: sha256.Sum256([]byte(id)), Owner: "somebody"})
			return err
		}},
		{"RevokeToken", intent.Admin, "", func() { count++; w.token(fmt.Sprint("ended-", count), "somebody", nil) },
			func(ctx context.Context) error {
				_, err := w.RevokeToken(ctx, fmt.Sprint("ended-", count), "")
				return err
			}},
		{"SetPolicy", "", "", none, func(ctx context.Context) error { return w.SetPolicy(ctx, nil, bob) }},
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
		all = append(all, bearer{name, w.as(token), may})
	}
	var byPolicy, byDefinition []intent.Grant
	ending := time.Now().Add(100 * time.Millisecond)
	limit := func(roles []intent.Role, partitions ...intent.PartitionID) func(*store.Token) {
		return func(n *store.Token) { n.Roles, n.Partitions = roles, partitions }
	}
	for _, role := range intent.Roles() {
		for _, where := range []intent.PartitionID{shop, theatre, "old", ""} {
			owner := fmt.Sprintf("%s-%s", role, where)
			byPolicy = append(byPolicy, intent.Grant{Subject: "user:" + owner, Role: role, Partition: where})
			may := func(needed intent.Role, partition intent.PartitionID) bool {
				return (needed == role || role == intent.Admin && needed != "") && (where == "" || where == partition)
			}
			add(owner, w.token(owner, owner, nil), may)
			add(owner+" in a group", w.token(owner+"+g", "member", func(n *store.Token) { n.Groups = []string{owner} }), may)
			byPolicy = append(byPolicy, intent.Grant{Subject: "group:" + owner, Role: role, Partition: where})
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
				return needed == role && partition == shop
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
	ended := w.token("ended", "admin-", func(n *store.Token) { n.Until = time.Now().Add(time.Until(ending) + time.Second) })
	add("ended", ended, never)
	time.Sleep(time.Until(ended.Until)) // Tokens end by the clock, and by nothing else.
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
			sum += len(w.said(partition))
		}
		return sum
	}
	allowed, denied := 0, 0
	for _, attempt := range writes {
		attempt.prepare()
		before := chains()
		for _, who := range bearers {
			may := who.may(attempt.role, attempt.partition)
			if may {
				continue
			}
			denied++
			if err := attempt.do(who.ctx); !fault.Is(err, fault.Denied) {
				t.Errorf("%s may %s in %q, and was told %v", who.name, attempt.method, attempt.partition, err)
			}
		}
		if now := chains(); now != before {
			t.Errorf("%s in %q was denied, and left %d records", attempt.method, attempt.partition, now-before)
		}
		for _, who := range bearers {
			if !who.may(attempt.role, attempt.partition) || attempt.method == "SetPolicy" && who.name != "local" {
				continue
			}
			allowed++
			attempt.prepare()
			if err := attempt.do(who.ctx); err != nil {
				t.Errorf("%s may not %s in %q: %v", who.name, attempt.method, attempt.partition, err)
			}
		}
	}
	t.Logf("%d allowed, %d denied", allowed, denied)
	for _, partition := range []intent.PartitionID{"", shop} {
		w.must(w.VerifyAudit(t.Context(), partition))
		records, err := w.AuditRecords(t.Context(), partition, 0, 10_000)
		w.must(err)
		if !slices.ContainsFunc(records, func(r store.AuditRecord) bool { return r.Token == "operator-" && r.From == "10.0.0.9:1" }) {
			t.Errorf("the records of %q do not say by which token, and where from", partition)
		}
	}
}

// asksNobody are the methods that no caller's authority is asked for, besides
// those that act under a lease: they read, or are Lehr's own.
var asksNobody = []string{
	"Partition", "ListPartitions", "Renew", "Retire", "Free", "Replicas", "Acquire", "Incarnation", "Incarnations", "Member", "Body", "Content", "Members", "Changes",
	"FindIncarnation", "EdgesFrom", "EdgesTo", "Candidate", "CandidateDelta", "ListCandidates", "Acknowledged", "GetBlob", "Pins", "Holds",
	"Stops", "Approvals", "OpenPushes", "Pushes", "EnforcedPage", "EnforcedCount", "Orphans", "OrphanCount", "Report", "ListReports",
	"CountReports", "AuditRecords", "AuditEnds", "AuditTrouble", "WalkAudit", "VerifyAudit", "Identity", "TokenByID", "Tokens", "Grants", "Authority", "Authorize", "Changed", "Close",
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
	for _, who := range w.bearers() {
		authority, err := w.Authority(who.ctx)
		if who.name != "unknown" {
			w.must(err)
		}
		for _, role := range intent.Roles() {
			for _, partition := range []intent.PartitionID{shop, theatre, ""} {
				if role == intent.Viewer {
					continue // Which every role includes: testAuthority's rule says nothing of it.
				}
				want := who.may(role, partition)
				err := w.Authorize(who.ctx, role, partition)
				if (err == nil) != want || err != nil && !fault.Is(err, fault.Denied) {
					t.Errorf("%s as %s in %q: %v, want %v", who.name, role, partition, err, want)
				}
				effective := slices.ContainsFunc(authority.Effective(), func(g store.Grant) bool {
					return g.Role.Includes(role) && (g.Partition == "" || g.Partition == partition)
				})
				if who.name != "Lehr itself" && effective != want {
					t.Errorf("%s as %s in %q: listed %v, want %v", who.name, role, partition, effective, want)
				}
			}
		}
	}
}
