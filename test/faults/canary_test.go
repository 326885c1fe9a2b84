package faults

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"lehr.dev/internal/access"
	"lehr.dev/test/canary"
	"lehr.dev/test/pgserver"
)

// secrets of a world (S13): planted where each of its servers finds them, and
// searched for in all that a test's end leaves. They are few, for every test
// searches; TestSecretsShowNowhere plants them everywhere.
type secrets struct {
	canary.Canaries
	// environment of the servers.
	environment []string
	// hidden are the files that hold secrets, which no search looks at.
	hidden []string
}

func plantSecrets(w *world) *secrets {
	s := &secrets{}
	s.environment = s.Environment("AWS_SECRET_ACCESS_KEY", "SECRET_OF_THE_SERVER", "LEHR_SHOP_PASSWORD")
	for _, name := range []string{".env", "source/password.txt"} {
		s.hide(w, filepath.Join(w.folder, name), "PASSWORD="+s.Plant("the file "+name)+"\n")
	}
	return s
}

// hide writes a file that holds a secret.
func (s *secrets) hide(w *world, path, content string) {
	w.Helper()
	w.write(path, content)
	s.hidden = append(s.hidden, path)
}

// searchAll looks for the world's secrets in all that its servers left.
func (w *world) searchAll() {
	w.Helper()
	hidden := append(slices.Clone(w.secrets.hidden), access.RendezvousPath(w.store))
	w.secrets.SearchFolder(w.T, w.folder, hidden...)
	w.secrets.SearchFolder(w.T, filepath.Dir(w.store), hidden...)
	w.secrets.SearchFolder(w.T, w.production, hidden...)
}

const secretType = `syntax = "proto3";
package tenant.v1;

message Account {
  string user = 1;
  string password = 2 [debug_redact = true];
  repeated string keys = 3 [debug_redact = true];
  bytes token = 4 [debug_redact = true];
  map<string, Account> more = 5;
}
`

