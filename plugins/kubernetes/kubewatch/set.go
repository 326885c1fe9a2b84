// Package kubewatch follows the objects that assets stand for: one list and watch for each
// identity, kind and namespace in use, of metadata alone. It tells which version of an object
// is there and as of when that is known, hints the assets whose objects were written, and
// tells when the API server may predict otherwise than before. It reads no content of any
// object, and decides nothing. Only package kubeobject calls it.
package kubewatch

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/storagemark"
	"lehr.dev/sdk/serve"
)

const (
	// unusedLimit is how long a watch goes on that nobody asks for, and how long an asset is
	// hinted that nobody asks about.
	unusedLimit = 30 * time.Minute
	// readyWait is how long a look waits for the first list of its kind and namespace, so that
	// what is written after the look is hinted.
	readyWait = 2 * time.Second
	// Beat is how often the owner calls Tick. In unwatchedBeats of them each asset is hinted
	// whose object is not watched now.
	Beat           = 5 * time.Second
	unwatchedBeats = 6
)

// Object names an object of a cluster.
type Object struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// group of objects that one watch follows: all of a kind in a namespace, or one Secret.
func (o Object) group() Object {
	if o.Kind.Kind != "Secret" {
		o.Name = ""
	}
	return o
}

// Asset is one that stands for an object.
type Asset struct {
	Partition serve.PartitionID
	ID        serve.AssetID
}

// place spreads assets over beats.
func (a Asset) place() int {
	h := fnv.New32a()
	h.Write([]byte(a.Partition))
	h.Write([]byte(a.ID))
	return int(h.Sum32() % unwatchedBeats)
}

// Set has the watches of one API server, as one identity.
type Set struct {
	server *kubeapi.Server
	marks  *storagemark.Marks
	hint   func(Asset)

	mutex sync.Mutex
	// ctx of all watches; nil: none runs, and all looks ask the server.
	ctx     context.Context
	watches map[Object]*group
	// assets by their objects, with when each was last asked about.
	assets map[Object]map[Asset]time.Time
	// pods of assets that say why these are not well.
	pods  map[Asset]*followedPods
	beats int
	basis *basis
	// unlistedUntil is until when Verify does not ask, for the identity may not list.
	unlistedUntil time.Time
}

// group is a watch in use.
type group struct {
	watch  *Watch
	cancel context.CancelFunc
	usedAt time.Time
	// ready is closed when the first list was made or failed, or nobody waits for it any more.
	ready             chan struct{}
	beganAt           time.Time
	isReady, isListed bool
	confirmation      confirmation
}

// setReady lets go on who waits. The Set's mutex is held.
func (g *group) setReady() {
	if !g.isReady {
		g.isReady = true
		close(g.ready)
	}
}

// New makes a Set; it watches nothing before Start. hint returns at once.
func New(server *kubeapi.Server, marks *storagemark.Marks, hint func(Asset)) *Set {
	return &Set{server: server, marks: marks, hint: hint, watches: map[Object]*group{}, assets: map[Object]map[Asset]time.Time{}, pods: map[Asset]*followedPods{}}
}

// Start has what is asked about watched from now on, until ctx ends.
func (s *Set) Start(ctx context.Context) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ctx = ctx
}

// Follow has an object watched for an asset. It waits a little for the first list of the
// kind and namespace, so that a look that begins afterwards misses nothing.
func (s *Set) Follow(ctx context.Context, place kubeapi.Place, object Object, asset Asset) {
	s.mutex.Lock()
	if s.ctx == nil {
		s.mutex.Unlock()
		return
	}
	s.register(object, asset)
	if s.basis == nil {
		s.basis = s.startBasis()
	}
	groups := s.basis.all()
	if g := s.use(place, object); g != nil {
		groups = append(groups, g)
	}
	s.mutex.Unlock()
	s.await(ctx, groups)
}

// await waits until watches have listed. What takes long is waited for once.
func (s *Set) await(ctx context.Context, groups []*group) {
	late := time.NewTimer(readyWait)
	defer late.Stop()
	for _, g := range groups {
		select {
		case <-g.ready:
		case <-ctx.Done():
			return
		case <-late.C:
			s.mutex.Lock()
			defer s.mutex.Unlock()
			for _, g := range groups {
				g.setReady()
			}
			return
		}
	}
}

// Verify asks how far the storage of a place is where no watch is open that would have told,
// or where contradicted says that a watch knew more than what was read after it. An error is
// a restored backup, or that the server does not answer.
func (s *Set) Verify(ctx context.Context, place kubeapi.Place, name string, contradicted bool) error {
	s.mutex.Lock()
	unlisted := time.Now().Before(s.unlistedUntil)
	s.mutex.Unlock()
	if !place.Served || unlisted || s.Live() && !contradicted {
		return nil
	}
	uid, err := s.server.UID(ctx)
	if err != nil {
		return err
	}
	selection := place.Select(name)
	judge := s.marks.Begin(uid, selection.Resource)
	page, err := selection.List(ctx, "")
	switch {
	case apierrors.IsForbidden(err): // Who may not list is not protected in this way.
		s.mutex.Lock()
		s.unlistedUntil = time.Now().Add(refusedRetry)
		s.mutex.Unlock()
		return nil
	case err != nil:
		return err
	}
	return judge(page.ResourceVersion)
}

