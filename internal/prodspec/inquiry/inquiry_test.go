package inquiry_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/inquiry"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/test/pgserver"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func question(key string, check *intentpb.ExternalCheck) validate.Question {
	return validate.Question{
		Partition: "shop", Rule: "r", Asset: intent.AssetID(key), Key: intent.Sum("test", []byte(key)), Check: check, Timeout: 10 * time.Second, Keep: time.Minute,
	}
}

func policy(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(file, []byte("external-checks: v1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func one(t *testing.T, a *inquiry.Asker, q validate.Question) validate.Reply {
	t.Helper()
	return a.Ask(t.Context(), []validate.Question{q})[0]
}

const here = "networks: [127.0.0.0/8, \"::1/128\"]\n"

func TestHTTPIsAsked(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/owner":
			_ = json.NewEncoder(w).Encode(map[string]string{"owner": r.URL.Query().Get("name"), "fixed": r.URL.Query().Get("fixed")})
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/large":
			_, _ = fmt.Fprint(w, strings.Repeat("x", 2<<20))
		case "/slow":
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // An answer could still get through.
		}
	}))
	defer server.Close()
	now := start
	a := inquiry.New(policy(t, here), func() time.Time { return now })
	to := func(path string) *intentpb.ExternalCheck {
		return &intentpb.ExternalCheck{Ask: &intentpb.ExternalCheck_Http{Http: server.URL + path}}
	}
	q := question("a", to("/owner?fixed=1"))
	q.Parameters = map[string]string{"name": "x&fixed=2"}
	for range 2 {
		reply := one(t, a, q)
		if reply.Err != nil || reply.Answer.Status != 200 || reply.Answer.Text != `{"fixed":"1","owner":"x\u0026fixed=2"}`+"\n" {
			t.Fatalf("%+v", reply)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("an answer that is kept was asked for %d times", asked.Load())
	}
	if now = now.Add(2 * time.Minute); one(t, a, q).Err != nil || asked.Load() != 2 {
		t.Errorf("an old answer counts still")
	}
	if reply := one(t, a, question("b", to("/away"))); reply.Err != nil || reply.Answer.Status != http.StatusFound {
		t.Errorf("a redirect is followed: %+v", reply)
	}
	if reply := one(t, a, question("c", to("/none"))); reply.Err != nil {
		t.Errorf("%+v", reply)
	}
	for path, words := range map[string]string{"/busy": "answered 503", "/large": "more than 1048576 bytes", "/slow": "no answer within"} {
		q := question(path, to(path))
		if path == "/slow" {
			q.Timeout = 20 * time.Millisecond
		}
		if reply := one(t, a, q); reply.Err == nil || !strings.Contains(reply.Err.Error(), words) {
			t.Errorf("%s: %+v", path, reply)
		}
	}
	// What does not answer is not asked for ever.
	asked.Store(0)
	var many []validate.Question
	for i := range 200 {
		many = append(many, question(fmt.Sprint("busy", i), to("/busy")))
	}
	for _, reply := range a.Ask(t.Context(), many) {
		if reply.Err == nil || !strings.Contains(reply.Err.Error(), "503") {
			t.Fatalf("%+v", reply)
		}
	}
	if asked.Load() > 20 {
		t.Errorf("it was asked %d times", asked.Load())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if reply := a.Ask(gone, many[:1])[0]; reply.Err == nil {
		t.Error("an answer after the end")
	}
}

// TestAnswersHaveRoom: however much a tenant has answered, the server keeps little of
// it, and holds little at once (S12).
func TestAnswersHaveRoom(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// In memory, what this is in JSON takes twenty times as much.
		_, _ = fmt.Fprint(w, "["+strings.Repeat("{},", 300_000)+"{}]")
	}))
	defer server.Close()
	a := inquiry.New(policy(t, here), time.Now)
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc >> 20)
	}
	before := heap()
	var questions []validate.Question
	for i := range 100 {
		questions = append(questions, question(fmt.Sprint(i), &intentpb.ExternalCheck{Ask: &intentpb.ExternalCheck_Http{Http: server.URL}}))
	}
	replies := a.Ask(t.Context(), questions)
	if held := heap() - before; held > 60 {
		t.Errorf("%d MB are held at once", held)
	}
	answered := 0
	for _, reply := range replies {
		if reply.Err == nil {
			answered++
		} else if !strings.Contains(reply.Err.Error(), "its answers are more than 32 MB together") {
			t.Fatal(reply.Err)
		}
	}
	if answered < 20 || answered > 40 {
		t.Errorf("%d of %d were answered", answered, len(questions))
	}
	replies = nil
	if kept := heap() - before; kept > 20 {
		t.Errorf("%d MB are kept", kept)
	}
	runtime.KeepAlive(a)
}

