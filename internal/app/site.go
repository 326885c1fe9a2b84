package app

import (
	"context"
	"net/http"

	"lehr.dev/internal/access"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/web"
	"lehr.dev/sdk/client"
)

// site serves the API to bearers of tokens, and pages to browsers that were let
// in. The pages read through a client like any other.
func (a *App) site(routes *access.Routes, viewer func(context.Context) web.Viewer) *access.Routes {
	api := a.api.Handler()
	for _, service := range server.Services() {
		routes.Handle("/"+service+"/", access.NeedsToken, api)
	}
	a.probes(routes)
	routes.Handle("GET /metrics", access.NeedsToken, http.HandlerFunc(a.guardMetrics))
	routes.Handle("POST "+webhookPath+"{partition}", access.NeedsNothing, http.HandlerFunc(a.webhook))
	options := web.DefaultOptions(client.InProcess(a.Handler()))
	options.Viewer = viewer
	pages := web.New(options).Handler()
	for _, pattern := range web.Patterns() {
		routes.Handle(pattern, access.NeedsBrowser, pages)
	}
	return routes
}

// links lead to the pages from elsewhere; nil: nobody else knows this server by a URL.
func (a *App) links() notify.Links {
	if len(a.options.URLs) == 0 {
		return nil
	}
	return &web.Links{Base: a.options.URLs[0]}
}

// remoteSite is for browsers that log in, and nobody else on this machine's
// behalf.
func (a *App) remoteSite() *access.Routes {
	guard := access.Remote{Hosts: access.HostsOf(a.options.URLs), Tokens: a.store, Now: a.runtime.Now, Patience: a.bodyPatience}
	pages := func(pages http.Handler) http.Handler { return a.guardPages(guard.Hosts, pages) }
	return a.site(guard.Routes(pages), func(ctx context.Context) web.Viewer {
		caller, _ := store.CallerOf(ctx)
		return web.Viewer{Key: caller.Token, Name: caller.Actor.Name, FormToken: access.FormToken(ctx)}
	})
}

func nobodyLogsIn(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "Nobody can log in to these pages: the server's access policy names no provider (oidc), or the server was given no --url.\n\n"+
		"On the server's machine, lehr page prints a link to them.", http.StatusForbidden)
}
