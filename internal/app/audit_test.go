package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/sdk/client"
	"lehr.dev/test/pgserver"
)

// onFile keeps the store in a file, which others may open.
func onFile(t *testing.T, path string) func(*app.Options) {
	return func(o *app.Options) {
		opened, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Log: o.Log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		o.Parts.Store = opened
		o.Limits.Sweep = 200 * time.Millisecond
	}
}

func (p *production) forget(asset intent.AssetID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.pushed, asset)
}

func problems(t *testing.T, c *client.Client) string {
	t.Helper()
	answer, err := c.Server.GetServer(t.Context(), &apipb.GetServerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(answer.Problems, "\n")
}

// While the audit cannot be written nothing is changed, neither by people nor
// in production; the server says so, and goes on by itself (S25).
func TestNothingChangesWithoutItsRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	beside, err := sqlite.Connect(path, "busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	execute := func(text string) {
		t.Helper()
		if _, err := beside.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	p := newProduction()
	running, _ := begin(t, p, map[intent.PartitionID]string{"one": partition(t, "one", "a")}, onFile(t, path))
	c := client.InProcess(running.Handler())
	eventually(t, "it is enforced", func() bool { return p.has("a") })

	execute("CREATE TRIGGER spoiled BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no more'); END")
	p.forget("a")
	eventually(t, "why says that the audit cannot be written", func() bool {
		why, err := c.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "one", Asset: "a"})
		return err == nil && strings.Contains(why.String(), "audit record cannot be written")
	})
	if _, err := c.Brakes.SetHold(t.Context(), &apipb.SetHoldRequest{Partition: "one", Asset: "a"}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "audit") {
		t.Errorf("a hold without a record: %v", err)
	}
	if told := problems(t, c); !strings.Contains(told, "audit record cannot be written") {
		t.Errorf("the server tells of %q", told)
	}
	answer, err := c.Server.GetServer(t.Context(), &apipb.GetServerRequest{})
	if err != nil || len(answer.Partitions) != 1 || answer.Partitions[0].Acting || !strings.Contains(answer.Partitions[0].Problem, "audit") {
		t.Errorf("the partition is %v %v", answer, err)
	}
	if p.has("a") {
		t.Fatal("it was pushed without a record")
	}

	execute("DROP TRIGGER spoiled")
	eventually(t, "it is enforced again", func() bool { return p.has("a") })
	if told := problems(t, c); told != "" {
		t.Errorf("with the audit mended the server tells of %q", told)
	}
}

// Checkpoints are added to a file, the last ones at a clean end, so that every
// record is covered by one.
func TestCheckpointsAreAddedToAFile(t *testing.T) {
	folder := t.TempDir()
	path, file := filepath.Join(folder, "lehr.db"), filepath.Join(folder, "checkpoints.jsonl")
	if err := os.WriteFile(file, []byte(`{"store":"cut o`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		report, err := app.VerifyAudit(context.Background(), app.Verification{Store: path, Checkpoints: file})
		if err != nil || !report.OK() || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "line 1") || len(report.Chains) != 2 {
			t.Errorf("%+v %v", report, err)
		}
		for _, chain := range report.Chains {
			if chain.Anchored != chain.Records {
				t.Errorf("%+v", chain)
			}
		}
	})
	p := newProduction()
	begin(t, p, map[intent.PartitionID]string{"one": partition(t, "one", "a")}, onFile(t, path), func(o *app.Options) {
		o.Checkpoints = app.Checkpoints{To: file, Every: time.Second}
	})
	eventually(t, "checkpoints are there", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), `"partition":"one"`)
	})
}

// Where checkpoints do not arrive nothing waits, and the server says so until
// they do.
func TestCheckpointsArePosted(t *testing.T) {
	var refuses atomic.Bool
	var got atomic.Pointer[string]
	refuses.Store(true)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		text, _ := io.ReadAll(r.Body)
		said := string(text)
		got.Store(&said)
	}))
	t.Cleanup(receiver.Close)
	p := newProduction()
	running, _ := begin(t, p, map[intent.PartitionID]string{"one": partition(t, "one", "a")}, func(o *app.Options) {
		o.Checkpoints = app.Checkpoints{To: receiver.URL + "/audit?secret=hush", Every: time.Second}
	})
	c := client.InProcess(running.Handler())
	eventually(t, "it is enforced all the same", func() bool { return p.has("a") })
	eventually(t, "the server says that they do not arrive", func() bool {
		told := problems(t, c)
		if strings.Contains(told, "hush") {
			t.Fatalf("it tells a secret: %s", told)
		}
		return strings.Contains(told, "do not arrive at "+receiver.URL+"/audit: it answers 507")
	})
	refuses.Store(false)
	eventually(t, "they arrive", func() bool { return got.Load() != nil && strings.Contains(*got.Load(), `"partition":"one"`) })
	eventually(t, "the server says nothing more", func() bool { return problems(t, c) == "" })
}

// The audit in a database is verified beside the replicas, and after they ended
// against what they sent elsewhere.
func TestVerifiesADatabase(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	database, p := server.Database(), newProduction()
	running := replica(t, database, p, map[intent.PartitionID]string{"one": partition(t, "one", "a")})
	eventually(t, "it is enforced", func() bool { return p.has("a") })
	c := client.InProcess(running.Handler())
	kept := filepath.Join(t.TempDir(), "checkpoints.jsonl")
	answer, err := c.Audit.ListCheckpoints(t.Context(), &apipb.ListCheckpointsRequest{})
	if err != nil || len(answer.Checkpoints) != 1 {
		t.Fatal(answer, err)
	}
	said := answer.Checkpoints[0]
	link, err := intent.ParseDigest(said.Link)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := audit.WriteCheckpoints(file, []audit.Checkpoint{{Store: said.Store, Partition: "one", Number: said.Number, Link: link, At: said.At.AsTime()}}); err != nil {
		t.Fatal(err)
	}
	verify := func() audit.Report {
		t.Helper()
		report, err := app.VerifyAudit(t.Context(), app.Verification{Database: database, Checkpoints: kept})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := verify(); !report.OK() || report.Chains[1].Anchored != said.Number {
		t.Errorf("beside a replica: %+v", report)
	}
	if err := running.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	server.Execute(database, fmt.Sprintf("DELETE FROM audit WHERE last >= %d", said.Number))
	server.Execute(database, "UPDATE audit_head h SET last = a.last, digest = a.digest FROM (SELECT last, digest FROM audit ORDER BY last DESC LIMIT 1) a")
	if report := verify(); report.OK() || !strings.Contains(report.Problems[0].Message, "was cut off") {
		t.Errorf("cut off: %+v", report)
	}
}
