package balancer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// readWithin and changeWithin are how long one call may take. A change
	// that takes longer may still come about: If-Match binds it even then.
	readWithin   = 3 * time.Second
	changeWithin = 3 * time.Second
	// maxConfiguration is how much of an answer is read.
	maxConfiguration = 8 << 20
	maxWords         = 2 << 10
	// attempts is how often a call is made whose connection breaks.
	attempts = 4
)

// admin is a Caddy's admin endpoint.
type admin struct {
	// address as intent has it, for people.
	address string
	network string
	dial    string
	client  *http.Client
}

// parseAdmin takes host:port or unix//path, and nothing that could lead the
// plugin elsewhere.
func parseAdmin(address string) (admin, error) {
	a := admin{address: address, network: "tcp", dial: address}
	if path, isUnix := strings.CutPrefix(address, "unix/"); isUnix {
		if !filepath.IsAbs(path) || path != filepath.Clean(path) || len(path) > 100 {
			return a, fmt.Errorf("admin %q is no absolute path of a socket: write for example unix//run/caddy.sock", address)
		}
		a.network, a.dial = "unix", path
	} else if err := checkAddress(address, false); err != nil {
		return a, fmt.Errorf("admin %q is no admin endpoint: %w, for example 127.0.0.1:2019, without a scheme or a path", address, err)
	}
	a.client = &http.Client{
		Transport: &http.Transport{
			// Nothing of the environment: no proxy, no kept connection, which
			// Caddy would close with each change.
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, a.network, a.dial)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a, nil
}

// instance names the Caddy for all that may name it. An address of this
// machine says nothing without the machine's name.
func (a admin) instance() (string, error) {
	if a.network == "tcp" {
		host, port, _ := net.SplitHostPort(a.dial)
		if !isLocal(host) {
			return strings.ToLower(a.dial), nil
		}
		machine, err := machineName()
		return machine + ":" + port, err
	}
	machine, err := machineName()
	return machine + a.dial, err
}

// isLocal reports whether a host is this machine, as far as can be told
// without asking anybody.
func isLocal(host string) bool {
	name, err := os.Hostname()
	if strings.EqualFold(host, "localhost") || err == nil && strings.EqualFold(host, name) {
		return true
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		return ip != nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// machineName is what tells this machine from others.
func machineName() (string, error) {
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && len(strings.TrimSpace(string(id))) > 0 {
		return strings.TrimSpace(string(id)), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("naming this machine: neither /etc/machine-id nor a host name is to be had: %w", err)
	}
	return name, nil
}

// refusal is an answer of Caddy that is not 200.
type refusal struct {
	status int
	words  string
}

func (r refusal) Error() string {
	return fmt.Sprintf("it answers %d %s: %s", r.status, http.StatusText(r.status), r.words)
}

// refused reports whether an error is one of these answers.
func refused(err error, statuses ...int) bool {
	answer, is := errors.AsType[refusal](err)
	for _, status := range statuses {
		if is && answer.status == status {
			return true
		}
	}
	return false
}

// get reads the configuration at a path, and its ETag.
func (a admin) get(ctx context.Context, path string) (body []byte, etag string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readWithin, fmt.Errorf("no answer within %v: it hangs or is overloaded", readWithin))
	defer cancel()
	for range attempts {
		body, etag, err = a.call(ctx, http.MethodGet, path, nil, "")
		if !broken(err) {
			break
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the configuration of the Caddy at %s: %w", a.address, err)
	}
	return body, etag, nil
}

// broken reports whether the connection broke under a call: Caddy opens its
// admin endpoint anew with each change, and drops who waits at the old one.
func broken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// change changes the configuration at a path if what etag names is unchanged.
func (a admin) change(ctx context.Context, method, path string, body []byte, etag string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, changeWithin, fmt.Errorf("no answer within %v: the change may come about or not, the next look will tell", changeWithin))
	defer cancel()
	_, _, err := a.call(ctx, method, path, body, etag)
	return err
}

func (a admin) call(ctx context.Context, method, path string, body []byte, etag string) ([]byte, string, error) {
	host := a.dial
	if a.network == "unix" {
		host = "127.0.0.1"
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if etag != "" {
		request.Header.Set("If-Match", etag)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, "", a.unreachable(ctx, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxConfiguration+1))
	switch {
	case err != nil:
		return nil, "", a.unreachable(ctx, err)
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, "", fmt.Errorf("it answers with a redirect (%s), which no Caddy does at its admin endpoint and which is not followed: mend admin in the intent", response.Status)
	case response.StatusCode != http.StatusOK:
		return nil, "", refusal{status: response.StatusCode, words: words(content)}
	case len(content) > maxConfiguration:
		return nil, "", fmt.Errorf("its answer has more than %d MB: is this Caddy's admin endpoint?", maxConfiguration>>20)
	}
	return content, response.Header.Get("ETag"), nil
}

// unreachable says what to do about a Caddy that does not answer.
func (a admin) unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if wrapped, is := errors.AsType[*url.Error](err); is {
		err = wrapped.Err
	}
	return fmt.Errorf("%w: start it, for example by lehr-caddy run --admin %s, or mend admin in the intent", err, a.address)
}

// words are what Caddy says of an error. Of another server's answer they tell
// nothing: a tenant may have named it to read what it says (S12).
func words(content []byte) string {
	var told struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(content, &told) != nil || told.Error == "" {
		return "in other words than Caddy's: is this its admin endpoint?"
	}
	if len(told.Error) > maxWords {
		told.Error = told.Error[:maxWords] + "…"
	}
	return strings.ToValidUTF8(told.Error, "?")
}
