package faults

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/access"
)

// Whoever may speak to the server, and speaks badly, is told so, and harms
// nobody.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	h := newAttack(t, "requests")
	rendezvous, err := access.ReadRendezvous(h.store)
	h.must(err)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{}}}
	const list = "/lehr.api.v1.AssetService/ListAssets"
	for _, c := range []struct {
		name, path, kind string
		body             io.Reader
		status           []int
		told             string
	}{
		{"no JSON", list, "application/json", strings.NewReader("<html>"), []int{400}, `invalid`},
		{"lists in lists", list, "application/json", strings.NewReader(strings.Repeat("[", 1<<20)), []int{400}, `invalid`},
		{"mappings in mappings", list, "application/json", strings.NewReader(`{"x":` + strings.Repeat(`{"a":`, 200_000)), []int{400}, `invalid`},
		{"an unknown field", list, "application/json", strings.NewReader(`{"partition":"requests","\u001b[31m":1}`), []int{400}, `unknown`},
		{"the same field twice", list, "application/json", strings.NewReader(`{"partition":"requests","partition":"tenant"}`), []int{400}, `partition`},
		{"no UTF-8", list, "application/json", strings.NewReader("{\"partition\":\"\xff\xfe\"}"), []int{400}, ``},
		{"zero bytes", list, "application/json", strings.NewReader(`{"partition":"requests\u0000"}`), []int{400, 404}, ``},
		{"100 MB", list, "application/json", io.LimitReader(endlessBytes{}, 100<<20), []int{400, 413, 429, 503}, ``},
		{"no protobuf", list, "application/proto", strings.NewReader(strings.Repeat("\xff", 1000)), []int{400}, ``},
		{"a length beyond all", list, "application/grpc-web+proto", strings.NewReader("\x00\xff\xff\xff\xff"), []int{200}, ``},
		{"bytes that unpack to more", list, "application/json", strings.NewReader("x"), []int{400}, ``},
		{"a page of less than nothing", list, "application/json", strings.NewReader(`{"partition":"requests","limit":-2147483648}`), []int{200, 400}, ``},
		{"a page of all there is", list, "application/json", strings.NewReader(`{"partition":"requests","limit":2147483647}`), []int{200, 400}, ``},
		{"a number beyond all", list, "application/json", strings.NewReader(`{"partition":"requests","limit":1e400}`), []int{400}, `invalid`},
		{"a filter of 500 kB", list, "application/json", strings.NewReader(fmt.Sprintf(`{"partition":"requests","filter":%q}`, strings.Repeat("a", 500_000))), []int{400}, `at most 10000 are allowed`},
		{"a filter in parentheses", list, "application/json", strings.NewReader(fmt.Sprintf(`{"partition":"requests","filter":%q}`, strings.Repeat("(", 4000)+"true"+strings.Repeat(")", 4000))), []int{400}, `nested more than 60 deep`},
		{"a filter of loops", list, "application/json", strings.NewReader(fmt.Sprintf(`{"partition":"requests","filter":%q}`,
			"["+strings.TrimSuffix(strings.Repeat("1,", 800), ",")+"].all(a, ["+strings.TrimSuffix(strings.Repeat("1,", 800), ",")+"].all(b, a == b))")), []int{400, 429}, `costs more|cost`},
		{"a pattern without end", list, "application/json", strings.NewReader(fmt.Sprintf(`{"partition":"requests","filter":%q}`, "id.matches('"+strings.Repeat("(a{0,30}){0,30}", 20)+"')")), []int{400}, `pattern`},
		{"no method", "/lehr.api.v1.AssetService/\x1b[31m", "application/json", strings.NewReader("{}"), []int{400, 401, 404, 405}, ``},
		{"a header of 1 MB", list, strings.Repeat("x", 1<<20), strings.NewReader("{}"), []int{400, 415, 431}, ``},
	} {
		request, err := http.NewRequest(http.MethodPost, rendezvous.URL+"/", c.body)
		h.must(err)
		request.URL.Path = c.path
		request.Header.Set("Authorization", "Bearer "+rendezvous.Token)
		request.Header.Set("Content-Type", c.kind)
		request.Header.Set("Connect-Protocol-Version", "1")
		began := time.Now()
		response, err := client.Do(request)
		told := text(err)
		status := 0
		if err == nil {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
			response.Body.Close()
			status, told = response.StatusCode, string(body)
			plainText(t, c.name, told)
		}
		// A server that stops reading a body may end the connection before its
		// answer is read.
		if !contains(c.status, status) && !(c.name == "100 MB" && err != nil) || unmatched(told, c.told) != "" {
			t.Errorf("%s: answered %d %s, want %v and %q", c.name, status, last(told, 500), c.status, c.told)
		}
		t.Logf("%s: %d after %s: %s", c.name, status, time.Since(began).Round(time.Millisecond), last(told, 200))
		h.besides(c.name)
	}
	h.pages(client)
	h.wires(rendezvous.URL)
	h.arguments()
	h.run(nil)
}

