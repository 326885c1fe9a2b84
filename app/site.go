package app

import (
	"lehr.dev/access"
	"lehr.dev/client"
	"lehr.dev/server"
	"lehr.dev/web"
)

// site serves the API to bearers of tokens, and pages to browsers that were let
// in. The pages read through a client like any other.
func (a *App) site(local access.Local) *access.Routes {
	routes := local.Routes()
	api := a.api.Handler()
	for _, service := range server.Services() {
		routes.Handle("/"+service+"/", access.NeedsToken, api)
	}
	pages := web.New(web.DefaultOptions(client.InProcess(a.Handler()))).Handler()
	for _, pattern := range web.Patterns() {
		routes.Handle(pattern, access.NeedsBrowser, pages)
	}
	return routes
}