// TestOnlyPublicAddressesAreReached: also where a name, or an address within an
// address, leads to another.
func TestOnlyPublicAddressesAreReached(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	a := inquiry.New("", time.Now)
	for _, host := range []string{
		"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1", "192.168.1.1", "100.64.0.1", "[fe80::1]", "[fd00:ec2::254]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "168.63.129.16", "0177.0.0.1", "2130706433",
	} {
		q := question(host, &intentpb.ExternalCheck{Ask: &intentpb.ExternalCheck_Http{Http: "http://" + host + ":" + port}})
		q.Timeout = time.Second
		if reply := one(t, a, q); reply.Err == nil {
			t.Errorf("%s answered", host)
		} else if strings.Contains(host, "127") && !strings.HasPrefix(host, "[64") && !strings.HasPrefix(host, "[2002") && !strings.Contains(reply.Err.Error(), "no public address") {
			t.Errorf("%s: %v", host, reply.Err)
		}
	}
}

func TestCommandsAreRunWhereTheyAreAllowed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "owner")
	script := "#!/bin/sh\ncase $1 in\nlarge) head -c 3000000 /dev/zero;;\nslow) sleep 600;;\nno) exit 3;;\nenv) env;;\n*) printf '{\"owner\": \"%s\"}' \"$2\";; esac\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEHR_SECRET_OF_THE_SERVER", "x")
	check := func(line ...string) *intentpb.ExternalCheck {
		return &intentpb.ExternalCheck{Ask: &intentpb.ExternalCheck_Command{Command: &intentpb.CommandLine{Line: append([]string{program}, line...)}}}
	}
	q := question("a", check("say"))
	q.Arguments = []string{"x; rm -rf /"}
	for _, text := range []string{"", "commands: [{run: " + program + ", partitions: [other]}]", "commands: [{run: /bin/true, partitions: ['*']}]"} {
		if reply := one(t, inquiry.New(policy(t, text), time.Now), q); reply.Err == nil || !strings.Contains(reply.Err.Error(), "may not run") {
			t.Errorf("%q: %+v", text, reply)
		}
	}
	a := inquiry.New(policy(t, "commands: [{run: "+program+", partitions: [shop]}]"), time.Now)
	reply := one(t, a, q)
	if reply.Err != nil || reply.Answer.Text != `{"owner": "x; rm -rf /"}` {
		t.Errorf("%+v", reply)
	}
	other := q
	if other.Partition = "other"; one(t, a, other).Err == nil {
		t.Error("what one partition was answered is told to another that may not ask")
	}
	if reply := one(t, a, question("no", check("no"))); reply.Err != nil || reply.Answer.Exit != 3 {
		t.Errorf("%+v", reply)
	}
	if reply := one(t, a, question("env", check("env"))); reply.Err != nil || strings.Contains(reply.Answer.Text, "LEHR_SECRET") {
		t.Errorf("%+v", reply)
	}
	if reply := one(t, a, question("large", check("large"))); reply.Err == nil || !strings.Contains(reply.Err.Error(), "wrote more than") {
		t.Errorf("%+v", reply.Err)
	}
	slow := question("slow", check("slow"))
	slow.Timeout = 50 * time.Millisecond
	if reply := one(t, a, slow); reply.Err == nil || !strings.Contains(reply.Err.Error(), "no answer within") {
		t.Errorf("%+v", reply)
	}
}

func TestDatabasesAreRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in?ventory.db")
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(file, "?", "%3f"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE hosts (name TEXT, size INT); INSERT INTO hosts VALUES ('a', 3), ('b', 4)"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INVENTORY", file)
	a := inquiry.New(policy(t, "databases: [{name: inventory, env: INVENTORY, partitions: [shop]}]"), time.Now)
	sqlOf := func(text, database string) *intentpb.ExternalCheck {
		return &intentpb.ExternalCheck{Ask: &intentpb.ExternalCheck_Sql{Sql: text}, Database: database}
	}
	q := question("a", sqlOf("SELECT name, size FROM hosts WHERE name = $1", "inventory"))
	q.Arguments = []string{"a"}
	if reply := one(t, a, q); reply.Err != nil || len(reply.Answer.Rows) != 1 || reply.Answer.Rows[0]["name"] != "a" || reply.Answer.Rows[0]["size"] != int64(3) {
		t.Errorf("%+v", reply)
	}
	for text, words := range map[string]string{
		"INSERT INTO hosts VALUES ('c', 5)": "did not answer",
		"DELETE FROM hosts RETURNING name":  "did not answer",
		"SELECT nothing":                    "did not answer",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n": "gave more than",
	} {
		if reply := one(t, a, question(text, sqlOf(text, "inventory"))); reply.Err == nil || !strings.Contains(reply.Err.Error(), words) {
			t.Errorf("%s: %+v", text, reply.Err)
		}
	}
	if reply := one(t, a, question("other", sqlOf("SELECT 1", "other"))); reply.Err == nil || !strings.Contains(reply.Err.Error(), "may not read") {
		t.Errorf("%+v", reply)
	}
	var count int
	if err := db.QueryRow("SELECT count(*) FROM hosts").Scan(&count); err != nil || count != 2 {
		t.Errorf("%d rows: %v", count, err)
	}
}

func TestPoliciesAreRead(t *testing.T) {
	for text, words := range map[string]string{
		"commands: [{run: true, partitions: [shop]}]":                "absolute path",
		"commands: [{run: /bin/true}]":                               "no partition may use it",
		"databases: [{name: a, env: A, file: b, partitions: [a]}]":   "in one place",
		"databases: [{name: a, env: A, partitions: [\"Shop Two\"]}]": "Shop Two",
		"networks: [everything]":                                     "everything",
		"hosts: []":                                                  "hosts",
	} {
		if _, err := external.ReadPolicy(policy(t, text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := external.ReadPolicy("/no/such/file"); err == nil {
		t.Error("a file that is not there allows")
	}
	if reply := one(t, inquiry.New("/no/such/file", time.Now), question("a", &intentpb.ExternalCheck{})); reply.Err == nil {
		t.Error("a policy that cannot be read allows")
	}
}

// TestPostgreSQLIsOnlyRead: by a role that could write.
func TestPostgreSQLIsOnlyRead(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL")
	}
	server := pgserver.New(t)
	server.Start()
	address := server.URL("postgres")
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE hosts (name TEXT, size INT, price NUMERIC)"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO hosts VALUES ('a', 3, 1.5)"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INVENTORY", address)
	a := inquiry.New(policy(t, "databases: [{name: inventory, env: INVENTORY, partitions: [shop]}]"), time.Now)
	sqlOf := func(text string) *intentpb.ExternalCheck {
		return &intentpb.ExternalCheck{Ask: &intentpb.ExternalCheck_Sql{Sql: text}, Database: "inventory"}
	}
	q := question("a", sqlOf("SELECT size, name, price, NULL AS nothing FROM hosts WHERE name = $1"))
	q.Arguments = []string{"a"}
	if reply := one(t, a, q); reply.Err != nil || len(reply.Answer.Rows) != 1 || reply.Answer.Rows[0]["size"] != int64(3) || reply.Answer.Rows[0]["price"] != "1.5" {
		t.Errorf("%+v", reply)
	}
	for _, text := range []string{
		"INSERT INTO hosts VALUES ('b', 1, 1)", "DELETE FROM hosts RETURNING name", "COMMIT; DELETE FROM hosts", "SET TRANSACTION READ WRITE; DELETE FROM hosts", "SELECT pg_sleep(60)",
	} {
		q := question(text, sqlOf(text))
		q.Timeout = 2 * time.Second
		if reply := one(t, a, q); reply.Err == nil || strings.Contains(reply.Err.Error(), address) {
			t.Errorf("%s: %+v", text, reply)
		}
	}
	// What ends the reading transaction writes nothing either.
	for _, text := range []string{"COMMIT", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"} {
		one(t, a, question(text, sqlOf(text)))
	}
	if reply := one(t, a, question("again", sqlOf("INSERT INTO hosts VALUES ('c', 1, 1) RETURNING name"))); reply.Err == nil {
		t.Error("a session that was made writable is used again")
	}
	var count int
	if err := db.QueryRow("SELECT count(*) FROM hosts").Scan(&count); err != nil || count != 1 {
		t.Errorf("%d rows: %v", count, err)
	}
}
