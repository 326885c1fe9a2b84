// Package web is the status page: what runs, what waits, and why, live in a
// browser. It knows the server only through package client, so what it shows
// any client can get. It changes something by forms alone, which show first what
// will come of it. app mounts its Handler behind access.GuardBrowser, which lets no
// form through that another page made.
package web

import (
	"context"
	"embed"
	"errors"
	"net/http"
	"net/url"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// Options of the pages.
type Options struct {
	Client *client.Client
	// Period is the shortest pause between two looks at what a page that is
	// open shows. Heartbeat is how often a quiet stream says that it lives,
	// and Patience how long a browser may take to read what it is sent.
	Period, Heartbeat, Patience time.Duration
	// MaxStreams bounds how many pages are followed at once.
	MaxStreams int
	// Viewer says who looks; nil: whoever it is may see the same.
	Viewer func(context.Context) Viewer
}

// Viewer is on whose behalf a page is read.
type Viewer struct {
	// Key tells those apart who may see different things.
	Key string
	// Name of who is logged in, and may log out; empty where nobody logs in.
	Name string
	// Base is the path below which the browser asks for the pages, without a slash at
	// its end.
	Base string
	// FormToken is what a form must hold that this viewer sends.
	FormToken string
}

// viewer is who looks.
func (s *Site) viewer(ctx context.Context) Viewer {
	if s.options.Viewer == nil {
		return Viewer{}
	}
	return s.options.Viewer(ctx)
}

// DefaultOptions read through a client.
func DefaultOptions(c *client.Client) Options {
	return Options{Client: c, Period: 500 * time.Millisecond, Heartbeat: 15 * time.Second, Patience: 10 * time.Second, MaxStreams: 256}
}

// Site is all the pages.
type Site struct {
	options Options
	live    *live
	sent    sentForms
	causes  causeMemory
	// definitions that runs of workflows follow.
	definitions definitionMemory
}

// New returns the pages. Nothing runs until one is asked for.
func New(options Options) *Site {
	s := &Site{options: options}
	s.live = newLive(options, s.load)
	return s
}

//go:embed static
var static embed.FS

// policy lets a page run our script and style, talk to us, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'self'; frame-ancestors 'none'"

// Patterns are what the pages answer to.
func Patterns() []string { return []string{"/"} }

// Handler serves pages, their stylesheet and script, and the streams that
// keep open pages up to date.
func (s *Site) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.FileServerFS(static))
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /"+auditFile, s.exportAudit)
	mux.HandleFunc("GET /", s.page)
	mux.HandleFunc("POST /partition/{partition}/act/{name}", s.act)
	mux.HandleFunc("POST /act/{name}", s.act)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		mux.ServeHTTP(w, r)
	})
}

// page answers with one whole page.
func (s *Site) page(w http.ResponseWriter, r *http.Request) {
	at, err := parseAddress(r.URL)
	if err != nil {
		// What is no page has nothing to follow: by its address it would follow the first page, and load itself for ever.
		status := statusOf(err)
		s.write(w, r, at, page{Title: http.StatusText(status), Fixed: true, Parts: []part{problem("problem", err)}}, status)
		return
	}
	reader := newReader(s.options.Client)
	reader.viewer, reader.memory = s.viewer(r.Context()), &s.causes
	pageData, err := s.load(r.Context(), at, reader)
	s.answer(w, r, at, pageData, err)
}

// answer writes a page, or why there is none.
func (s *Site) answer(w http.ResponseWriter, r *http.Request, at address, pageData page, err error) {
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
		pageData = page{Title: http.StatusText(status), Partition: at.partition, Parts: []part{problem("problem", err)}}
		if at.partition != "" && at.kind != "partition" {
			pageData.Back = crumb{"partition " + at.partition, link(at.partition, "partition", "")}
		}
	}
	s.write(w, r, at, pageData, status)
}

