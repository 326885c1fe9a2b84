package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"lehr.dev/internal/ground/address"
	"lehr.dev/internal/ground/files"
	"lehr.dev/plugins/http/profile"
	"lehr.dev/sdk/pace"
	"lehr.dev/sdk/secret"
)

const (
	// maxAnswer is how much of an answer is read; what is larger is refused.
	maxAnswer = 16 << 20
)

// Endpoint is an API on the operator's list.
type Endpoint struct {
	entry
	URL     *url.URL
	Profile *profile.Profile
	// pacer keeps requests within the rate, and away while the API is too busy.
	pacer   *pace.Pacer
	secrets Secrets
	// reads keeps its connections, writes none: on a connection of its own a request is
	// sent once, while Go sends one again that a kept connection lost.
	reads, writes *http.Client
}

// Name in the list.
func (e *Endpoint) Name() string { return e.entry.Name }

// Key names the API for all that may reach it, whatever it is called in a list.
func (e *Endpoint) Key() string {
	host := strings.ToLower(e.URL.Host)
	for scheme, port := range map[string]string{"https": ":443", "http": ":80"} {
		if e.URL.Scheme == scheme {
			host = strings.TrimSuffix(host, port)
		}
	}
	return host + e.URL.Path
}

// Timeout of one request.
func (e *Endpoint) Timeout() time.Duration {
	if e.entry.Timeout.Duration > 0 {
		return e.entry.Timeout.Duration
	}
	return e.Profile.Timeout.Duration
}

func (e *Endpoint) rate() float64 {
	if e.RequestsPerSecond > 0 {
		return e.RequestsPerSecond
	}
	return e.Profile.RequestsPerSecond
}

func (e *Endpoint) mayUse(partition string) bool {
	return slices.Contains(e.Partitions, "*") || slices.Contains(e.Partitions, partition)
}

func (e *Endpoint) hasResource(name string) bool {
	return len(e.Resources) == 0 || slices.Contains(e.Resources, name)
}

// Resource returns a kind of thing that the list lets be used.
func (e *Endpoint) Resource(name string) (*profile.Resource, error) {
	resource := e.Profile.Resources[name]
	if resource == nil {
		names := slices.Sorted(maps.Keys(e.Profile.Resources))
		return nil, fmt.Errorf("the profile of endpoint %s knows no resource %q: write one of %s", e.Name(), name, strings.Join(names, ", "))
	}
	if !e.hasResource(name) {
		return nil, fmt.Errorf("%w: endpoint %s may not be used for %q: whoever operates the plugin adds it to resources", ErrNotListed, e.Name(), name)
	}
	return resource, nil
}

