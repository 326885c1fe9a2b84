package delivery

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// repository is a branch with one document, and a host of pull requests. Its commits are a line.
type repository struct {
	lock     sync.Mutex
	contents [][]byte
	// pulls are open pull requests by their keys; decided are those that people closed or merged.
	pulls   []landing.Landing
	decided map[string]landing.Request
	// away: it cannot be read. refuses: it takes nothing. lost: the answer to the next commit is.
	// meanwhile is done before the next commit.
	away, refuses, lost bool
	meanwhile           func()
	landings, reads     int
	// keys of landings of pull requests that were tried.
	keys map[string]bool
}

func commitOf(n int) string { return fmt.Sprintf("%07x", n+1) }

func (r *repository) Read(context.Context, intent.PartitionID, string) (document.Document, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.reads++; r.away {
		return document.Document{}, fault.New(fault.Unavailable, "no route to git.example.com")
	}
	n := len(r.contents) - 1
	return document.Document{Content: r.contents[n], Revision: document.Revision{ID: commitOf(n)}, Place: "knobs.yaml"}, nil
}

func (r *repository) Land(_ context.Context, _ intent.PartitionID, _ string, l landing.Landing) (landing.Request, error) {
	if meanwhile := r.meanwhile; meanwhile != nil {
		r.meanwhile = nil
		meanwhile()
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if l.Host != "" {
		r.keys[l.Key] = true
	}
	if r.landings++; r.refuses && l.Host != "" {
		return landing.Request{}, fault.New(fault.Denied, "the branch is protected")
	}
	if l.Host != "" {
		if request, ok := r.decided[l.Key]; ok {
			return request, nil
		}
		at := slices.IndexFunc(r.pulls, func(p landing.Landing) bool { return p.Key == l.Key })
		if at < 0 {
			at, r.pulls = len(r.pulls), append(r.pulls, l)
		}
		return landing.Request{PullRequest: intent.PullRequest{Number: at + 1, Link: "https://git.example.com/pull"}}, nil
	}
	base := 0
	for n := range r.contents {
		if commitOf(n) == l.Edit.Base {
			base = n
		}
	}
	for _, op := range l.Edit.Operations {
		based, _, _ := fieldOf(r.contents[base], op.Path)
		if now, _, _ := fieldOf(r.contents[len(r.contents)-1], op.Path); now != based {
			return landing.Request{}, fault.New(fault.Conflict, "somebody else set it")
		}
	}
	if err := r.commit(l.Edit.Operations); err != nil {
		return landing.Request{}, err
	}
	if r.lost {
		r.lost = false
		return landing.Request{}, errLost
	}
	return landing.Request{}, nil
}

func (r *repository) commit(operations []document.Operation) error {
	next, err := document.Apply(r.contents[len(r.contents)-1], operations)
	if err == nil && !bytes.Equal(next, r.contents[len(r.contents)-1]) {
		r.contents = append(r.contents, next)
	}
	return err
}

func (r *repository) Withdraw(_ context.Context, _ intent.PartitionID, _ string, l landing.Landing) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.decided == nil {
		r.decided = map[string]landing.Request{}
	}
	for i, p := range r.pulls {
		if p.Key == l.Key {
			r.decided[l.Key] = landing.Request{PullRequest: intent.PullRequest{Number: i + 1}, Closed: true}
		}
	}
	return nil
}

func (r *repository) At(context.Context, intent.PartitionID, string, string) (document.Document, error) {
	return document.Document{}, errLost // Nobody asks for delivery.
}

func (r *repository) Since(context.Context, intent.PartitionID, string, string, string) ([]document.Revision, error) {
	return nil, errLost // Nobody asks for delivery.
}

func (r *repository) Includes(_ context.Context, _ intent.PartitionID, _, commit, ancestor string) (bool, error) {
	return commit >= ancestor, nil
}

