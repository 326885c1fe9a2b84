package app

import (
	"net/http"

	"lehr.dev/access"
	"lehr.dev/client"
	"lehr.dev/web"
)

// apiPrefix begins the path of every call.
const apiPrefix = "/lehr.api."

// site serves the API to bearers of the token, and pages to browsers that
// were let in. The pages read through a client like any other.
func (a *App) site(local access.Local) http.Handler {
	api := local.Guard(a.api.Handler())
	pages := local.GuardPages(web.New(web.DefaultOptions(client.InProcess(a.api.Handler()))).Handler())
	return byPath(api, pages)
}
