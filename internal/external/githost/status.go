package githost

import (
	"context"
	"net/http"
	"net/url"
	"regexp"

	"lehr.dev/internal/ground/fault"
)

// State of a commit in an environment.
type State string

// States of a commit.
const (
	Pending State = "pending"
	Running State = "running"
	Success State = "success"
	Failure State = "failure"
)

// words of the hosts for states. GitHub has none for what runs.
var words = map[Kind]map[State]string{
	GitHub: {Pending: "pending", Running: "pending", Success: "success", Failure: "failure"},
	GitLab: {Pending: "pending", Running: "running", Success: "success", Failure: "failed"},
}

// Status is what is told of a commit.
type Status struct {
	Commit string
	// Context tells this status from others of the commit, as lehr/shop/web/production. A later one
	// of the same context takes the place of this.
	Context     string
	State       State
	Description string
	// Link where more is shown; empty: none.
	Link string
}

var wholeCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// StatusOf is the status of a version in an environment of an application.
func StatusOf(partition, application, environment, commit string, state State, description, link string) Status {
	return Status{Commit: commit, Context: "lehr/" + partition + "/" + application + "/" + environment, State: state, Description: description, Link: link}
}

// hostStatus is one as the APIs read and write it.
type hostStatus struct {
	State       string `json:"state,omitempty"`
	Status      string `json:"status,omitempty"` // GitLab reads it by this name.
	Context     string `json:"context,omitempty"`
	Name        string `json:"name,omitempty"` // GitLab's word for the context.
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`
}

// PostStatus has a commit's status in its context be that which is given. Posted is false where it
// was that already. Invalid: no whole commit or no context is named. NotFound: the host does not
// have the commit. Unavailable: it is away, after several attempts.
func (h Host) PostStatus(ctx context.Context, s Status) (posted bool, err error) {
	word := words[h.Kind][s.State]
	if !wholeCommit.MatchString(s.Commit) || s.Context == "" || h.Check() == nil && word == "" {
		return false, fault.New(fault.Invalid, "a status is of a whole commit, with a context and a state: %.80q, %.80q, %.20q", s.Commit, s.Context, s.State).
			WithHint("have the source say the commit of a version in full")
	}
	wanted := hostStatus{State: word, Description: shortened(s.Description), TargetURL: s.Link}
	current, ok, err := h.currentStatus(ctx, s)
	if err != nil {
		return false, err
	}
	if ok && current.State == wanted.State && current.Description == wanted.Description && current.TargetURL == wanted.TargetURL {
		return false, nil
	}
	path := h.at("/statuses/" + s.Commit)
	if h.Kind == GitLab {
		wanted.Name = s.Context
	} else {
		wanted.Context = s.Context
	}
	return true, h.call(ctx, http.MethodPost, path, wanted, nil)
}

// currentStatus is the newest of the context, and ok whether there is one.
func (h Host) currentStatus(ctx context.Context, s Status) (current hostStatus, ok bool, err error) {
	var list []hostStatus
	path := h.at("/commits/" + s.Commit + "/statuses?per_page=100")
	if h.Kind == GitLab {
		path = h.at("/repository/commits/" + s.Commit + "/statuses?name=" + url.QueryEscape(s.Context))
	}
	if err := h.call(ctx, http.MethodGet, path, nil, &list); err != nil {
		return current, false, err
	}
	for _, one := range list { // GitHub lists the newest first, GitLab the latest of a name alone.
		if one.Context == s.Context || one.Name == s.Context {
			if one.State == "" {
				one.State = one.Status
			}
			return one, true, nil
		}
	}
	return current, false, nil
}
