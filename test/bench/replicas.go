package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // to look at the database beside Lehr

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/test/pgserver"
)

// site is a folder, and what ends with it.
type site struct {
	folder string
	ends   []func()
}

func newSite() (*site, error) {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	return &site{folder: folder, ends: []func(){func() { os.RemoveAll(folder) }}}, err
}

func (s *site) close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

// Helper and the rest make a site what a database server is needed for: one
// that cannot be had ends the benchmark.
func (s *site) Helper()                           {}
func (s *site) Cleanup(end func())                { s.ends = append(s.ends, end) }
func (s *site) Fatal(args ...any)                 { s.Fatalf("%s", fmt.Sprint(args...)) }
func (s *site) Skip(args ...any)                  { s.Fatal(args...) }
func (s *site) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// onDatabase measures on a PostgreSQL server that is as durable as one in use.
func onDatabase(measure func(*site, *pgserver.Server) error) (err error) {
	s, err := newSite()
	if err != nil {
		return err
	}
	defer s.close()
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("%v", broken)
		}
	}()
	server := pgserver.For(s)
	server.Start("fsync=on", "full_page_writes=on", "autovacuum=on")
	limits := server.Database()
	defer machine.use(func(ctx context.Context) (store.All, func(), error) {
		shared, err := postgres.Open(ctx, postgres.Options{URL: limits})
		if err != nil {
			return nil, nil, err
		}
		return shared, func() { shared.Close() }, nil
	})()
	return measure(s, server)
}

// measureReplicas measures what a shared database is for, beside the file.
func measureReplicas(ctx context.Context, s *site, server *pgserver.Server, programs string) error {
	file, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(s.folder, "admissions.db")})
	if err != nil {
		return err
	}
	defer file.Close()
	if err := measureAdmissions(ctx, "sqlite", file); err != nil {
		return err
	}
	shared, err := postgres.Open(ctx, postgres.Options{URL: server.Database()})
	if err != nil {
		return err
	}
	defer shared.Close()
	if err := measureAdmissions(ctx, "postgresql", shared); err != nil {
		return err
	}
	return measureFailover(ctx, s, server, programs)
}

// measureAdmissions counts admissions a second that are durable when the call
// returns, one enforcer's at a time, in calls of several sizes.
func measureAdmissions(ctx context.Context, engine string, s store.All) error {
	a, err := newAdmitting(ctx, s)
	if err != nil {
		return err
	}
	for _, size := range []int{1, 16, 128} {
		rate, err := a.rate(ctx, size, 5*time.Second)
		if err != nil {
			return err
		}
		machine.figure(fmt.Sprintf("%s_admissions_in_calls_of_%d", engine, size), rate, "admissions/s", 1, byDisk, byComputing)
	}
	return nil
}

// admitting is the one enforcer of a partition of a bare store.
type admitting struct {
	store     store.All
	lease     store.Lease
	partition store.Partition
	// count of what it admitted.
	count int
}

// newAdmitting makes a partition of its own.
func newAdmitting(ctx context.Context, s store.All) (*admitting, error) {
	actor, id := intent.Actor{Name: "bench", Origin: "bench"}, intent.PartitionID("admitting-"+strings.ToLower(rand.Text()))
	if err := s.AddPartition(ctx, id, "/bench/lehr.yaml", "a benchmark", actor); err != nil {
		return nil, err
	}
	a := &admitting{store: s}
	var err error
	if a.lease, err = s.Acquire(ctx, id, "bench"); err != nil {
		return nil, err
	}
	empty, head := intent.IncarnationID{Partition: id}, intent.IncarnationID{Partition: id, Sequence: 1}
	if err := s.Stage(ctx, a.lease, empty, nil); err != nil {
		return nil, err
	}
	if _, err := s.Publish(ctx, a.lease, intent.Incarnation{ID: head, Parent: empty, Author: actor}); err != nil {
		return nil, err
	}
	a.partition, err = s.Partition(ctx, id)
	return a, err
}

