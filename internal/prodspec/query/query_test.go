package query_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/test/detector"
)

// world is a real store in memory that counts what is asked of it.
type world struct {
	testing.TB
	store.All
	lease  store.Lease
	reader *query.Reader
	head   intent.Sequence

	changes, bodies, partitions atomic.Int64
}

type builtin struct{}

func (builtin) Schema(context.Context, intent.PartitionID, intent.Digest) (*schema.Set, error) {
	return schema.Builtin(), nil
}

var ann = intent.Actor{Name: "ann", Origin: "test"}

func newWorld(t testing.TB) *world {
	t.Helper()
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
	w := &world{TB: t, All: opened}
	w.must(opened.AddPartition(t.Context(), "shop", "/shop/lehr.yaml", "a try", ann))
	w.lease, err = opened.Acquire(t.Context(), "shop", "test")
	w.must(err)
	w.reader = query.New(w, builtin{}, loop.Real())
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) Changes(ctx context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) ([]store.Change, error) {
	w.changes.Add(1)
	return w.All.Changes(ctx, from, to, after, limit)
}

func (w *world) Body(ctx context.Context, digest intent.Digest) ([]byte, error) {
	w.bodies.Add(1)
	return w.All.Body(ctx, digest)
}

func (w *world) Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error) {
	w.partitions.Add(1)
	return w.All.Partition(ctx, id)
}

func id(sequence intent.Sequence) intent.IncarnationID {
	return intent.IncarnationID{Partition: "shop", Sequence: sequence}
}

// publish makes the next incarnation.
func (w *world) publish(gone []intent.AssetID, assets ...intent.Asset) intent.IncarnationID {
	w.Helper()
	set := schema.Builtin()
	var delta []store.Entry
	for _, asset := range gone {
		delta = append(delta, store.Entry{Asset: asset, Removed: true})
	}
	for _, asset := range assets {
		body, digest, err := set.Encode(asset)
		w.must(err)
		references, err := set.References(asset)
		w.must(err)
		fields, err := set.Fields(asset)
		w.must(err)
		delta = append(delta, store.Entry{
			Asset: asset.ID, Body: body, References: references, Fields: fields,
			Member: intent.Member{Asset: asset.ID, Type: asset.Payload.Type, Digest: digest, Effective: digest, Since: w.head + 1},
		})
	}
	parent := intent.IncarnationID{}
	if w.head > 0 {
		parent = id(w.head)
	}
	w.must(w.Unstage(w.Context(), w.lease))
	w.must(w.Stage(w.Context(), w.lease, id(w.head), delta))
	made, err := w.Publish(w.Context(), w.lease, intent.Incarnation{
		ID: id(w.head + 1), Parent: parent, Schema: set.Digest(), Created: time.Now(), Author: ann,
	})
	w.must(err)
	w.head++
	return made.ID
}

func pack(t testing.TB, m proto.Message) intent.Message {
	t.Helper()
	packed, err := schema.Builtin().Pack(m)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func job(t testing.TB, id intent.AssetID, replicas int) intent.Asset {
	return intent.Asset{ID: id, Payload: pack(t, &processpb.Job{Name: string(id), Replicas: uint32(replicas), Binary: "/b"})}
}

// Only contents that are left to evaluate are read, and no more of them than a
// page may cost.
func TestContentsRead(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 3000 {
		assets = append(assets, job(t, intent.AssetID(fmt.Sprintf("a/%04d", i)), i%10))
	}
	w.publish(nil, assets...)
	for filter, want := range map[string]struct{ found, least, most int64 }{
		`type == "Job"`:    {found: 100},
		`id.endsWith("7")`: {found: 100},
		`id == "a/0007"`:   {found: 1},
		`id == "a/0007" && payload.replicas == 7`:        {found: 1, least: 1, most: 1},
		`id.startsWith("a/00") && payload.replicas == 7`: {found: 10, least: 100, most: 100},
		`payload.replicas >= 5`:                          {found: 100, least: 200, most: 300},
		`payload.replicas == 11`:                         {found: 0, least: 500, most: 500},
		`type == "Balancer" && payload.name == "x"`:      {},
	} {
		w.bodies.Store(0)
		page, err := w.reader.Page(t.Context(), query.Wanted{Incarnation: id(1), Filter: filter, Index: store.AssetFilter{Limit: 100}})
		w.must(err)
		if read := w.bodies.Load(); int64(len(page.Members)) != want.found || read < want.least || read > want.most {
			t.Errorf("%s: %d found, %d contents read, want %+v", filter, len(page.Members), read, want)
		}
	}
}

// TestFilterOf100000Assets: of however many, a page reads no more, and all pages
// together find what is there.
func TestFilterOf100000Assets(t *testing.T) {
	if testing.Short() {
		t.Skip("it publishes 100 000 assets")
	}
	const all = 100_000
	w := newWorld(t)
	assets := make([]intent.Asset, all)
	for i := range assets {
		assets[i] = job(t, intent.AssetID(fmt.Sprintf("a/%05d", i)), i)
	}
	w.publish(nil, assets...)
	hundred := "[0" + strings.Repeat(",0", 99) + "]"
	for filter, most := range map[string]struct {
		read, pages int64
		found       int
	}{
		`payload.replicas == 99999`: {500, all, 1},
		fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, a == b)) && payload.replicas < 0", hundred): {30, 20, 0},
	} {
		wanted := query.Wanted{Incarnation: id(1), Filter: filter, Index: store.AssetFilter{Limit: 1000}}
		found := 0
		for pages := int64(0); pages < most.pages; pages++ {
			w.bodies.Store(0)
			page, err := w.reader.Page(t.Context(), wanted)
			w.must(err)
			if read := w.bodies.Load(); read > most.read {
				t.Fatalf("%.40s…: %d contents were read for a page", filter, read)
			}
			found += len(page.Members)
			if wanted.Index.After = page.Next; page.Next == "" {
				break
			}
		}
		if found != most.found {
			t.Errorf("%.40s…: %d assets are found, want %d", filter, found, most.found)
		}
	}
}

