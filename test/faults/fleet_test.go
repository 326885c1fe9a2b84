package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"lehr.dev/internal/access"
	"lehr.dev/sdk/client"
	"lehr.dev/test/pgserver"
)

// threeReplicas serve one partition from one database.
func threeReplicas(t *testing.T, name string) (replicas []*world, database string) {
	t.Helper()
	server := pgserver.New(t)
	server.Start()
	database = server.Database()
	first := newWorld(t, partition{name: name})
	first.edit(first.definition, "mode: enforce", "mode: enforce\naccess: {operator: [user:watcher]}")
	first.want(values{"a": 1, "b": 1})
	replicas = []*world{first, first.replica("second"), first.replica("third")}
	for _, w := range replicas {
		w.serve("--database", database)
	}
	first.converges(values{"a": 1, "b": 1})
	if _, err := first.lehr("wait", "--timeout", patience.String()); err != nil {
		t.Fatal(err)
	}
	return replicas, database
}

// With all servers gone, a stop is given to the database alone, and whoever
// starts afterwards pushes nothing (S18).
func TestStopWithOnlyTheDatabase(t *testing.T) {
	t.Parallel()
	replicas, database := threeReplicas(t, "stopped")
	w := replicas[0]
	for _, w := range replicas {
		w.kill()
	}
	told, err := w.lehr("stop", "--database", database, "--reason", "all servers are gone")
	if err != nil {
		t.Fatal(err)
	}
	if missing := unmatched(told, `Stopped: all partitions, by \w+: all servers are gone`); missing != "" {
		t.Error(missing)
	}
	w.want(values{"a": 2, "b": 1})
	for _, look := range [][]string{{"get", "partitions"}, {"get", "reports"}, {"why", "resource/a"}, {"get", "audit", "--global"}} {
		told, err := w.lehr(append(look, "--database", database)...)
		if err != nil {
			t.Fatal(err)
		}
		if missing := unmatched(told, map[string]string{"partitions": "stopped by", "reports": `resource/a .*in-sync`, "resource/a": `resource/a is in-sync`, "audit": `\(cli\).*stop.*all servers are gone`}[look[1]]); missing != "" {
			t.Errorf("lehr %s: %s", strings.Join(look, " "), missing)
		}
	}
	w.untouched("the server says that it is stopped", values{"a": 1, "b": 1}, func() string {
		if w.server == nil {
			w.serve("--database", database)
		}
		return unmatched(w.why("resource/a"), `all servers are gone`, `waiting`)
	})
	if _, err := w.lehr("resume", "--database", database, "--reason", "well again"); err != nil {
		t.Fatal(err)
	}
	w.converges(values{"a": 2, "b": 1})
	if _, err := w.lehr("stop", "--database", database, "--server", "http://127.0.0.1:1", "--reason", "x"); err == nil || !strings.Contains(err.Error(), "both a server and a store") {
		t.Errorf("a server and a database: %v", err)
	}
}

// Any replica answers what the one that acts does.
func TestEveryReplicaAnswersTheSame(t *testing.T) {
	t.Parallel()
	replicas, _ := threeReplicas(t, "same")
	for n, w := range replicas {
		hold := fmt.Sprintf("held at replica %d", n)
		if _, err := w.lehr("hold", "resource/a", "--reason", hold); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, other := range replicas {
			other.await("the others show it", func() string {
				told, err := other.lehr("get", "holds")
				return unmatched(told+text(err), hold)
			})
		}
		t.Logf("the others showed it after %.1f s", time.Since(began).Seconds())
	}
	if _, err := replicas[1].lehr("unhold", "resource/a", "--reason", "seen"); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, call := range readingCalls() {
		body := askingFor(call)
		// What settles after a write is waited for; then all say one thing.
		replicas[0].await("all answer "+string(call.FullName())+" alike", func() string {
			answers := make([]string, len(replicas))
			for n, w := range replicas {
				answers[n] = w.answer(call, body)
			}
			if answers[0] != answers[1] || answers[0] != answers[2] {
				return strings.Join(answers, "\n")
			}
			return ""
		})
		asked++
	}
	t.Logf("%d calls", asked)
	var told []string
	for _, w := range replicas {
		told = append(told, w.watched())
		shown, err := w.lehr("get", "partitions", "-o", "wide")
		if missing := unmatched(shown+text(err), `\n.*:\d+:\w+ +\d+ *\n`); missing != "" {
			t.Error(missing)
		}
		if strings.Contains(shown, "not all of it works") {
			t.Errorf("a replica that stands by calls it a problem: %s", shown)
		}
	}
	if told[0] != told[1] || told[0] != told[2] {
		t.Errorf("the watches differ:\n%s", strings.Join(told, "\n"))
	}
	replicas[0].await("one replica says how plugins answer, and the others name it", func() string { return unlikePlugins(replicas) })
}