// person sets the version of an environment by a commit.
func (r *repository) person(environment, version string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if err := r.commit([]document.Operation{{Path: "/" + environment + "/version", Value: fmt.Appendf(nil, "%q", version)}}); err != nil {
		panic(err)
	}
}

// decide on the newest pull request.
func (r *repository) decide(merge bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.decided == nil {
		r.decided = map[string]landing.Request{}
	}
	newest := r.pulls[len(r.pulls)-1]
	r.decided[newest.Key] = landing.Request{PullRequest: intent.PullRequest{Number: len(r.pulls), Link: "https://git.example.com/pull"}, Closed: !merge, Merged: merge}
	if merge && !r.refuses {
		if err := r.commit(newest.Edit.Operations); err != nil {
			panic(err)
		}
	}
}

func (r *repository) version(environment string) string {
	r.lock.Lock()
	defer r.lock.Unlock()
	value, _, _ := fieldOf(r.contents[len(r.contents)-1], "/"+environment+"/version")
	return value
}

// inRepository is chain, whose document lies in a repository; its production has no judgement.
func inRepository(host string) *intentpb.Delivery {
	spec := chain()
	for _, e := range spec.Environments {
		e.InRepository = true
	}
	spec.Environments[1].Constraints, spec.Environments[1].PullRequest = spec.Environments[1].Constraints[:1], host
	return spec
}

// landingWorld is a world whose document lies in a repository, with an actor that goes on.
func landingWorld(t *testing.T, host string) (*world, *Deliverer) {
	w := newWorld(t, inRepository(host))
	w.repository = &repository{keys: map[string]bool{}, contents: [][]byte{[]byte(`{"production":{"version":"1.0.0"},"test":{"version":"1.0.0"}}`)}}
	w.repositoryOf = shop
	return w, w.actor(shop)
}

// actor is one that was just started.
func (w *world) actor(id intent.PartitionID) *Deliverer {
	d := New(Options{
		Partition: id, Store: interposed{w.store, w}, Reader: &Reader{Store: w.store, Schemas: schemas{}}, Runtime: clock{loop.Real(), w}, Log: slog.New(slog.DiscardHandler),
		Repositories: w.repository,
	})
	d.lease = w.leases[id]
	return d
}

// settle has an actor look, build and enforce until a condition holds.
func (w *world) settle(d *Deliverer, what string, holds func() bool) {
	w.t.Helper()
	const most = 300
	for range most {
		w.build(d.Partition)
		w.enforce(d.Partition)
		if _, err := d.pass(w.t.Context()); err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Unavailable) {
			w.t.Fatal(err)
		}
		_ = d.visits.Wait(w.t.Context())
		w.tick(time.Second)
		if holds() {
			return
		}
	}
	w.t.Fatalf("never: %s; rows: %v", what, w.kinds())
}

func (w *world) rows() []intent.DeliveryRecord {
	w.t.Helper()
	rows, err := w.store.DeliveryRecords(w.t.Context(), shop, store.DeliveryFilter{Application: "web", Limit: 1000})
	w.must(err)
	return rows
}

func (w *world) kinds() (list []string) {
	for _, r := range w.rows() {
		list = append(list, fmt.Sprintf("%s %s %s", r.Kind, r.Environment, r.Version.Name))
	}
	return list
}

// outcome is what is decided for an environment.
func (w *world) outcome(at int) promotion.Outcome {
	w.t.Helper()
	m := w.moment()
	return m.Application.Decide(m.Catalogue, m.Facts).Outcomes[at]
}

// good reports whether all assets of an environment are good with a version, by rows.
func (w *world) good(at int, version string) bool {
	m := w.moment()
	stays := m.Facts.Environments[m.Places[at].Spec.GetName()].Stays
	return len(stays) > 0 && stays[len(stays)-1].Name == version && !stays[len(stays)-1].GoodSince.IsZero()
}