// Secrets in every place that knows any: none is in what anybody is shown, or
// in what is left behind (S13).
func TestSecretsShowNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "secrets"})
	// shown must not be, though the store keeps them: whoever writes a secret
	// into intent has it there.
	shown := &canary.Canaries{}
	w.secrets.environment = append(w.secrets.environment, w.secrets.Environment("PGPASSWORD", "VAULT_TOKEN", "GITHUB_TOKEN", "LEHR_TOKEN", "LEHR_PLUGIN_API_KEY", "DATABASE_URL")...)
	w.secrets.environment = append(w.secrets.environment, "LEHR_DATABASE=")
	for _, name := range []string{".netrc", ".pgpass", ".ssh/id_ed25519"} {
		w.secrets.hide(w, filepath.Join(w.production, name), w.secrets.Plant("the home's "+name))
	}
	elsewhere := t.TempDir()
	w.secrets.hide(w, filepath.Join(elsewhere, "key.yaml"), "key: "+w.secrets.Plant("a file that a link leads to"))
	w.secrets.hide(w, filepath.Join(w.folder, "source", "service.yaml.bak"), w.secrets.Plant("a copy beside a source"))

	w.write(filepath.Join(w.folder, "types", "account.proto"), secretType)
	feed := feedFor(w)
	w.edit(w.definition, "sources:", "types: {dir: types}\nsources:\n  feed: {http: "+feed.URL+`, file: feed.json, every: 1s, user: bot, token: {env: LEHR_FEED_TOKEN}}`)
	account := fmt.Sprintf(`[asset("account/ann", tenant.v1.Account(user = "ann", password = %q, keys = [%q], token = bytes(%q), more = {"x": tenant.v1.Account(password = %q)}))]`,
		shown.PlantWord("a redacted text"), shown.PlantWord("a redacted list"), shown.PlantWord("redacted bytes"), shown.PlantWord("a redacted text in a map"))
	w.edit(filepath.Join(w.folder, "web.star"), "return resources + jobs", "return "+account+" + resources + jobs")
	w.secrets.hidden = append(w.secrets.hidden, filepath.Join(w.folder, "web.star"))
	w.want(values{"a": 1})
	w.serve()
	w.converges(values{"a": 1})
	feed.refuse.Store(true)
	w.await("the feed fails", func() string {
		told, err := w.lehr("get", "partitions")
		return unmatched(told, `source feed cannot be read`) + text(err)
	})
	rendezvous, err := access.ReadRendezvous(w.store)
	if err != nil {
		t.Fatal(err)
	}
	// The token and a cookie are secrets too, which their bearer alone has.
	w.secrets.Know("the launch token", rendezvous.Token)
	ask := func(method, path, body string, change func(*http.Request)) string {
		t.Helper()
		request, err := http.NewRequest(method, rendezvous.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+rendezvous.Token)
		if change != nil {
			change(request)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
			return ""
		}
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		w.secrets.Search(t, method+" "+path, answer)
		shown.Search(t, method+" "+path, answer)
		return string(answer)
	}
	// A wrong token, and one in an address, are not told to the log either.
	ask("POST", "/lehr.api.v1.AssetService/ListAssets", "{}", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+w.secrets.Plant("a wrong token"))
	})
	ask("GET", "/login?ticket="+url.QueryEscape(w.secrets.Plant("a wrong ticket")), "", nil)
	ask("GET", "/partition/secrets", "", func(r *http.Request) {
		r.Header.Set("Cookie", "lehr="+w.secrets.PlantWord("a wrong cookie"))
	})

	for header, value := range map[string]string{"X-Gitlab-Token": feed.hook, "X-Hub-Signature-256": "sha256=" + feed.hook} {
		ask("POST", "/webhook/secrets", feed.hook, func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header.Set(header, value)
		})
	}

	w.edit(filepath.Join(w.folder, "web.star"), `user = "ann"`, `user = "bob"`)
	w.await("an incarnation more is served", func() string {
		told, err := w.lehr("get", "incarnations", "-p", "secrets")
		return unmatched(told, `secrets@2`) + text(err)
	})
	for _, arguments := range [][]string{
		{"get", "assets"}, {"get", "assets", "-o", "json"}, {"get", "asset", "account/ann", "-o", "json"}, {"get", "asset", "account/ann", "-o", "yaml"}, {"describe", "asset", "account/ann"}, {"why", "account/ann"},
		{"diff", "secrets@1", "secrets@2"}, {"diff", "secrets@1", "secrets@2", "-o", "json"}, {"export", "secrets"}, {"export", "secrets@1", "--format", "proto"}, {"export", "--format", "tar", "secrets"}, {"get", "reports", "-o", "json"}, {"get", "pushes", "-o", "json"}, {"get", "incarnations", "-o", "json"}, {"get", "candidates", "-o", "json"},
		{"get", "partitions", "-o", "json"}, {"describe", "partition", "secrets"}, {"get", "audit"}, {"get", "assets", "--filter", `payload.password == "x"`}, {"build", w.definition}, {"build", w.definition, "-o", "json"}, {"plan", w.definition, "-o", "json"}, {"serve", "--help"}, {"version"},
	} {
		command := exec.Command(filepath.Join(w.programs, "lehr"), arguments...)
		command.Dir, command.Env = w.folder, append(os.Environ(), append(w.secrets.environment, "LEHR_STORE="+w.store, "LEHR_TOKEN="+rendezvous.Token)...)
		output, _ := command.CombinedOutput() // What it says is of interest, not whether it went well.
		w.secrets.Search(t, strings.Join(command.Args[1:], " "), output)
		shown.Search(t, strings.Join(command.Args[1:], " "), output)
	}

	// A bundle for strangers.
	bundle := exec.Command("sh", "-c", `lehr debug bundle --file bundle.tar.gz >/dev/null && tar -xzOf bundle.tar.gz`)
	bundle.Dir = t.TempDir()
	bundle.Env = append(os.Environ(), append(w.secrets.environment, "LEHR_STORE="+w.store, "PATH="+w.programs+":"+os.Getenv("PATH"))...)
	bundled, err := bundle.Output()
	if err != nil || !strings.Contains(string(bundled), "goroutine profile") {
		t.Errorf("the bundle: %v, %.2000s", err, bundled)
	}
	w.secrets.Search(t, "a bundle", bundled)
	shown.Search(t, "a bundle", bundled)

	// What cannot be read, and what is wrong, is told without what is in it.
	if err := os.Symlink(filepath.Join(elsewhere, "key.yaml"), filepath.Join(w.folder, "source", "key.yaml")); err != nil {
		t.Fatal(err)
	}
	w.edit(w.definition, "files: [service.yaml]", `files: ["*.yaml"]`)
	w.awaitTold("resource/a", `leads out`)
	w.edit(w.definition, `files: ["*.yaml"]`, "files: [service.yaml]")

	w.secrets.SearchArguments(t, w.server.Process.Pid)
	called := 0
	for _, method := range apiMethods() {
		if method.IsStreamingServer() || method.IsStreamingClient() {
			continue
		}
		ask("POST", fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()), plausible(method.Input()), nil)
		called++
	}
	if called < 20 {
		t.Errorf("only %d methods of the API were called", called)
	}
	link, err := w.lehr("page")
	if err != nil {
		t.Fatal(err)
	}
	login, err := url.Parse(strings.Fields(link)[0])
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(&http.Request{Method: http.MethodGet, URL: login, Header: http.Header{}})
	if err != nil || len(response.Cookies()) == 0 {
		t.Fatalf("no cookie: %v", err)
	}
	response.Body.Close()
	cookie := response.Cookies()[0]
	base := strings.TrimSuffix(response.Header.Get("Location"), "/")
	w.secrets.Know("a page's cookie", cookie.Value)
	for _, path := range []string{"/", "/partition/secrets", "/partition/secrets/asset/account/ann", "/partition/secrets/incarnations", "/partition/secrets/incarnation/2", "/partition/secrets/candidates", "/partition/secrets/orphans"} {
		ask("GET", base+path, "", func(r *http.Request) {
			r.Header.Del("Authorization")
			r.AddCookie(cookie)
		})
	}
	// Its goroutines, as one shows them who asks where it hangs.
	w.server.Process.Signal(syscall.SIGQUIT)
	<-w.server.ended
	w.server = nil
	shown.Search(t, "the server's log", []byte(w.logged()))
	if planted := w.secrets.Count() + shown.Count(); planted < 20 {
		t.Errorf("only %d secrets were planted", planted)
	}
	// The rest is searched as after every test.
}

