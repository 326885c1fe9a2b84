package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The test binary is also the program under test.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_FRONTEND") != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

func TestSearch(t *testing.T) {
	f := &frontend{lines: parse(hamlet), answerer: answerer{Version: "v7", Task: "2", PID: 41}}
	server := httptest.NewServer(f.handler())
	defer server.Close()
	for query, want := range map[string][]line{
		"question":      {{Scene: "Act 3, Scene 1", Text: "To be, or not to be: that is the question:"}},
		"ROTTEN state":  {{Scene: "Act 1, Scene 4", Text: "Something is rotten in the state of Denmark."}},
		"rotten method": {},
		"rot":           {},
		"":              {},
	} {
		response, err := http.Get(server.URL + "/search?q=" + url.QueryEscape(query))
		if err != nil {
			t.Fatal(err)
		}
		var got answer
		if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if diff := cmp.Diff(answer{answerer{"v7", "2", 41}, query, want}, got, cmp.AllowUnexported(answer{}, line{})); diff != "" {
			t.Errorf("search %q (-want +got):\n%s", query, diff)
		}
		if response.Header.Get("Lehr-Version") != "v7" || response.Header.Get("Lehr-Pid") != "41" {
			t.Errorf("headers %v do not say who answered", response.Header)
		}
	}
}

// TestMetrics are what Prometheus reads: errors and slow answers of a release that
// misbehaves are in them.
func TestMetrics(t *testing.T) {
	f := &frontend{lines: parse(hamlet), cluster: "c3", answerer: answerer{Version: "v7"}}
	get := func(path string) (int, string) {
		response := httptest.NewRecorder()
		f.handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
		return response.Code, response.Body.String()
	}
	for _, test := range []struct {
		trouble *trouble
		want    []string
	}{
		{&trouble{}, []string{
			`frontend_requests_total{cluster="c3",version="v7"} 1`, `frontend_errors_total{cluster="c3",version="v7"} 0`,
			`frontend_seconds_bucket{cluster="c3",version="v7",le="+Inf"} 1`, `frontend_seconds_count{cluster="c3",version="v7"} 1`,
		}},
		{&trouble{errors: 1}, []string{`frontend_requests_total{cluster="c3",version="v7"} 2`, `frontend_errors_total{cluster="c3",version="v7"} 1`}},
		// It ran for an hour: as slow as it becomes.
		{&trouble{leak: time.Hour, began: time.Now().Add(-time.Hour)}, []string{`frontend_seconds_bucket{cluster="c3",version="v7",le="0.5"} 2`, `frontend_seconds_bucket{cluster="c3",version="v7",le="+Inf"} 3`}},
	} {
		f.trouble.errors, f.trouble.leak, f.trouble.began = test.trouble.errors, test.trouble.leak, test.trouble.began
		want := http.StatusOK
		if test.trouble.errors > 0 {
			want = http.StatusInternalServerError
		}
		if code, said := get("/search?q=king"); code != want {
			t.Errorf("%v: a search is answered with %d: %s", test.trouble, code, said)
		}
		_, page := get("/metrics")
		for _, line := range test.want {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("%v: no %s in\n%s", test.trouble, line, page)
			}
		}
	}
}

// TestErrors come to the share that they are to be.
func TestErrors(t *testing.T) {
	failed := 0
	for trouble := (&trouble{errors: 0.05}); trouble.searches.Load() < 1000; {
		if trouble.strikes() {
			failed++
		}
	}
	if failed != 50 {
		t.Errorf("%d of 1000 searches fail, not each twentieth", failed)
	}
}

func TestDrains(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real process")
	}
	command := exec.Command(os.Args[0], "--port=0", "--version=v1", "--drain=1500ms")
	command.Env = append(os.Environ(), "TEST_FRONTEND=1")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer command.Process.Kill()
	lines := bufio.NewReader(output)
	greeting, err := lines.ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(greeting)
	if err != nil || address == "" {
		t.Fatalf("greeting %q, %v", greeting, err)
	}
	status := func(path string) int {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	if status("/healthz") != http.StatusOK {
		t.Error("not healthy from the start")
	}
	for range 2 { // the second signal changes nothing
		command.Process.Signal(syscall.SIGTERM)
	}
	if draining, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("after SIGTERM: %q, %v", draining, err)
	}
	if status("/healthz") != http.StatusServiceUnavailable {
		t.Error("still healthy after SIGTERM")
	}
	if status("/search?q=king") != http.StatusOK {
		t.Error("does not serve while it drains")
	}
	if err := command.Wait(); err != nil {
		t.Errorf("did not end well: %v", err)
	}
}
