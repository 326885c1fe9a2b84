package web

import (
	"cmp"
	"net/url"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// address says what a page shows.
type address struct {
	// kind of page; empty: the list of partitions.
	kind      string
	partition string
	// name of the thing shown, for kinds that need one.
	name  string
	query url.Values
}

// named are the kinds of page below a partition, and whether each needs a
// name.
var named = map[string]bool{
	"causes": false, "groups": false, "group": true, "graph": true, "asset": true, "timeline": true, "references": true, "provenance": true, "push": true,
	"incarnations": false, "incarnation": true, "candidates": false, "candidate": true, "orphans": false,
	"rollouts": false, "rollout": true, "runs": true, judgementKind: true, "act": true,
	"workflows": false, workflowRunKind: true,
	"delivery": false, changelogKind: false, "version": true, "environment": true, "releases": false, "release": true, "previews": false,
	"plugins": false, "notifications": false, "documents": false, "document": true,
}

// globalKinds are the kinds of page that are about all partitions and may be asked for something.
var globalKinds = []string{searchKind, calendarKind, commitKind, auditKind, accessKind, serverKind, boardKind}

func parseAddress(u *url.URL) (address, error) {
	refused := func() (address, error) {
		return address{}, fault.New(fault.NotFound, "there is no page %.200q", u.Path).WithHint("the first page lists the partitions")
	}
	path := "/" + strings.TrimPrefix(strings.TrimPrefix(u.Path, home), "/")
	if path == "/" {
		return address{query: query("", u.Query())}, nil
	}
	if path == "/"+inboxKind {
		return address{kind: inboxKind}, nil
	}
	for _, kind := range globalKinds {
		if path == "/"+kind {
			return address{kind: kind, query: query(kind, u.Query())}, nil
		}
	}
	if name, ok := strings.CutPrefix(path, "/act/"); ok && name != "" && intent.Shown(name) == name {
		return address{kind: "act", name: name, query: query("act", u.Query())}, nil
	}
	rest, hasPartition := strings.CutPrefix(path, "/partition/")
	if !hasPartition {
		return refused()
	}
	at := address{kind: "partition"}
	at.partition, rest, _ = strings.Cut(rest, "/")
	if at.partition == "" {
		return refused()
	}
	if rest != "" {
		at.kind, at.name, _ = strings.Cut(rest, "/")
		if needs, ok := named[at.kind]; !ok || needs != (at.name != "") {
			return refused()
		}
	}
	if intent.Shown(at.partition) != at.partition || intent.Shown(at.name) != at.name {
		return refused() // Nothing is named so, and pages show what they were asked for.
	}
	at.query = query(at.kind, u.Query())
	return at, nil
}

const (
	// home is the link to the first page.
	home = "./"
	// inboxKind is the page of what waits for people, in all partitions, and its link.
	inboxKind = "inbox"
	// searchKind is the search of all partitions, and its link.
	searchKind = "search"
	// commitKind is the page of all that one commit changed, in all partitions.
	commitKind = "commit"
)

// String is the address as a link, which is relative to where the pages are; equal
// addresses have equal ones.
func (a address) String() string {
	if a.kind == "" && len(a.query) == 0 {
		return home
	}
	if a.partition == "" {
		u := url.URL{Path: cmp.Or(a.kind, home), RawQuery: a.query.Encode()}
		if a.name != "" {
			u.Path += "/" + a.name
		}
		return u.String()
	}
	u := url.URL{Path: "partition/" + a.partition}
	if a.kind != "partition" {
		u.Path += "/" + a.kind
	}
	if a.name != "" {
		u.Path += "/" + a.name
	}
	u.RawQuery = a.query.Encode()
	return u.String()
}

// withValue is the address with another value of one key.
func (a address) withValue(key, value string) string {
	values := url.Values{}
	for k, v := range a.query {
		values[k] = v
	}
	values.Del(key)
	if value != "" {
		values.Set(key, value)
	}
	a.query = values
	return a.String()
}

// link leads to something in a partition.
func link(partition, kind, name string) string {
	return address{partition: partition, kind: kind, name: name}.String()
}

// incarnationLink leads to "<partition>@<sequence>".
func incarnationLink(id string) string {
	partition, sequence, _ := strings.Cut(id, "@")
	return link(partition, "incarnation", sequence)
}
