package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
)

// serving is a server whose answer can be changed.
type serving struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
}

func serve(t testing.TB, answer http.HandlerFunc) *serving {
	t.Helper()
	s := &serving{}
	s.now(answer)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.answer.Load())(w, r) }))
	t.Cleanup(s.Close)
	return s
}

func (s *serving) now(answer http.HandlerFunc) { s.answer.Store(&answer) }

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func overHTTP(url string) source.Remote {
	return source.Remote{HTTP: &source.HTTP{URL: url, File: "limits.json"}}
}

func TestHTTPIsFollowed(t *testing.T) {
	asked, unchanged := 0, 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("ETag", `"one"`)
		if r.Header.Get("If-None-Match") == `"one"` {
			unchanged++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, `{"a": 1}`)
	})
	r := newReader(t, overHTTP(s.URL+"/limits"), "limits.json")
	first := r.holds(map[string]string{"limits.json": `{"a": 1}`})
	if again := r.holds(map[string]string{"limits.json": `{"a": 1}`}); again != first || asked != 2 || unchanged != 1 {
		t.Errorf("asked %d times, %d unchanged", asked, unchanged)
	}
	// After a restart it is asked for what changed since too.
	r.restart(true)
	r.holds(map[string]string{"limits.json": `{"a": 1}`})
	if unchanged != 2 {
		t.Error("all of it was read again after a restart")
	}
	s.now(says(`{"a": 2}`))
	r.holds(map[string]string{"limits.json": `{"a": 2}`})
}

// Every answer that is not the file leaves the source as it was, with the
// reason; and is nothing where nothing was read before.
func TestHostileHTTP(t *testing.T) {
	elsewhere := serve(t, says(`{"stolen": true}`))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"empty": {says(""), "the answer is empty"},
		"blank": {says(" \n"), "the answer is empty"},
		"html":  {says("<!DOCTYPE html><p>log in"), "a page of HTML"},
		"html by type": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, `{}`)
		}, "a page of HTML"},
		"half of JSON": {says(`{"a": `), "not JSON"},
		"half a body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"a": 1}`)
		}, "ended early"},
		"not found":  {http.NotFound, "404 Not Found"},
		"login":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "401 Unauthorized"},
		"in trouble": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "503"},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "204"},
		"part": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, `{}`)
		}, "206"},
		"unchanged": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "304"},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, `{}`)
		}, "which nobody asked for"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10000000000")
			fmt.Fprint(w, `{}`)
		}, "at most 1000 are read"},
		"without end": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1000)); err != nil {
					return
				}
			}
		}, "more than 1000 bytes"},
		"other host": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "leads to another host or scheme"},
		"metadata": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, "leads to another host or scheme"},
		"localhost": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://localhost/", http.StatusFound)
		}, "leads to another host or scheme"},
		"other scheme": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "leads to another host or scheme"},
		"on and on": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, "leads on and on"},
		"no HTTP":   {func(w http.ResponseWriter, _ *http.Request) { hijacked(w, "SSH-2.0-x\r\n") }, "malformed HTTP"},
		"closed":    {func(w http.ResponseWriter, _ *http.Request) { hijacked(w, "") }, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, says(`{"a": 1}`))
			r := newReader(t, overHTTP(s.URL+"/limits"), "limits.json")
			r.limits.FileBytes = 1000
			r.holds(map[string]string{"limits.json": `{"a": 1}`})
			s.now(c.answer)
			r.stays(map[string]string{"limits.json": `{"a": 1}`}, c.says)
			s.now(says(`{"a": 2}`))
			r.holds(map[string]string{"limits.json": `{"a": 2}`})
			s.now(c.answer)
			fresh := newReader(t, overHTTP(s.URL+"/limits"), "limits.json")
			fresh.limits.FileBytes = 1000
			if found, _, err := fresh.read(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it was read as %v: %v, want %q", found, err, c.says)
			}
		})
	}
}

func hijacked(w http.ResponseWriter, text string) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		fmt.Fprint(connection, text)
		connection.Close()
	}
}

// A server that says a byte now and then is waited for no longer than for any.
func TestHTTPThatDripsIsCutOff(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			fmt.Fprint(w, " ")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	r := newReader(t, overHTTP(s.URL), "limits.json")
	r.options.Runtime = hasty{Runtime: r.options.Runtime}
	r.refuses(fault.Unavailable, "did not answer within 1m0s")
}

// No name leads to this machine, whatever it resolves to when it is dialled; nor
// is a token shown to a host that it is not for.
func TestHTTPReachesNoOwnNetwork(t *testing.T) {
	var reached atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { reached.Add(1); fmt.Fprint(w, `{}`) })
	_, port, _ := net.SplitHostPort(host(t, s.URL))
	for _, at := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "100.100.100.200", "[fe80::1]", "224.0.0.1"} {
		r := newReader(t, overHTTP("http://"+at+":"+port+"/limits"), "limits.json")
		r.options.Policy = nil
		r.refuses(fault.Denied, "sources may not reach")
	}
	// A name that is another address each time it is asked for.
	g := guard{partition: "shop", policy: func() *Policy { return &Policy{} }}
	dialer := g.dialer()
	dialer.Resolver = rebinding(t)
	if connection, err := dialer.DialContext(t.Context(), "tcp", "rebinding.example.com:"+port); err == nil {
		connection.Close()
		t.Error("a name led to this machine")
	} else if !strings.Contains(err.Error(), "may not reach") {
		t.Errorf("dialling: %v", err)
	}
	if reached.Load() > 0 {
		t.Error("the server was reached")
	}
}

// rebinding resolves all names to this machine.
func rebinding(t *testing.T) *net.Resolver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		query := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(query)
			if err != nil {
				return
			}
			end := 12
			for end < n && query[end] != 0 {
				end += int(query[end]) + 1
			}
			question := query[12 : end+5]
			answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
			if question[len(question)-3] == 1 { // An address of IPv4.
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
			}
			_, _ = socket.WriteTo(answer, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

func TestHTTPLogins(t *testing.T) {
	const token = "a-very-secret-token"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, basic := r.BasicAuth()
		if r.Header.Get("Authorization") == "Bearer "+token || basic && user == "ann" && password == token {
			fmt.Fprint(w, `{}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	for _, user := range []string{"", "ann"} {
		remote := overHTTP(s.URL)
		r := newReader(t, remote, "limits.json")
		r.refuses(fault.Unavailable, "403")
		r.restart(true)
		remote.HTTP.Login = source.Login{User: user, Token: r.allow("LIMITS_TOKEN", token, "limits.example.com")}
		r.refuses(fault.Denied, "may not use")
		r.allow("LIMITS_TOKEN", token, host(t, s.URL))
		r.holds(map[string]string{"limits.json": `{}`})
		t.Setenv("LIMITS_TOKEN", "")
		r.stays(map[string]string{"limits.json": `{}`}, "LIMITS_TOKEN of the server is empty")
	}
}