// unlikePlugins is what is wrong with what replicas say of the plugins of their partition; empty: nothing.
func unlikePlugins(replicas []*world) string {
	acting, named := 0, map[string]bool{}
	for _, w := range replicas {
		shown, err := w.lehr("get", "plugins")
		if err != nil || !strings.Contains(shown, "lehr-command") {
			return shown + text(err)
		}
		if other := actsElsewhere.FindStringSubmatch(shown); other != nil {
			named[other[1]] = true
		} else if regexp.MustCompile(`lehr-command +1 +well `).MatchString(shown) {
			acting++
		}
	}
	if acting != 1 || len(named) != 1 {
		return fmt.Sprintf("%d replicas say how plugins answer, and the others name %v", acting, named)
	}
	return ""
}

// actsElsewhere is how lehr get plugins names the replica that asks.
var actsElsewhere = regexp.MustCompile(`The replica (\S+) acts for this partition`)

// readingCalls are all of the API that change nothing and are no streams, but
// for what tells of one process: its goroutines, its log, how plugins answer it.
func readingCalls() (calls []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("lehr.api.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				if m := methods.Get(j); client.Reads(string(m.Name())) && !m.IsStreamingServer() && m.Name() != "GetDiagnosis" && m.Name() != "ListPlugins" {
					calls = append(calls, m)
				}
			}
		}
		return true
	})
	slices.SortFunc(calls, func(a, b protoreflect.MethodDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return calls
}

// askingFor fills in what a request has to name.
func askingFor(call protoreflect.MethodDescriptor) string {
	request := map[string]any{}
	for name, value := range map[string]any{"partition": "same", "asset": "resource/a", "from": "same@1", "to": "same@1"} {
		if field := call.Input().Fields().ByName(protoreflect.Name(name)); field != nil && field.Kind() == protoreflect.StringKind {
			request[name] = value
		}
	}
	switch call.Name() {
	case "GetPartition":
		request["id"] = "same"
	case "GetIncarnation":
		request["id"] = "same@1"
	}
	body, _ := json.Marshal(request)
	return string(body)
}

var ofOne = regexp.MustCompile(`"(started|acting)": ?("[^"]*"|true|false),?`)

// answer is what the replica says, without what is its own: when it began, and
// that it is the one that acts.
func (w *world) answer(call protoreflect.MethodDescriptor, body string) string {
	w.Helper()
	at, err := access.ReadRendezvous(w.store)
	if err != nil {
		w.Fatal(err)
	}
	url := fmt.Sprintf("%s/%s/%s", at.URL, call.Parent().FullName(), call.Name())
	request, _ := http.NewRequestWithContext(w.Context(), http.MethodPost, url, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+at.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusUnauthorized || response.StatusCode >= 500 {
		w.Fatalf("%s: %s %s %v", call.FullName(), response.Status, content, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, content); err != nil {
		w.Fatal(err)
	}
	answer := compact.String()
	if call.Name() == "ListCheckpoints" { // They are of the time at which one asks.
		answer = regexp.MustCompile(`"at":"[^"]*"`).ReplaceAllString(answer, "")
	}
	return response.Status + " " + strings.ReplaceAll(ofOne.ReplaceAllString(answer, ""), ",}", "}")
}

// watched is what both watches say at first.
func (w *world) watched() string {
	var said string
	for _, kind := range []string{"assets", "reports"} {
		told, err := w.lehr("watch", kind, "--once", "-o", "json")
		if err != nil {
			w.Error(err)
		}
		said += told
	}
	return said
}

// watcher collects the lines of a lehr watch.
type watcher struct {
	mutex sync.Mutex
	lines []string
}

func (w *watcher) Write(chunk []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for lines := bufio.NewScanner(bytes.NewReader(chunk)); lines.Scan(); {
		w.lines = append(w.lines, lines.Text())
	}
	return len(chunk), nil
}

func (w *watcher) all() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.lines)
}

// Whoever watches one of three replicas sees every change once, though the one
// that is watched is killed again and again.
func TestWatchGoesOnAtAnotherReplica(t *testing.T) {
	t.Parallel()
	replicas, database := threeReplicas(t, "watched")
	w := replicas[0]
	made, err := w.lehr("auth", "token", "create", "--owner", "watcher", "--description", "watches", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var token struct{ Secret string }
	if err := json.Unmarshal([]byte(made), &token); err != nil {
		t.Fatal(err)
	}
	var urls, addresses []string
	for _, w := range replicas {
		at, err := access.ReadRendezvous(w.store)
		if err != nil {
			t.Fatal(err)
		}
		urls, addresses = append(urls, at.URL), append(addresses, strings.TrimPrefix(at.URL, "http://"))
	}
	environment := append(os.Environ(), "LEHR_TOKEN="+token.Secret, "LEHR_SERVER="+strings.Join(urls, ","))
	var assets, reports watcher
	for kind, to := range map[string]*watcher{"assets": &assets, "reports": &reports} {
		command := exec.CommandContext(t.Context(), filepath.Join(w.programs, "lehr"), "watch", kind, "-o", "json")
		command.Env, command.Stdout, command.Stderr = environment, to, os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			command.Process.Kill()
			_ = command.Wait()
		})
	}
	w.await("both watches have begun", func() string {
		if len(assets.all()) == 0 || len(reports.all()) == 0 {
			return "no line"
		}
		return ""
	})
	for round := range 4 {
		killed := replicas[round%len(replicas)]
		killed.kill()
		// A write goes on at another replica when the first does not listen.
		hold := exec.Command(filepath.Join(w.programs, "lehr"), "hold", "resource/b", "--reason", fmt.Sprint("round ", round))
		hold.Env = environment
		if told, err := hold.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, told)
		}
		w.want(values{"a": round + 2, "b": 1})
		w.converges(values{"a": round + 2, "b": 1})
		w.await("the change is told", func() string {
			want := fmt.Sprintf(`"watched@%d"`, round+2)
			return unmatched(strings.Join(assets.all(), "\n"), want)
		})
		killed.serve("--database", database, "--listen", addresses[round%len(replicas)])
	}
	w.await("the last report is told", func() string {
		var last []byte
		for _, r := range w.reports("watched") {
			if r.Asset == "resource/a" {
				// As JSON has it: with 0, 3, 6 or 9 digits.
				if last, err = protojson.Marshal(r.At); err != nil {
					t.Fatal(err)
				}
			}
		}
		return unmatched(strings.Join(reports.all(), "\n"), regexp.QuoteMeta(string(last)))
	})
	seen := map[string]int{}
	for _, line := range assets.all() {
		var m struct {
			Incarnation string
			Assets      []struct{ ID, Digest string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, a := range m.Assets {
			seen[a.ID+" "+a.Digest]++
		}
	}
	for _, line := range reports.all() {
		var m struct {
			Reports []struct{ Asset, At string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, r := range m.Reports {
			seen[r.Asset+" at "+r.At]++
		}
	}
	for what, times := range seen {
		if times != 1 {
			t.Errorf("%s was told %d times", what, times)
		}
	}
	changes := 0
	for what := range seen {
		if strings.HasPrefix(what, "resource/a ") && !strings.Contains(what, " at ") {
			changes++
		}
	}
	if changes != 5 {
		t.Errorf("%d contents of resource/a were told, want 5", changes)
	}
}