// A filter that costs much for each asset makes short pages, not long waits.
func TestExpensiveFilterMakesShortPages(t *testing.T) {
	detector.SkipSequential(t)
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 100 {
		assets = append(assets, job(t, intent.AssetID(fmt.Sprintf("a/%04d", i)), i))
	}
	w.publish(nil, assets...)
	hundred := "[0" + strings.Repeat(",0", 99) + "]"
	wanted := query.Wanted{Incarnation: id(1), Filter: fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, a == b)) && payload.replicas >= 0", hundred), Index: store.AssetFilter{Limit: 100}}
	found, pages := 0, 0
	for {
		w.bodies.Store(0)
		page, err := w.reader.Page(t.Context(), wanted)
		w.must(err)
		if read := w.bodies.Load(); read > 30 {
			t.Errorf("%d contents were evaluated for a page", read)
		}
		found, pages = found+len(page.Members), pages+1
		if wanted.Index.After = page.Next; page.Next == "" {
			break
		}
	}
	if found != 100 || pages < 4 {
		t.Errorf("%d assets on %d pages", found, pages)
	}
}

// Pages hold what Match accepts, whatever the index narrows.
func TestPagesHoldWhatMatches(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 60 {
		asset := job(t, intent.AssetID(fmt.Sprintf("%c/%02d", 'a'+i%3, i)), i%4)
		if i%2 == 0 {
			asset.Addons = append(asset.Addons, pack(t, &intentpb.Labels{Labels: map[string]string{"k": fmt.Sprint(i % 3), "e": ""}}))
		}
		if i%5 == 0 {
			asset.Addons = append(asset.Addons, pack(t, &intentpb.Owner{Owner: fmt.Sprintf("o%d", i%2)}))
		}
		if i%7 == 0 {
			asset.Addons = append(asset.Addons, pack(t, &intentpb.Dependencies{Dependencies: []*intentpb.Dependency{{On: "a/00", Rule: 1}, {On: "b/01", Rule: 1}}}))
		}
		assets = append(assets, asset)
	}
	w.publish(nil, assets...)
	environment := rule.New(schema.Builtin())
	atoms := []string{
		`type == "Job"`, `type in ["Balancer"]`, `id.startsWith("a/")`, `id == "b/01"`, `"a/00" in refs`, `"b/01" in refs`, `owner == "o1"`, `owner == ""`,
		`has(addons.Owner)`, `labels.k == "1"`, `labels["e"] == ""`, `"k" in labels`, `payload.replicas == 0`, `payload.replicas > 1`, `payload.name.endsWith("5")`,
	}
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.SampledFrom(atoms).Draw(r, "first")
		for _, atom := range rapid.SliceOfN(rapid.SampledFrom(atoms), 0, 3).Draw(r, "more") {
			text += rapid.SampledFrom([]string{" && ", " && ", " || "}).Draw(r, "join") + atom
		}
		filter, err := environment.Filter(text)
		if err != nil {
			r.Fatal(err)
		}
		var want, got []intent.AssetID
		for _, asset := range assets {
			matched, err := filter.Match(asset)
			if err != nil {
				r.Fatal(err)
			}
			if matched {
				want = append(want, asset.ID)
			}
		}
		slices.Sort(want)
		index := store.AssetFilter{Limit: rapid.IntRange(1, 70).Draw(r, "limit")}
		for {
			page, err := w.reader.Page(t.Context(), query.Wanted{Incarnation: id(1), Filter: text, Index: index})
			if err != nil {
				r.Fatal(err)
			}
			for _, member := range page.Members {
				got = append(got, member.Asset)
			}
			if index.After = page.Next; page.Next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			r.Fatalf("%s: %v, want %v", text, got, want)
		}
	})
}

