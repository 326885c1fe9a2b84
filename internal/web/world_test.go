package web_test

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/web"
	"lehr.dev/sdk/client"
)

// world is a real store in memory behind a real server, and its pages behind
// their guard, with a browser that was let in.
type world struct {
	testing.TB
	store   store.All
	lease   store.Lease
	api     http.Handler
	pages   *httptest.Server
	browser *http.Client
	// base is the address below which the pages are.
	base string
	// link makes a link that lets one browser in.
	link func() string
	// problems are the server's.
	problems []string
	// pushLog is of the pushes that the server has under way.
	pushLog pushlog.Book
	// asked is how the plugins do that the server asks; nil: it asks none.
	asked func(*intentpb.PluginBinding) server.AskedPlugin
}

type builtin struct{}

func (builtin) Schema(context.Context, intent.PartitionID, intent.Digest) (*schema.Set, error) {
	return schema.Builtin(), nil
}

var ann = intent.Actor{Name: "ann", Origin: "cli"}

// newWorld changes the options of the pages before they are made.
func newWorld(t testing.TB, change ...func(*web.Options)) *world {
	t.Helper()
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return newWorldOver(t, memory, change...)
}

// newWorldOver is newWorld over a database.
func newWorldOver(t testing.TB, db *sql.DB, change ...func(*web.Options)) *world {
	t.Helper()
	return newWorldOf(t, sqlite.Options{DB: db}, change...)
}

// newWorldOf is newWorld over a store that is opened so.
func newWorldOf(t testing.TB, storeOptions sqlite.Options, change ...func(*web.Options)) *world {
	t.Helper()
	w := &world{TB: t}
	var err error
	w.store, err = sqlite.Open(t.Context(), storeOptions)
	w.must(err)
	t.Cleanup(func() { w.store.Close() })
	w.api = server.New(server.Options{
		Store: w.store, Schemas: builtin{}, Runtime: loop.Real(), Identify: access.CallerOf, Location: "/srv/lehr store.db", Version: "test",
		Problems: func() []string { return w.problems },
		PushLog:  func(_ intent.PartitionID, push intent.PushID) (pushlog.Log, bool) { return w.pushLog.Read(push) },
		Health: func() (acting []server.Health) {
			if w.asked != nil {
				acting = append(acting, server.Health{Partition: "shop", Acting: true})
			}
			return acting
		},
		Plugin: func(_ intent.PartitionID, binding *intentpb.PluginBinding) server.AskedPlugin {
			return w.asked(binding)
		},
	}).Handler()
	local := access.Local{Token: access.NewToken()}
	options := web.DefaultOptions(client.InProcess(access.InProcess(w.api)))
	options.Period = time.Millisecond
	options.Viewer = func(ctx context.Context) web.Viewer {
		return web.Viewer{Base: access.PagePath(local.Token), FormToken: access.FormToken(ctx)}
	}
	for _, change := range change {
		change(&options)
	}
	w.pages = httptest.NewServer(local.GuardPages(web.New(options).Handler()))
	t.Cleanup(w.pages.Close)
	w.base = w.pages.URL + access.PagePath(local.Token)
	jar, err := cookiejar.New(nil)
	w.must(err)
	w.browser = &http.Client{Jar: jar}
	w.must(w.store.AddPartition(t.Context(), "shop", "/shop/lehr.yaml", "a try", ann))
	w.lease, err = w.store.Acquire(t.Context(), "shop", "test")
	w.must(err)
	w.link = func() string { return access.PageLink(w.pages.URL, local.Token) }
	answer, err := w.browser.Get(w.link())
	w.must(err)
	text, err := io.ReadAll(answer.Body)
	w.must(err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Request.URL.String() != w.base+"/" {
		t.Fatalf("the browser was not let in: %s at %s:\n%s", answer.Status, answer.Request.URL, words(string(text)))
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// get is a page, as a browser without script sees it.
func (w *world) get(path string) (status int, text string) {
	w.Helper()
	answer, err := w.browser.Get(w.base + "/" + strings.TrimPrefix(path, "/"))
	w.must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	return answer.StatusCode, string(body)
}

// shows is a page that must be there and say all of these.
func (w *world) shows(path string, says ...string) string {
	w.Helper()
	status, text := w.get(path)
	if status != http.StatusOK {
		w.Fatalf("%s answered %d:\n%s", path, status, text)
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			w.Errorf("%s does not say %q:\n%s", path, want, text)
		}
	}
	return text
}

// publish makes the next incarnation of the given assets.
func (w *world) publish(base intent.Sequence, assets ...intent.Asset) intent.Incarnation {
	w.Helper()
	return w.publishIn(w.lease, base, assets...)
}

// publishIn is publish in the partition of a lease.
func (w *world) publishIn(lease store.Lease, base intent.Sequence, assets ...intent.Asset) intent.Incarnation {
	w.Helper()
	set := schema.Builtin()
	parent := intent.IncarnationID{Partition: lease.Partition, Sequence: base}
	var delta []store.Entry
	for _, asset := range assets {
		body, digest, err := set.Encode(asset)
		w.must(err)
		references, err := set.References(asset)
		w.must(err)
		fields, err := set.Fields(asset)
		w.must(err)
		delta = append(delta, store.Entry{
			Asset: asset.ID, Body: body, References: references, Fields: fields,
			Member: intent.Member{Asset: asset.ID, Type: asset.Payload.Type, Digest: digest, Effective: digest, Since: base + 1},
		})
	}
	w.must(w.store.Unstage(w.Context(), lease))
	w.must(w.store.Stage(w.Context(), lease, parent, delta))
	incarnation, err := w.store.Publish(w.Context(), lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: lease.Partition, Sequence: base + 1}, Parent: parent,
		Schema: set.Digest(), Created: time.Now(), Author: ann, Added: len(assets), Count: len(assets),
	})
	w.must(err)
	return incarnation
}

