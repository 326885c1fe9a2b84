package objects

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/sdk/serve"
	"lehr.dev/test/apiserver"
)

// TestNothingIsTakenForAbsent but what the profile says: an error, a page of a proxy, half
// an answer or a redirect tell nothing.
func TestNothingIsTakenForAbsent(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	elsewhere := apiserver.NewCRUD("")
	defer elsewhere.Close()
	b := open(t, api.URL, "crud", "timeout: 200ms")
	one := asset(object("object", "collection=c,id=a", `{"n":1}`))
	answer := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	release := make(chan struct{})
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"an error with 200":              {answer(200, `{"error":{"code":7},"message":"no database"}`), "an error in /error: no database"},
		"half an answer":                 {answer(200, `{"id":"a","n":`), "ends before it is whole"},
		"an answer that breaks off":      {answer(200, `{"id":"a"}`, "Content-Length", "100"), "broke off"},
		"a page to sign in":              {answer(200, `<html>sign in</html>`), "no JSON"},
		"nothing":                        {answer(200, ``), "no JSON"},
		"no content":                     {answer(204, ``), "no JSON"},
		"part of it":                     {answer(206, `{"id":"a"}`), "not the whole thing"},
		"null":                           {answer(200, `null`), "not an object"},
		"a list":                         {answer(200, `[{"id":"a"}]`), "not an object"},
		"a key that is there twice":      {answer(200, `{"id":"a","n":1,"n":2}`), "twice"},
		"another thing":                  {answer(200, `{"id":"b","n":1}`), "another thing"},
		"a thing without its id":         {answer(200, `{"n":1}`), "another thing"},
		"404 of a proxy":                 {answer(404, `<html>no such host</html>`), "404"},
		"404 without a word":             {answer(404, ``), "404: without a word"},
		"404 that breaks off":            {answer(404, `{"message":"there`), "404"},
		"410":                            {answer(410, `{"message":"gone"}`), "410"},
		"403":                            {answer(403, `{"message":"not you"}`), "403: not you"},
		"401":                            {answer(401, `{"message":"who are you?"}`), "401: who are you?"},
		"500":                            {answer(500, `{"message":"oops"}`), "500: oops"},
		"503":                            {answer(503, `{"message":"later"}`), "503: later"},
		"a redirect to elsewhere":        {answer(302, ``, "Location", elsewhere.URL+"/c/a"), "a redirect, which is not followed"},
		"a redirect to itself":           {answer(307, ``, "Location", "/c/a"), "a redirect"},
		"no answer in time":              {func(http.ResponseWriter, *http.Request) { <-release }, "no answer within 200ms"},
		"an endless answer":              {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) }, ""},
		"values within values for ever":  {answer(200, strings.Repeat(`{"a":`, 100_000)), ""},
		"a reason that is a book":        {answer(400, `{"message":"`+strings.Repeat("long ", 1000)+`"}`), "long …"},
		"an answer that is no UTF-8":     {answer(200, "{\"id\":\"\xff\"}"), "not UTF-8"},
		"a connection that is cut at it": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		api.Front(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { c.handler(w, r) })
		got := b.state(one)
		if !strings.HasPrefix(got, "unknown: ") || !strings.Contains(got, c.want) || len(got) > 600 {
			t.Errorf("%s: %.800s\nwant unknown: …%s…", name, got, c.want)
		}
	}
	close(release)
	api.Front(nil)
	b.expect(one, `create: body.n  -> 1`)
	if asked := elsewhere.Requests(); len(asked) > 0 {
		t.Errorf("a redirect was followed: %v", asked)
	}
	if writes := api.Writes(); len(writes) > 0 {
		t.Errorf("looking wrote: %v", writes)
	}
}

// endless is a body of JSON that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestReadsAreTriedAgain: a server that stumbles once is no reason to know nothing.
func TestReadsAreTriedAgain(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	api.Put("c", "a", `{"n":1}`)
	b := open(t, api.URL, "crud")
	var asked atomic.Int32
	api.Front(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		next.ServeHTTP(w, r)
	})
	b.expect(asset(object("object", "collection=c,id=a", `{"n":1}`)), "in sync")
}

