package app_test

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

// buffer is a log that can be read meanwhile.
type buffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}

const onlyAdmin = "access: v1\ngrants:\n- {role: admin, to: [user:root]}\n"

// What the policy's file says counts soon after it is written; one that is
// wrong changes nothing, and is told of; what a definition grants comes with
// the incarnation; and a server without a policy grants nothing of the last.
func TestThePolicyIsFollowed(t *testing.T) {
	file, log := filepath.Join(t.TempDir(), "access.yaml"), &buffer{}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newProduction()
	definition := partition(t, "one", "a")
	register := map[intent.PartitionID]string{"one": definition}
	running, opened := begin(t, p, register, func(o *app.Options) {
		write(onlyAdmin)
		o.Access, o.Log = file, slog.New(slog.NewTextHandler(log, nil))
	})
	has := func(said string) func() bool {
		return func() bool {
			grants, err := opened.Grants(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(grants, func(g store.Grant) bool { return g.String() == said })
		}
	}
	const admin, operator, viewer = "user:root is admin of all partitions, by the server's policy",
		"group:sre is operator of partition one, by the server's policy", "everyone is viewer of partition one, by its definition"
	if !has(admin)() {
		t.Fatal("it does not count from the start")
	}
	write(onlyAdmin + "- {role: operator, to: [group:sre], partitions: [one]}\n")
	eventually(t, "a new grant counts", has(operator))
	write(onlyAdmin + "- {role: owner, to: [group:sre]}\n")
	eventually(t, "what is wrong is told", func() bool {
		return strings.Contains(log.String(), `access.yaml:4: \"owner\" is not a role`)
	})
	if !has(operator)() || !has(admin)() {
		t.Error("a policy that is wrong changed something")
	}
	write(onlyAdmin)
	eventually(t, "a grant that is gone does not count", func() bool { return !has(operator)() })

	text, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(definition, append(text, "access: {viewer: [everyone]}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition's grant counts", has(viewer))
	if err := os.WriteFile(definition, text, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "and does not when it is gone", func() bool { return !has(viewer)() })
	records, err := opened.AuditRecords(t.Context(), "one", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, r := range records {
		if strings.HasSuffix(r.Verb, "grant") {
			told = append(told, r.Verb+" "+r.Subject)
		}
	}
	if want := []string{"grant group:sre", "ungrant group:sre", "grant everyone", "ungrant everyone"}; !slices.Equal(told, want) {
		t.Errorf("the audit tells %v, want %v", told, want)
	}
	if err := running.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}

	options := app.DefaultOptions()
	options.Store, options.Listen, options.Log = "", "", slog.New(slog.DiscardHandler)
	options.Parts = app.Parts{Store: opened, Plugins: func([]string) plugin.Plugin { return p }, Runner: generate.InProcess{Limits: generate.DefaultLimits()}}
	options.Access = filepath.Join(t.TempDir(), "missing.yaml")
	missing, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := missing.Start(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "--access") {
		t.Errorf("without its policy's file it started: %v", err)
	}
	options.Access = ""
	without, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := without.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer without.Stop(context.Background())
	if has(admin)() {
		t.Error("a server without a policy grants what the last one had")
	}
}

// Every route says what it needs, and there is no other way in than by routes.
func TestEveryRouteSaysWhatItNeeds(t *testing.T) {
	var want []access.Route
	for _, call := range access.Calls() {
		service, _, _ := strings.Cut(call.Name(), "/")
		if route := (access.Route{Pattern: "/" + service + "/", Need: access.NeedsToken}); !slices.Contains(want, route) {
			want = append(want, route)
		}
	}
	for _, pattern := range []string{"/"} {
		want = append(want, access.Route{Pattern: pattern, Need: access.NeedsBrowser})
	}
	// It is signed, and its signer may do nothing but be heard.
	want = append(want, access.Route{Pattern: "POST /webhook/{partition}", Need: access.NeedsNothing})
	// These tell nobody anything of anybody.
	for _, pattern := range []string{"GET /healthz", "GET /readyz", "/grpc.health.v1.Health/Check"} {
		want = append(want, access.Route{Pattern: pattern, Need: access.NeedsNoName})
	}
	want = append(want, access.Route{Pattern: "GET /metrics", Need: access.NeedsToken})
	options := app.DefaultOptions()
	options.Store = filepath.Join(t.TempDir(), "lehr.db")
	options.Log = slog.New(slog.DiscardHandler)
	running, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer running.Stop(context.Background())
	got := running.Routes()
	byPattern := func(a, b access.Route) int { return strings.Compare(a.Pattern, b.Pattern) }
	slices.SortFunc(want, byPattern)
	slices.SortFunc(got, byPattern)
	if !slices.Equal(got, want) {
		t.Errorf("the routes are %v, want %v", got, want)
	}
	// Who makes a mux of their own is named here, and reached by a route.
	known := []string{"internal/access/route.go", "internal/server/server.go", "internal/web/web.go"}
	var found []string
	err = fs.WalkDir(os.DirFS("../.."), ".", func(path string, _ fs.DirEntry, err error) error {
		folder := strings.Join(strings.SplitN(path, "/", 3)[:min(2, strings.Count(path, "/"))], "/")
		if err != nil || !slices.Contains([]string{"internal/access", "internal/app", "internal/server", "internal/web", "sdk/client", "internal/store", "internal/prodspec", "internal/annealing"}, folder) ||
			!strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		for _, way := range []string{"NewServeMux", "http.ServeMux", "http.HandleFunc(", "http.Handle(", "ListenAndServe"} {
			if strings.Contains(string(text), way) && !slices.Contains(found, path) {
				found = append(found, path)
			}
		}
		return err
	})
	if err != nil || !slices.Equal(found, known) {
		t.Errorf("%v, %v make ways in, want %v", err, found, known)
	}
	c, err := client.Discover(options.Store, by)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if who, err := c.Auth.WhoAmI(t.Context(), &apipb.WhoAmIRequest{}); err != nil || who.By != "local" {
		t.Errorf("the launch token's bearer is %v, %v", who, err)
	}
}