// feed is a source behind a token, and a secret by which hints are given. When it
// refuses, it says the token wherever it can.
type feed struct {
	*httptest.Server
	refuse atomic.Bool
	hook   string
}

func feedFor(w *world) *feed {
	w.Helper()
	f := &feed{hook: w.secrets.PlantWord("a webhook's secret")}
	token := w.secrets.PlantWord("a source's token")
	f.Server = httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if _, shown, _ := r.BasicAuth(); shown != token {
			w.Errorf("the source is asked for with %d bytes of a token", len(shown))
		}
		if f.refuse.Load() {
			http.Redirect(answer, r, "https://"+token+":"+token+"@elsewhere.example.com/"+token, http.StatusFound)
			return
		}
		fmt.Fprint(answer, "{}")
	}))
	w.Cleanup(f.Close)
	host := strings.TrimPrefix(f.URL, "http://")
	policy := filepath.Join(w.TempDir(), "sources.yaml")
	w.write(policy, "sources: v1\nsecrets: [{env: LEHR_FEED_TOKEN, hosts: ['"+host+"'], partitions: [secrets]}]\nnetworks: [127.0.0.0/8]\nwebhooks: [{env: LEHR_HOOK, partitions: [secrets]}]\n")
	w.secrets.environment = append(w.secrets.environment, "LEHR_FEED_TOKEN="+token, "LEHR_HOOK="+f.hook, "LEHR_SOURCES="+policy)
	return f
}

