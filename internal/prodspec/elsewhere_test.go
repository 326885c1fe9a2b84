package prodspec_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/store"
	"lehr.dev/test/gitrepo"
)

// inGit is a world whose service lies in a repository.
func inGit(t *testing.T) (*world, *gitrepo.Repository) {
	t.Helper()
	w, origin := newWorld(t, "web"), gitrepo.New(t)
	service, err := os.ReadFile(filepath.Join(w.folder, "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.remove("service.yaml")
	origin.Write("prod/service.yaml", string(service))
	w.replace("lehr.yaml", "  service: {files: [service.yaml]}", "  service: {git: "+origin.Folder+", branch: main, dir: prod, files: [service.yaml], every: 1s}\n  notes: {files: [notes.txt]}")
	w.replace("lehr.yaml", "from: [service]", "from: [service, notes]")
	w.replace("web.star", `"service.yaml"`, `"service/service.yaml"`)
	w.replace("web.star", "env = service.env", `env = {"NOTE": ctx_note}`)
	w.replace("web.star", "def job(service, cluster):", "def job(service, cluster, ctx_note):")
	w.replace("web.star", "job(service, cluster),", `job(service, cluster, ctx.files["notes.txt"]),`)
	w.write("notes.txt", "one")
	return w, origin
}

func (w *world) coverage(source string) intent.SourceRevision {
	w.t.Helper()
	partition, err := w.store.Partition(context.Background(), "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	at := slices.IndexFunc(partition.Covered, func(r intent.SourceRevision) bool { return r.Source == source })
	if at < 0 {
		w.t.Fatalf("%s is not among %+v", source, partition.Covered)
	}
	return partition.Covered[at]
}

// eventually waits for the coverage, which is told a moment after the status.
func (w *world) eventually(source, what string, is func(intent.SourceRevision) bool) intent.SourceRevision {
	w.t.Helper()
	for deadline := time.Now().Add(waitAtMost); ; time.Sleep(2 * time.Millisecond) {
		if r := w.coverage(source); is(r) {
			return r
		} else if time.Now().After(deadline) {
			w.t.Fatalf("%s is not %s: %+v", source, what, r)
		}
	}
}

func failing(r intent.SourceRevision) bool { return r.Failing.Reason != "" }

// The revision is the commit, with who made it. A source that fails stays as it
// was and says so, and others go on; after a restart too, where neither it nor
// the mirror is there any more.
func TestASourceThatFailsHindersNoOther(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at a repository for seconds")
	}
	w, origin := inGit(t)
	commit := origin.Commit("Begin")
	w.start()
	w.served(1)
	incarnation, err := w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(incarnation.Sources, func(r intent.SourceRevision) bool { return r.Source == "service" })
	if r := incarnation.Sources[at]; r.Revision != commit || r.Commit.Author != gitrepo.Author || r.Commit.Subject != "Begin" {
		t.Errorf("provenance %+v, want %s", r, commit)
	}
	origin.Write("prod/service.yaml", strings.Replace(origin.Git("show", "HEAD:prod/service.yaml"), `version: "1.0"`, `version: "2.0"`, 1))
	second := origin.Commit("Upgrade")
	w.served(2)

	if err := os.Rename(origin.Folder, origin.Folder+"-"); err != nil {
		t.Fatal(err)
	}
	told := w.eventually("service", "failing", failing)
	if told.Revision != second || !strings.Contains(told.Failing.Reason, "cannot be read") {
		t.Errorf("coverage %+v, want that of %s", told, second)
	}
	w.write("notes.txt", "two")
	status := w.served(3)
	if !slices.ContainsFunc(status.Findings, func(f intent.Finding) bool {
		return f.Severity == intent.Warning && strings.Contains(f.Message, "the source service is as it was read last")
	}) {
		t.Errorf("findings %+v, want that the source fails", status.Findings)
	}
	if incarnation, err = w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 3}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(incarnation.Warnings, func(f intent.Finding) bool {
		return strings.Contains(f.Message, "the source service is as it was read last")
	}) {
		t.Errorf("warnings of the incarnation %+v, want that the source fails", incarnation.Warnings)
	}

	w.stop()
	w.fetched = t.TempDir() // Another machine.
	w.write("notes.txt", "three")
	w.start()
	w.served(4)
	if again := w.eventually("service", "failing", failing); again.Failing.Since != told.Failing.Since || again.Revision != second {
		t.Errorf("coverage %+v after a restart, before %+v", again, told)
	}

	if err := os.Rename(origin.Folder+"-", origin.Folder); err != nil {
		t.Fatal(err)
	}
	w.eventually("service", "mended", func(r intent.SourceRevision) bool { return !failing(r) })
	origin.Git("commit", "--quiet", "--allow-empty", "-m", "Say nothing new")
	w.eventually("service", "covered by a commit that changes nothing", func(r intent.SourceRevision) bool { return r.Commit.Subject == "Say nothing new" })
	w.served(4)
}

// A hint is taken at once; without one it is an hour until the next look.
func TestAHintIsALookNow(t *testing.T) {
	w, origin := inGit(t)
	origin.Commit("Begin")
	w.replace("lehr.yaml", "every: 1s", "every: 1h")
	w.start()
	w.served(1)
	origin.Write("prod/service.yaml", strings.Replace(origin.Git("show", "HEAD:prod/service.yaml"), `version: "1.0"`, `version: "2.0"`, 1))
	origin.Commit("Upgrade")
	w.pipeline.Hint()
	w.served(2)

	// A mirror that nothing needs any more is removed.
	before := w.coverage("definition").Revision
	w.replace("lehr.yaml", "branch: main, ", "")
	w.eventually("definition", "another", func(r intent.SourceRevision) bool { return r.Revision != before })
	mirrors, err := filepath.Glob(filepath.Join(w.fetched, "shop", "*", "HEAD"))
	if err != nil || len(mirrors) != 1 {
		t.Errorf("mirrors %v: %v", mirrors, err)
	}
}

// meanwhile does something else right after the first candidate is saved.
type meanwhile struct {
	prodspec.Store
	once sync.Once
	act  func()
}

func (m *meanwhile) SaveCandidate(ctx context.Context, lease store.Lease, candidate intent.Candidate, delta []store.Entry) error {
	err := m.Store.SaveCandidate(ctx, lease, candidate, delta)
	m.once.Do(m.act)
	return err
}

// A hint that comes after the first look at the sources and before the first build has ended is
// not lost, also where that build publishes nothing.
func TestAHintDuringTheFirstBuild(t *testing.T) {
	w, origin := inGit(t)
	service, err := os.ReadFile(filepath.Join(origin.Folder, "prod", "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(origin.Folder, "prod", "service.yaml"), filepath.Join(origin.Folder, "prod", "another.yaml")); err != nil {
		t.Fatal(err)
	}
	origin.Commit("Begin without the service")
	w.replace("lehr.yaml", "every: 1s", "every: 1h")
	w.through = func(s prodspec.Store) prodspec.Store {
		return &meanwhile{Store: s, act: func() {
			origin.Write("prod/service.yaml", string(service))
			origin.Commit("Add the service")
			if err := w.store.Hint(context.Background(), "shop"); err != nil {
				t.Error(err)
			}
			time.Sleep(200 * time.Millisecond) // Who follows the partition is told meanwhile.
		}}
	}
	w.start()
	w.served(1)
}

// All of a definition's repository is read at one commit.
func TestDefinitionInARepository(t *testing.T) {
	w, origin := newWorld(t, "web"), gitrepo.New(t)
	if err := os.CopyFS(filepath.Join(origin.Folder, "prod"), os.DirFS(w.folder)); err != nil {
		t.Fatal(err)
	}
	commit := origin.Commit("Begin")
	w.definition = origin.Folder + "//prod/lehr.yaml?ref=main"
	w.start()
	status := w.served(1)
	for _, r := range status.Sources {
		if r.Revision != commit {
			t.Errorf("%s is at %s, want %s", r.Source, r.Revision, commit)
		}
	}
	service, err := os.ReadFile(filepath.Join(origin.Folder, "prod/service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	origin.Write("prod/web.star", strings.Replace(origin.Git("show", "HEAD:prod/web.star"), `"service.yaml"`, `"shop.yaml"`, 1))
	origin.Write("prod/lehr.yaml", strings.Replace(origin.Git("show", "HEAD:prod/lehr.yaml"), `[service.yaml]`, `[shop.yaml]`, 1))
	origin.Write("prod/shop.yaml", strings.Replace(string(service), `version: "1.0"`, `version: "2.0"`, 1))
	origin.Git("rm", "--quiet", "--cached", "prod/service.yaml")
	second := origin.Commit("Rename")
	w.pipeline.Hint()
	for _, r := range w.served(2).Sources {
		if r.Revision != second {
			t.Errorf("%s is at %s, want %s", r.Source, r.Revision, second)
		}
	}
	// What the definition names is not there at its commit: another's is not used.
	origin.Write("prod/lehr.yaml", strings.Replace(origin.Git("show", "HEAD:prod/lehr.yaml"), `[shop.yaml]`, `[none.yaml]`, 1))
	origin.Commit("Name a file that is not there")
	w.pipeline.Hint()
	if f := w.refused(prodspec.Unavailable, 2); !strings.Contains(f.Message, "none.yaml") {
		t.Errorf("finding %+v", f)
	}
	built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: w.definition, Runner: w.processes(), Elsewhere: w.elsewhere()}, time.Now())
	if err != nil || len(built.Findings) == 0 || !strings.Contains(built.Findings[0].Message, "none.yaml") {
		t.Errorf("built %+v: %v", built.Findings, err)
	}
}

// A definition that cannot be read, and what lies beside it, is as it was kept,
// on a machine that never read it too.
func TestDefinitionThatIsGoneIsAsItWasKept(t *testing.T) {
	w, origin := newWorld(t, "web"), gitrepo.New(t)
	if err := os.CopyFS(origin.Folder, os.DirFS(w.folder)); err != nil {
		t.Fatal(err)
	}
	commit := origin.Commit("Begin")
	w.definition = origin.Folder + "//lehr.yaml?ref=main&every=1s"
	w.start()
	w.served(1)
	// A commit that changes nothing is one more round.
	second := origin.Commit("Say nothing new")
	w.eventually("definition", "at the next commit", func(r intent.SourceRevision) bool { return r.Revision != commit })
	w.stop()
	if err := os.RemoveAll(origin.Folder); err != nil {
		t.Fatal(err)
	}
	w.fetched = t.TempDir()
	w.start()
	for _, r := range w.served(1).Sources {
		if r.Revision != second {
			t.Errorf("%s is at %s, want %s", r.Source, r.Revision, second)
		}
	}
	w.eventually("definition", "failing", failing)
}

// leaveMark is what a process leaves behind that ends while it works on sources. It returns what
// children that are given them work on.
func (w *world) leaveMark(sources []intent.SourceRevision) <-chan []intent.SourceRevision {
	w.t.Helper()
	mark, err := json.Marshal(map[string]any{"sources": sources, "began": time.Now(), "lives": 1})
	if err != nil {
		w.t.Fatal(err)
	}
	lease, err := w.store.Acquire(w.t.Context(), "shop", "test")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.PutBlobs(w.t.Context(), lease, "attempt", map[string][]byte{"sources": mark}); err != nil {
		w.t.Fatal(err)
	}
	tried := make(chan []intent.SourceRevision, 10)
	trial := prodspec.InChild(generate.DefaultOptions())
	w.trial = func(ctx context.Context, p prodspec.Program) ([]intent.SourceRevision, string, error) {
		at, death, err := trial(ctx, p)
		if err != nil || death != "" {
			w.t.Errorf("the child: %q, %v", death, err)
		}
		tried <- at
		return at, death, err
	}
	return tried
}

// triedAre waits for a child, which is to work on these sources.
func (w *world) triedAre(tried <-chan []intent.SourceRevision, want []intent.SourceRevision) {
	w.t.Helper()
	select {
	case at := <-tried:
		if !slices.Equal(at, want) {
			w.t.Errorf("the child worked on %+v, want %+v", at, want)
		}
	case <-time.After(waitAtMost):
		w.t.Fatal("nothing was tried")
	}
}

// A child in which sources are tried has what lies elsewhere as it was kept,
// and looks nowhere.
func TestATrialHasWhatLiesElsewhere(t *testing.T) {
	w, origin := inGit(t)
	origin.Commit("Begin")
	w.start()
	status := w.served(1)
	w.stop()
	if err := os.RemoveAll(origin.Folder); err != nil {
		t.Fatal(err)
	}
	tried := w.leaveMark(status.Sources)
	w.write("notes.txt", "two")
	w.replace("notes.txt", "two", "one")
	w.start()
	w.triedAre(tried, status.Sources)
	w.eventually("service", "failing", failing)
}

// A source is not found under the name of another's folder.
func TestNamesOfSourcesElsewhereAreTheirs(t *testing.T) {
	w, origin := inGit(t)
	origin.Commit("Begin")
	w.write("service/service.yaml", "another")
	w.replace("lehr.yaml", "[notes.txt]", `["notes.txt", "**/*.yaml"]`)
	w.start()
	if f := w.refused(prodspec.Rejected, 0); !strings.Contains(f.Message, "service/…") {
		t.Errorf("finding %+v", f)
	}
}
