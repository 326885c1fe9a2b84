package objects

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
	"lehr.dev/test/apiserver"
)

// rich uses what the ready profiles do not.
const rich = `http-profile: v1
message: /message
requests_per_second: 1000
resources:
  queue:
    identity: {name: /spec/name}
    read: {request: "GET /q/{name}", object: /data, absent: [{status: 404, at: /code, is: none}, {status: 200, at: /state, is: deleted}]}
    read_only: ["/spec/name", "/spec/rules/*/hits"]
    lists: {/spec/rules: key}
    whole: [/spec/labels]
    immutable: [/spec/kind]
    destructive: [/spec/size]
    update: {request: "PUT /q/{name}", send: ours}
    compare: {at: /rev, send: /rev}
    health: {at: /status/phase, healthy: [up], unhealthy: [down], reason: /status/why}
`

// TestWhatProfilesDeclare: places, lists with keys, health, what cannot be changed and what
// needs an approval.
func TestWhatProfilesDeclare(t *testing.T) {
	told, status := "", 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(told))
	}))
	defer server.Close()
	b := open(t, server.URL, custom(t, rich))
	queue := func(body string) serve.Intent { return asset(object("queue", "name=q", body)) }
	told = `{"data":{"rev":7,"spec":{"name":"q","kind":"fifo","size":10,"labels":{"a":"1","b":"2"},"rules":[{"key":"x","to":"there","hits":9},{"key":"theirs","to":"nowhere","hits":0}]},"status":{"phase":"down","why":"disk"}}}`
	b.expect(queue(`{"spec":{"size":10,"rules":[{"key":"x","to":"there"}]}}`), "in sync")
	b.expect(queue(`{"spec":{"size":5}}`), "update: body.spec.size 10 -> 5 (destructive)")
	b.expect(queue(`{"spec":{"rules":[{"key":"x","to":"here"},{"key":"y","to":"z"}]}}`), `update: body.spec.rules.x.to "there" -> "here"; body.spec.rules.y.key  -> "y"; body.spec.rules.y.to  -> "z"`)
	b.expect(queue(`{"spec":{"labels":{"a":"1"}}}`), `update: body.spec.labels {"a":"1","b":"2"} -> {"a":"1"}`)
	b.unknown(queue(`{"spec":{"kind":"lifo"}}`), "cannot change that in place")
	b.unknown(queue(`{"spec":{"rules":[{"to":"here"}]}}`), "has no key of its own")
	b.unknown(queue(`{"spec":{"size":5}`), "no JSON object")
	b.unknown(queue(`[1]`), "a list, not an object")
	b.unknown(asset(object("queue", "id=q", `{}`)), "identified by name")
	b.unknown(asset(object("stack", "name=q", `{}`)), `knows no resource "stack": write one of queue`)
	b.unknown(asset(object("queue", "name=..", `{}`)), "no part of a path")
	b.unknown(asset(object("queue", "name=q", `{}`), "lehr.intent.v1.Unmanaged"), "name them under initial")
	b.unknown(asset(object("queue", "name=q", `{}`), turndown), "does not delete any")
	d := b.look(queue(`{}`))
	if d.Health.State != serve.Unhealthy || d.Health.Reason != `the API has "down" at /status/phase: "disk"` || d.Base != "version:7" {
		t.Errorf("%+v, base %s", d.Health, d.Base)
	}
	told = strings.Replace(told, `"down"`, `"up"`, 1)
	if d = b.look(queue(`{}`)); d.Health.State != serve.Healthy {
		t.Errorf("%+v", d.Health)
	}
	told = strings.Replace(told, `"rev":7,`, ``, 1)
	b.unknown(queue(`{}`), "no version at /rev")
	told = `{"state":"deleted"}`
	b.unknown(queue(`{"spec":{"size":5}}`), "does not create any")
	told = `{"state":"moving"}`
	b.unknown(queue(`{"spec":{"size":5}}`), "nothing at /data")
	for text, want := range map[string]string{`{"code":"none"}`: "does not create any", `{"code":"nobody"}`: "404", `{"code":["none"]}`: "404", `{}`: "404"} {
		told, status = text, 404
		b.unknown(queue(`{"spec":{"size":5}}`), want)
	}
}

// TestWhoeverIsNotListed is told so, and nothing is asked.
func TestWhoeverIsNotListed(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud", "methods: [GET]")
	one := asset(object("object", "collection=c,id=a", `{"n":1}`))
	other := one
	other.Incarnation.Partition = "zoo"
	b.unknown(other, "not listed: partition zoo may use no endpoint")
	if asked := api.Requests(); len(asked) > 0 {
		t.Errorf("it asked: %v", asked)
	}
	if outcome := b.push(one); outcome.Ending != serve.Failed || outcome.Retryable || !strings.Contains(outcome.Reason, "may not be sent PUT") {
		t.Errorf("a method that is not listed ended: %+v", outcome)
	}
	if writes := api.Writes(); len(writes) > 0 {
		t.Errorf("it wrote: %v", writes)
	}
}

// TestWhatWentBeforeItWasChanged is planned again, and not made anew by the push.
func TestWhatWentBeforeItWasChanged(t *testing.T) {
	api := apiserver.NewGrafana("")
	defer api.Close()
	api.Make("ops", "Ops")
	b := open(t, api.URL, "grafana")
	folder := asset(object("folder", "uid=ops", `{"title":"Operations"}`))
	remove := func() {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, api.URL+"/api/folders/ops", nil)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		response.Body.Close()
	}
	if outcome := b.pushWith(folder, &permits{before: remove}); outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "went meanwhile") {
		t.Errorf("it ended: %+v", outcome)
	}
	if got := api.Folder("ops"); got != "" {
		t.Error(got)
	}
	// A deletion of what went meanwhile is what was asked for.
	api.Make("ops", "Ops")
	if outcome := b.pushWith(asset(object("folder", "uid=ops", `{"title":"Ops"}`), turndown), &permits{before: remove}); outcome.Ending != serve.Pushed {
		t.Errorf("it ended: %+v", outcome)
	}
}
