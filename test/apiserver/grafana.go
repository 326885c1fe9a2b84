package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Grafana answers as the HTTP API of Grafana 9 and later does for folders and dashboards.
type Grafana struct {
	*API

	mutex      sync.Mutex
	id         int
	folders    map[string]*folder
	dashboards map[string]*dashboard
	order      []string
}

type folder struct {
	id, version int
	title       string
}

type dashboard struct {
	id, version int
	folder      string
	body        map[string]any
}

// NewGrafana starts one, for whoever bears the token.
func NewGrafana(token string) *Grafana {
	g := &Grafana{folders: map[string]*folder{}, dashboards: map[string]*dashboard{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/folders", g.listFolders)
	mux.HandleFunc("POST /api/folders", g.createFolder)
	mux.HandleFunc("GET /api/folders/{uid}", g.withFolder(func(w http.ResponseWriter, _ *http.Request, uid string, f *folder) { say(w, 200, showFolder(uid, f)) }))
	mux.HandleFunc("PUT /api/folders/{uid}", g.withFolder(g.updateFolder))
	mux.HandleFunc("DELETE /api/folders/{uid}", g.withFolder(g.deleteFolder))
	mux.HandleFunc("GET /api/search", g.search)
	mux.HandleFunc("POST /api/dashboards/db", g.saveDashboard)
	mux.HandleFunc("GET /api/dashboards/uid/{uid}", g.withDashboard(showDashboard))
	mux.HandleFunc("DELETE /api/dashboards/uid/{uid}", g.withDashboard(g.deleteDashboard))
	g.API = start(token, mux)
	return g
}

func showFolder(uid string, f *folder) map[string]any {
	return map[string]any{
		"id": f.id, "uid": uid, "title": f.title, "url": "/dashboards/f/" + uid, "hasAcl": false, "canSave": true, "canEdit": true, "canAdmin": true,
		"createdBy": "admin", "created": "2026-01-02T03:04:05Z", "updatedBy": "admin", "updated": "2026-01-02T03:04:05Z", "version": f.version,
	}
}

func (g *Grafana) withFolder(handle func(http.ResponseWriter, *http.Request, string, *folder)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		uid := r.PathValue("uid")
		if g.folders[uid] == nil {
			say(w, http.StatusNotFound, map[string]any{"message": "folder not found", "status": "not-found"})
			return
		}
		handle(w, r, uid, g.folders[uid])
	}
}

func (g *Grafana) listFolders(w http.ResponseWriter, r *http.Request) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	all := []any{}
	for _, uid := range g.order {
		if f := g.folders[uid]; f != nil {
			all = append(all, map[string]any{"id": f.id, "uid": uid, "title": f.title})
		}
	}
	say(w, 200, cut(all, r))
}

// cut is the page that a request asks for.
func cut(all []any, r *http.Request) []any {
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		limit = 1000
	}
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	start := min((max(page, 1)-1)*limit, len(all))
	return all[start:min(start+limit, len(all))]
}

func (g *Grafana) createFolder(w http.ResponseWriter, r *http.Request) {
	object, ok := hear(w, r)
	if !ok {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	uid := text(object, "uid")
	switch {
	case text(object, "title") == "":
		say(w, http.StatusBadRequest, map[string]any{"message": "folder title cannot be empty"})
		return
	case g.folders[uid] != nil:
		say(w, http.StatusConflict, map[string]any{"message": "a folder with the same UID already exists"})
		return
	}
	g.id++
	g.folders[uid] = &folder{id: g.id, version: 1, title: text(object, "title")}
	g.order = append(g.order, uid)
	say(w, 200, showFolder(uid, g.folders[uid]))
}

func (g *Grafana) updateFolder(w http.ResponseWriter, r *http.Request, uid string, f *folder) {
	object, ok := hear(w, r)
	if !ok {
		return
	}
	if object["overwrite"] != true && fmt.Sprint(object["version"]) != strconv.Itoa(f.version) {
		say(w, http.StatusPreconditionFailed, map[string]any{"message": "the folder has been changed by someone else", "status": "version-mismatch"})
		return
	}
	f.title = text(object, "title")
	f.version++
	say(w, 200, showFolder(uid, f))
}

// deleteFolder takes its dashboards with it.
func (g *Grafana) deleteFolder(w http.ResponseWriter, _ *http.Request, uid string, f *folder) {
	delete(g.folders, uid)
	for name, d := range g.dashboards {
		if d.folder == uid {
			delete(g.dashboards, name)
		}
	}
	say(w, 200, map[string]any{"message": "Folder " + f.title + " deleted", "title": f.title, "id": f.id})
}

func (g *Grafana) search(w http.ResponseWriter, r *http.Request) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	all := []any{}
	for _, uid := range g.order {
		if d := g.dashboards[uid]; d != nil {
			all = append(all, map[string]any{"id": d.id, "uid": uid, "title": d.body["title"], "type": "dash-db", "url": "/d/" + uid, "folderUid": d.folder})
		}
	}
	say(w, 200, cut(all, r))
}

