package objects

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	httppb "lehr.dev/gen/lehr/http/v1"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/apiserver"

	"google.golang.org/protobuf/proto"
)

// TestLifeOfAnObject: created, changed, left alone where production owns it, removed.
func TestLifeOfAnObject(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud")
	one := asset(object("object", "collection=shelves,id=a", `{"name":"first","count":9007199254740993,"deep":{"x":1}}`))
	b.expect(one, `create: body.count  -> 9007199254740993; body.deep.x  -> 1; body.name  -> "first"`)
	b.pushed(one)
	b.expect(one, "in sync")
	if got := api.Get("shelves", "a"); got != `{"count":9007199254740993,"deep":{"x":1},"id":"a","name":"first"} "1"` {
		t.Error(got)
	}
	// Others may add what intent does not speak of: it stays through a change.
	api.Put("shelves", "a", `{"name":"by hand","count":9007199254740992,"deep":{"x":1,"y":2},"theirs":true}`)
	b.expect(one, `update: body.count 9007199254740992 -> 9007199254740993; body.name "by hand" -> "first"`)
	d := b.look(one)
	current := &httppb.Resource{}
	if err := proto.Unmarshal(d.Current, current); err != nil || current.Body != `{"count":9007199254740992,"deep":{"x":1},"name":"by hand"}` {
		t.Errorf("%v: the current state is %s", err, current.Body)
	}
	if d.Base != `etag:"2"` || !strings.HasSuffix(string(d.ResourceKey), "/object/collection=shelves/id=a") || !strings.HasPrefix(string(d.ResourceKey), "http:127.0.0.1:") {
		t.Errorf("base %s, key %s", d.Base, d.ResourceKey)
	}
	b.pushed(one)
	b.expect(one, "in sync")
	if got := api.Get("shelves", "a"); got != `{"count":9007199254740993,"deep":{"x":1,"y":2},"id":"a","name":"first","theirs":true} "3"` {
		t.Error(got)
	}
	// What intent says no more stays; null takes a field away.
	b.expect(asset(object("object", "collection=shelves,id=a", `{}`)), "in sync")
	without := asset(object("object", "collection=shelves,id=a", `{"theirs":null}`))
	b.expect(without, `update: body.theirs true -> `)
	b.pushed(without)
	b.expect(without, "in sync")

	gone := asset(object("object", "collection=shelves,id=a", `{}`), turndown)
	b.expect(gone, `delete: body.count 9007199254740993 ->  (destructive); body.deep.x 1 ->  (destructive); body.deep.y 2 ->  (destructive); body.name "first" ->  (destructive)`)
	b.pushed(gone)
	b.expect(gone, "nothing is there")
	if api.Get("shelves", "a") != "" {
		t.Error("it is still there")
	}
}

// TestInitialFieldsAreProductionsAfterwards: they are sent with the creation only.
func TestInitialFieldsAreProductionsAfterwards(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud")
	payload := object("object", "collection=shelves,id=a", `{"size":3,"name":"x"}`)
	payload.Initial = []string{"/size"}
	b.pushed(asset(payload))
	api.Put("shelves", "a", `{"size":12,"name":"y"}`)
	b.expect(asset(payload), `update: body.name "y" -> "x"`)
	b.pushed(asset(payload))
	if got := api.Get("shelves", "a"); !strings.Contains(got, `"size":12`) {
		t.Error(got)
	}
}

// TestEveryWriteIsCompared: what changed after the look is refused by the API itself.
func TestEveryWriteIsCompared(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud")
	for name, c := range map[string]struct {
		asset  serve.Intent
		before string
		moves  func()
	}{
		"a creation": {asset(object("object", "collection=c,id=new", `{"a":1}`)), "", func() { api.Put("c", "new", `{"a":2}`) }},
		"a change":   {asset(object("object", "collection=c,id=old", `{"a":1}`)), "old", func() { api.Put("c", "old", `{"a":7}`) }},
		"a change of what went and came": {asset(object("object", "collection=c,id=same", `{"a":1}`)), "same", func() {
			api.Remove("c", "same")
			api.Put("c", "same", `{"a":0}`)
		}},
		"a change of what went": {asset(object("object", "collection=c,id=went", `{"a":1}`)), "went", func() { api.Remove("c", "went") }},
		"a deletion":            {asset(object("object", "collection=c,id=gone", `{}`), turndown), "gone", func() { api.Put("c", "gone", `{"a":7}`) }},
	} {
		if c.before != "" {
			api.Put("c", c.before, `{"a":0}`)
		}
		if outcome := b.pushWith(c.asset, &permits{before: c.moves}); outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "412") {
			t.Errorf("%s ended: %+v", name, outcome)
		}
	}
}

// TestNothingBeginsWithoutAPermit: no write is sent for a plan that was not admitted, or
// when the permit is withheld.
func TestNothingBeginsWithoutAPermit(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud")
	one := asset(object("object", "collection=c,id=a", `{"a":1}`))
	push := serve.Push{ID: "p", Asset: one, Plan: serve.Digest{1}, Progress: func(string) {}}
	if outcome := b.Push(t.Context(), push, &permits{}); outcome.Ending != serve.Stale {
		t.Errorf("a plan that nobody admitted ended: %+v", outcome)
	}
	d := b.look(one)
	push.Plan, push.Base = d.Plan.Digest(), d.Base
	if outcome := b.Push(t.Context(), push, &refusing{}); outcome.Ending != serve.Stopped {
		t.Errorf("without a permit it ended: %+v", outcome)
	}
	if writes := api.Writes(); len(writes) > 0 {
		t.Errorf("it wrote: %v", writes)
	}
}

// TestClassIsWhatTheListLets: C only when each kind of each endpoint is compared with
// what never comes again.
func TestClassIsWhatTheListLets(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	for class, more := range map[serve.Guarantee]string{serve.CompareAndSet: "unique_versions: true", serve.Unguarded: "unique_versions: false"} {
		if served := open(t, api.URL, "crud", more).Served(); served.Guarantee != class {
			t.Errorf("with %s it is of class %s", more, served.Guarantee)
		}
	}
	if served := open(t, api.URL, "grafana", "unique_versions: true").Served(); served.Guarantee != serve.Unguarded {
		t.Errorf("Grafana is of class %s, and its deletions are compared with nothing", served.Guarantee)
	}
	// An ETag that no write can be compared with is no base of class C.
	api.Put("c", "a", `{"a":1}`)
	api.Front(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(weakly{w}, r)
	})
	one := asset(object("object", "collection=c,id=a", `{"a":1}`))
	open(t, api.URL, "crud", "unique_versions: true").unknown(one, "no write can be compared with")
	open(t, api.URL, "crud").expect(one, "in sync")
}

type refusing struct{ permits }

func (*refusing) Effect(context.Context) error { return errors.New("no permit") }

// weakly makes ETags weak.
type weakly struct{ http.ResponseWriter }

func (w weakly) WriteHeader(status int) {
	if etag := w.Header().Get("ETag"); etag != "" {
		w.Header().Set("ETag", "W/"+etag)
	}
	w.ResponseWriter.WriteHeader(status)
}