// connect makes the client: nothing of the environment, no redirects, and a look at the
// address of each connection.
func (e *Endpoint) connect(folder string) error {
	transport := &http.Transport{
		DialContext: (&net.Dialer{
			Timeout: e.Timeout(), Control: e.judge,
		}).DialContext,
		MaxIdleConnsPerHost: pace.DefaultAtOnce, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: 1 << 20,
	}
	if e.Proxy != "" {
		proxy, err := url.Parse(e.Proxy)
		if err != nil || proxy.Host == "" || proxy.User != nil {
			return fmt.Errorf("proxy %q is no URL without a password: write http://HOST:PORT", e.Proxy)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	if e.CA != "" {
		text, err := files.Read(beside(folder, e.CA), files.MostGiven)
		if err != nil {
			return fmt.Errorf("reading its ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return fmt.Errorf("ca %q holds no certificate in PEM", e.CA)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	once := transport.Clone()
	once.DisableKeepAlives = true
	e.reads, e.writes = client(transport), client(once)
	return nil
}

func client(transport *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// judge refuses an address that the operator did not mean: names lead where whoever owns
// them wants, also to this machine or to what gives out a cloud's credentials.
func (e *Endpoint) judge(_, hostPort string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return err
	}
	named, err := netip.ParseAddr(e.URL.Hostname())
	switch {
	case err == nil && named.Unmap() == to.Addr().Unmap(), // The operator's own words.
		e.URL.Hostname() == "localhost" && to.Addr().IsLoopback(),
		e.Proxy != "", // What is dialled is the proxy.
		address.In(e.Networks, to.Addr()),
		!address.Own(to.Addr()):
		return nil
	}
	return fmt.Errorf("%s leads to %s, which is this machine's, its link's or a cloud's own: if that is meant, the operator adds networks: [%s/%d]", e.URL.Hostname(), to.Addr(), to.Addr(), to.Addr().BitLen())
}

// Call is one request.
type Call struct {
	Method, Path, Query string
	Body                []byte
	Headers             map[string]string
	// Secrets says on whose behalf the secrets of headers are read.
	Secrets secret.Request
	// Begin is asked when it is the request's turn, just before it is sent; nil: nobody is.
	Begin func(ctx context.Context) error
}

// Answer of an API.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// secrets that were sent.
	secrets []string
}

// Redact removes the secrets that were sent from what is shown of the answer.
func (a Answer) Redact(text string) string { return redactText(text, a.secrets) }

// NoAnswerError says that a request was sent, or may have been, and that nobody knows
// what came of it.
type NoAnswerError struct{ Err error }

func (n *NoAnswerError) Error() string { return n.Err.Error() }
func (n *NoAnswerError) Unwrap() error { return n.Err }

// Do sends one request. An answer of any status is one, except a redirect, which is not
// followed, and one that says that the API is too busy, which is serve.Busy.
func (e *Endpoint) Do(ctx context.Context, call Call) (Answer, error) {
	if len(e.Methods) > 0 && !slices.Contains(e.Methods, call.Method) {
		return Answer{}, fmt.Errorf("%w: endpoint %s may not be sent %s: whoever operates the plugin adds it to methods", ErrNotListed, e.Name(), call.Method)
	}
	request, secrets, err := e.request(ctx, call)
	if err != nil {
		return Answer{}, err
	}
	leave, err := e.pacer.Enter(ctx, e.URL.Host)
	if err != nil {
		return Answer{}, err
	}
	defer leave()
	if call.Begin != nil {
		if err := call.Begin(ctx); err != nil {
			return Answer{}, err
		}
	}
	// Its time begins now: waiting for a turn or a permit is no slowness of the API.
	ctx, cancel := context.WithTimeoutCause(ctx, e.Timeout(), fmt.Errorf("no answer within %v", e.Timeout()))
	defer cancel()
	request = request.WithContext(ctx)
	sender := e.writes
	if call.Method == http.MethodGet {
		sender = e.reads
	}
	response, err := sender.Do(request)
	if err != nil {
		return Answer{}, e.unreachable(ctx, err, secrets)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Answer{}, &NoAnswerError{fmt.Errorf("the answer of %s broke off: %w", e.URL.Host, causeOf(ctx, err))}
	case len(body) > maxAnswer:
		return Answer{}, &NoAnswerError{fmt.Errorf("the answer of %s has more than %d MB", e.URL.Host, maxAnswer>>20)}
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return Answer{}, &NoAnswerError{fmt.Errorf("%s answers %d, a redirect, which is not followed: if the thing or the API has moved, name where it is now", e.URL.Host, response.StatusCode)}
	}
	answer := Answer{Status: response.StatusCode, Header: response.Header, Body: body, secrets: secrets}
	return answer, e.busy(answer)
}

// request fills in the headers, and returns the secrets in them.
func (e *Endpoint) request(ctx context.Context, call Call) (*http.Request, []string, error) {
	target := *e.URL
	unescaped, err := url.PathUnescape(call.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("the path %q: %w", call.Path, err)
	}
	target.RawPath = target.EscapedPath() + call.Path
	target.Path += unescaped
	target.RawQuery = call.Query
	request, err := http.NewRequestWithContext(ctx, call.Method, target.String(), bytes.NewReader(call.Body))
	if err != nil {
		return nil, nil, err
	}
	if call.Body == nil {
		request.Body, request.GetBody, request.ContentLength = nil, nil, 0
	} else {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "lehr-http")
	for name, value := range e.Profile.Headers {
		request.Header.Set(name, value)
	}
	for name, value := range call.Headers {
		request.Header.Set(name, value)
	}
	var secrets []string
	for i := range e.Headers {
		value, found, err := e.Headers[i].fill(ctx, e.secrets, call.Secrets)
		if err != nil {
			return nil, nil, err
		}
		request.Header.Set(e.Headers[i].Name, value)
		if found != "" {
			secrets = append(secrets, found)
		}
	}
	return request, secrets, nil
}

// unreachable says what came of a request without an answer. One that found no connection
// was not sent.
func (e *Endpoint) unreachable(ctx context.Context, err error, secrets []string) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	problem := fmt.Errorf("asking %s: %s", e.URL.Host, redactText(causeOf(ctx, err).Error(), secrets))
	if dialling, ok := errors.AsType[*net.OpError](err); ok && dialling.Op == "dial" {
		return problem
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return problem
	}
	return &NoAnswerError{problem}
}

func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
