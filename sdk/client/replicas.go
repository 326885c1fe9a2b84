package client

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
)

// replicas is several servers of one store, of which any answers for all. A
// request goes to the one that answered last. When that does not answer, what
// only reads is asked of the next; what writes only if it was certainly not
// sent: it must not be done twice.
type replicas struct {
	connect.HTTPClient
	urls    []*url.URL
	current atomic.Int64
}

func newReplicas(doer connect.HTTPClient, addresses []string) *replicas {
	r := &replicas{HTTPClient: doer}
	for _, address := range addresses {
		parsed, err := url.Parse(strings.TrimSuffix(address, "/"))
		if err != nil {
			parsed = &url.URL{Opaque: address} // It fails as a request to it.
		}
		r.urls = append(r.urls, parsed)
	}
	return r
}

// reads are what the names of calls begin with that change nothing.
var reads = []string{"Get", "List", "Watch", "Export", "Compare", "Verify", "Why", "Explain", "Locate", "Plan", "Preview", "Blame", "WhoAmI", "Can", "Search"}

// Reads reports whether a procedure changes nothing, so that it may be called
// again when its answer is lost.
func Reads(procedure string) bool {
	for _, prefix := range reads {
		if rest, ok := strings.CutPrefix(path.Base(procedure), prefix); ok && (rest == "" || rest[0] <= 'Z') {
			return true
		}
	}
	return false
}

func (r *replicas) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	request.Body.Close()
	if err != nil {
		return nil, err
	}
	reading := Reads(request.URL.Path)
	for tried := 1; ; tried++ {
		current := r.current.Load()
		response, err := r.HTTPClient.Do(r.requestFor(request, r.urls[int(current)%len(r.urls)], body))
		unwell := err == nil && reading && response.StatusCode == http.StatusServiceUnavailable
		if err == nil && !unwell || tried == len(r.urls) || request.Context().Err() != nil || !reading && !unsent(err) {
			return response, err
		}
		if unwell {
			response.Body.Close()
		}
		r.current.CompareAndSwap(current, current+1)
	}
}

// requestFor is the request as it is sent to one of the servers.
func (r *replicas) requestFor(request *http.Request, server *url.URL, body []byte) *http.Request {
	sent := request.Clone(request.Context())
	at := *request.URL
	at.Scheme, at.Host = server.Scheme, server.Host
	at.Path = server.Path + strings.TrimPrefix(at.Path, r.urls[0].Path)
	sent.URL, sent.Host = &at, ""
	sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return sent
}

// unsent: there was no connection that the request could have gone over.
func unsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}