func (g *Grafana) withDashboard(handle func(http.ResponseWriter, *http.Request, string, *dashboard)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		uid := r.PathValue("uid")
		if g.dashboards[uid] == nil {
			say(w, http.StatusNotFound, map[string]any{"message": "Dashboard not found"})
			return
		}
		handle(w, r, uid, g.dashboards[uid])
	}
}

func showDashboard(w http.ResponseWriter, _ *http.Request, uid string, d *dashboard) {
	say(w, 200, map[string]any{
		"dashboard": d.body,
		"meta":      map[string]any{"type": "db", "slug": uid, "canSave": true, "version": d.version, "folderUid": d.folder, "updated": "2026-01-02T03:04:05Z"},
	})
}

func (g *Grafana) deleteDashboard(w http.ResponseWriter, _ *http.Request, uid string, d *dashboard) {
	delete(g.dashboards, uid)
	say(w, 200, map[string]any{"title": d.body["title"], "message": "Dashboard deleted", "id": d.id})
}

func (g *Grafana) saveDashboard(w http.ResponseWriter, r *http.Request) {
	object, ok := hear(w, r)
	if !ok {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	body, ok := object["dashboard"].(map[string]any)
	if !ok || text(body, "title") == "" {
		say(w, http.StatusBadRequest, map[string]any{"message": "Dashboard title cannot be empty", "status": "empty-name"})
		return
	}
	uid, in := text(body, "uid"), text(object, "folderUid")
	if in != "" && g.folders[in] == nil {
		say(w, http.StatusBadRequest, map[string]any{"message": "folder not found", "status": "not-found"})
		return
	}
	d := g.dashboards[uid]
	if d != nil && object["overwrite"] != true && fmt.Sprint(body["version"]) != strconv.Itoa(d.version) {
		say(w, http.StatusPreconditionFailed, map[string]any{"message": "The dashboard has been changed by someone else", "status": "version-mismatch"})
		return
	}
	if d == nil {
		g.id++
		d = &dashboard{id: g.id}
		g.dashboards[uid] = d
		if !slices.Contains(g.order, uid) {
			g.order = append(g.order, uid)
		}
	}
	d.version++
	d.folder, d.body = in, body
	body["id"], body["version"] = d.id, d.version
	say(w, 200, map[string]any{"id": d.id, "uid": uid, "url": "/d/" + uid, "status": "success", "version": d.version, "slug": strings.ToLower(text(body, "title"))})
}

// Folder is a folder's title and version, as "TITLE 1"; "" when it is not there.
func (g *Grafana) Folder(uid string) string {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	f := g.folders[uid]
	if f == nil {
		return ""
	}
	return fmt.Sprint(f.title, " ", f.version)
}

// Make a folder, as somebody does in the browser.
func (g *Grafana) Make(uid, title string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.id++
	g.folders[uid] = &folder{id: g.id, version: 1, title: title}
	g.order = append(g.order, uid)
}

// Rename a folder, as somebody does in the browser.
func (g *Grafana) Rename(uid, title string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.folders[uid].title = title
	g.folders[uid].version++
}

// Dashboard as JSON; "" when it is not there.
func (g *Grafana) Dashboard(uid string) string {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	d := g.dashboards[uid]
	if d == nil {
		return ""
	}
	encoded, _ := json.Marshal(d.body)
	return string(encoded)
}
