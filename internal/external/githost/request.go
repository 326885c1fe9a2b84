package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// Progress of a pull or merge request.
type Progress string

// Progress of requests.
const (
	// Open: people decide on it.
	Open Progress = "open"
	// Merged: it landed.
	Merged Progress = "merged"
	// Closed: it was rejected.
	Closed Progress = "closed"
)

// Wanted is a request that is to be there.
type Wanted struct {
	// Branch that is to be merged into Base.
	Branch, Base string
	Title, Body  string
}

// Request is a pull or merge request.
type Request struct {
	Number   int
	Link     string
	Progress Progress
	// Commit by which it was merged; empty: it was not, or the host does not say.
	Commit string
}

// hostRequest is one as the APIs have it.
type hostRequest struct {
	Number   int    `json:"number"`
	IID      int    `json:"iid"`
	HTMLURL  string `json:"html_url"`
	WebURL   string `json:"web_url"`
	State    string `json:"state"`
	Merged   bool   `json:"merged"`
	MergedAt string `json:"merged_at"`
	Commit   string `json:"merge_commit_sha"`
	Squashed string `json:"squash_commit_sha"`
}

func (r hostRequest) request() Request {
	found := Request{Number: r.Number, Link: r.HTMLURL, Progress: Open}
	if r.IID != 0 {
		found.Number, found.Link = r.IID, r.WebURL
	}
	switch {
	case r.Merged || r.MergedAt != "" || r.State == "merged":
		if found.Progress, found.Commit = Merged, r.Commit; found.Commit == "" {
			found.Commit = r.Squashed
		}
	case r.State == "closed":
		found.Progress = Closed
	}
	return found
}

// OpenRequest has a request of a branch be open, and returns it: the one that is open already, or
// a new one.
func (h Host) OpenRequest(ctx context.Context, w Wanted) (Request, error) {
	list, err := h.requestsOf(ctx, w.Branch, w.Base, "open")
	if err != nil {
		return Request{}, err
	}
	if len(list) > 0 {
		return list[0].request(), nil
	}
	send := map[string]string{"title": w.Title, "body": w.Body, "head": w.Branch, "base": w.Base}
	path := h.at("/pulls")
	if h.Kind == GitLab {
		send = map[string]string{"title": w.Title, "description": w.Body, "source_branch": w.Branch, "target_branch": w.Base}
		path = h.at("/merge_requests")
	}
	var made hostRequest
	err = h.call(ctx, http.MethodPost, path, send, &made)
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid) {
		// Somebody else, or an attempt whose answer was lost, may have opened it just now.
		if list, listErr := h.requestsOf(ctx, w.Branch, w.Base, "open"); listErr == nil && len(list) > 0 {
			return list[0].request(), nil
		}
	}
	return made.request(), err
}

// FindRequest is the newest request of a branch, whatever became of it, and ok whether there is one.
func (h Host) FindRequest(ctx context.Context, branch, base string) (found Request, ok bool, err error) {
	list, err := h.requestsOf(ctx, branch, base, "all")
	if err != nil || len(list) == 0 {
		return found, false, err
	}
	return list[0].request(), true, nil
}

// CloseRequest has a request not be open, and returns what became of it: one that was merged
// meanwhile stays merged.
func (h Host) CloseRequest(ctx context.Context, number int) (Request, error) {
	found, err := h.FollowRequest(ctx, number)
	if err != nil || found.Progress != Open {
		return found, err
	}
	method, path, send := http.MethodPatch, h.at(fmt.Sprintf("/pulls/%d", number)), map[string]string{"state": "closed"}
	if h.Kind == GitLab {
		method, path, send = http.MethodPut, h.at(fmt.Sprintf("/merge_requests/%d", number)), map[string]string{"state_event": "close"}
	}
	if err := h.call(ctx, method, path, send, nil); err != nil {
		return found, err
	}
	return h.FollowRequest(ctx, number)
}

// FollowRequest says what became of a request.
func (h Host) FollowRequest(ctx context.Context, number int) (Request, error) {
	path := h.at(fmt.Sprintf("/pulls/%d", number))
	if h.Kind == GitLab {
		path = h.at(fmt.Sprintf("/merge_requests/%d", number))
	}
	var found hostRequest
	if err := h.call(ctx, http.MethodGet, path, nil, &found); err != nil {
		return Request{}, err
	}
	return found.request(), nil
}

// Listed is an open request of a repository, and where its branch is.
type Listed struct {
	Request
	Branch, Commit string
	// Fork: the branch is in another repository.
	Fork bool
}

// hostBranch is a request as lists have it.
type hostBranch struct {
	hostRequest
	// Head is GitHub's, the others are GitLab's.
	Head struct {
		Ref        string `json:"ref"`
		SHA        string `json:"sha"`
		Repository *struct {
			FullName string `json:"full_name"`
		} `json:"repo"`
	} `json:"head"`
	Source        string `json:"source_branch"`
	SHA           string `json:"sha"`
	SourceProject int    `json:"source_project_id"`
	TargetProject int    `json:"target_project_id"`
}

// mostListed requests are read of a repository, in pages of pageSize.
const mostListed, pageSize = 2000, 100

// ListOpen lists all requests that are open. Unavailable: there are more than it reads, and then it
// lists none. While the pages are read, requests may move from one to another: whether one that is
// missing is closed, FollowRequest says.
func (h Host) ListOpen(ctx context.Context) (list []Listed, _ error) {
	for page := 1; ; page++ {
		path := fmt.Sprintf("/pulls?state=open&sort=created&direction=asc&per_page=%d&page=%d", pageSize, page)
		if h.Kind == GitLab {
			path = fmt.Sprintf("/merge_requests?state=opened&order_by=created_at&sort=asc&per_page=%d&page=%d", pageSize, page)
		}
		var found []hostBranch
		if err := h.call(ctx, http.MethodGet, h.at(path), nil, &found); err != nil {
			return nil, err
		}
		for _, one := range found {
			if listed := one.listed(h); listed.Number > 0 {
				list = append(list, listed)
			}
		}
		if len(found) < pageSize {
			return list, nil
		}
		if len(list) >= mostListed {
			return nil, fault.New(fault.Unavailable, "%s has more than %d open requests", h.Repository, mostListed).WithHint("close what is not worked on any more; until then nothing is concluded from the list")
		}
	}
}

func (b hostBranch) listed(h Host) Listed {
	l := Listed{Request: b.request(), Branch: b.Head.Ref, Commit: b.Head.SHA}
	if h.Kind == GitLab {
		l.Branch, l.Commit, l.Fork = b.Source, b.SHA, b.SourceProject != b.TargetProject
		return l
	}
	// Of a fork that was deleted, GitHub says no repository.
	l.Fork = b.Head.Repository == nil || !strings.EqualFold(b.Head.Repository.FullName, h.Repository)
	return l
}

// requestsOf lists the requests of a branch of the repository itself, the newest first.
func (h Host) requestsOf(ctx context.Context, branch, base, state string) (list []hostRequest, err error) {
	query := url.Values{"state": {state}}
	path := "/pulls?"
	if h.Kind == GitLab {
		if state == "open" {
			query.Set("state", "opened")
		}
		query.Set("source_branch", branch)
		query.Set("target_branch", base)
		path = "/merge_requests?"
	} else {
		owner, _, _ := strings.Cut(h.Repository, "/")
		query.Set("head", owner+":"+branch)
		query.Set("base", base)
	}
	return list, h.call(ctx, http.MethodGet, h.at(path+query.Encode()), nil, &list)
}