// A version comes by one commit, though the answer to it is lost and the actor forgets all; its
// row names the commit, and the environment is good once head is built of it.
func TestVersionsComeByCommits(t *testing.T) {
	w, d := landingWorld(t, "")
	w.list("1.0.0")
	w.settle(d, "both are good", func() bool { return w.good(0, "1.0.0") && w.good(1, "1.0.0") })
	w.repository.lost = true
	w.list("1.0.0", "1.1.0")
	w.settle(d, "the commit is made", func() bool { return w.repository.version("test") == "1.1.0" })
	if rows := w.rows(); rows[len(rows)-1].Kind != intent.DeliveryLanding || rows[len(rows)-1].Version.Name != "1.1.0" {
		t.Fatalf("the commit was made before its row: %v", w.kinds())
	}
	d = w.actor(shop)
	w.settle(d, "production is good with it", func() bool { return w.good(1, "1.1.0") })
	if n := len(w.repository.contents); n != 3 {
		t.Errorf("%d commits, want 3: the first, one for test and one for production", n)
	}
	for _, r := range w.rows() {
		if r.Kind == intent.DeliveryPromotion && (r.Revision != commitOf(1) && r.Environment == "test" || r.Revision != commitOf(2) && r.Environment == "production" || r.Reason == "") {
			t.Errorf("%+v", r)
		}
	}
}

// An environment is not good before head is built of the commit that brought its version.
func TestGoodOnceHeadHasTheCommit(t *testing.T) {
	w, d := landingWorld(t, "")
	w.list("1.0.0")
	w.settle(d, "test is good", func() bool { return w.good(0, "1.0.0") })
	w.list("1.0.0", "1.1.0")
	for range 60 { // Nothing is built meanwhile.
		_, err := d.pass(t.Context())
		w.must(err)
		_ = d.visits.Wait(w.t.Context())
		w.tick(time.Second)
	}
	if w.repository.version("test") != "1.1.0" || w.good(0, "1.1.0") || w.repository.version("production") != "1.0.0" {
		t.Fatalf("test is good with 1.1.0, of which nothing was built: %v", w.kinds())
	}
	w.settle(d, "test is good", func() bool { return w.good(0, "1.1.0") })
}

// What a person says after it was decided and before the commit is made counts.
func TestNothingIsCommittedAfterAPersonSaidNo(t *testing.T) {
	w, d := landingWorld(t, "")
	w.list("1.0.0")
	w.settle(d, "test is good", func() bool { return w.good(0, "1.0.0") })
	w.list("1.0.0", "1.1.0")
	w.settle(d, "it is to land", func() bool { return len(w.moment().Places[0].coming().Name) > 0 })
	landings := w.repository.landings
	d.Store = checking{d.Store.(interposed), &sync.Once{}, func() { w.act(intent.ActMarkBad, "test", "1.1.0") }}
	w.settle(d, "it is to land no longer", func() bool { return w.moment().Places[0].coming() == (intent.VersionName{}) })
	if w.repository.landings != landings || w.repository.version("test") != "1.0.0" {
		t.Errorf("1.1.0 was committed after it was marked bad")
	}
}

// checking does something once when the lease is checked, which is right before a commit.
type checking struct {
	interposed
	once *sync.Once
	do   func()
}

func (c checking) Check(ctx context.Context, lease store.Lease) error {
	c.once.Do(c.do)
	return c.interposed.Check(ctx, lease)
}

// A person who sets the field is found, and what they set is left alone.
func TestFieldsThatPeopleSetInRepositories(t *testing.T) {
	w, d := landingWorld(t, "")
	w.list("1.0.0", "1.1.0")
	w.settle(d, "test is good", func() bool { return w.good(0, "1.1.0") })
	w.list("1.0.0", "1.1.0", "1.2.0")
	w.repository.meanwhile = func() { w.repository.person("test", "1.0.0") }
	w.settle(d, "it is found", func() bool { return w.outcome(0).Hold == promotion.HeldByEdit })
	if w.repository.version("test") != "1.0.0" {
		t.Errorf("test has %s", w.repository.version("test"))
	}
}

