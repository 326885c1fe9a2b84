// Package githost tells hosts of git repositories what became of a commit, and opens and follows
// pull or merge requests there. It speaks the APIs of GitHub (Gitea and Forgejo have the same) and
// of GitLab. It is asked for a state, reads what is there, and writes only what differs: asked twice,
// it posts once. It holds no token and decides nothing; delivery calls it.
package githost

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
)

// Kind of API.
type Kind string

// Kinds of API.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
)

// Host is one repository at a host.
type Host struct {
	Kind Kind
	// API is the base of its API: https://api.github.com, https://git.example.com/api/v1 of Gitea,
	// https://gitlab.example.com/api/v4.
	API string
	// Repository is OWNER/NAME, of GitLab with all groups before it.
	Repository string
	// Token reads the secret by its reference, for each request; nothing of it is kept.
	Token func() (string, error)
	// Reach judges each address that is dialled; nil: any may be.
	Reach func(netip.Addr) error
	// Roots are whose certificates are believed; nil: the system's.
	Roots   *x509.CertPool
	Runtime loop.Runtime
}

const (
	// attempts at one request, and the first pause between two; each next is twice as long.
	attempts   = 5
	firstPause = time.Second
	// mostPause is how long a host can have nobody ask.
	mostPause = time.Minute
	// mostText is how many bytes of a description hosts take (GitHub: 140).
	mostText = 140
)

// Check says what is wrong with where a repository is said to be.
func (h Host) Check() error {
	parsed, err := url.Parse(h.API)
	switch {
	case h.Kind != GitHub && h.Kind != GitLab:
		return fault.New(fault.Invalid, "there is no git host of the kind %q", h.Kind).WithHint("write github (for Gitea and Forgejo, too) or gitlab")
	case err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.User != nil:
		return fault.New(fault.Invalid, "the address of the git host's API is no URL").WithHint("write api: https://api.github.com")
	case strings.Count(strings.Trim(h.Repository, "/"), "/") < 1 || strings.ContainsAny(h.Repository, "?#%\\ ") || strings.Contains(h.Repository, ".."):
		return fault.New(fault.Invalid, "%.200q is no repository of a git host", h.Repository).WithHint("write repository: OWNER/NAME")
	}
	return nil
}

// at is a path below the repository.
func (h Host) at(rest string) string {
	if h.Kind == GitLab {
		return "/projects/" + url.PathEscape(h.Repository) + rest
	}
	return "/repos/" + h.Repository + rest
}

// call asks the API, again while it is away or wants to be left alone. Into may be nil. NotFound,
// Denied, Invalid and Conflict are what the host says.
func (h Host) call(ctx context.Context, method, path string, send, into any) error {
	if err := h.Check(); err != nil {
		return err
	}
	target, err := url.Parse(strings.TrimSuffix(h.API, "/") + path)
	if err != nil {
		return fault.New(fault.Invalid, "%.200q is no path of an API", path)
	}
	request := external.Request{URL: target, Method: method, Reach: h.Reach, Roots: h.Roots, Header: http.Header{}}
	if send != nil {
		text, err := json.Marshal(send)
		if err != nil {
			return fault.New(fault.Internal, "what is sent to the git host cannot be encoded: %w", err)
		}
		request.JSON = string(text)
	}
	if h.Token != nil {
		token, err := h.Token()
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		answer, err := external.Ask(ctx, request)
		if err == nil {
			return h.read(method, path, answer, into)
		}
		if !fault.Is(err, fault.Unavailable) || attempt == attempts || ctx.Err() != nil {
			return err
		}
		wait := pause
		if seconds, convErr := strconv.Atoi(answer.Header.Get("Retry-After")); convErr == nil && seconds > 0 {
			wait = min(time.Duration(seconds)*time.Second, mostPause)
		}
		if h.Runtime.Wait(ctx, wait, nil) != nil {
			return err
		}
		pause *= 2
	}
}

// kinds of what a host refuses, by status.
var kinds = map[int]fault.Kind{
	http.StatusUnauthorized: fault.Denied, http.StatusForbidden: fault.Denied, http.StatusNotFound: fault.NotFound, http.StatusConflict: fault.Conflict,
	http.StatusBadRequest: fault.Invalid, http.StatusMethodNotAllowed: fault.Invalid, http.StatusUnprocessableEntity: fault.Invalid,
}

func (h Host) read(method, path string, answer external.Answer, target any) error {
	if answer.Status >= 200 && answer.Status < 300 {
		if target == nil {
			return nil
		}
		if err := json.Unmarshal([]byte(answer.Text), target); err != nil {
			return fault.New(fault.Unavailable, "the git host answered %s %s with what is not read: %w", method, path, err)
		}
		return nil
	}
	kind, ok := kinds[answer.Status]
	hint := "see that the API's address and the repository are right"
	if !ok {
		kind = fault.Unavailable
	} else if kind == fault.Denied || kind == fault.NotFound {
		hint = "give a token that may do so: commit statuses (repo:status, api), pull requests, and see that the repository is right"
	}
	return fault.New(kind, "the git host refused %s %s of %s: %d %s", method, path, h.Repository, answer.Status, external.Shown(messageOf(answer.Text))).WithHint("%s", hint)
}

// messageOf is the message of an answer.
func messageOf(text string) string {
	var answer struct {
		Message any `json:"message"`
	}
	if json.Unmarshal([]byte(text), &answer) == nil && answer.Message != nil {
		return fmt.Sprint(answer.Message)
	}
	return text
}

func shortened(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText-len("…")], "") + "…"
}
