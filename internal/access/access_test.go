package access_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

func TestGuard(t *testing.T) {
	local := access.Local{Token: access.NewToken()}
	var actor intent.Actor
	guarded := local.Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		caller, _ := access.CallerOf(r.Context())
		actor = caller.Actor
	}))
	tests := map[string]struct {
		change func(r *http.Request)
		want   int
	}{
		"as it should be":           {func(*http.Request) {}, http.StatusOK},
		"by name":                   {func(r *http.Request) { r.Host = "localhost:7474" }, http.StatusOK},
		"by IPv6":                   {func(r *http.Request) { r.Host = "[::1]:7474" }, http.StatusOK},
		"rebound name":              {func(r *http.Request) { r.Host = "evil.example:7474" }, http.StatusForbidden},
		"name that begins local":    {func(r *http.Request) { r.Host = "localhost.evil.example" }, http.StatusForbidden},
		"address of another host":   {func(r *http.Request) { r.Host = "192.168.0.4:7474" }, http.StatusForbidden},
		"no host":                   {func(r *http.Request) { r.Host = "" }, http.StatusForbidden},
		"no token":                  {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"empty token":               {func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, http.StatusUnauthorized},
		"other token":               {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+access.NewToken()) }, http.StatusUnauthorized},
		"token without its scheme":  {func(r *http.Request) { r.Header.Set("Authorization", local.Token) }, http.StatusUnauthorized},
		"page of another origin":    {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"old browser, other origin": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		"page of this origin":       {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, http.StatusOK},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actor = intent.Actor{}
			request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7474/lehr.api.v1.BrakeService/SetStop", nil)
			request.Header.Set("Authorization", "Bearer "+local.Token)
			request.Header.Set(access.ActorHeader, "ann")
			request.Header.Set(access.OriginHeader, "cli")
			test.change(request)
			answer := httptest.NewRecorder()
			guarded.ServeHTTP(answer, request)
			if answer.Code != test.want {
				t.Errorf("answered %d, want %d: %s", answer.Code, test.want, answer.Body)
			}
			if let := actor == (intent.Actor{Name: "ann", Origin: "cli"}); let != (test.want == http.StatusOK) {
				t.Errorf("the handler saw %+v", actor)
			}
		})
	}
}

func TestAServerWithoutATokenLetsNobodyIn(t *testing.T) {
	guarded := access.Local{}.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let in") }))
	request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
	request.Header.Set("Authorization", "Bearer ")
	guarded.ServeHTTP(httptest.NewRecorder(), request)
}

func TestIsLoopback(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "localhost:80", "[::1]:9", "127.9.9.9:1"} {
		if is, err := access.IsLoopback(address); err != nil || !is {
			t.Errorf("%s: %v, %v", address, is, err)
		}
	}
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "10.0.0.1:1", "example.com:1", "localhost.example.com:1", "unix:/x"} {
		if is, err := access.IsLoopback(address); err != nil || is {
			t.Errorf("%q: %v, %v", address, is, err)
		}
	}
	for _, address := range []string{"", "127.0.0.1"} {
		if _, err := access.IsLoopback(address); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q was accepted: %v", address, err)
		}
	}
}

func TestHosts(t *testing.T) {
	var urls []*url.URL
	for _, text := range []string{"https://lehr.example.com", "https://Other.example.com:7474/", "https://third.example.com:443"} {
		parsed, err := access.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, parsed)
	}
	if got := urls[2].String(); got != "https://third.example.com" {
		t.Errorf("a browser does not say %s", got)
	}
	hosts := access.HostsOf(urls)
	for host, want := range map[string]bool{
		"lehr.example.com": true, "lehr.example.com:7474": true, "LEHR.example.com": true, "other.example.com": true, "127.0.0.1:7474": true, "[::1]": true,
		"": false, "evil.example": false, "lehr.example.com.evil.example": false, "example.com": false, "10.0.0.1": false,
	} {
		if got := hosts.Has(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	for _, text := range []string{"", "lehr.example.com", "http://lehr.example.com", "https://", "https://a/b", "https://a?b", "https://u@a", "https://a#b"} {
		if parsed, err := access.ParseURL(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q is taken for %v: %v", text, parsed, err)
		}
	}
}

func TestRendezvous(t *testing.T) {
	store := filepath.Join(t.TempDir(), "lehr.db")
	if _, err := access.ReadRendezvous(store); !fault.Is(err, fault.NotFound) {
		t.Fatalf("before: %v", err)
	}
	mine := access.Rendezvous{URL: "http://127.0.0.1:1", Token: access.NewToken(), PID: 1}
	if err := mine.Write(store); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(access.RendezvousPath(store))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the token's file is %v, %v", info.Mode(), err)
	}
	if found, err := access.ReadRendezvous(store); err != nil || found != mine {
		t.Fatalf("found %+v, %v", found, err)
	}
	other := access.Rendezvous{URL: "http://127.0.0.1:2", Token: access.NewToken(), PID: 2}
	// A server that was killed while it wrote left something behind.
	if err := os.WriteFile(access.RendezvousPath(store)+".new", []byte(`{"ur`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := other.Write(store); err != nil {
		t.Fatal(err)
	}
	mine.Remove(store)
	if found, err := access.ReadRendezvous(store); err != nil || found != other {
		t.Fatalf("a dead server's end took the file of the next: %+v, %v", found, err)
	}
	if info, err := os.Stat(access.RendezvousPath(store)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the token's file is %v, %v", info.Mode(), err)
	}
	other.Remove(store)
	if _, err := access.ReadRendezvous(store); !fault.Is(err, fault.NotFound) {
		t.Fatalf("after: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(store)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestARouteWithoutANeedIsNotServed(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it is served")
		}
	}()
	access.Local{}.Routes().Handle("/", "", http.NotFoundHandler())
}

// TestASlowBodyEnds: who sends a byte now and then does not hold a call open; a call that
// is long because of its answer goes on.
func TestASlowBodyEnds(t *testing.T) {
	local := access.Local{Token: access.NewToken(), Patience: func() time.Duration { return 50 * time.Millisecond }}
	read, went := make(chan error, 2), make(chan struct{})
	listening := httptest.NewServer(local.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
		if err == nil {
			// For longer than a body may take, as a watch does.
			<-went
			if r.Context().Err() != nil {
				t.Error("the call ended with the time for its body")
			}
			io.WriteString(w, "on")
		}
	})))
	defer listening.Close()
	ask := func(body io.Reader) (*http.Response, error) {
		request, err := http.NewRequest("POST", listening.URL+"/x", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+local.Token)
		return http.DefaultClient.Do(request)
	}
	reader, writer := io.Pipe()
	go func() {
		for {
			if _, err := writer.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if answer, err := ask(reader); err == nil {
			answer.Body.Close()
		}
	}()
	if err := <-read; err == nil {
		t.Error("a body without end was waited for")
	}
	writer.CloseWithError(io.ErrClosedPipe)
	<-done
	go func() {
		time.Sleep(100 * time.Millisecond)
		close(went)
	}()
	answer, err := ask(strings.NewReader("whole"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err != nil || string(said) != "on" {
		t.Errorf("%q, %v", said, err)
	}
	http.DefaultClient.CloseIdleConnections()
}