// A pull request is landed when it is merged and rejected when it is closed; what is superseded is
// closed, and so is what somebody set the field beside.
func TestVersionsComeByPullRequests(t *testing.T) {
	w, d := landingWorld(t, "hub")
	r := w.repository
	w.list("1.0.0", "1.1.0")
	open := func(number int) func() bool {
		return func() bool { l := w.moment().Places[1].Landing; return l != nil && l.Request.Number == number }
	}
	w.settle(d, "the first is open", open(1))
	d = w.actor(shop)
	r.decide(true)
	w.settle(d, "production has it", func() bool { return w.good(1, "1.1.0") })
	w.list("1.0.0", "1.1.0", "1.2.0")
	w.settle(d, "the second is open", open(2))
	r.decide(false)
	w.settle(d, "it is rejected", func() bool { return w.outcome(1).Wants.Name == "1.1.0" })
	if explained, err := w.explain("production", "1.2.0"); err != nil || !strings.Contains(explained, "people closed the pull request #2") {
		t.Errorf("%q, %v", explained, err)
	}
	w.act(intent.ActMarkGood, "production", "1.2.0")
	w.settle(d, "it is proposed anew", open(3))
	w.list("1.0.0", "1.1.0", "1.2.0", "1.3.0")
	w.settle(d, "the newer one is open", open(4))
	if got := r.decided[r.pulls[2].Key]; !got.Closed {
		t.Errorf("the superseded pull request is %+v", got)
	}
	r.person("production", "1.0.0")
	w.settle(d, "it is found", func() bool { return w.outcome(1).Hold == promotion.HeldByEdit })
	if got := r.decided[r.pulls[3].Key]; !got.Closed {
		t.Errorf("the pull request beside somebody's edit is %+v", got)
	}
	if len(r.pulls) != 4 {
		t.Errorf("%d pull requests", len(r.pulls))
	}
}

func (w *world) explain(environment, version string) (string, error) {
	m := w.moment()
	x, err := m.Application.Decide(m.Catalogue, m.Facts).Explain(environment, intent.VersionName{Name: version, Digest: "sha256:" + version})
	if err != nil {
		return "", err
	}
	return x.Words(environment, version), nil
}

// A repository that is away is told, once, and gone on with.
func TestRepositoriesThatAreAway(t *testing.T) {
	w, d := landingWorld(t, "")
	w.build(shop)
	w.repository.away = true
	w.list("1.0.0", "1.1.0")
	for range 200 {
		_, err := d.pass(t.Context())
		w.must(err)
		_ = d.visits.Wait(w.t.Context())
		w.tick(time.Second)
	}
	place := w.moment().Places[0]
	if place.Trouble != promotion.RepositoryAway || !strings.Contains(place.LandingWords(), "no route to git.example.com") {
		t.Errorf("%v, %q", place.Trouble, place.LandingWords())
	}
	landings := slices.DeleteFunc(w.rows(), func(r intent.DeliveryRecord) bool { return r.Kind != intent.DeliveryLanding })
	if len(landings) != 2 {
		t.Errorf("%v, want one for each environment", w.kinds())
	}
	const most = 10 // In 200 s: at 0, 20, 60 and 140 s, and once for what is asked of commits.
	if w.repository.reads > most {
		t.Errorf("it was read %d times while it was away", w.repository.reads)
	}
	w.repository.away = false
	w.settle(d, "both have it", func() bool { return w.good(0, "1.1.0") && w.good(1, "1.1.0") })
}

