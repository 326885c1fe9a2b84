package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
)

// line of the play.
type line struct {
	Scene string `json:"scene"`
	Text  string `json:"text"`
	words []string
}

// answerer is who answers, in body and headers.
type answerer struct {
	Version string `json:"version"`
	Task    string `json:"task"`
	PID     int    `json:"pid"`
}

type answer struct {
	answerer
	Query string `json:"query"`
	Lines []line `json:"lines"`
}

func parse(play string) []line {
	var lines []line
	scene := ""
	for text := range strings.Lines(play) {
		text = strings.TrimSpace(text)
		if heading, ok := strings.CutPrefix(text, "#"); ok {
			scene = strings.TrimSpace(heading)
		} else if text != "" {
			lines = append(lines, line{Scene: scene, Text: text, words: words(text)})
		}
	}
	return lines
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '-' })
}

// search returns the lines that contain all the words of the query.
func search(lines []line, query string) []line {
	found := []line{}
	wanted := words(query)
	for _, l := range lines {
		lacks := func(word string) bool { return !slices.Contains(l.words, word) }
		if len(wanted) > 0 && !slices.ContainsFunc(wanted, lacks) {
			found = append(found, l)
		}
	}
	return found
}

func (f *frontend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /search", f.search)
	mux.HandleFunc("GET /healthz", f.health)
	mux.HandleFunc("GET /metrics", f.showMetrics)
	return mux
}

func (f *frontend) sign(w http.ResponseWriter) {
	w.Header().Set("Lehr-Version", f.answerer.Version)
	w.Header().Set("Lehr-Task", f.answerer.Task)
	w.Header().Set("Lehr-Pid", fmt.Sprint(f.answerer.PID))
	if f.draining.Load() {
		// Do not send more over this connection.
		w.Header().Set("Connection", "close")
	}
}

// search answers with JSON, or with plain text when asked for it.
func (f *frontend) search(w http.ResponseWriter, r *http.Request) {
	f.sign(w)
	start := time.Now()
	failed := f.trouble.strikes()
	defer func() { f.metrics.count(time.Since(start), failed) }()
	if failed {
		http.Error(w, "the play is lost", http.StatusInternalServerError)
		return
	}
	query := r.FormValue("q")
	found := search(f.lines, query)
	f.recorder.record(query)
	if strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, l := range found {
			fmt.Fprintf(w, "%s: %s\n", l.Scene, l.Text)
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{f.answerer, query, found}) // the client is gone
}

func (f *frontend) health(w http.ResponseWriter, _ *http.Request) {
	f.sign(w)
	if f.draining.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, "ok %s\n", f.answerer.Version)
}
