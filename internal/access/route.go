package access

import "net/http"

// Need is what a request needs to come through a route.
type Need string

// Needs of routes.
const (
	// NeedsToken: a bearer token; what its bearer may is the call's annotation
	// to say.
	NeedsToken Need = "token"
	// NeedsBrowser: a browser that was let in. It reads, and changes what it may by forms
	// of the pages it was shown.
	NeedsBrowser Need = "browser"
	// NeedsNothing: whoever reaches the server may come.
	NeedsNothing Need = "nothing"
	// NeedsNoName: nothing, and by whatever name: the answer tells nobody anything
	// of anybody.
	NeedsNoName Need = "no name"
)

// Route is a pattern of http.ServeMux, and what its requests need.
type Route struct {
	Pattern string
	Need    Need
}

// Routes are all that a server answers to. There is no other way in: what has
// no need said is not served.
type Routes struct {
	mux    http.ServeMux
	guards map[Need]func(http.Handler) http.Handler
	list   []Route
}

// Routes returns none yet, which this guard will guard.
func (l Local) Routes() *Routes {
	return &Routes{guards: map[Need]func(http.Handler) http.Handler{
		NeedsToken: l.Guard, NeedsBrowser: l.pageGuard(), NeedsNothing: Hosts(nil).guardOpen, NeedsNoName: unguarded,
	}}
}

// Routes returns none yet. Browsers guards those that are for browsers.
func (m Remote) Routes(browsers func(http.Handler) http.Handler) *Routes {
	return &Routes{guards: map[Need]func(http.Handler) http.Handler{
		NeedsToken: m.Guard, NeedsBrowser: browsers, NeedsNothing: m.Hosts.guardOpen, NeedsNoName: unguarded,
	}}
}

// Monitoring returns none yet, for an address that serves nothing but what whoever
// reaches it may read. On loopback no web page may, by a name of its own.
func Monitoring(loopback bool) *Routes {
	open := unguarded
	if loopback {
		open = Hosts(nil).guardOpen
	}
	return &Routes{guards: map[Need]func(http.Handler) http.Handler{NeedsNothing: open, NeedsNoName: unguarded}}
}

// Handle serves what matches a pattern to those who have what it needs. It
// panics when that is not said.
func (r *Routes) Handle(pattern string, need Need, handler http.Handler) {
	guard, ok := r.guards[need]
	if !ok {
		panic("the route " + pattern + " does not say what it needs")
	}
	r.mux.Handle(pattern, guard(handler))
	r.list = append(r.list, Route{pattern, need})
}

// List lists the routes in the order in which they were made.
func (r *Routes) List() []Route { return r.list }

func (r *Routes) ServeHTTP(w http.ResponseWriter, request *http.Request) { r.mux.ServeHTTP(w, request) }

func unguarded(next http.Handler) http.Handler { return next }

// guardOpen asks for no credential, and lets nobody in under another name or
// from another origin either.
func (h Hosts) guardOpen(next http.Handler) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.Has(r.Host) {
			http.Error(w, h.refusal(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}))
}
