package protection_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/protection"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

func policy(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(file, []byte("external-checks: v1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const here = "networks: [127.0.0.0/8, \"::1/128\"]\n"

// question is what a check asks before a push.
func question(t *testing.T, p *intentpb.Protection) check.Question {
	t.Helper()
	p.Before = true
	set := schema.Builtin()
	c := check.Configure(&intentpb.Check{Name: "smoke", Kind: &intentpb.Check_Protection{Protection: p}}, rule.New(set))
	payload, err := set.Pack(&commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	labels, err := set.Pack(&intentpb.Labels{Labels: map[string]string{"tier": "front"}})
	if err != nil {
		t.Fatal(err)
	}
	plan := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "input", Current: "v1", Target: "v2"}}}
	q, err := c.Ask(check.PhaseBefore, check.Subject{
		Partition: "shop", Asset: intent.Asset{ID: "web", Payload: payload, Addons: []intent.Message{labels}}, Effective: intent.Sum("t", []byte("web")), Plan: plan, Digest: plan.Digest(),
	})
	if err != nil {
		t.Fatal(err)
	}
	q.Incarnation = intent.IncarnationID{Partition: "shop", Sequence: 7}
	return q
}

func by(url string) *intentpb.Protection {
	return &intentpb.Protection{Ask: &intentpb.Protection_Http{Http: url}, Timeout: durationpb.New(time.Second)}
}

// result of a question, in a word, and what was said.
func result(t *testing.T, file string, q check.Question) (word, text string) {
	t.Helper()
	answer, err := protection.New("shop", file, nil).Ask(t.Context(), q)
	switch {
	case q.Misasked(err):
		return "configuration", err.Error()
	case err != nil:
		return "internal", err.Error()
	case answer.Reply == nil:
		return "nothing", ""
	case answer.Reply.Blocks:
		return "blocking", answer.Reply.Reason
	default:
		return "pass", answer.Reply.Reason
	}
}

// TestServicesAreAsked: what each answer means, and what it is told.
func TestServicesAreAsked(t *testing.T) {
	var told map[string]any
	var kind, method string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, method = r.Header.Get("Content-Type"), r.Method
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &told); err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/pass":
			fmt.Fprint(w, `{"result": "pass", "reason": "all green"}`)
		case "/no":
			fmt.Fprint(w, `{"result": "blocking", "reason": "the build is red", "until": "2030-01-02T03:04:05Z"}`)
		case "/other":
			fmt.Fprint(w, `{"result": "maybe"}`)
		case "/empty":
			fmt.Fprint(w, `{}`)
		case "/html":
			fmt.Fprint(w, `<html>fine</html>`)
		case "/null":
			fmt.Fprint(w, `null`)
		case "/bad-until":
			fmt.Fprint(w, `{"result": "pass", "until": "tomorrow"}`)
		case "/away":
			http.Redirect(w, r, "/pass", http.StatusFound)
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/often":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/slow":
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // An answer could still get through.
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	file := policy(t, here+"monitoring: [{name: guard, kind: protection, url: \""+server.URL+"/pass\", partitions: [shop]}, {name: foreign, kind: protection, url: \""+server.URL+"\", partitions: [other]}]\n")
	for place, want := range map[string][2]string{
		server.URL + "/pass":      {"pass", "all green"},
		"guard":                   {"pass", "all green"},
		server.URL + "/no":        {"blocking", "the build is red"},
		server.URL + "/none":      {"configuration", "it answered 404"},
		server.URL + "/away":      {"configuration", "redirects are not followed"},
		server.URL + "/forbidden": {"configuration", "it refuses whoever asks (403)"},
		server.URL + "/other":     {"configuration", "neither pass nor blocking"},
		server.URL + "/empty":     {"configuration", "neither pass nor blocking"},
		server.URL + "/null":      {"configuration", "neither pass nor blocking"},
		server.URL + "/html":      {"configuration", "cannot be read"},
		server.URL + "/bad-until": {"configuration", "cannot be read"},
		"foreign":                 {"configuration", "may not ask the protection \"foreign\""},
		server.URL + "/busy":      {"internal", "answered 503"},
		server.URL + "/often":     {"internal", "answered 429"},
		server.URL + "/slow":      {"internal", "there was no answer within 1s"},
		gone.URL:                  {"internal", "connection refused"},
	} {
		word, text := result(t, file, question(t, by(place)))
		if word != want[0] || !strings.Contains(text, want[1]) {
			t.Errorf("%s: %s (%s), want %s (%s)", strings.TrimPrefix(place, server.URL), word, text, want[0], want[1])
		}
	}
	// Addresses that the operator does not list are not reached.
	if word, text := result(t, "", question(t, by(server.URL+"/pass"))); word != "configuration" || !strings.Contains(text, "no public address") {
		t.Errorf("this machine: %s (%s)", word, text)
	}
	result(t, file, question(t, by(server.URL+"/pass")))
	plan, _ := told["plan"].(map[string]any)
	labels, _ := told["labels"].(map[string]any)
	if method != "POST" || kind != "application/json" || told["incarnation"] != "shop@7" || told["phase"] != "before" || told["asset"] != "web" ||
		told["content"] != intent.Sum("t", []byte("web")).String() || plan["action"] != "update" || labels["tier"] != "front" || told["protection"] != "smoke" {
		t.Errorf("%s %s told %v", method, kind, told)
	}
	answer, err := protection.New("shop", file, nil).Ask(t.Context(), question(t, by(server.URL+"/no")))
	if err != nil || answer.Reply.Until.Format(time.RFC3339) != "2030-01-02T03:04:05Z" {
		t.Errorf("until: %+v %v", answer, err)
	}
}

// TestProgramsAreAsked: by how they exit and what they write; they are told what
// services are, and nothing of the server's environment.
func TestProgramsAreAsked(t *testing.T) {
	t.Setenv("LEHR_TEST_SECRET", "hunter2")
	folder := t.TempDir()
	program := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	programs := map[string][2]string{
		program("yes", "exit 0"):                                                       {"pass", ""},
		program("said", "echo all green"):                                              {"pass", "all green"},
		program("no", "echo the build is red; exit 1"):                                 {"blocking", "the build is red"},
		program("json", `echo '{"result":"pass","reason":"green"}'`):                   {"pass", "green"},
		program("jsonno", `echo '{"result":"blocking","reason":"red"}'`):               {"blocking", "red"},
		program("both", `echo '{"result":"blocking","reason":"red"}'; exit 1`):         {"blocking", "red"},
		program("liar", `echo '{"result":"pass"}'; exit 1`):                            {"internal", "it wrote that it passes, and exited with 1"},
		program("malformed", `echo '{"result":"pass"'`):                                {"configuration", "cannot be read"},
		program("two", "echo lost >&2; exit 2"):                                        {"internal", "it exited with 2, which is no answer: lost"},
		program("killed", "kill -9 $$"):                                                {"internal", "did not answer"},
		program("slow", "sleep 60"):                                                    {"internal", "there was no answer within 1s"},
		program("much", "yes"):                                                         {"internal", ""},
		program("told", `grep -q '"phase":"before".*"asset":"web"' && exit 0; exit 2`): {"pass", ""},
		program("args", `test "$1 $2" = "a b c" || exit 2`):                            {"pass", ""},
		program("env", `env | grep -q LEHR && exit 1; exit 0`):                         {"pass", ""},
		filepath.Join(folder, "none"):                                                  {"configuration", "it cannot be run"},
	}
	text := "commands:\n"
	for file := range programs {
		text += "  - {run: " + file + ", partitions: [shop]}\n"
	}
	file := policy(t, text)
	ask := func(line ...string) check.Question {
		return question(t, &intentpb.Protection{Ask: &intentpb.Protection_Command{Command: &intentpb.CommandLine{Line: line}}, Timeout: durationpb.New(time.Second)})
	}
	for program, want := range programs {
		word, text := result(t, file, ask(program, "a", "b c"))
		if word != want[0] || !strings.Contains(text, want[1]) {
			t.Errorf("%s: %s (%s), want %s (%s)", filepath.Base(program), word, text, want[0], want[1])
		}
	}
	if word, text := result(t, file, ask("/bin/true")); word != "configuration" || !strings.Contains(text, `may not run "/bin/true"`) {
		t.Errorf("what is not listed: %s (%s)", word, text)
	}
	if word, _ := result(t, policy(t, strings.ReplaceAll(text, "[shop]", "[other]")), ask(filepath.Join(folder, "yes"))); word != "configuration" {
		t.Errorf("another partition's program: %s", word)
	}
}
