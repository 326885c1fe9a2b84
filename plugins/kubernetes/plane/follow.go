package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// Event is one write that a watch saw: ADDED, MODIFIED or DELETED, and the object after it.
type Event struct {
	Type   string
	Object Object
}

// Follow watches collections, by their paths, from now on. What it returns ends that, once each collection was seen as
// it is then, and gives every write in between, in the order of each collection.
func (p *Plane) Follow(collections ...string) (end func() []Event) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	var followed []*followedCollection
	for _, path := range collections {
		f := &followedCollection{path: path, versions: map[string]string{}}
		list := p.Parse(mustAsk(p, path))
		f.take(list)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path+"?watch=true&resourceVersion="+list["metadata"].(Object)["resourceVersion"].(string), nil)
		if err != nil {
			p.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := p.client.Do(request)
		if err != nil {
			p.Fatal(err)
		}
		go f.read(response)
		followed = append(followed, f)
	}
	return func() (events []Event) {
		p.Helper()
		defer cancel()
		for _, f := range followed {
			p.Wait("the watch of "+f.path+" to have seen all", func() error { return f.lacks(p.Parse(mustAsk(p, f.path))) })
			f.mutex.Lock()
			events = append(events, f.events...)
			f.mutex.Unlock()
		}
		return events
	}
}

// followedCollection is one watch.
type followedCollection struct {
	path string

	mutex  sync.Mutex
	events []Event
	// versions of the objects that were seen, by their UIDs.
	versions map[string]string
}

func (f *followedCollection) take(list Object) {
	for _, item := range list["items"].([]any) {
		uid, version := identityOf(item.(Object))
		f.versions[uid] = version
	}
}

func (f *followedCollection) read(response *http.Response) {
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	for {
		var one Event
		if decoder.Decode(&one) != nil {
			return
		}
		uid, version := identityOf(one.Object)
		f.mutex.Lock()
		f.events = append(f.events, one)
		f.versions[uid] = version
		f.mutex.Unlock()
	}
}

// lacks is an error where the watch has not seen what a list has.
func (f *followedCollection) lacks(list Object) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, item := range list["items"].([]any) {
		uid, version := identityOf(item.(Object))
		if seen := f.versions[uid]; seen != version {
			return fmt.Errorf("%s has version %s, and was seen in %q", NameOf(item.(Object)), version, seen)
		}
	}
	return nil
}

func identityOf(object Object) (uid, version string) {
	metadata, _ := object["metadata"].(Object)
	uid, _ = metadata["uid"].(string)
	version, _ = metadata["resourceVersion"].(string)
	return uid, version
}

// NameOf an object, within its namespace.
func NameOf(object Object) string {
	metadata, _ := object["metadata"].(Object)
	name, _ := metadata["name"].(string)
	return name
}