func (s *Site) write(w http.ResponseWriter, r *http.Request, at address, pageData page, status int) {
	text, err := pageData.render(at, s.viewer(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case fault.Is(err, fault.NotFound):
		return http.StatusNotFound
	case fault.Is(err, fault.Invalid):
		return http.StatusBadRequest
	case fault.Is(err, fault.Denied):
		return http.StatusForbidden
	case fault.Is(err, fault.Conflict):
		return http.StatusConflict
	case fault.Is(err, fault.Unavailable):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// load reads what an address shows.
func (s *Site) load(ctx context.Context, at address, r *reader) (page, error) {
	switch at.kind {
	case "":
		return showHome(ctx, r, at)
	case inboxKind:
		return showInbox(ctx, r)
	case calendarKind:
		return showCalendar(ctx, r, at)
	case searchKind:
		return showSearch(ctx, r, at)
	case commitKind:
		return showCommit(ctx, r, at)
	case auditKind:
		return showAudit(ctx, r, at)
	case accessKind:
		return showAccess(ctx, r, at)
	case serverKind:
		return showServer(ctx, r, at)
	case boardKind:
		return showBoard(ctx, r, at)
	case "partition":
		return showPartition(ctx, r, at)
	case "causes":
		return showCauses(ctx, r, at)
	case "groups":
		return showGroups(ctx, r, at)
	case "group":
		return showGroup(ctx, r, at)
	case "graph":
		return showGraph(ctx, r, at)
	case "asset":
		if at.query.Get("at") != "" {
			return showPast(ctx, r, at)
		}
		return showAsset(ctx, r, at)
	case "references":
		return showReferences(ctx, r, at)
	case "provenance":
		return showProvenance(ctx, r, at)
	case "timeline":
		return showTimeline(ctx, r, at)
	case "push":
		return showPush(ctx, r, at)
	case "incarnations":
		return showIncarnations(ctx, r, at)
	case "incarnation":
		return showIncarnation(ctx, r, at)
	case "candidates":
		return showCandidates(ctx, r, at)
	case "candidate":
		return showCandidate(ctx, r, at)
	case "rollouts":
		return showRollouts(ctx, r, at)
	case judgementKind:
		return showJudgement(ctx, r, at)
	case "rollout":
		return showRollout(ctx, r, at)
	case "runs":
		return showRuns(ctx, r, at)
	case "delivery":
		return showDelivery(ctx, r, at)
	case "version":
		return showVersion(ctx, r, at)
	case "releases":
		return showReleases(ctx, r, at)
	case "release":
		return showRelease(ctx, r, at)
	case "previews":
		return showPreviews(ctx, r, at)
	case "plugins":
		return showPlugins(ctx, r, at)
	case "notifications":
		return showNotifications(ctx, r, at)
	case "documents":
		return showDocuments(ctx, r, at)
	case "document":
		return showDocument(ctx, r, at)
	case "environment":
		return showEnvironment(ctx, r, at)
	case changelogKind:
		return showChangelog(ctx, r, at)
	case "workflows":
		return showWorkflows(ctx, r, at)
	case workflowRunKind:
		return s.showWorkflowRun(ctx, r, at)
	case "act":
		return showAct(ctx, r, at)
	default:
		return showOrphans(ctx, r, at)
	}
}

// queries are what an address may ask for, by kind of page.
var queries = map[string][]string{
	"partition": {"prefix", "state", "filter", "after"}, "causes": {"from", "group"}, "groups": {"after"}, "group": {"state", "after", "from"},
	"asset": {"at", "diff"}, "provenance": {"field"}, "graph": {"view"}, "timeline": {"before"}, "incarnations": {"before"}, "incarnation": {"after", "from"}, "candidate": {"after", "plan"}, "orphans": {"after"},
	"": {"owner", "partition", "environment", "service"}, searchKind: {"q", "kind", "partition"}, calendarKind: {"view", "from"}, commitKind: {"revision"}, boardKind: {"environment", "owner", "from"},
	auditKind: {"partition", "actor", "subject", "verb", "since", "before", "verify"}, accessKind: {"name", "groups", "role", "partition"},
	"workflows": {"workflow", "before"}, workflowRunKind: {"before"},
	"rollouts": {"from"}, "rollout": {"run", "forecast"}, "runs": {"before"},
	"act":      {"asset", "plan", "candidate", "rollout", "orphan", "incarnation", "application", "environment", "version", "digest", "constraint", "workflow", "run", "machine", "signal", "question", "line", "release", "token", "document", "revision", "versions", "mode", "states", "inputs"},
	"document": {"before"},
	"delivery": {"application", "from"}, "version": {"application", "digest"}, "environment": {"application"}, changelogKind: {"application", "from", "to"},
	"releases": {"line", "before"}, "release": {"line"},
}

// query is what an address asks for, in the one form in which equal requests
// are equal.
func query(kind string, values url.Values) url.Values {
	canonical := url.Values{}
	for _, key := range queries[kind] {
		if value := values.Get(key); value != "" {
			canonical.Set(key, value)
		}
	}
	return canonical
}
