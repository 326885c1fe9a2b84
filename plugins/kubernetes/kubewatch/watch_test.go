package kubewatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/plugins/kubernetes/storagemark"
	"lehr.dev/sdk/serve"
)

var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// unconnected is a watch that is fed by a test, and the names that it says were changed.
func unconnected() (*Watch, *[]string) {
	var changed []string
	return &Watch{
		see: func(string) {}, noted: func(error) {},
		changed: func(_, name string, _ map[string]string) { changed = append(changed, name) },
	}, &changed
}

func described(name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
}

// TestAListAnewTellsWhatChanged: what was written or has gone between two lists is told.
func TestAListAnewTellsWhatChanged(t *testing.T) {
	w, changed := unconnected()
	items := map[types.NamespacedName]Item{}
	for _, name := range []string{"same", "written", "gone"} {
		object := described(name, "1")
		items[nameOf(object)] = itemOf(object)
	}
	w.replace(maps.Clone(items), time.Now())
	if len(*changed) > 0 || w.revision != 0 {
		t.Errorf("the first list told of %v", *changed)
	}
	delete(items, types.NamespacedName{Name: "gone"})
	for _, object := range []*metav1.PartialObjectMetadata{described("written", "7"), described("new", "6")} {
		items[nameOf(object)] = itemOf(object)
	}
	w.replace(items, time.Now())
	slices.Sort(*changed)
	if want := []string{"gone", "new", "written"}; !slices.Equal(*changed, want) || w.revision != 3 {
		t.Errorf("the second list told of %v, want %v", *changed, want)
	}
}

// TestEventsComeInOrder: an event or a bookmark from before what was told is none of this
// storage.
func TestEventsComeInOrder(t *testing.T) {
	w, changed := unconnected()
	w.replace(map[types.NamespacedName]Item{}, time.Now())
	last := "10"
	for _, event := range []struct {
		kind    apiwatch.EventType
		version string
		want    error
	}{{apiwatch.Added, "11", nil}, {apiwatch.Bookmark, "15", nil}, {apiwatch.Bookmark, "15", nil}, {apiwatch.Modified, "14", errBehind}, {apiwatch.Bookmark, "3", errBehind}, {apiwatch.Deleted, "16", nil}} {
		version, err := w.take(apiwatch.Event{Type: event.kind, Object: described("a", event.version)}, last)
		if !errors.Is(err, event.want) {
			t.Errorf("%v of %s after %s: %v", event.kind, event.version, last, err)
		}
		last = version
	}
	if !slices.Equal(*changed, []string{"a", "a"}) || last != "16" || len(w.items) > 0 {
		t.Errorf("told was %v up to %s, and there are %v", *changed, last, w.items)
	}
}

// TestWhatIsNotWatchedIsHintedByTime: each asset once in so many beats.
func TestWhatIsNotWatchedIsHintedByTime(t *testing.T) {
	hinted := map[Asset]int{}
	s := New(nil, nil, func(asset Asset) { hinted[asset]++ })
	s.Start(t.Context())
	const count = 100
	for i := range count {
		s.Expect(Object{Kind: configMaps, Namespace: "a", Name: fmt.Sprint(i)}, Asset{"shop", serve.AssetID(fmt.Sprint(i))})
	}
	most := 0
	for range unwatchedBeats {
		before := len(hinted)
		if unwatched := s.Tick(time.Now()); unwatched != count {
			t.Errorf("%d are not watched", unwatched)
		}
		most = max(most, len(hinted)-before)
	}
	for asset, times := range hinted {
		if times != 1 {
			t.Errorf("%v was hinted %d times", asset, times)
		}
	}
	if len(hinted) != count || most > count/2 {
		t.Errorf("%d were hinted, %d in one beat", len(hinted), most)
	}
	s.Tick(time.Now().Add(unusedLimit + time.Second))
	if len(s.assets) > 0 {
		t.Errorf("%d assets are kept that nobody asks about", len(s.assets))
	}
}

func TestPausesBeforeAWatchIsBegunAnew(t *testing.T) {
	if pause := retryPause(errExpired, 1); pause != 0 {
		t.Errorf("after a forgotten version: %v", pause)
	}
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	for failures := range 70 {
		if pause := retryPause(errEnded, failures+1); pause < leastRetry/2 || pause > mostRetry*3/2 {
			t.Errorf("after %d failures: %v", failures+1, pause)
		}
		if pause := retryPause(refused, failures+1); pause < refusedRetry/2 {
			t.Errorf("after a refusal: %v", pause)
		}
	}
}

// TestARealServer: a version that the server has forgotten is told as such; a list of many
// pages is whole, and what is written after it is followed.
func TestARealServer(t *testing.T) {
	p := plane.Start(t)
	server, err := kubeapi.Connect(clusterfile.Cluster{Kubeconfig: p.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait("the namespace kube-system", func() error {
		_, err := server.UID(t.Context())
		return err
	})
	const path, count = "/api/v1/namespaces/kube-system/configmaps", 520
	for i := range count {
		if _, err := p.Ask(http.MethodPost, path, "application/json", fmt.Appendf(nil, `{"metadata":{"name":"many-%d"}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	place, err := server.Find(t.Context(), configMaps, "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	w, _ := unconnected()
	w.selection = place.Select("")
	w.replace(map[types.NamespacedName]Item{}, time.Now())
	p.KillServer()
	p.StartServer() // It knows nothing of what was written before.
	p.Wait("an old version to be refused", func() error {
		_, err := w.watchFrom(t.Context(), "1")
		if !errors.Is(err, errExpired) {
			return fmt.Errorf("a watch from version 1: %v", err)
		}
		return nil
	})

	marks, err := storagemark.Open("")
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan Asset, 10)
	s := New(server, marks, func(asset Asset) { changed <- asset })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Start(ctx)
	object, asset := Object{configMaps, "kube-system", "many-519"}, Asset{"shop", "it"}
	p.Wait("all to be listed", func() error {
		s.Follow(t.Context(), place, object, asset)
		item, age, ok := s.Find(object)
		if _, _, other := s.Find(Object{configMaps, "kube-system", "many-0"}); !ok || !other || !age.IsKnown() || item.UID == "" {
			return fmt.Errorf("found is %+v as of %+v", item, age)
		}
		return nil
	})
	before, _, _ := s.Find(object)
	for len(changed) > 0 {
		<-changed
	}
	if _, err := p.Ask(http.MethodPatch, path+"/many-519", "application/merge-patch+json", []byte(`{"data":{"a":"b"}}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-changed:
		if after, _, _ := s.Find(object); got != asset || after.Version == before.Version || after.UID != before.UID {
			t.Errorf("%v was hinted, and it is %+v", got, after)
		}
	case <-time.After(time.Minute):
		t.Error("a write was not hinted")
	}
	cancel()
	p.Wait("the watches to end", func() error {
		if s.Live() {
			return errors.New("one lives")
		}
		return nil
	})
}
