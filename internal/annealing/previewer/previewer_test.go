package previewer

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

const shop intent.PartitionID = "shop"

var ann = intent.Actor{Name: "ann", Origin: "test"}

// places are a repository and a git host that a test changes.
type places struct {
	sync.Mutex
	branches []branchpreview.Branch
	// away: nobody answers. hung: the list does not end before its context.
	away, hung bool
	open       []githost.Listed
	// closed are requests that people closed; others that are in no list are open all the same.
	closed   map[int]bool
	statuses []string
}

func (p *places) change(do func()) { p.Lock(); defer p.Unlock(); do() }

var errAway = fault.New(fault.Unavailable, "the host does not answer")

func (p *places) Branches(ctx context.Context, _ store.Partition, _, _ string) ([]branchpreview.Branch, error) {
	p.Lock()
	defer p.Unlock()
	if p.hung {
		p.Unlock()
		<-ctx.Done()
		p.Lock()
		return nil, ctx.Err()
	}
	if p.away {
		return nil, errAway
	}
	return append([]branchpreview.Branch{}, p.branches...), nil
}

func (p *places) Host(intent.PartitionID, string) (Host, error) { return p, nil }

func (p *places) ListOpen(context.Context) ([]githost.Listed, error) {
	p.Lock()
	defer p.Unlock()
	if p.away {
		return nil, errAway
	}
	return append([]githost.Listed{}, p.open...), nil
}

func (p *places) FollowRequest(_ context.Context, number int) (githost.Request, error) {
	p.Lock()
	defer p.Unlock()
	progress := githost.Open
	if p.closed[number] {
		progress = githost.Closed
	}
	return githost.Request{Number: number, Progress: progress}, nil
}

func (p *places) PostStatus(_ context.Context, s githost.Status) (bool, error) {
	p.Lock()
	defer p.Unlock()
	if p.away {
		return false, errAway
	}
	p.statuses = append(p.statuses, string(s.State)+" "+s.Description)
	return true, nil
}

// world is a store with a rule of each kind in head, and the actor.
type world struct {
	*places
	t     *testing.T
	store *sqlite.Store
	lease store.Lease
	end   func()
}

func simulate(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Memory()
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, places: &places{closed: map[int]bool{}}}
		w.store, err = sqlite.Open(t.Context(), sqlite.Options{DB: db, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)})
		w.must(err)
		defer func() { w.store.Close(); db.Close() }()
		w.must(w.store.AddPartition(t.Context(), shop, "/shop/lehr.yaml", "a try", ann))
		w.lease, err = w.store.Acquire(t.Context(), shop, "server")
		w.must(err)
		rule := func(name, source, host string) *intentpb.PreviewRule {
			return &intentpb.PreviewRule{
				Name: name, Before: name + "/", After: "/", Generator: name, Source: source, Branches: []string{"feature/*"}, Host: host, Entries: name,
				Expires: durationpb.New(time.Hour), AtMost: 2, Every: durationpb.New(time.Minute),
			}
		}
		policy := &intentpb.Policy{Previews: []*intentpb.PreviewRule{rule("pulls", "", "hub"), rule("review", "shop", "")}}
		w.publish(1, policy, "review/feature-taken/db")
		w.start()
		defer func() { w.end() }()
		test(w)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// publish an incarnation with a policy, and other assets that are models.
func (w *world) publish(sequence intent.Sequence, policy *intentpb.Policy, others ...intent.AssetID) {
	set := schema.Builtin()
	var entries []store.Entry
	pack := func(id intent.AssetID, payload proto.Message) intent.Digest {
		packed, err := set.Pack(payload)
		w.must(err)
		body, digest, err := set.Encode(intent.Asset{ID: id, Payload: packed})
		w.must(err)
		entries = append(entries, store.Entry{Asset: id, Body: body, Member: intent.Member{Asset: id, Type: packed.Type, Digest: digest, Effective: digest}})
		return digest
	}
	digest := pack(intent.PolicyAsset, policy)
	for _, id := range others {
		pack(id, &intentpb.Policy{Owner: string(id)})
	}
	head := intent.IncarnationID{}
	if sequence > 1 {
		head = intent.IncarnationID{Partition: shop, Sequence: sequence - 1}
	}
	w.must(w.store.Stage(w.t.Context(), w.lease, head, entries))
	_, err := w.store.Publish(w.t.Context(), w.lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: shop, Sequence: sequence}, Count: len(entries), Author: ann, Created: time.Now().UTC(), Policy: digest, Schema: set.Digest(),
	})
	w.must(err)
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := New(Options{Partition: shop, Store: w.store, Places: w.places, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)}).Run(ctx, w.lease); err != nil && ctx.Err() == nil {
			w.t.Errorf("it ended: %v", err)
		}
	}()
	w.end = sync.OnceFunc(func() { cancel(); <-done })
}