// TestBusy: the API says until when, also by a date on a clock that is years off.
func TestBusy(t *testing.T) {
	one := asset(object("object", "collection=c,id=a", `{"n":1}`))
	for _, c := range []struct {
		status          int
		after, date     string
		least, greatest time.Duration
	}{
		{429, "7", "", 7 * time.Second, 7 * time.Second},
		{503, "7", "", 7 * time.Second, 7 * time.Second},
		{429, "Mon, 01 Jan 2001 00:00:30 GMT", "Mon, 01 Jan 2001 00:00:00 GMT", 30 * time.Second, 30 * time.Second},
		{429, "soon", "", 10 * time.Second, 10 * time.Second},
		{429, "86400", "", 5 * time.Minute, 5 * time.Minute},
		{429, "0", "", time.Second, time.Second},
		{429, "-5", "", 10 * time.Second, 10 * time.Second},
	} {
		api := apiserver.NewCRUD("")
		b := open(t, api.URL, "crud")
		api.Front(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Retry-After", c.after)
			if c.date != "" {
				w.Header().Set("Date", c.date)
			}
			w.WriteHeader(c.status)
		})
		if d := b.look(one); d.Outcome != serve.Unknown || d.RetryAfter < c.least || d.RetryAfter > c.greatest {
			t.Errorf("%d, %s: %v after %v: %s", c.status, c.after, d.Outcome, d.RetryAfter, d.Reason)
		}
		if asked := api.Requests(); len(asked) != 1 {
			t.Errorf("%d, %s: it was asked %d times", c.status, c.after, len(asked))
		}
		api.Close()
	}
	// Of a push it is a failure that says until when.
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud")
	api.Front(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
	if outcome := b.push(one); outcome.Ending != serve.Failed || outcome.RetryAfter != 20*time.Second || !outcome.Retryable {
		t.Errorf("the push ended: %+v", outcome)
	}
}

// TestAWriteIsNotBelieved: the next look tells what came of it.
func TestAWriteIsNotBelieved(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud", "timeout: 1s")
	one := asset(object("object", "collection=c,id=a", `{"n":1}`))
	front := func(answer func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
		api.Front(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet {
				next.ServeHTTP(w, r)
				return
			}
			answer(w, r, next)
		})
	}
	// It answers 200, and nothing was applied.
	front(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = io.WriteString(w, `{"id":"a","n":1}`)
	})
	b.pushed(one)
	b.expect(one, `create: body.n  -> 1`)
	// It answers 200 with an error in it.
	front(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = io.WriteString(w, `{"error":"quota","message":"no room left"}`)
	})
	if outcome := b.push(one); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "no room left") {
		t.Errorf("an error with 200 ended: %+v", outcome)
	}
	// It refuses: that is final until something changes.
	front(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(422)
		_, _ = io.WriteString(w, `{"message":"n is too small"}`)
	})
	if outcome := b.push(one); outcome.Ending != serve.Failed || outcome.Retryable || !strings.Contains(outcome.Reason, "n is too small") {
		t.Errorf("a refusal ended: %+v", outcome)
	}
	// It applies the change and then breaks down: it did take effect.
	for name, end := range map[string]func(w http.ResponseWriter){
		"500":              func(w http.ResponseWriter) { w.WriteHeader(500) },
		"a cut connection": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"half an answer":   func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"id":`) },
		"a redirect":       func(w http.ResponseWriter) { w.WriteHeader(303) },
	} {
		api.Remove("c", "a")
		front(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(discard{http.Header{}}, r)
			end(w)
		})
		if outcome := b.push(one); outcome.Ending != serve.Pushed {
			t.Errorf("applied, and %s: %+v", name, outcome)
		}
		b.expect(one, "in sync")
	}
}

// discard is an answer that nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// registry is an API that gives each thing an id of its own, finds none by name, and would
// make a second thing of one name without a word.
const registry = `http-profile: v1
message: /message
requests_per_second: 1000
timeout: 300ms
resources:
  host:
    identity: {name: /name}
    list: {request: GET /hosts, items: /items, total: /total, incomplete: /partial, complete: true, page: {parameter: page, first: 1, size: 2}}
    read_only: [/id]
    create: {request: POST /hosts, set: {/name: "{name}"}, idempotency: Idempotency-Key}
    update: {request: "PATCH /hosts/{/id}"}
    delete: {request: "DELETE /hosts/{/id}"}
`

// hosts serves such a registry: things by id, in order.
type hosts struct {
	items []map[string]any
	next  int
	keys  []string
}

func (h *hosts) add(name string, size int) {
	h.next++
	h.items = append(h.items, map[string]any{"id": h.next, "name": name, "size": size})
}

func (h *hosts) remove(id string) {
	for i, item := range h.items {
		if fmt.Sprint(item["id"]) == id {
			h.items = append(h.items[:i:i], h.items[i+1:]...)
			return
		}
	}
}

func (h *hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	id := strings.TrimPrefix(r.URL.Path, "/hosts/")
	switch r.Method {
	case http.MethodGet:
		var page int
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		from := min(max(page-1, 0)*2, len(h.items))
		_ = json.NewEncoder(w).Encode(map[string]any{"total": len(h.items), "items": append([]map[string]any{}, h.items[from:min(from+2, len(h.items))]...)})
	case http.MethodPost:
		h.keys = append(h.keys, r.Header.Get("Idempotency-Key"))
		h.add(fmt.Sprint(body["name"]), int(body["size"].(float64)))
		w.WriteHeader(http.StatusCreated)
	case http.MethodPatch:
		for _, item := range h.items {
			if fmt.Sprint(item["id"]) == id {
				item["size"] = body["size"]
			}
		}
	case http.MethodDelete:
		h.remove(id)
		w.WriteHeader(http.StatusNoContent)
	}
}
