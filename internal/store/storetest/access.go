package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
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
	created, err := w.CreateToken(w.t.Context(), token, 0)
	w.must(err)
	return created
}

// tokenThatEnds is one that has its end as soon as the store makes it in time: a busy machine takes
// longer.
func (w *world) tokenThatEnds(id, owner string) store.Token {
	w.t.Helper()
	for lives := time.Second; ; lives *= 2 {
		token := store.Token{ID: id, Hash: sha256.Sum256([]byte(id)), Owner: owner, Until: time.Now().Add(lives)}
		created, err := w.CreateToken(w.t.Context(), token, 0)
		if err == nil {
			return created
		}
		if !fault.Is(err, fault.Invalid) || lives > time.Minute {
			w.t.Fatal(err)
		}
	}
}

// contextOf is a context of who bears a token.
func (w *world) contextOf(token store.Token) context.Context {
	return store.WithCaller(w.t.Context(), store.Caller{Actor: intent.Actor{Name: token.Owner, Origin: "api"}, Token: token.ID, From: "10.0.0.9:1"})
}

func (w *world) policy(grants ...intent.Grant) {
	w.t.Helper()
	w.must(w.SetPolicy(w.t.Context(), grants, alice))
}

// lines lists what the audit says of a partition, verb and subject.
func (w *world) auditLines(partition intent.PartitionID) (lines []string) {
	w.t.Helper()
	records, err := w.AuditRecords(w.t.Context(), partition, 0, 0)
	w.must(err)
	for _, r := range records {
		lines = append(lines, strings.TrimSpace(r.Verb+" "+r.Subject+" "+r.Detail))
	}
	return lines
}

func testGrants(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	list := func() (lines []string) {
		grants, err := w.Grants(ctx)
		w.must(err)
		for _, g := range grants {
			lines = append(lines, g.String())
		}
		return lines
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
	if diff := cmp.Diff([]string{"grant user:ann admin, by the server", "ungrant user:ann admin, by the server"}, w.auditLines("")); diff != "" {
		t.Error(diff)
	}
	grantLines := slices.DeleteFunc(w.auditLines(shop), func(s string) bool { return !strings.Contains(s, "grant") })
	if diff := cmp.Diff([]string{
		"grant group:sre operator, by the server", "grant everyone viewer, by the definition", "grant group:sre operator, by the definition",
		"ungrant everyone viewer, by the definition", "ungrant group:sre operator, by the definition", "ungrant group:sre operator, by the server",
	}, grantLines); diff != "" {
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

// testTokensAreCounted: so many of one owner and kind are kept, also where many are made at
// once, and a session that ended counts for an hour from its beginning.
func testTokensAreCounted(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	const most = 3
	make := func(kind, owner string, number int) error {
		id := fmt.Sprint(kind, owner, number)
		_, err := w.CreateToken(t.Context(), store.Token{ID: id, Hash: sha256.Sum256([]byte(id)), Owner: owner, Kind: kind}, most)
		return err
	}
	for _, kind := range []string{store.TokenByHand, store.TokenByLogin} {
		errs := [12]error{}
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = make(kind, "ann", i) })
		}
		all.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
				continue
			}
			w.refused(err, fault.Exhausted)
			if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.RetryAfter <= 0 {
				t.Errorf("it does not say when to ask again: %v", err)
			}
		}
		if made != most {
			t.Errorf("%s: %d were made, want %d", kind, made, most)
		}
		w.must(make(kind, "bob", 0)) // Another's are no matter.
		tokens, err := w.Tokens(t.Context())
		w.must(err)
		for _, token := range tokens {
			if token.Owner == "ann" && token.Kind == kind {
				_, err := w.RevokeToken(t.Context(), token.ID, "over")
				w.must(err)
			}
		}
		w.refused(make(kind, "ann", 99), fault.Exhausted)
	}
}