// rate counts admissions in calls of a size, until they took so long. That the pushes
// are closed again is not counted.
func (a *admitting) rate(ctx context.Context, size int, most time.Duration) (float64, error) {
	duration, first := time.Duration(0), a.count
	for duration < most {
		admissions, closings := admissionsOf(size, a.count, a.partition)
		start := time.Now()
		refusals, err := a.store.Admit(ctx, a.lease, admissions)
		duration += time.Since(start)
		if err != nil {
			return 0, err
		}
		for _, refusal := range refusals {
			if refusal != nil {
				return 0, fmt.Errorf("an admission was refused: %s", refusal.Waiting.Reason)
			}
		}
		if err := a.store.ClosePushes(ctx, a.lease, closings); err != nil {
			return 0, err
		}
		a.count += size
	}
	return float64(a.count-first) / duration.Seconds(), nil
}

func admissionsOf(size, first int, p store.Partition) (admissions []store.Admission, closings []store.Closing) {
	now := time.Now()
	for i := first; i < first+size; i++ {
		asset := fmt.Sprintf("service-%d/job-%d", i%7, i%10_000)
		push := intent.PushID(fmt.Sprintf("%016x-%d-%d-%s", i*2654435761, size, i, p.ID))
		admissions = append(admissions, store.Admission{
			Push: push, Asset: intent.AssetID(asset), Target: p.Head, Effective: intent.Digest{1}, Plan: intent.Digest{2},
			ResourceKey: intent.ResourceKey(string(p.ID) + "/" + asset), Revision: p.Revision, ValidUntil: now.Add(time.Minute), At: now,
			Budgets: []store.BudgetUse{{Key: fmt.Sprintf("cluster/%d", i%4), Limit: 100_000}},
			Checks:  []string{"order", "hold", "approval"},
		})
		closings = append(closings, store.Closing{Push: push, Ending: "pushed", At: now})
	}
	return admissions, closings
}

const (
	manyReplicas = 10
	restSettles  = 20 * time.Second
	restMeasured = 30 * time.Second
)

// measureRest runs ten replicas in this process, each with connections and
// actors of its own, over many partitions of one asset that nothing is to be done
// about, and counts what they write once nothing happens.
func measureRest(ctx context.Context, s *site, server *pgserver.Server, partitions int) error {
	url := server.Database()
	register := map[intent.PartitionID]string{}
	for n := range partitions {
		name := fmt.Sprintf("rest-%04d", n)
		folder := filepath.Join(s.folder, name)
		if err := writeResting(folder, name); err != nil {
			return err
		}
		register[intent.PartitionID(name)] = filepath.Join(folder, "lehr.yaml")
	}
	var replicas []*app.App
	defer func() {
		for _, replica := range replicas {
			_ = replica.Stop(context.WithoutCancel(ctx)) // The database goes with them.
		}
	}()
	for n := range manyReplicas {
		options := app.DefaultOptions()
		options.Store, options.Database = filepath.Join(s.folder, fmt.Sprint("replica-", n), "lehr.db"), url
		options.Listen, options.Parts.Runner = "", generate.InProcess{Limits: generate.DefaultLimits()}
		options.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
		replica, err := app.New(options)
		if err != nil {
			return err
		}
		if err := replica.Start(ctx); err != nil {
			return err
		}
		replicas = append(replicas, replica)
	}
	start := time.Now()
	actor := intent.Actor{Name: "bench", Origin: "bench"}
	for _, id := range slices.Sorted(maps.Keys(register)) {
		if err := replicas[0].Store().AddPartition(ctx, id, register[id], "a benchmark", actor); err != nil {
			return err
		}
	}
	if err := s.until(10*time.Minute, func() (bool, error) { return shared(ctx, replicas[0].Store(), manyReplicas, partitions) }); err != nil {
		return fmt.Errorf("the partitions were not shared: %w", err)
	}
	machine.figure(fmt.Sprintf("ten_replicas_share_%d_partitions_after", partitions), time.Since(start).Seconds(), "s", partitions, byAdmission)
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := s.until(10*time.Minute, func() (bool, error) {
		var built int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM partitions WHERE head > 0").Scan(&built)
		return built == partitions, err
	}); err != nil {
		return fmt.Errorf("the partitions were not built: %w", err)
	}
	machine.figure(fmt.Sprintf("ten_replicas_built_%d_partitions_after", partitions), time.Since(start).Seconds(), "s", partitions, byAdmission, byComputing)
	time.Sleep(restSettles)
	before, err := countWrites(ctx, db)
	if err != nil {
		return err
	}
	print("ten_replicas_leases_moved_meanwhile", before.epochs-float64(partitions), "leases")
	time.Sleep(restMeasured)
	after, err := countWrites(ctx, db)
	if err != nil {
		return err
	}
	perSecond := func(before, after float64) float64 { return (after - before) / restMeasured.Seconds() }
	print("ten_replicas_at_rest_rows_written", perSecond(before.rows, after.rows), "rows/s")
	print("ten_replicas_at_rest_lease_rows_written", perSecond(before.leases, after.leases), "rows/s")
	print("ten_replicas_at_rest_log_written", perSecond(before.log, after.log), "B/s")
	print("ten_replicas_at_rest_transactions", perSecond(before.transactions, after.transactions), "transactions/s")
	print("ten_replicas_at_rest_leases_moved", after.epochs-before.epochs, "leases")
	print("ten_replicas_at_rest_cpu", perSecond(before.cpu, after.cpu), "cores")
	print("ten_replicas_connections", after.connections, "connections")
	first := replicas[0]
	replicas = replicas[1:]
	return measureHandOver(ctx, s, first, replicas, partitions)
}

