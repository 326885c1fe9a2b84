package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// CRUD keeps objects at /COLLECTION/ID, with ETags that never come again. A list has
// pages by the header Link.
type CRUD struct {
	*API

	mutex       sync.Mutex
	collections map[string]map[string]*version
	etag        int
}

type version struct {
	etag string
	body map[string]any
}

// NewCRUD starts one; "" as the token lets everybody in.
func NewCRUD(token string) *CRUD {
	c := &CRUD{collections: map[string]map[string]*version{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{collection}", c.list)
	mux.HandleFunc("/{collection}/{id}", c.one)
	c.API = start(token, mux)
	return c
}

// Put writes an object as somebody else would.
func (c *CRUD) Put(collection, id, body string) {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		panic(err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.put(collection, id, object)
}

func (c *CRUD) put(collection, id string, object map[string]any) *version {
	if c.collections[collection] == nil {
		c.collections[collection] = map[string]*version{}
	}
	c.etag++
	object["id"] = id
	written := &version{etag: fmt.Sprintf(`"%d"`, c.etag), body: object}
	c.collections[collection][id] = written
	return written
}

// Remove an object as somebody else would.
func (c *CRUD) Remove(collection, id string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.collections[collection], id)
}

// Get is an object as JSON, and its ETag; "" when it is not there.
func (c *CRUD) Get(collection, id string) string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	found := c.collections[collection][id]
	if found == nil {
		return ""
	}
	encoded, _ := json.Marshal(found.body)
	return string(encoded) + " " + found.etag
}

func (c *CRUD) list(w http.ResponseWriter, r *http.Request) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	ids := slices.Sorted(maps.Keys(c.collections[r.PathValue("collection")]))
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	page = max(page, 1)
	const size = 2
	start, end := min((page-1)*size, len(ids)), min(page*size, len(ids))
	if end < len(ids) {
		w.Header().Add("Link", fmt.Sprintf(`</%s?page=1>; rel="first", </%s?page=%d>; rel="next"`, r.PathValue("collection"), r.PathValue("collection"), page+1))
	}
	items := []any{}
	for _, id := range ids[start:end] {
		items = append(items, c.collections[r.PathValue("collection")][id].body)
	}
	say(w, http.StatusOK, items)
}

func (c *CRUD) one(w http.ResponseWriter, r *http.Request) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	collection, id := r.PathValue("collection"), r.PathValue("id")
	found := c.collections[collection][id]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case none == "*" && found != nil && r.Method != http.MethodGet, match != "" && (found == nil || match != found.etag):
		say(w, http.StatusPreconditionFailed, map[string]any{"message": "it is another one by now"})
	case found == nil && r.Method != http.MethodPut:
		say(w, http.StatusNotFound, map[string]any{"message": "there is none"})
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", found.etag)
		say(w, http.StatusOK, found.body)
	case r.Method == http.MethodDelete:
		delete(c.collections[collection], id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		if object, ok := hear(w, r); ok {
			written := c.put(collection, id, object)
			w.Header().Set("ETag", written.etag)
			say(w, http.StatusOK, written.body)
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}