func testTokens(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.policy(intent.Grant{Subject: "user:root", Role: intent.Admin}, intent.Grant{Subject: "group:sre", Role: intent.Operator})
	startedAt := time.Now()
	ann := w.token("ann1", "ann", func(n *store.Token) { n.Groups, n.Description = []string{"sre"}, "by hand" })
	if ann.Kind != store.TokenByHand || ann.Until.Sub(ann.Created) != store.UsualTokenPeriod || ann.Created.Before(startedAt.Truncate(time.Microsecond)) {
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
		"ended":          {ID: "x", Hash: ann.Hash, Owner: "ann", Until: startedAt},
		"for ever":       {ID: "x", Hash: ann.Hash, Owner: "ann", Until: startedAt.Add(2 * store.MaxTokenPeriod)},
		"a description":  {ID: "x", Hash: ann.Hash, Owner: "ann", Description: strings.Repeat("a", 400)},
		"an id in use":   {ID: "ann1", Hash: ann.Hash, Owner: "ann"},
		"an owner of it": {ID: "x", Hash: ann.Hash, Owner: strings.Repeat("a", 400)},
	} {
		if _, err := w.CreateToken(ctx, token, 0); err == nil {
			t.Errorf("%s: it was made", name)
		}
	}

	make := func(caller store.Token, id string, change func(*store.Token)) (store.Token, error) {
		token := store.Token{ID: id, Hash: sha256.Sum256([]byte(id))}
		if change != nil {
			change(&token)
		}
		return w.CreateToken(w.contextOf(caller), token, 0)
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
	_, err = w.CreateToken(store.WithCaller(ctx, local), store.Token{ID: "alice1", Hash: ann.Hash}, 0)
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
	for user, c := range map[string]struct {
		ctx  context.Context
		want []string
	}{
		"ann":   {w.contextOf(ann), []string{"ann1", "ann2", "ann3", "ann4"}},
		"bob":   {w.contextOf(bob), []string{"bob1", "bob2"}},
		"root":  {w.contextOf(root), []string{"alice1", "ann1", "ann2", "ann3", "ann4", "bob1", "bob2", "root1"}},
		"alice": {store.WithCaller(ctx, local), []string{"alice1", "ann1", "ann2", "ann3", "ann4", "bob1", "bob2", "root1"}},
	} {
		if got := ids(c.ctx); !slices.Equal(got, c.want) {
			t.Errorf("%s sees %v, want %v", user, got, c.want)
		}
	}

	// A limited one ends itself and what it made, an unlimited one all of its
	// owner's, an admin any; with it ends what was made with it.
	for _, c := range []struct {
		by store.Token
		id string
	}{{narrow, "ann1"}, {less, "ann3"}, {bob, "ann1"}, {ann, "bob1"}, {bob, "missing"}, {store.Token{ID: "unknown"}, "ann1"}, {store.Token{}, "ann1"}} {
		if _, err := w.RevokeToken(w.contextOf(c.by), c.id, "mine"); !fault.Is(err, fault.Denied) {
			t.Errorf("%s ended %s: %v", c.by.ID, c.id, err)
		}
	}
	_, err = w.RevokeToken(w.contextOf(root), "missing", "")
	w.refused(err, fault.NotFound)
	revoked, err := w.RevokeToken(w.contextOf(narrow), "ann4", "a try")
	w.must(err)
	if revoked.Revoked.IsZero() {
		t.Errorf("it is not revoked: %+v", revoked)
	}
	again, err := w.RevokeToken(w.contextOf(ann), "ann4", "again")
	w.must(err)
	if !again.Revoked.Equal(revoked.Revoked) {
		t.Errorf("it was revoked twice: %v, %v", revoked.Revoked, again.Revoked)
	}
	_, err = w.RevokeToken(w.contextOf(root), "ann1", "lost")
	w.must(err)
	for id, want := range map[string]bool{"ann1": true, "ann2": true, "ann3": true, "ann4": true, "bob1": false, "bob2": false, "root1": false} {
		if token, err := w.TokenByID(ctx, id); err != nil || token.Revoked.IsZero() == want {
			t.Errorf("%s: revoked %v, %v, want %v", id, token.Revoked, err, want)
		}
	}
	_, err = make(ann, "x", nil)
	w.refused(err, fault.Denied)
	_, err = w.Tokens(w.contextOf(ann))
	w.refused(err, fault.Denied)
	w.refused(w.SetStop(w.contextOf(narrow), intent.Stop{Partition: shop, Owner: alice}), fault.Denied)
	want := []string{
		"revoke-token ann4", "revoke-token ann1", "revoke-token ann2 made with ann1", "revoke-token ann3 made with ann1",
	}
	revocations := slices.DeleteFunc(w.auditLines(""), func(s string) bool { return !strings.HasPrefix(s, "revoke") })
	if diff := cmp.Diff(want, revocations); diff != "" {
		t.Error(diff)
	}
	w.must(w.VerifyAudit(ctx, ""))
}