// command is an asset that comes after others.
func (w *world) command(id intent.AssetID, input string, after ...string) intent.Asset {
	w.Helper()
	set := schema.Builtin()
	payload, err := set.Pack(&commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}, Input: input})
	w.must(err)
	asset := intent.Asset{ID: id, Payload: payload}
	if len(after) > 0 {
		dependencies := &intentpb.Dependencies{}
		for _, other := range after {
			dependencies.Dependencies = append(dependencies.Dependencies, &intentpb.Dependency{On: other, Rule: intentpb.Dependency_RULE_ORDER})
		}
		addon, err := set.Pack(dependencies)
		w.must(err)
		asset.Addons = []intent.Message{addon}
	}
	return asset
}

// ofGroup puts an asset into an instance of a service.
func (w *world) ofGroup(asset intent.Asset, service, instance string) intent.Asset {
	w.Helper()
	addon, err := schema.Builtin().Pack(&intentpb.Group{Service: service, Instance: instance})
	w.must(err)
	asset.Addons = append(asset.Addons, addon)
	return asset
}

// report stores reports of now.
func (w *world) report(reports ...intent.Report) {
	w.Helper()
	for i := range reports {
		reports[i].Partition, reports[i].At = "shop", time.Now()
	}
	w.must(w.store.SaveReports(w.Context(), w.lease, reports))
}

func (w *world) head() intent.IncarnationID {
	w.Helper()
	p, err := w.store.Partition(w.Context(), "shop")
	w.must(err)
	return p.Head
}

// waits is a report of an asset that waits.
func waits(asset intent.AssetID, kind intent.WaitingKind, reason string, blockers ...intent.AssetID) intent.Report {
	return intent.Report{Asset: asset, Type: "lehr.command.v1.Command", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: kind, Reason: reason, Blockers: blockers}}}
}