// A partition lets an application of another one commit to its repository; without the grant nothing
// is committed.
func TestCommitsAcrossPartitions(t *testing.T) {
	spec := chain()
	production := spec.Environments[1]
	production.Partition, production.Source, production.Constraints = string(eu), "", nil
	w := newWorld(t, spec)
	w.repository, w.repositoryOf = &repository{contents: [][]byte{[]byte(`{"production":{"version":"1.0.0"}}`)}}, eu
	w.open(eu, &intentpb.Policy{})
	w.list("1.0.0", "1.1.0")
	w.build(shop)
	w.build(eu)
	d := w.actor(eu)
	pass := func() {
		_, err := d.pass(t.Context())
		w.must(err)
		_ = d.visits.Wait(w.t.Context())
		w.tick(time.Second)
	}
	for range 30 {
		pass()
	}
	if n := w.repository.landings; n != 0 || w.moment().Places[1].Trouble != promotion.NotAllowed {
		t.Fatalf("%d landings without a grant, %v", n, w.moment().Places[1].Trouble)
	}
	w.policies[eu] = &intentpb.Policy{PromotionGrants: []*intentpb.PromotionGrant{
		{Partition: string(shop), Application: "web", Document: "knobs", Source: "knobs", Pointers: []string{"/production"}, InRepository: true},
	}}
	w.settle(d, "production is good with it", func() bool { return w.good(1, "1.1.0") })
	if n := w.repository.landings; n != 1 {
		t.Errorf("%d landings", n)
	}
}

// A host that refuses is told, and the same pull request is gone on with: also by another process,
// and while the environment is paused.
func TestOnePullRequestThroughTrouble(t *testing.T) {
	w, d := landingWorld(t, "hub")
	r := w.repository
	w.list("1.0.0", "1.1.0")
	landing := func() *intent.DeliveryRecord { return w.moment().Places[1].Landing }
	r.refuses = true // Before it is open: its branch may be there already.
	w.settle(d, "the first refusal is told", func() bool { return landing() != nil && landing().Trouble != "" })
	r.refuses, d = false, w.actor(shop)
	w.settle(d, "it is open", func() bool { return landing() != nil && landing().Request.Number == 1 })
	r.refuses = true
	w.settle(d, "the refusal is told", func() bool {
		return landing().Trouble == "the branch is protected" && landing().Cause == intent.LandingRefused
	})
	if words := w.moment().Places[1].LandingWords(); !strings.Contains(words, "#1") || !strings.Contains(words, "the branch is protected") {
		t.Error(words)
	}
	r.refuses, d = false, w.actor(shop)
	w.settle(d, "it is told no longer", func() bool { return landing().Trouble == "" && landing().Request.Number == 1 })
	w.act(intent.ActPause, "production", "")
	for range 30 {
		w.settle(d, "a pass", func() bool { return true })
	}
	w.act(intent.ActResume, "production", "")
	if d = w.actor(shop); len(r.pulls) != 1 || len(r.decided) != 0 || len(r.keys) != 1 {
		t.Fatalf("%d pull requests, %v; branches %v", len(r.pulls), r.decided, r.keys)
	}
	r.decide(true)
	w.settle(d, "production has it", func() bool { return w.good(1, "1.1.0") })
}

// What was merged and is not in the field afterwards is rejected, or it would be awaited for good.
func TestMergedAndUndone(t *testing.T) {
	w, d := landingWorld(t, "hub")
	w.list("1.0.0", "1.1.0")
	w.settle(d, "it is open", func() bool { l := w.moment().Places[1].Landing; return l != nil && l.Request.Number == 1 })
	w.repository.refuses = true
	w.repository.decide(true) // It changes nothing.
	w.repository.refuses = false
	w.settle(d, "it is rejected", func() bool { return w.outcome(1).Wants.Name == "1.0.0" })
	rows := w.rows()
	at := slices.IndexFunc(rows, func(r intent.DeliveryRecord) bool { return r.Kind == intent.DeliveryVeto })
	if at < 0 || !strings.Contains(rows[at].Reason, "#1 was merged, and the field does not hold") {
		t.Errorf("%v", w.kinds())
	}
}
