package kubewatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"lehr.dev/plugins/kubernetes/kubeapi"
)

const (
	// mostItems are followed by one watch; a kind with more in one namespace is not watched.
	mostItems = 50_000
	// quietLimit is how long a watch may say nothing: a server sends a bookmark each minute.
	// One that sends none is listed anew.
	quietLimit = 3 * time.Minute
	// watchLasts is about how long the server keeps a watch open; it goes on where it ended.
	watchLasts = 8 * time.Minute
	// leastRetry and mostRetry bound the pause before a watch that broke is begun anew;
	// refusedRetry is it where the identity may not watch.
	leastRetry, mostRetry, refusedRetry = 500 * time.Millisecond, 30 * time.Second, 5 * time.Minute
)

var (
	errTooMany = fmt.Errorf("there are more than %d objects of the kind in the namespace", mostItems)
	errQuiet   = fmt.Errorf("the watch said nothing for %v", quietLimit)
	errExpired = errors.New("the version from which the watch was to go on is forgotten")
	errEnded   = errors.New("the server ended the watch")
	// errBehind: events and bookmarks come in the order of their versions.
	errBehind = errors.New("an event of the watch is older than what it told before")
)

// Item is an object as a watch shows it.
type Item struct {
	UID     types.UID
	Version string
	// generation of what people write of the object; 0: the kind counts none.
	generation int64
}

// IsBehind reports whether an object, as read after an item was known, is older than that:
// then it is of another storage than the watch.
func (i Item) IsBehind(uid types.UID, version string) bool {
	return uid == i.UID && isBehind(version, i.Version)
}

// Watch follows the objects of one selection. It lists them, is noted of each write, and
// lists anew where it may have missed one.
type Watch struct {
	selection kubeapi.Selection
	// begin is called before each list, and returns what judges its version: an error is a
	// restored backup. see is called with each later version.
	begin func(ctx context.Context) (judge func(version string) error, err error)
	see   func(version string)
	// listed is called after each list; nil: nothing is. changed is called with the name of
	// each object that was written or has gone, and its labels; nil: a list showed it.
	listed  func(ctx context.Context) error
	changed func(namespace, name string, labels map[string]string)
	// noted is called when the watch has shown that it lives, with no error, or has ended.
	noted func(err error)

	mutex sync.Mutex
	items map[types.NamespacedName]Item
	// listedAt is when the last list began that has shown the items; toldAt is when the watch
	// last told something, at first that list. live: a watch is open or about to go on where it
	// ended. version is the last that was told.
	listedAt, toldAt time.Time
	live             bool
	version          string
	// failure is why it is not live.
	failure error
	// revision counts the changes that people made, of all objects, after the first list;
	// the last was seen at revisedAt.
	revision  uint64
	revisedAt time.Time
}

// Age says as of when a watch knows its items.
type Age struct {
	// ToldAt is when the watch last told something. It may lag: what was written before may be
	// told later.
	ToldAt time.Time
	// listedAt is when the last list began that has shown the items: what was written before is
	// in them.
	listedAt time.Time
}

// IsKnown reports whether the watch knows anything now.
func (a Age) IsKnown() bool { return !a.ToldAt.IsZero() }

// AsOf returns as of when the items are known, for a question that allows what was so at a
// time, or later; zero: whatever the watch told last. ok is false where they may be older.
func (a Age) AsOf(since time.Time) (at time.Time, ok bool) {
	if since.IsZero() {
		return a.ToldAt, a.IsKnown()
	}
	return a.listedAt, a.IsKnown() && !a.listedAt.Before(since)
}

// Find returns an object, and as of when that is so; ok is false where there is none.
func (w *Watch) Find(namespace, name string) (item Item, age Age, ok bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !w.live {
		return Item{}, Age{}, false
	}
	item, ok = w.items[types.NamespacedName{Namespace: namespace, Name: name}]
	return item, Age{ToldAt: w.toldAt, listedAt: w.listedAt}, ok
}

// state says whether the watch lives, and if not, why; a nil failure says that it has not
// listed yet.
func (w *Watch) state() (live bool, failure error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.live, w.failure
}

// run follows until ctx ends, or the server says that the kind has gone.
func (w *Watch) run(ctx context.Context) {
	for failures := 1; ; failures++ {
		beganAt := time.Now()
		err := w.follow(ctx)
		w.lose(err)
		if ctx.Err() != nil || apierrors.IsNotFound(err) {
			return
		}
		if time.Since(beganAt) > mostRetry {
			failures = 1
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPause(err, failures)):
		}
	}
}

// retryPause is random, so that the watches of a server that was away do not all come at once.
func retryPause(err error, failures int) time.Duration {
	pause := min(leastRetry<<min(failures-1, 10), mostRetry)
	switch busy, ok := kubeapi.BusyFor(err); {
	case ok:
		return busy + rand.N(busy)
	case errors.Is(err, errExpired) && failures == 1:
		return 0
	case apierrors.IsForbidden(err), errors.Is(err, errTooMany):
		pause = refusedRetry
	}
	return pause/2 + rand.N(pause)
}

// lose says that nothing is known any more. The items stay, to tell what changes meanwhile.
func (w *Watch) lose(err error) {
	w.mutex.Lock()
	w.live, w.failure = false, err
	w.mutex.Unlock()
	w.noted(err)
}