// apiMethods are all that the API has, by its descriptors: a method that is
// added is called too.
func apiMethods() (list []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("lehr.api.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				list = append(list, methods.Get(j))
			}
		}
		return true
	})
	// What reads first: what removes the partition leaves nothing to read.
	slices.SortStableFunc(list, func(a, b protoreflect.MethodDescriptor) int {
		reads := func(m protoreflect.MethodDescriptor) int {
			for _, verb := range []string{"Get", "List", "Explain", "Why", "Compare", "Find"} {
				if strings.HasPrefix(string(m.Name()), verb) {
					return 0
				}
			}
			return 1
		}
		return reads(a) - reads(b)
	})
	return list
}

// plausible is a request in JSON with what its fields' names ask for.
func plausible(of protoreflect.MessageDescriptor) string {
	message := dynamicpb.NewMessage(of)
	for name, value := range map[protoreflect.Name]string{
		"partition": "secrets", "asset": "account/ann", "id": "account/ann", "incarnation": "secrets@1", "from": "secrets@1", "to": "secrets@2", "reason": "a test", "definition": "/nowhere/lehr.yaml",
	} {
		if field := of.Fields().ByName(name); field != nil && field.Kind() == protoreflect.StringKind && !field.IsList() {
			message.Set(field, protoreflect.ValueOfString(value))
		}
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// The password of the database is in no log, no plugin's environment, no
// message and no table.
func TestDatabasePasswordShowsNowhere(t *testing.T) {
	t.Parallel()
	database := pgserver.New(t)
	database.Start()
	w := newWorld(t, partition{name: "database"})
	address := database.Database()
	password := w.secrets.PlantWord("the database's password")
	w.want(values{"a": 1})
	// Of a URL with a password, nothing is said that holds it.
	inURL := w.secrets.PlantWord("a password in a URL")
	for _, address := range []string{
		strings.Replace(address, "owner@", "owner:"+inURL+"@", 1), address + "&password=" + inURL, "postgres://owner:" + inURL + "@127.0.0.1:1/%zz", "host=127.0.0.1 password=" + inURL, "postgres://owner:" + inURL,
	} {
		for _, arguments := range [][]string{{"serve"}, {"serve", "--help"}} {
			command := exec.Command(filepath.Join(w.programs, "lehr"), append(arguments, "--store", w.store)...)
			command.Env = append(os.Environ(), "LEHR_DATABASE="+address)
			output, err := command.CombinedOutput()
			if len(arguments) == 1 && err == nil {
				t.Errorf("it served with a password in its URL: %s", output)
			}
			w.secrets.Search(t, strings.Join(arguments, " "), output)
		}
	}
	w.secrets.environment = append(w.secrets.environment, "PGPASSWORD="+password, "LEHR_DATABASE="+address)
	w.serve()
	w.converges(values{"a": 1})
	for _, guard := range processes(func(p process) bool { return strings.Contains(strings.Join(p.arguments, " "), "lehr-command") }) {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", guard.pid))
		if err == nil && (bytes.Contains(environment, []byte(password)) || bytes.Contains(environment, []byte(address))) {
			t.Errorf("a plugin's environment has the database's URL or password")
		}
	}
	w.secrets.SearchArguments(t, w.server.Process.Pid)
	database.Crash()
	w.await("the log tells that the database is away", func() string { return unmatched(w.logged(), `the database cannot be used`) })
	database.Start()
	w.want(values{"a": 2})
	w.converges(values{"a": 2})
	w.end()
	w.secrets.Search(t, "the database", []byte(dump(t, address)))
}

// dump is all that the tables of a database hold.
func dump(t *testing.T, address string) string {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables, err := db.Query("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	var all strings.Builder
	count := 0
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			t.Fatal(err)
		}
		count++
		rows, err := db.Query(fmt.Sprintf("SELECT t::text FROM %q t", name))
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			all.WriteString(row + "\n")
		}
		rows.Close()
	}
	if count < 10 || all.Len() == 0 {
		t.Fatalf("%d tables with %d bytes are not a store", count, all.Len())
	}
	return all.String()
}
