// Package apiserver has small HTTP servers for tests that answer as documented APIs do:
// Grafana's folders and dashboards, GitHub's repositories and the protection of branches,
// and a generic one with ETags. They keep everything in memory. What goes wrong in an API
// a test puts in front of one of them. Only tests import it.
package apiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// API is a running server.
type API struct {
	*httptest.Server

	mutex    sync.Mutex
	requests []string
	front    func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// start serves a handler for as long as the test says. Each request needs the token, if
// there is one.
func start(token string, handler http.Handler) *API {
	a := &API{}
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			say(w, http.StatusUnauthorized, map[string]any{"message": "Unauthorized"})
			return
		}
		handler.ServeHTTP(w, r)
	})
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mutex.Lock()
		a.requests = append(a.requests, r.Method+" "+r.URL.RequestURI())
		front := a.front
		a.mutex.Unlock()
		if front != nil {
			front(w, r, guarded)
			return
		}
		guarded.ServeHTTP(w, r)
	}))
	return a
}

// Front has all requests pass a function, which may answer itself; nil ends that.
func (a *API) Front(front func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.front = front
}

// Requests since the last call, as METHOD PATH.
func (a *API) Requests() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	requests := a.requests
	a.requests = nil
	return requests
}

// Writes among Requests.
func (a *API) Writes() []string {
	return slices.DeleteFunc(a.Requests(), func(request string) bool { return request[:4] == "GET " })
}

// say answers with JSON.
func say(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// hear reads a JSON object with its numbers as they are.
func hear(w http.ResponseWriter, r *http.Request) (map[string]any, bool) {
	decoder := json.NewDecoder(io.LimitReader(r.Body, 16<<20))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		say(w, http.StatusBadRequest, map[string]any{"message": "bad request data"})
		return nil, false
	}
	return object, true
}

// text of a field; "" without one.
func text(object map[string]any, key string) string {
	value, _ := object[key].(string)
	return value
}