// follow lists, and watches for as long as nothing is missed.
func (w *Watch) follow(ctx context.Context) error {
	beganAt := time.Now()
	judge, err := w.begin(ctx)
	if err != nil {
		return err
	}
	items, version, err := w.list(ctx)
	if err != nil {
		return err
	}
	if err := judge(version); err != nil {
		return err
	}
	if w.listed != nil {
		if err := w.listed(ctx); err != nil {
			return err
		}
	}
	w.replace(items, beganAt)
	w.told(beganAt, version)
	for {
		beganAt = time.Now()
		version, err = w.watchFrom(ctx, version)
		// One that ended before its time broke: what was lost with it is found by a list,
		// which also tells whether the storage is still the one it was.
		if !errors.Is(err, errEnded) || time.Since(beganAt) < watchLasts*9/10 {
			return err
		}
	}
}

// list reads all pages.
func (w *Watch) list(ctx context.Context) (items map[types.NamespacedName]Item, version string, err error) {
	items = map[types.NamespacedName]Item{}
	for token := ""; ; {
		page, err := w.selection.List(ctx, token)
		switch {
		case token != "" && apierrors.IsResourceExpired(err):
			return nil, "", errExpired
		case err != nil:
			return nil, "", err
		}
		for i := range page.Items {
			items[nameOf(&page.Items[i])] = itemOf(&page.Items[i])
		}
		if len(items) > mostItems {
			return nil, "", errTooMany
		}
		if version, token = page.ResourceVersion, page.Continue; token == "" {
			return items, version, nil
		}
	}
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func itemOf(object metav1.Object) Item {
	return Item{UID: object.GetUID(), Version: object.GetResourceVersion(), generation: object.GetGeneration()}
}

// replace takes over what a list shows, and tells what has changed since the last event.
func (w *Watch) replace(items map[types.NamespacedName]Item, listedAt time.Time) {
	w.mutex.Lock()
	before := w.items
	w.items, w.listedAt = items, listedAt
	if before == nil {
		before = items // Nothing has changed by the first list.
	}
	var changed []types.NamespacedName
	for name, item := range items {
		if was, ok := before[name]; !ok || was != item {
			changed = append(changed, name)
			w.count(was, item)
		}
	}
	for name := range before {
		if _, ok := items[name]; !ok {
			changed = append(changed, name)
			w.revise()
		}
	}
	w.mutex.Unlock()
	for _, name := range changed {
		w.changed(name.Namespace, name.Name, nil)
	}
}

// count counts a change that people made: of a kind that counts none, each one.
func (w *Watch) count(was, is Item) {
	if was.UID != is.UID || was.generation != is.generation || is.generation == 0 {
		w.revise()
	}
}

func (w *Watch) revise() {
	w.revision++
	w.revisedAt = time.Now()
}

// told notes up to which version the watch has told what was written, and when.
func (w *Watch) told(at time.Time, version string) {
	w.mutex.Lock()
	w.toldAt, w.live, w.failure, w.version = at, true, nil, version
	w.mutex.Unlock()
	w.noted(nil)
}

// watchFrom follows what is written after a version, and returns the last one that it knows.
func (w *Watch) watchFrom(ctx context.Context, version string) (string, error) {
	stream, err := w.selection.Watch(ctx, version, watchLasts)
	if err != nil {
		return version, expired(err)
	}
	defer stream.Stop()
	quiet := time.NewTimer(quietLimit)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, context.Cause(ctx)
		case <-quiet.C:
			return version, errQuiet
		case event, ok := <-stream.ResultChan():
			if !ok {
				return version, errEnded
			}
			quiet.Reset(quietLimit)
			if event.Type == apiwatch.Error {
				return version, expired(apierrors.FromObject(event.Object))
			}
			if version, err = w.take(event, version); err != nil {
				return version, err
			}
			w.told(time.Now(), version)
		}
	}
}

func expired(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return fmt.Errorf("%w: %w", errExpired, err)
	}
	return err
}

// take takes an event over, and returns its version.
func (w *Watch) take(event apiwatch.Event, last string) (string, error) {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return last, fmt.Errorf("an event of a watch has no object: %w", err)
	}
	version := object.GetResourceVersion()
	if isBehind(version, last) {
		return last, errBehind
	}
	w.see(version)
	if event.Type == apiwatch.Bookmark {
		return version, nil
	}
	name, item := nameOf(object), itemOf(object)
	w.mutex.Lock()
	was, ok := w.items[name]
	switch {
	case event.Type == apiwatch.Deleted:
		delete(w.items, name)
		w.revise()
	default:
		w.items[name] = item
		if !ok || was != item {
			w.count(was, item)
		}
	}
	tooMany := len(w.items) > mostItems
	w.mutex.Unlock()
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{} // It has none.
	}
	w.changed(name.Namespace, name.Name, labels)
	if tooMany {
		return version, errTooMany
	}
	return version, nil
}

// isBehind reports whether a version comes before another.
func isBehind(version, last string) bool {
	one, err := strconv.ParseUint(version, 10, 64)
	other, lastErr := strconv.ParseUint(last, 10, 64)
	return err == nil && lastErr == nil && one < other
}
