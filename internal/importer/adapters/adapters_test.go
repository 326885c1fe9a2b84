package adapters

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const question = `{"home": "shop", "application": "web", "environment": "prod", "version": "1.2.3", "digest": "sha256:1"}`

// run calls a program as Lehr does, with variables and with programs of its own in front of PATH.
func run(t *testing.T, program Program, fakes map[string]string, variables []string, arguments ...string) (code int, out string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range fakes {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	text := (List{program}).Files()["programs/"+string(program)]
	file := filepath.Join(folder, "program")
	if err := os.WriteFile(file, text, 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if interpreter := strings.Fields(strings.TrimPrefix(strings.SplitN(string(text), "\n", 2)[0], "#!")); len(interpreter) > 1 {
		if _, err := exec.LookPath(interpreter[1]); err != nil {
			t.Skip("install " + interpreter[1])
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, file, arguments...)
	command.Env = append([]string{"PATH=" + folder + ":/usr/local/bin:/usr/bin:/bin"}, variables...)
	command.Stdin = strings.NewReader(question)
	written, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(written)
}

// TestARunContainer: the container's exit code is the result, and without Docker there is none.
func TestARunContainer(t *testing.T) {
	const docker = `echo "$@"; cat; exit 3`
	code, out := run(t, RunContainer, map[string]string{"docker": docker}, nil, "--image", "shop/tests:1", "--account", "test", "--region", "eu", "--application", "shop", "--entrypoint", "/smoke")
	if want := "run --rm --interactive --env ACCOUNT=test --env REGION=eu --env APPLICATION=shop --entrypoint /smoke shop/tests:1\n" + question; code != 3 || out != want {
		t.Errorf("%d: %s", code, out)
	}
	for name, sample := range map[string]struct {
		docker    string
		arguments []string
		want      string
	}{
		"no daemon":   {"exit 125", []string{"--image", "a"}, "docker could not run a"},
		"no image":    {"exit 0", nil, "no image is named"},
		"a flag":      {"exit 0", []string{"--image", "--privileged"}, "no image is named"},
		"what is not": {"exit 0", []string{"--volume", "/:/host", "--image", "a"}, "knows no argument --volume"},
	} {
		if code, out := run(t, RunContainer, map[string]string{"docker": sample.docker}, nil, sample.arguments...); code != -1 || !strings.Contains(out, sample.want) {
			t.Errorf("%s: %d: %s", name, code, out)
		}
	}
}

// TestARunJob: a Job is looked at until it has ended.
func TestARunJob(t *testing.T) {
	kubectl := func(state string) map[string]string {
		return map[string]string{"kubectl": `case "$1 $2" in
'create -f') cat >&2; printf 'shop load-x1' ;;
'get job') printf '` + state + `' ;;
'delete job') echo "$@" >&2 ;;
*) echo "$@" >&2 ;;
esac`}
	}
	if code, out := run(t, RunJob, kubectl("Complete"), nil, `{"kind":"Job"}`); code != 0 || out != `{"kind":"Job"}`+"delete job load-x1 --namespace shop --wait=false\n" {
		t.Errorf("%d: %s", code, out)
	}
	if code, out := run(t, RunJob, kubectl("FailureTarget Failed"), nil, `{}`); code != 1 || !strings.Contains(out, "the Job load-x1 of shop failed:\nlogs job/load-x1 --namespace shop") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out := run(t, RunJob, map[string]string{"kubectl": "exit 1"}, nil, `{}`); code != -1 || !strings.Contains(out, "could not be created") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestARunPipeline: it is started once for a version, looked at, and started again as often as it may be.
func TestARunPipeline(t *testing.T) {
	var started []map[string]any
	status := "RUNNING"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-SPINNAKER-USER") != "shop@example.com" {
			t.Errorf("it comes from %q", r.Header.Get("X-SPINNAKER-USER"))
		}
		if r.Method == http.MethodPost && r.URL.Path == "/pipelines/shop/7a1e" {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			started = append(started, body)
			_, _ = io.WriteString(w, `{"ref": "/pipelines/RUN`+string(rune('0'+len(started)))+`"}`)
			return
		}
		_, _ = io.WriteString(w, `{"status": "`+status+`"}`)
	}))
	defer server.Close()
	variables := []string{"SPINNAKER_GATE=" + server.URL, "SPINNAKER_STATE=" + t.TempDir()}
	ask := func(wantCode int, want string) {
		t.Helper()
		code, out := run(t, RunPipeline, nil, variables,
			"--application", "shop", "--pipeline", "7a1e", "--user", "shop@example.com", "--retries", "1", "--timeout", "PT2H", "--parameters", `{"size":"small"}`)
		if code != wantCode || !strings.Contains(out, want) {
			t.Errorf("%d: %s", code, out)
		}
	}
	ask(1, "the pipeline RUN1 is RUNNING")
	status = "TERMINAL"
	ask(1, "the pipeline RUN1 ended as TERMINAL; it runs again as RUN2")
	ask(1, "the pipeline RUN2 ended as TERMINAL; to run it again, remove ")
	status = "SUCCEEDED"
	ask(0, "")
	server.Close()
	ask(-1, "URLError")
	if len(started) != 2 || started[0]["parameters"].(map[string]any)["size"] != "small" {
		t.Errorf("%v", started)
	}
}

// TestASendRequest: the version is filled in, and the status decides.
func TestASendRequest(t *testing.T) {
	code, got := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
		w.WriteHeader(code)
	}))
	defer server.Close()
	arguments := []string{"--method", "POST", "--url", server.URL + "/{environment}", "--header", "Content-Type=application/json", "--body", `{"text":"{version}"}`}
	if exit, out := run(t, SendRequest, nil, nil, arguments...); exit != 0 || got != `POST /prod application/json {"text":"1.2.3"}` {
		t.Errorf("%d: %s, %s", exit, out, got)
	}
	// What holds a secret goes to the operator's service, and to no other.
	file := filepath.Join(t.TempDir(), "headers.json")
	for beginning, want := range map[string]string{server.URL + "/": "Bearer s", server.URL: "", "https://chat.example.com/": ""} {
		if err := os.WriteFile(file, []byte(`{"`+beginning+`": {"Content-Type": "Bearer s"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if exit, out := run(t, SendRequest, nil, []string{"SEND_REQUEST_HEADERS=" + file}, "--url", server.URL+"/a"); exit != 0 || got != "GET /a "+want+" " {
			t.Errorf("%s: %d: %s, %q", beginning, exit, out, got)
		}
	}
	code = http.StatusTeapot
	if exit, out := run(t, SendRequest, nil, nil, arguments...); exit != 1 || !strings.Contains(out, "answered 418") {
		t.Errorf("%d: %s", exit, out)
	}
	server.Close()
	if exit, out := run(t, SendRequest, nil, nil, arguments...); exit != -1 || !strings.Contains(out, "URLError") {
		t.Errorf("%d: %s", exit, out)
	}
}

// TestWhatTheOperatorCopies permits the programs to one partition.
func TestWhatTheOperatorCopies(t *testing.T) {
	var list List
	list.Add(RunJob)
	list.Add(RunJob)
	if text := string(list.ExternalChecks("on")); len(list) != 1 || !strings.HasSuffix(text, "commands:\n  - {run: /usr/local/bin/run-job, partitions: [\"on\"]}\n") {
		t.Errorf("%v: %s", list, text)
	}
}