// measureHandOver ends one replica, and measures until the others have all that
// it had, evenly.
func measureHandOver(ctx context.Context, s *site, one *app.App, others []*app.App, partitions int) error {
	start := time.Now()
	if err := one.Stop(ctx); err != nil {
		return err
	}
	if err := s.until(10*time.Minute, func() (bool, error) {
		return shared(ctx, others[0].Store(), len(others), partitions)
	}); err != nil {
		return fmt.Errorf("what a replica that ended had was not shared: %w", err)
	}
	machine.figure("nine_replicas_share_what_the_tenth_had_after", time.Since(start).Seconds(), "s", partitions/manyReplicas, byAdmission)
	return nil
}

// until asks a few times a second.
func (s *site) until(most time.Duration, holds func() (bool, error)) error {
	for deadline := time.Now().Add(most); ; time.Sleep(2 * seldom) {
		if held, err := holds(); held || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("gave up after %s", most)
		}
	}
}

// shared: so many replicas act for all partitions, each for its share.
func shared(ctx context.Context, s store.All, count, partitions int) (bool, error) {
	replicas, err := s.Replicas(ctx)
	if err != nil || len(replicas) != count {
		return false, err
	}
	all := 0
	for _, r := range replicas {
		if all += r.Partitions; r.Partitions > (partitions+count-1)/count {
			return false, nil
		}
	}
	return all == partitions, nil
}

// written is what the database has counted so far.
type written struct{ rows, leases, transactions, epochs, log, connections, cpu float64 }

func countWrites(ctx context.Context, db *sql.DB) (w written, err error) {
	err = db.QueryRowContext(ctx, `SELECT
		(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables),
		(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname = 'replica'),
		(SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()),
		(SELECT sum(epoch) FROM partitions),
		pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'),
		(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lehr')`).Scan(&w.rows, &w.leases, &w.transactions, &w.epochs, &w.log, &w.connections)
	var usage syscall.Rusage
	if err == nil {
		err = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	}
	w.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	return w, err
}

// writeResting writes a partition of one asset that no plugin is bound to.
func writeResting(folder, name string) error {
	for file, content := range map[string]string{
		"lehr.yaml": fmt.Sprintf(`lehr: v1
partition: %s
owner: bench@example.com
mode: "off"
sources:
  service: {dir: source, files: [service.yaml]}
generate:
  web: {starlark: web.star, from: [service]}
`, name),
		"web.star": `def generate(ctx):
    return [asset("web", lehr.process.v1.Job(name = yaml("source/service.yaml")["name"], replicas = 1, binary = "/opt/web", version = "v1"))]
`,
		"source/service.yaml": "name: " + name + "\n",
	} {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
