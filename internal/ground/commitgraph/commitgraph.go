// Package commitgraph answers which commits another one has among its ancestors, from the part of a
// repository's history that was read with a list of versions. It says so where that part does not
// reach far enough to know. It is pure: sources of versions read the commits, delivery asks.
package commitgraph

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Commit of a repository.
type Commit struct {
	ID      string   `json:"id"`
	Parents []string `json:"parents,omitempty"`
	Author  string   `json:"author,omitempty"`
	// At is when it was committed.
	At      time.Time `json:"at,omitzero"`
	Message string    `json:"message,omitempty"`
	// PullRequest is the number of the request that its message names; empty: it names none.
	PullRequest string `json:"pull_request,omitempty"`
}

// Most commits are read of one repository, the newest ones.
const Most = 2000

// Graph of commits. The zero value knows none.
type Graph struct {
	commits map[string]*Commit
	// order is that in which they were read: children before their parents.
	order []string
}

// New returns the graph of commits that are listed children first, as git lists them.
func New(commits []Commit) *Graph {
	g := &Graph{commits: make(map[string]*Commit, len(commits))}
	for i := range commits {
		g.commits[commits[i].ID] = &commits[i]
		g.order = append(g.order, commits[i].ID)
	}
	return g
}

// Len is how many commits it knows.
func (g *Graph) Len() int { return len(g.order) }

// Commit that is known by its whole name, and ok whether it is.
func (g *Graph) Commit(id string) (c Commit, ok bool) {
	if commit := g.commits[id]; commit != nil {
		return *commit, true
	}
	return Commit{}, false
}

// Prefixed are the whole names that begin with a prefix.
func (g *Graph) Prefixed(prefix string) (ids []string) {
	for _, id := range g.order {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Descendants are a commit and those that have it among their ancestors, as far as was read. Of two
// commits that were both read this is all there is to know: children are read before their parents.
func (g *Graph) Descendants(id string) map[string]bool {
	found := map[string]bool{id: true}
	for _, child := range slices.Backward(g.order) {
		if slices.ContainsFunc(g.commits[child].Parents, func(parent string) bool { return found[parent] }) {
			found[child] = true
		}
	}
	return found
}

// reach are the commits that one has among its ancestors, itself included, as far as was read.
func (g *Graph) reach(commit string) (reached map[string]bool) {
	reached = map[string]bool{}
	next := []string{commit}
	for len(next) > 0 {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if commit := g.commits[id]; commit != nil && !reached[id] {
			reached[id] = true
			next = append(next, commit.Parents...)
		}
	}
	return reached
}

// Between are the commits that to has and from has not, the newest first. ok: history reaches far
// enough to say that these are all.
func (g *Graph) Between(from, to string) (list []Commit, ok bool) {
	base := g.reach(from)
	reached, next, whole := map[string]bool{}, []string{to}, true
	for len(next) > 0 {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		commit := g.commits[id]
		switch {
		case base[id] || reached[id]:
		case commit == nil:
			whole = false
		default:
			reached[id] = true
			next = append(next, commit.Parents...)
		}
	}
	for _, id := range g.order {
		if reached[id] {
			list = append(list, *g.commits[id])
		}
	}
	return list, whole && base[from]
}

// requests are the ways in which hosts write a request's number into the message of a commit.
var requests = regexp.MustCompile(`^Merge pull request #(\d+) |\(#(\d+)\)$|See merge request \S*!(\d+)`)

// RequestOf is the number of the pull or merge request that the subject or the body of a commit
// names, as GitHub, Gitea and GitLab write it when they merge; empty: they name none.
func RequestOf(subject, body string) string {
	for _, text := range []string{strings.TrimSpace(subject), body} {
		if matches := requests.FindStringSubmatch(text); matches != nil {
			return matches[slices.IndexFunc(matches[1:], func(s string) bool { return s != "" })+1]
		}
	}
	return ""
}
