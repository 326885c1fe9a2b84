package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// childStore tells the test binary to be a writer over this file.
const childStore = "LEHR_TEST_CHILD_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childStore); path != "" {
		if err := writeForEver(path); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForEver publishes, admits and closes, and prints each write after it
// was acknowledged, until it is killed.
func writeForEver(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	if err := s.AddPartition(ctx, "shop", "/srv/lehr.yaml", "a try", storetest.Tester); err != nil {
		return err
	}
	lease, err := s.Acquire(ctx, "shop", "child")
	if err != nil {
		return err
	}
	fmt.Println("serving", os.Getpid())
	if err := s.Unstage(ctx, lease); err != nil {
		return err
	}
	for {
		// A file that is moved away is waited for, as a server does.
		if err := writeRound(ctx, s, lease); err != nil && !fault.Is(err, fault.Unavailable) {
			return err
		}
	}
}

func writeRound(ctx context.Context, s *sqlite.Store, lease store.Lease) error {
	p, err := s.Partition(ctx, "shop")
	if err != nil {
		return err
	}
	next := intent.Incarnation{ID: p.Head, Parent: p.Head, Author: storetest.Tester}
	next.ID.Partition, next.ID.Sequence = "shop", p.Head.Sequence+1
	text := next.ID.String()
	if err := s.Stage(ctx, lease, p.Head, []store.Entry{storetest.Text("a", text), storetest.Text(fmt.Sprintf("own/%d", next.ID.Sequence), text)}); err != nil {
		return err
	}
	if _, err := s.Publish(ctx, lease, next); err != nil {
		return err
	}
	fmt.Println("published", next.ID.Sequence)
	return pushAll(ctx, s, lease, next.ID)
}

// pushAll admits and closes pushes of some assets, from several goroutines.
func pushAll(ctx context.Context, s *sqlite.Store, lease store.Lease, target intent.IncarnationID) error {
	p, err := s.Partition(ctx, "shop")
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make(chan error, 4)
	for i := range 4 {
		group.Go(func() {
			id := intent.PushID(fmt.Sprintf("%d-%d-%d", lease.Epoch, target.Sequence, i))
			refusals, err := s.Admit(ctx, lease, []store.Admission{{
				Push: id, Asset: intent.AssetID(fmt.Sprintf("pushed/%d", i)), Target: target, Revision: p.Revision, At: time.Now(),
			}})
			if err == nil && refusals[0] == nil {
				fmt.Printf("admitted %s\n", id)
				if err = s.ClosePushes(ctx, lease, []store.Closing{{Push: id, Ending: "pushed", At: time.Now()}}); err == nil {
					fmt.Printf("closed %s\n", id)
				}
			}
			if err != nil {
				failures <- err
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// child runs the test binary as a writer.
func child(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(executable)
	command.Env = append(os.Environ(), childStore+"="+path)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill(); command.Wait() })
	return command, bufio.NewScanner(output)
}

// TestKilledWriterLosesNothing kills a writer in the middle of its work, again
// and again: every write that it was told is durable is there afterwards, and
// nothing is half there (S14).
func TestKilledWriterLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills eight processes")
	}
	path := filepath.Join(t.TempDir(), "lehr.db")
	published, admitted, closed := intent.Sequence(0), map[string]bool{}, map[string]bool{}
	for round := range 8 {
		command, lines := child(t, path)
		for count := 0; count < 40+23*round && lines.Scan(); count++ {
			note(t, lines.Text(), &published, admitted, closed)
		}
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it still said before it died
			note(t, lines.Text(), &published, admitted, closed)
		}
		command.Wait()
		verifyAfterKill(t, path, published, admitted, closed)
	}
	if published < 20 || len(closed) < 50 {
		t.Errorf("the test saw only %d publications and %d pushes", published, len(closed))
	}
}

func note(t *testing.T, line string, published *intent.Sequence, admitted, closed map[string]bool) {
	t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "published":
		fmt.Sscan(rest, published)
	case "admitted":
		admitted[rest] = true
	case "closed":
		closed[rest] = true
	case "failed:":
		t.Fatal(line)
	}
}

func verifyAfterKill(t *testing.T, path string, published intent.Sequence, admitted, closed map[string]bool) {
	t.Helper()
	ctx := t.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := s.Partition(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if p.Head.Sequence < published {
		t.Fatalf("head is %s, %d was acknowledged", p.Head, published)
	}
	members, err := s.Members(ctx, p.Head, store.AssetFilter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	if len(members) != int(p.Head.Sequence)+1 {
		t.Errorf("%s has %d assets, want %d", p.Head, len(members), p.Head.Sequence+1)
	}
	var buckets [intent.Buckets][]intent.MemberDigest
	for _, m := range members {
		bucket := &buckets[intent.BucketOf(m.Asset)]
		*bucket = append(*bucket, intent.MemberDigest{Asset: m.Asset, Digest: m.Digest})
		if _, err := s.Body(ctx, m.Digest); err != nil {
			t.Error(err)
		}
	}
	var digests [intent.Buckets]intent.Digest
	for i := range buckets {
		digests[i] = intent.BucketDigest(buckets[i])
	}
	head, err := s.Incarnation(ctx, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	if head.Digest != intent.MembershipDigest(&digests) {
		t.Errorf("the membership of %s does not have its digest", p.Head)
	}
	pushes, err := s.Pushes(ctx, "shop", "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]string{}
	for _, push := range pushes {
		stored[string(push.Push)] = push.Ending
	}
	for id := range admitted {
		if _, ok := stored[id]; !ok {
			t.Errorf("the admission of %s was acknowledged and is lost", id)
		}
	}
	for id := range closed {
		if stored[id] != "pushed" {
			t.Errorf("the end of %s was acknowledged and is lost: %q", id, stored[id])
		}
	}
	if err := s.VerifyAudit(ctx, "shop"); err != nil {
		t.Error(err)
	}
	// What is open after a crash is in doubt for the next holder; settle it.
	lease, err := s.Acquire(ctx, "shop", "verifier")
	if err != nil {
		t.Fatal(err)
	}
	open, err := s.OpenPushes(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, push := range open {
		if !push.Doubt {
			t.Errorf("push %s of a dead process is not in doubt", push.Push)
		}
		if err := s.ClosePushes(ctx, lease, []store.Closing{{Push: push.Push, Ending: "settled", At: time.Now()}}); err != nil {
			t.Error(err)
		}
	}
}