func contains(list []int, n int) bool {
	for _, one := range list {
		if one == n {
			return true
		}
	}
	return false
}

// endlessBytes is a body without end.
type endlessBytes struct{}

func (endlessBytes) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("a"), len(p))), nil
}

// pages asks for pages as nobody should, with a browser's cookie.
func (h *attack) pages(client *http.Client) {
	link, err := h.lehr("page")
	h.must(err)
	noFollow := &http.Client{Timeout: client.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	login, err := noFollow.Get(strings.Fields(link)[0])
	h.must(err)
	login.Body.Close()
	cookies := login.Cookies()
	if len(cookies) == 0 {
		h.Fatalf("the page's link %s gives no cookie: %s", link, login.Status)
	}
	base, err := login.Location()
	h.must(err)
	for _, path := range []string{
		"/", "/partition/requests", "/partition/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/partition/requests/asset/%00", "/partition/%1b%5b31m", "/partition/requests?filter=" + url.QueryEscape(strings.Repeat("(", 5000)),
		"/partition/requests?filter=" + url.QueryEscape("<script>alert(1)</script>"), "/partition/requests?after=" + strings.Repeat("x", 100_000), "/partition/requests?at=-1&page=99999999999999999999", "/" + strings.Repeat("a/", 20_000),
		"/static/../web.go", "/events?since=" + strings.Repeat("9", 10_000), "/%ff%fe",
	} {
		request, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(base.String(), "/")+path, nil)
		h.must(err)
		for _, cookie := range cookies {
			request.AddCookie(cookie)
		}
		response, err := noFollow.Do(request)
		if err != nil {
			h.Errorf("%.60q: %v", path, err)
			continue
		}
		if kind := response.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/event-stream") {
			response.Body.Close()
			continue
		}
		body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
		response.Body.Close()
		if err != nil || response.StatusCode >= 500 || bytes.Contains(body, []byte("<script>alert")) || bytes.Contains(body, []byte("root:")) {
			h.Errorf("%.60q: %s %v %.300s", path, response.Status, err, body)
		}
		plainText(h.T, fmt.Sprintf("%.60q", path), strings.ReplaceAll(string(body), "\r", ""))
	}
	h.besides("pages")
}

// wires are connections that never become requests.
func (h *attack) wires(address string) {
	base, err := url.Parse(address)
	h.must(err)
	var open []net.Conn
	for i := range 200 {
		conn, err := net.Dial("tcp", base.Host)
		h.must(err)
		open = append(open, conn)
		switch i % 4 {
		case 0: // It says nothing.
		case 1:
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nhalf")
		case 2:
			_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00")
		case 3:
			_, _ = io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is no handshake\r\n\r\n")
		}
	}
	h.besides("connections that say nothing")
	reply, err := bufio.NewReader(open[3]).ReadString('\n')
	if err == nil && !strings.Contains(reply, "400") {
		h.Errorf("to no HTTP it answered %q", reply)
	}
	for _, conn := range open {
		conn.Close()
	}
}

// arguments are a person's, or of whoever writes scripts.
func (h *attack) arguments() {
	for _, arguments := range [][]string{
		{"why", "\x1b]0;owned\x07"}, {"why", strings.Repeat("x", 100_000)}, {"get", "assets", "--filter", "\x1b[31m\u202e"}, {"get", "assets", "-p", "\x1b[31m"},
		{"get", "reports", "--limit", "-1"}, {"get", "assets", "--at", "99999999999999"}, {"hold", "resource/a", "--reason", "\x1b[2J\u202e", "--for", "-1h"},
		{"approve", "--candidate", "\x1b[31m", "--reason", "x"}, {"describe", "asset", "../../../etc/passwd"}, {"stop", "--reason", ""}, {"pin", "resource/a", "99999999999999999999"}, {"\x1b[31m"},
	} {
		told, err := h.lehr(arguments...)
		if err == nil {
			h.Errorf("lehr %q went well: %s", arguments, told)
			continue
		}
		// The error's text begins with the arguments, which are the test's own.
		_, after, _ := strings.Cut(err.Error(), ": exit status")
		plainText(h.T, fmt.Sprintf("lehr %.80q", arguments), told+after)
		if strings.Contains(after, "panic:") || strings.Contains(after, "goroutine ") {
			h.Errorf("lehr %.80q: %s", arguments, after)
		}
	}
	// What a person wrote is shown to others as it can be read.
	if _, err := h.lehr("hold", "resource/a", "-p", "requests", "--reason", "\x1b[2Jgone \u202egnp.exe"); err != nil {
		h.Logf("a reason that moves a cursor is refused: %v", last(err.Error(), 200))
	} else {
		for _, arguments := range [][]string{{"get", "holds", "-p", "requests"}, {"why", "resource/a", "-p", "requests"}} {
			told, err := h.lehr(arguments...)
			plainText(h.T, strings.Join(arguments, " "), told+text(err))
		}
		_, err := h.lehr("unhold", "resource/a", "-p", "requests", "--reason", "seen")
		h.must(err)
	}
}
