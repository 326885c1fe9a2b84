package external

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// MaxAnswer is the size of an answer, in bytes.
const MaxAnswer = 1 << 20

// Request of a URL.
type Request struct {
	URL *url.URL
	// Method; empty: GET, or POST where something is sent.
	Method string
	// Form is sent by POST; nil: it is a GET.
	Form url.Values
	// JSON is sent by POST instead; empty: the form is, if there is one.
	JSON   string
	Header http.Header
	// Reach judges each address that is dialled; nil: any may be.
	Reach func(netip.Addr) error
	// Roots are whose certificates are believed; nil: the system's.
	Roots *x509.CertPool
}

// Answer to a request.
type Answer struct {
	Status int
	Text   string
	Header http.Header
}

// Fetch asks a URL. Redirects are answers: what they lead to is not asked. An
// answer of status 429 or 5xx is returned with an error, Unavailable, as without
// an answer; text that is no UTF-8 is made so.
func Fetch(ctx context.Context, r Request) (status int, text string, err error) {
	answer, err := Ask(ctx, r)
	return answer.Status, answer.Text, err
}

// Ask is Fetch with the answer's header.
func Ask(ctx context.Context, r Request) (answer Answer, err error) {
	method, body := http.MethodGet, io.Reader(nil)
	kind := "application/json"
	switch {
	case r.JSON != "":
		method, body = http.MethodPost, strings.NewReader(r.JSON)
	case r.Form != nil:
		method, body, kind = http.MethodPost, strings.NewReader(r.Form.Encode()), "application/x-www-form-urlencoded"
	}
	if r.Method != "" {
		method = r.Method
	}
	request, err := http.NewRequestWithContext(ctx, method, r.URL.String(), body)
	if err != nil {
		return answer, fault.New(fault.Invalid, "%.200q cannot be asked: %w", r.URL.Host, err)
	}
	for name, values := range r.Header {
		request.Header[name] = values
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", kind)
	}
	response, err := r.client().Do(request)
	if err != nil {
		if denied, ok := errors.AsType[*fault.Error](err); ok {
			return answer, denied
		}
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // The URL may hold a secret.
		}
		return answer, fault.New(fault.Unavailable, "%.200s did not answer: %w", r.URL.Host, err)
	}
	defer response.Body.Close()
	answer.Status, answer.Header = response.StatusCode, response.Header
	answer.Text, err = limited(response.Body)
	switch {
	case err != nil:
		return Answer{}, fault.New(fault.Unavailable, "%.200s did not answer: %w", r.URL.Host, err)
	case response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError:
		return answer, fault.New(fault.Unavailable, "%.200s answered %d", r.URL.Host, response.StatusCode)
	}
	return answer, nil
}

// client of one request: what was asked before is not told of it.
func (r Request) client() *http.Client {
	dialer := &net.Dialer{}
	if r.Reach != nil {
		dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			resolved, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return r.Reach(resolved.Addr())
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig: &tls.Config{RootCAs: r.Roots},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// limited reads a text, if it is not too large.
func limited(source io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(source, MaxAnswer+1))
	if err == nil && len(text) > MaxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	return strings.ToValidUTF8(string(text), "\ufffd"), err
}

// Refused says what a status means.
func Refused(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.New(fault.Denied, "it refuses whoever asks (%d); whoever runs the server lists it with its secret, under monitoring, in the file of --external-checks", status)
	default:
		return fault.New(fault.Unavailable, "it answered %d; redirects are not followed", status)
	}
}

// maxSaid is how much is told of what a source says went wrong, in bytes.
const maxSaid = 300

// Shown is a text of a source as people may be shown it.
func Shown(text string) string {
	if text = strings.TrimSpace(text); len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return intent.Shown(text)
}