// A watcher that reads slowly costs nothing meanwhile, and is then brought to
// the newest head at once.
func TestSlowWatcherSkips(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, job(t, "a", 0))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, read := make(chan query.Event), make(chan struct{})
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		err := w.reader.Watch(ctx, query.Watching{Partition: "shop"}, func(e query.Event) error {
			select {
			case events <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case <-read:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		if ctx.Err() == nil {
			t.Errorf("the watch ended: %v", err)
		}
	})
	first := <-events
	if first.Incarnation != id(1) || !first.Reset || !first.Complete || len(first.Members) != 1 {
		t.Errorf("first: %+v", first)
	}
	for i := range 20 {
		w.publish(nil, job(t, "a", i+1), job(t, intent.AssetID(fmt.Sprintf("b/%d", i)), 1))
	}
	w.publish([]intent.AssetID{"b/3"})
	read <- struct{}{}
	for {
		next := <-events
		if next.Reset || !next.Complete {
			t.Errorf("then: %+v", next)
		}
		if next.Incarnation == id(22) {
			if len(next.Members) > 20 {
				t.Errorf("the last event has %d assets", len(next.Members))
			}
			break
		}
		read <- struct{}{}
	}
	if asked := w.changes.Load(); asked > 3 {
		t.Errorf("changes were asked for %d times", asked)
	}
}

// While a watcher slept, what it knew was collected, and then what it was
// being sent.
func TestSleeperStartsAnew(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 1200 {
		assets = append(assets, job(t, intent.AssetID(fmt.Sprintf("a/%04d", i)), 1))
	}
	w.publish(nil, assets...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	has := map[intent.AssetID]bool{}
	slept, resets := 0, 0
	sleep := func() {
		// Two heads later, only the newest is there.
		w.publish([]intent.AssetID{assets[slept].ID})
		w.publish([]intent.AssetID{assets[slept+1].ID})
		slept += 2
		_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, Period: time.Nanosecond, History: time.Nanosecond}, time.Now().Add(time.Hour))
		w.must(err)
	}
	errDone := fault.New(fault.Conflict, "seen enough")
	err := w.reader.Watch(ctx, query.Watching{Partition: "shop"}, func(e query.Event) error {
		if e.Reset {
			has = map[intent.AssetID]bool{}
			resets++
		}
		for _, m := range e.Members {
			has[m.Asset] = true
		}
		for _, gone := range e.Removed {
			delete(has, gone)
		}
		switch {
		case slept < 2: // in the middle of the first round
			sleep()
		case e.Complete && slept < 4: // at its end
			sleep()
		case e.Complete && e.Incarnation == id(w.head):
			return errDone
		}
		return nil
	})
	if err != errDone || len(has) != 1196 || resets < 2 {
		t.Errorf("%d assets after %d resets: %v", len(has), resets, err)
	}
}

// However many watch, what changed is read once, and each filter evaluated
// once.
func TestWatchersShare(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, job(t, "a", 0), job(t, "b", 0))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const watchers = 200
	var ready, told, all sync.WaitGroup
	ready.Add(watchers)
	told.Add(watchers)
	for i := range watchers {
		all.Go(func() {
			_ = w.reader.Watch(ctx, query.Watching{Partition: "shop", Filter: fmt.Sprintf("payload.replicas < %d", 10+i%4)}, func(e query.Event) error {
				switch e.Incarnation {
				case id(1):
					ready.Done()
				case id(2):
					told.Done()
				}
				return ctx.Err()
			})
		})
	}
	ready.Wait()
	if read := w.bodies.Load(); read != 8 {
		t.Errorf("at first, %d contents were read for 4 filters of 2 assets", read)
	}
	w.bodies.Store(0)
	w.changes.Store(0)
	w.partitions.Store(0)
	w.publish(nil, job(t, "a", 1))
	told.Wait()
	if changes, bodies, partitions := w.changes.Load(), w.bodies.Load(), w.partitions.Load(); changes != 1 || bodies != 4 || partitions > 10 {
		t.Errorf("one change for %d watchers: %d reads of changes, %d of contents, %d of the partition", watchers, changes, bodies, partitions)
	}
	cancel()
	all.Wait()
	// Nobody watches any more, so nobody asks.
	w.publish(nil, job(t, "a", 2))
	asked := w.partitions.Load()
	w.publish(nil, job(t, "a", 3))
	if now := w.partitions.Load(); now > asked+2 {
		t.Errorf("the partition is still asked for: %d times", now-asked)
	}
}
