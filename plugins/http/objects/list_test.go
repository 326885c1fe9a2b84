package objects

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"lehr.dev/sdk/serve"
)

// serveHosts serves a registry, one request after the other, which front may precede.
func serveHosts(t *testing.T, front func(w http.ResponseWriter, r *http.Request, next http.Handler)) (*hosts, *bench) {
	t.Helper()
	h := &hosts{}
	var mutex sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		if front != nil {
			front(w, r, h)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return h, open(t, server.URL, custom(t, registry))
}

// TestThingsThatAreFoundInAList, on any page of it, and written by the id that they have
// there now.
func TestThingsThatAreFoundInAList(t *testing.T) {
	h, b := serveHosts(t, nil)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		h.add(name, 1)
	}
	five := asset(object("host", "name=e", `{"size":2}`))
	b.expect(five, `update: body.size 1 -> 2`)
	b.pushed(five)
	b.expect(five, "in sync")
	six := asset(object("host", "name=f", `{"size":2}`))
	b.pushed(six)
	b.expect(six, "in sync")
	if len(h.keys) != 1 || h.keys[0] != "push-1" {
		t.Errorf("idempotency keys: %q", h.keys)
	}
	// The id that e had is given to another one: e is found by its name, or not at all.
	h.remove("5")
	h.items = append(h.items, map[string]any{"id": 5, "name": "other", "size": 9})
	b.expect(five, `create: body.size  -> 2`)
	b.pushed(five)
	gone := asset(object("host", "name=e", `{}`), turndown)
	b.pushed(gone)
	b.expect(gone, "nothing is there")
	for _, item := range h.items {
		if item["name"] == "other" && item["size"] != 9 {
			t.Errorf("what has the id now was changed: %v", item)
		}
	}
	// Two of one name are no answer.
	h.add("twin", 1)
	h.add("twin", 2)
	b.unknown(asset(object("host", "name=twin", `{"size":1}`)), "2 things bear this identity")
}

// TestPagesThatChangeWhileTheyAreRead are read until two readings agree, or not believed:
// what moved to a page that was read is not absent.
func TestPagesThatChangeWhileTheyAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		// until is how many requests come before the list holds still.
		until int
		want  string
	}{
		"for a while": {3, "in sync"},
		"always":      {1000, "it changed while it was read, 4 times"},
	} {
		requests := 0
		h, b := serveHosts(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			if requests++; requests <= c.until && r.URL.Query().Get("page") == "1" {
				// The first goes and another comes: the total stays, c moves to page 1.
				h := next.(*hosts)
				h.items = append(h.items[1:], map[string]any{"id": requests + 100, "name": "n" + strings.Repeat("x", requests), "size": 1})
			}
		})
		for _, one := range []string{"a", "b", "c", "d", "e"} {
			h.add(one, 1)
		}
		wanted := asset(object("host", "name=e", `{"size":1}`))
		if got := b.state(wanted); got != c.want && !strings.Contains(got, c.want) || strings.HasPrefix(got, "create") {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPartOfAListIsNoList: an error, a page that lacks something or a total that is
// another leave everything unknown.
func TestPartOfAListIsNoList(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"an error on the second page": {"", "500"},
		"no items":                    {`{"total":5}`, "has no list"},
		"items that are no list":      {`{"total":5,"items":{}}`, "has no list"},
		"no total":                    {`{"items":[]}`, "no total"},
		"another total":               {`{"total":4,"items":[]}`, "changed while it was read"},
		"too few":                     {`{"total":5,"items":[]}`, "changed while it was read"},
		"an item without a name":      {`{"total":5,"items":[{"id":3}]}`, "has no name"},
		"half a page":                 {`{"total":5,"items":[{"id":3`, "ends before"},
		"a page that lacks something": {`{"total":5,"partial":true,"items":[]}`, "not complete"},
	} {
		h, b := serveHosts(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Get("page") == "1" {
				next.ServeHTTP(w, r)
				return
			}
			if c.page == "" {
				w.WriteHeader(500)
			}
			_, _ = w.Write([]byte(c.page))
		})
		for _, one := range []string{"a", "b", "c", "d", "e"} {
			h.add(one, 1)
		}
		got := b.state(asset(object("host", "name=z", `{"size":1}`)))
		if !strings.HasPrefix(got, "unknown: ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want unknown: …%s…", name, got, c.want)
		}
	}
}

// TestACreationThatIsInDoubt is found again before a second one is made.
func TestACreationThatIsInDoubt(t *testing.T) {
	var late func()
	posts := 0
	h, b := serveHosts(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodPost {
			if late != nil {
				late()
			}
			next.ServeHTTP(w, r)
			return
		}
		posts++
		panic(http.ErrAbortHandler) // It says nothing, and acts later.
	})
	one := asset(object("host", "name=a", `{"size":1}`))
	reads := 0
	late = func() {
		// Two readings of the push come first: its own, and the one just after.
		if reads++; posts == 1 && reads == 4 {
			h.add("a", 1)
		}
	}
	if outcome := b.push(one); outcome.Ending != serve.Pushed || posts != 1 {
		t.Errorf("after %d requests it ended: %+v", posts, outcome)
	}
	b.expect(one, "in sync")
	if len(h.items) != 1 {
		t.Errorf("there are %d", len(h.items))
	}
	// One that never took effect is tried again later, by another push.
	late = nil
	if outcome := b.push(asset(object("host", "name=b", `{"size":1}`))); outcome.Ending != serve.Failed || !outcome.Retryable || posts != 2 {
		t.Errorf("after %d requests it ended: %+v", posts, outcome)
	}
	// One that is there otherwise than intended was somebody's.
	late = func() {
		if posts == 3 && len(h.items) == 1 {
			h.add("c", 7)
		}
	}
	if outcome := b.push(asset(object("host", "name=c", `{"size":1}`))); outcome.Ending != serve.Stale {
		t.Errorf("it ended: %+v", outcome)
	}
}