// previews of a rule, as name:state.
func (w *world) previews(rule string) string {
	w.t.Helper()
	doc, err := w.store.Document(w.t.Context(), shop, branchpreview.Document(rule), "")
	if fault.Is(err, fault.NotFound) {
		return ""
	}
	w.must(err)
	entries, err := branchpreview.Parse(doc.Content)
	w.must(err)
	var list []string
	for name, entry := range entries {
		if entry.Ending != nil {
			name += ":" + string(entry.Ending.Cause)
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

func (w *world) waits(rule string) string {
	w.t.Helper()
	memory, err := ReadMemory(w.t.Context(), w.store, shop, rule)
	w.must(err)
	var list []string
	for _, waiting := range memory.Waiting {
		list = append(list, waiting.Branch.Name+":"+string(waiting.Cause))
	}
	return strings.Join(list, " ")
}

func branch(name, letter string) branchpreview.Branch {
	return branchpreview.Branch{Name: name, Commit: strings.Repeat(letter, 40)}
}

// TestNothingEndsWithoutAnAnswer: also over a restart, and while another place hangs.
func TestNothingEndsWithoutAnAnswer(t *testing.T) {
	simulate(t, func(w *world) {
		t := w.t
		w.change(func() {
			w.branches = []branchpreview.Branch{branch("main", "a"), branch("feature/a", "a"), branch("feature/taken", "a")}
		})
		time.Sleep(2 * time.Minute)
		if got, waits := w.previews("review"), w.waits("review"); got != "feature-a" || waits != "feature/taken:occupied" {
			t.Fatalf("%q, waits %q", got, waits)
		}
		w.change(func() { w.away, w.branches = true, w.branches[:1] })
		time.Sleep(2 * time.Hour) // Its time is over: a push may have renewed it.
		w.end()
		w.start()
		time.Sleep(10 * time.Minute)
		if memory, err := ReadMemory(t.Context(), w.store, shop, "review"); err != nil || memory.Problem != "the host does not answer" || memory.Since.IsZero() || w.previews("review") != "feature-a" {
			t.Fatalf("%+v, %v; %s", memory, err, w.previews("review"))
		}
		w.change(func() {
			w.hung, w.away = true, false
			w.open = []githost.Listed{{Request: githost.Request{Number: 7, Progress: githost.Open}, Branch: "x", Commit: strings.Repeat("b", 40)}}
		})
		time.Sleep(10 * time.Minute)
		if got := w.previews("pulls"); got != "pr-7" || w.previews("review") != "feature-a" {
			t.Fatalf("%q beside a place that hangs; %q", got, w.previews("review"))
		}
		w.change(func() { w.hung = false })
		time.Sleep(10 * time.Minute)
		if got := w.previews("review"); got != "feature-a:branch-gone" {
			t.Errorf("%q", got)
		}
		// Head is not built from the entry that ends: whether anything is there is not known.
		time.Sleep(10 * time.Minute)
		if got := w.previews("review"); got != "feature-a:branch-gone" {
			t.Errorf("%q", got)
		}
	})
}

// TestARequestThatIsInNoListIsAskedFor: pages move while they are read. It ends when the host says so,
// and its status is told once.
func TestARequestThatIsInNoListIsAskedFor(t *testing.T) {
	simulate(t, func(w *world) {
		t := w.t
		listed := func(number int, fork bool) githost.Listed {
			return githost.Listed{Request: githost.Request{Number: number, Progress: githost.Open, Link: "https://hub/7"}, Branch: "x", Commit: strings.Repeat("b", 40), Fork: fork}
		}
		w.change(func() { w.open = []githost.Listed{listed(7, false), listed(8, true)} })
		time.Sleep(2 * time.Minute)
		if got, waits := w.previews("pulls"), w.waits("pulls"); got != "pr-7" || waits != "x:fork" {
			t.Fatalf("%q, waits %q", got, waits)
		}
		w.change(func() { w.open = nil })
		time.Sleep(10 * time.Minute)
		if got := w.previews("pulls"); got != "pr-7" {
			t.Fatalf("%q", got)
		}
		w.change(func() { w.closed[7] = true })
		time.Sleep(10 * time.Minute)
		if got := w.previews("pulls"); got != "pr-7:pull-request-closed" {
			t.Fatalf("%q", got)
		}
		w.end()
		w.start()
		time.Sleep(10 * time.Minute)
		want := "running the preview pr-7 is being made; running the preview pr-7 ends: its pull request was closed or merged"
		if got := strings.Join(w.statuses, "; "); got != want {
			t.Errorf("statuses are %s", got)
		}
	})
}

// TestWhatExpiredStaysSo: over a restart, until somebody pushes.
func TestWhatExpiredStaysSo(t *testing.T) {
	simulate(t, func(w *world) {
		t := w.t
		w.change(func() { w.branches = []branchpreview.Branch{branch("feature/a", "a")} })
		time.Sleep(65 * time.Minute)
		if got := w.previews("review"); got != "feature-a:expired" {
			t.Fatalf("%q", got)
		}
		memory, err := ReadMemory(t.Context(), w.store, shop, "review")
		if err != nil || len(memory.Expired) != 1 || memory.Expired[0].Branch != "feature/a" {
			t.Fatalf("%+v, %v", memory, err)
		}
		w.end()
		w.start()
		time.Sleep(10 * time.Minute)
		if memory, err = ReadMemory(t.Context(), w.store, shop, "review"); err != nil || len(memory.Expired) != 1 {
			t.Errorf("%+v, %v", memory, err)
		}
	})
}

// TestAStaleActorEditsNothing: whoever lost the lease ends, and makes no preview (S4).
func TestAStaleActorEditsNothing(t *testing.T) {
	simulate(t, func(w *world) {
		t := w.t
		w.end()
		lost := w.lease
		_, err := w.store.Acquire(t.Context(), shop, "another")
		w.must(err)
		w.change(func() { w.branches = []branchpreview.Branch{branch("feature/a", "a")} })
		p := New(Options{Partition: shop, Store: w.store, Places: w.places, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)})
		if err := p.Run(t.Context(), lost); !fault.Is(err, fault.Conflict) || w.previews("review") != "" {
			t.Errorf("%v; %q", err, w.previews("review"))
		}
	})
}
