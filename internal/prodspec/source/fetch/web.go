package fetch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
)

// web is one file that an HTTP server gives.
type web struct {
	inMemory
	remote source.HTTP
	guard  guard
	limits source.Limits
}

func (w *web) fetch(ctx context.Context, last *State) (*State, error) {
	r := request{url: w.remote.URL, login: w.remote.Login, most: w.limits.FileBytes, marks: map[string]string{}}
	if last != nil {
		r.marks = last.Marks
	}
	got, err := w.guard.get(ctx, r)
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return last, nil
	}
	if err := plausible(w.remote.File, got); err != nil {
		return nil, unreadable(w.remote.URL, err)
	}
	state := newState(map[string][]byte{w.remote.File: got.body})
	if state.Marks = got.marks; last != nil && last.Files[0].Digest == state.Files[0].Digest && len(state.Marks) == 0 {
		return last, nil
	}
	return state, nil
}

// plausible refuses what cannot be meant as the file: a page of HTML where
// something else was asked for, as from a proxy or a login, or half of JSON.
func plausible(file string, got answer) error {
	if len(bytes.TrimSpace(got.body)) == 0 {
		return errors.New("the answer is empty")
	}
	kind := strings.ToLower(path.Ext(file))
	begins := strings.ToLower(string(bytes.TrimSpace(got.body[:min(len(got.body), 512)])))
	media, _, _ := mime.ParseMediaType(got.media)
	if kind != ".html" && kind != ".htm" && (media == "text/html" || strings.HasPrefix(begins, "<!doctype html") || strings.HasPrefix(begins, "<html")) {
		return errors.New("the answer is a page of HTML, as of a proxy or a login")
	}
	if kind == ".json" && !json.Valid(got.body) {
		return errors.New("the answer is not JSON")
	}
	return nil
}

// request is a GET, or a HEAD.
type request struct {
	// method is empty for a GET.
	method string
	url    string
	login  source.Login
	// accept is the header; empty: anything.
	accept string
	// bearer takes the place of the login.
	bearer string
	most   int64
	marks  map[string]string
	// elsewhere: the answer may lie on another host, which is shown no secret.
	// Whoever asks so verifies a digest of what it gets.
	elsewhere bool
}

type answer struct {
	unchanged bool
	status    int
	body      []byte
	media     string
	marks     map[string]string
	header    http.Header
}

// mostRedirects are followed, to the same host by the same scheme.
const mostRedirects = 3

func (g guard) get(ctx context.Context, r request) (answer, error) {
	var got answer
	httpRequest, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodGet), r.url, nil)
	if err != nil {
		return got, fault.New(fault.Invalid, "%s is no URL", quoted(r.url))
	}
	httpRequest.Header.Set("User-Agent", "lehr")
	if r.accept != "" {
		httpRequest.Header.Set("Accept", r.accept)
	}
	for mark, header := range map[string]string{"etag": "If-None-Match", "modified": "If-Modified-Since"} {
		if last := r.marks[mark]; last != "" {
			httpRequest.Header.Set(header, last)
		}
	}
	var token string
	if r.bearer != "" {
		httpRequest.Header.Set("Authorization", "Bearer "+r.bearer)
	} else if !r.login.Token.IsZero() {
		if token, err = g.secret(r.login.Token, httpRequest.URL.Host); err != nil {
			return got, err
		}
		if r.login.User != "" {
			httpRequest.SetBasicAuth(r.login.User, token)
		} else {
			httpRequest.Header.Set("Authorization", "Bearer "+token)
		}
	}
	transport := g.transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: stays}
	if r.elsewhere {
		client.CheckRedirect = leads
	}
	response, err := client.Do(httpRequest)
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok {
			return got, f
		}
		return got, unreadable(r.url, errors.New(scrub(reason(err).Error(), token, r.bearer)))
	}
	defer response.Body.Close()
	got.status, got.header, got.media = response.StatusCode, response.Header, response.Header.Get("Content-Type")
	if response.StatusCode == http.StatusNotModified && len(r.marks) > 0 {
		got.unchanged = true
		return got, nil
	}
	if response.StatusCode != http.StatusOK {
		return got, refusal(r.url, response)
	}
	if r.method == http.MethodHead {
		return got, nil
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return got, unreadable(r.url, fmt.Errorf("the answer is encoded as %s, which nobody asked for", quoted(encoding)))
	}
	if response.ContentLength > r.most {
		return got, tooLargeBy(r.url, response.ContentLength, r.most)
	}
	got.body, err = io.ReadAll(io.LimitReader(response.Body, r.most+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return got, unreadable(r.url, errors.New("the answer ended early"))
	case err != nil:
		return got, unreadable(r.url, reason(err))
	case int64(len(got.body)) > r.most:
		return got, tooLarge(r.url, r.most)
	}
	got.marks = map[string]string{}
	for mark, header := range map[string]string{"etag": "Etag", "modified": "Last-Modified"} {
		if value := response.Header.Get(header); value != "" {
			got.marks[mark] = value
		}
	}
	return got, nil
}

// leads lets content be fetched elsewhere, by the same scheme or a safer one, without
// any secret.
func leads(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.URL.Scheme != first.Scheme && next.URL.Scheme != "https" {
		return stays(next, via)
	}
	if next.URL.Host != first.Host {
		next.Header.Del("Authorization")
	}
	if len(via) > mostRedirects {
		return fault.New(fault.Unavailable, "%s leads on and on", first.Redacted())
	}
	return nil
}

// stays lets nobody be led to another host or scheme, so no secret goes there.
func stays(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return fault.New(fault.Denied, "%s leads to another host or scheme: %s", first.Redacted(), (&url.URL{Scheme: next.URL.Scheme, Host: next.URL.Host}).String()).
			WithHint("write the address that it leads to")
	}
	if len(via) > mostRedirects {
		return fault.New(fault.Unavailable, "%s leads on and on", first.Redacted())
	}
	return nil
}
