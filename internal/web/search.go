package web

import (
	"context"
	"net/url"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

// shortestSearch in letters: what is shorter is in nearly everything.
const shortestSearch = 2

// kindsSearched are what a search finds, in the order in which it is shown.
var kindsSearched = []word{
	{"asset", "assets"}, {"incarnation", "incarnations"}, {"commit", "commits"}, {"version", "versions"}, {"rollout", "rollouts"}, {"workflow", "workflows"}, {"person", "people"},
}

// kindsOfControllers are words for Kubernetes objects that controllers make, so that no asset is one.
var kindsOfControllers = []string{"pod", "pods", "po", "replicaset", "replicasets", "rs"}

// hit is one thing that a search found.
type hit struct {
	Kind, Partition, Text, Link, Note string
}

// searchView is what was searched for, and where.
type searchView struct {
	Query     string
	Kinds     []option
	Partition string
	// Found is what was found, by kind, and Cut kinds of which there is more.
	Found    []foundKind
	Searched int
	Problems []string
	// Owned is the command that asks a cluster for the owner of the object that was searched for, where that is of a kind
	// that controllers make; else empty.
	Owned string
}

type foundKind struct {
	Label string
	Hits  []hit
	More  bool
}

// Nothing was found.
func (v searchView) Nothing() bool { return len(v.Found) == 0 }

// showSearch finds things of all kinds in all partitions that the viewer may see.
func showSearch(ctx context.Context, r *reader, at address) (page, error) {
	text := strings.TrimSpace(at.query.Get("q"))
	view := searchView{Query: text, Partition: at.query.Get("partition"), Kinds: []option{{Text: "everything", Selected: at.query.Get("kind") == ""}}}
	for _, kind := range kindsSearched {
		view.Kinds = append(view.Kinds, option{kind.name, kind.label, at.query.Get("kind") == kind.name})
	}
	pageData := page{Title: "Search", Fixed: true, Form: true, Back: crumb{"home", home}}
	if text != "" {
		pageData.Title = "Search for " + text
	}
	form := makePart("search", "search-form", view)
	switch {
	case text == "":
		pageData.Parts = []part{form, makePart("found", "search-help", nil)}
		return pageData, nil
	case len([]rune(text)) < shortestSearch:
		pageData.Parts = []part{form, problem("found", fault.New(fault.Invalid, "%q is too short to search for", text).WithHint("write %d letters or more", shortestSearch))}
		return pageData, nil
	}
	if err := r.search(ctx, &view, at.query.Get("kind")); err != nil {
		return page{}, err
	}
	pageData.Parts = []part{form, makePart("found", "search-found", view)}
	return pageData, nil
}

// search asks for what is found, and puts it together by kind.
func (r *reader) search(ctx context.Context, view *searchView, only string) error {
	response, err := r.Partitions.Search(ctx, &apipb.SearchRequest{Query: view.Query, Kind: only, Partition: view.Partition})
	if err != nil {
		return err
	}
	view.Searched = int(response.Searched)
	kind, name, ok := strings.Cut(view.Query, "/")
	if ok && name != "" && slices.Contains(kindsOfControllers, strings.ToLower(kind)) {
		view.Owned = r.command(view.Partition, "find", view.Query, "--owners")
	}
	for _, problem := range response.Problems {
		view.Problems = append(view.Problems, problem.Partition+": "+problem.Problem)
	}
	for _, kind := range kindsSearched {
		found := foundKind{Label: kind.label, More: slices.Contains(response.More, kind.name)}
		for _, h := range response.Hits {
			if h.Kind == kind.name {
				found.Hits = append(found.Hits, newHit(h))
			}
		}
		if len(found.Hits) > 0 {
			view.Found = append(view.Found, found)
		}
	}
	return nil
}

// newHit is a hit with the page that it is found on.
func newHit(h *apipb.SearchHit) hit {
	shown := hit{Kind: h.Kind, Partition: h.Partition, Text: h.Name, Note: h.Note, Link: link(h.Partition, "partition", "")}
	switch {
	case h.Kind == "commit" && h.Revision != "":
		shown.Link = commitLink(h.Revision)
	case h.Version != nil:
		shown.Link = versionLink(h.Partition, h.Application, h.Version)
	case h.Run != 0:
		shown.Link = workflowRunAddress(h.Partition, h.Run).String()
	case h.Workflow != "":
		shown.Link = address{kind: "workflows", partition: h.Partition, query: url.Values{"workflow": {h.Workflow}}}.String()
	case h.Rollout != "":
		shown.Link = link(h.Partition, "rollout", h.Rollout)
	case h.Incarnation != "":
		shown.Link = incarnationLink(h.Incarnation)
	case h.Asset != "":
		shown.Link = link(h.Partition, "asset", h.Asset)
	}
	if h.Kind == "asset" {
		shown.Note = strings.TrimSpace(stateWord(h.Note) + " " + h.Object)
	}
	return shown
}
