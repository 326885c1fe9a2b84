// Package commitstatus tells git hosts where versions stand: a status at the commit of a version for
// each environment. The Teller is an actor of its own under the lease of an application's home: it
// reads what delivery decides, says what each status should be, and posts what differs from what it
// posted. A host that is away delays its statuses and nothing else. It decides nothing, and edits
// nothing. App runs it.
package commitstatus

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// Poster posts statuses to one repository at a host, as githost.Host does.
type Poster interface {
	PostStatus(ctx context.Context, s githost.Status) (posted bool, err error)
}

// Store is what a Teller reads and writes, as store.All says.
type Store interface {
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Changed(partition intent.PartitionID) <-chan struct{}
	store.Blobs
}

// Options of a Teller.
type Options struct {
	Partition intent.PartitionID
	Store     Store
	Reader    *delivery.Reader
	Runtime   loop.Runtime
	Log       *slog.Logger
	// Hosts are those to which the statuses of an application are posted, by the names that the
	// operator gave them.
	Hosts func(application string) map[string]Poster
}

// Teller of one partition.
type Teller struct {
	Options
	lease  store.Lease
	posted map[string]entry
	dirty  bool
	// failures in a row of a host, and when it is asked next.
	failures map[string]int
	next     map[string]time.Time
}

// entry is what was posted last of a commit in an environment.
type entry struct {
	Version     intent.VersionName `json:"version"`
	State       githost.State      `json:"state"`
	Description string             `json:"description"`
	At          time.Time          `json:"at"`
}

const (
	// BlobKind of what was posted, and its only name.
	BlobKind = "statuses"
	blobName = "posted"
	// leastPause is between two looks, however much changes; quiet where nothing does.
	leastPause = time.Second
	quiet      = 10 * time.Second
	// mostPosts are made before what was posted is stored.
	mostPosts = 20
	// mostKept versions of an environment have their statuses followed.
	mostKept = 50
)

// again is how long a host is left alone that did not answer or refused.
var again = loop.Backoff{First: 5 * time.Second, Most: 5 * time.Minute}

// New returns a Teller.
func New(o Options) *Teller {
	return &Teller{Options: o, failures: map[string]int{}, next: map[string]time.Time{}}
}

// Run goes on until the context ends or the lease is lost.
func (t *Teller) Run(ctx context.Context, lease store.Lease) error {
	t.lease = lease
	for ctx.Err() == nil {
		changed := t.Store.Changed(t.Partition)
		if err := t.pass(ctx); err != nil {
			return err
		}
		if err := t.Runtime.Wait(ctx, leastPause, nil); err != nil {
			return err
		}
		if err := t.Runtime.Wait(ctx, quiet, changed); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pass posts what differs, and stores what was posted.
func (t *Teller) pass(ctx context.Context) error {
	partition, err := t.Store.Partition(ctx, t.Partition)
	if err != nil {
		return err
	}
	policy, err := t.Reader.Policy(ctx, partition.Head)
	if err != nil {
		return err
	}
	for _, spec := range policy.GetDeliveries() {
		hosts := t.Hosts(spec.GetName())
		if len(hosts) == 0 {
			continue
		}
		if err := t.load(ctx); err != nil {
			return err
		}
		m, err := t.Reader.Read(ctx, partition, spec)
		if fault.Is(err, fault.Invalid) {
			continue // The deliverer says so.
		}
		if err != nil {
			return err
		}
		m.SetNow(t.Runtime.Now())
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			t.tell(ctx, host, hosts[host], t.statuses(host, m))
		}
	}
	return t.save(ctx)
}

// load what was posted, once.
func (t *Teller) load(ctx context.Context) error {
	if t.posted != nil {
		return nil
	}
	posted := map[string]entry{}
	text, err := t.Store.GetBlob(ctx, t.Partition, BlobKind, blobName)
	if err == nil {
		if json.Unmarshal(text, &posted) != nil {
			posted = map[string]entry{} // A host is asked what it has before anything is posted.
		}
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	t.posted = posted
	return nil
}

func (t *Teller) save(ctx context.Context) error {
	if !t.dirty {
		return nil
	}
	text, err := json.Marshal(t.posted)
	if err != nil {
		return fault.New(fault.Internal, "statuses cannot be encoded: %w", err)
	}
	if err := t.Store.PutBlobs(ctx, t.lease, BlobKind, map[string][]byte{blobName: text}); err != nil {
		return err
	}
	t.dirty = false
	return nil
}

// tell a host what it was not told yet. What it does not take is tried later, without an end; what
// it does not have is tried again when it is to say something else.
func (t *Teller) tell(ctx context.Context, host string, poster Poster, wanted []wantedStatus) {
	if t.Runtime.Now().Before(t.next[host]) {
		return
	}
	posts := 0
	for _, w := range wanted {
		last, ok := t.posted[w.key]
		if ok && last.State == w.State && last.Description == w.Description {
			continue
		}
		if posts++; posts > mostPosts {
			return
		}
		t.Runtime.Point("post a status")
		_, err := poster.PostStatus(ctx, w.Status)
		unknown := fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid)
		if err != nil && ctx.Err() != nil {
			return
		}
		if err != nil && !unknown {
			t.failures[host]++
			pause := again.After(t.failures[host])
			t.next[host] = t.Runtime.Now().Add(pause)
			t.Log.Warn("a status was not posted, and is tried again", "partition", t.Partition, "host", host, "context", w.Context, "pause", pause, "error", err)
			return
		}
		if unknown {
			t.Log.Warn("a git host does not take the status of a commit", "partition", t.Partition, "host", host, "context", w.Context, "commit", w.Commit, "error", err)
		}
		t.failures[host] = 0
		t.posted[w.key] = entry{w.version, w.State, w.Description, t.Runtime.Now()}
		t.dirty = true
	}
}

// keyOf a status at a host.
func keyOf(host, application, environment, commit string) string {
	return strings.Join([]string{host, application, environment, commit}, "\n")
}