// Expect has an asset hinted when its object is written; where nothing watches the object,
// each so many beats. It begins no watch.
func (s *Set) Expect(object Object, asset Asset) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ctx != nil {
		s.register(object, asset)
	}
}

func (s *Set) register(object Object, asset Asset) {
	assets := s.assets[object]
	if assets == nil {
		assets = map[Asset]time.Time{}
		s.assets[object] = assets
	}
	assets[asset] = time.Now()
}

// use returns the watch of an object's group, and begins it where there is none; nil: the
// server has no such kind.
func (s *Set) use(place kubeapi.Place, object Object) *group {
	key := object.group()
	g := s.watches[key]
	if g == nil {
		if !place.Served {
			return nil
		}
		g = s.begin(place.Select(key.Name), func(namespace, name string, labels map[string]string) {
			s.changed(Object{Kind: key.Kind, Namespace: namespace, Name: name})
			if key.Kind == kubeapi.PodKind {
				s.podChanged(namespace, labels)
			}
		})
		g.watch.noted = func(err error) { s.noted(key, g, err) }
		s.watches[key] = g
		ctx, cancel := context.WithCancel(s.ctx)
		g.cancel = cancel
		go func() {
			defer cancel()
			g.watch.run(ctx)
			s.server.Forget(key.Kind.GroupVersion())
			s.remove(key, g)
		}()
	}
	g.usedAt = time.Now()
	return g
}

// begin makes a watch that is not run yet.
func (s *Set) begin(selection kubeapi.Selection, changed func(namespace, name string, labels map[string]string)) *group {
	watch := &Watch{selection: selection, changed: changed}
	var uid string
	watch.begin = func(ctx context.Context) (func(string) error, error) {
		var err error
		if uid, err = s.server.UID(ctx); err != nil {
			return nil, err
		}
		return s.marks.Begin(uid, watch.selection.Resource), nil
	}
	watch.see = func(version string) { s.marks.See(uid, watch.selection.Resource, version) }
	return &group{watch: watch, ready: make(chan struct{}), beganAt: time.Now()}
}

// noted is called when a watch has shown that it lives, or has ended.
func (s *Set) noted(key Object, g *group, err error) {
	s.mutex.Lock()
	g.setReady()
	late := !g.isListed && err == nil && time.Since(g.beganAt) > readyWait
	g.isListed = g.isListed || err == nil
	var objects []Object
	if late {
		for object := range s.assets {
			if object.group() == key {
				objects = append(objects, object)
			}
		}
	}
	s.mutex.Unlock()
	for _, object := range objects { // Looks did not wait for the list: they may have missed something.
		s.changed(object)
	}
}

func (s *Set) remove(key Object, g *group) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.watches[key] == g {
		delete(s.watches, key)
	}
}

// changed hints the assets of an object.
func (s *Set) changed(object Object) {
	s.mutex.Lock()
	var assets []Asset
	for asset := range s.assets[object] {
		assets = append(assets, asset)
	}
	s.mutex.Unlock()
	for _, asset := range assets {
		s.hint(asset)
	}
}

// Find returns what a watch knows of an object, and as of when. ok is false where there is no
// such object.
func (s *Set) Find(object Object) (item Item, age Age, ok bool) {
	s.mutex.Lock()
	g := s.watches[object.group()]
	if g == nil {
		s.mutex.Unlock()
		return Item{}, Age{}, false
	}
	g.usedAt = time.Now()
	s.mutex.Unlock()
	return g.watch.Find(object.Namespace, object.Name)
}

// Live reports whether a watch is open now: then the storage is the one whose versions are
// known, for a restore ends all watches.
func (s *Set) Live() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.basis == nil {
		return false
	}
	live, _ := s.basis.identity.watch.state()
	for _, g := range s.watches {
		if !live {
			live, _ = g.watch.state()
		}
	}
	return live
}

// Tick hints some of the assets whose objects are not watched now, and ends what is not in
// use. It returns how many assets are not watched.
func (s *Set) Tick(now time.Time) (unwatched int) {
	s.mutex.Lock()
	s.beats++
	live := map[Object]bool{}
	for key, g := range s.watches {
		live[key], _ = g.watch.state()
		if now.Sub(g.usedAt) > unusedLimit {
			g.cancel()
		}
	}
	hinted := s.tickPods(now)
	for object, assets := range s.assets {
		for asset, askedAt := range assets {
			switch {
			case now.Sub(askedAt) > unusedLimit:
				delete(assets, asset)
			case !live[object.group()]:
				if (asset.place()+s.beats)%unwatchedBeats == 0 {
					hinted = append(hinted, asset)
				}
				unwatched++
			}
		}
		if len(assets) == 0 {
			delete(s.assets, object)
		}
	}
	s.mutex.Unlock()
	for _, asset := range hinted {
		s.hint(asset)
	}
	return unwatched
}
