package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/pgserver"
)

// TestDatabase passes the suite while the database undoes every fifth
// transaction, as it does for what others wrote at the same time: nobody sees
// any of it.
func TestDatabase(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	undone := 0
	databases := emptied{server: server}
	storetest.Run(t, func(t *testing.T) store.All {
		url, used := databases.next(t)
		s := open(t, url)
		if !used {
			server.Execute(url, undoing)
		}
		t.Cleanup(func() {
			count, err := server.Query(url, "SELECT last_value - 1 FROM undone")
			if err != nil {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(count)
			undone += n
		})
		return s
	})
	if !t.Failed() && undone < 100 {
		t.Errorf("only %d transactions were undone", undone)
	}
}

// undoing has transactions undone as they commit, by chance.
const undoing = `DO $do$
DECLARE name text;
BEGIN
	CREATE SEQUENCE undone;
	PERFORM nextval('undone');
	CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $undo$
	BEGIN
		IF hashint8(pg_current_xact_id()::text::bigint) % 5 = 0 THEN
			PERFORM nextval('undone');
			RAISE EXCEPTION 'somebody was in the way' USING ERRCODE = 'serialization_failure';
		END IF;
		RETURN NULL;
	END $undo$;
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER undo AFTER INSERT OR UPDATE OR DELETE ON %I
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION undo()', name);
	END LOOP;
END $do$`

// emptied hands out databases one test after the other: to delete the rows of one takes a
// tenth of the processor time of making tables and indexes.
type emptied struct {
	server *pgserver.Server
	free   []string
}

// next is the URL of a database that is empty, or whose tables are; used tells which. It is
// handed out again once the test has ended well, and closed its store.
func (e *emptied) next(t *testing.T) (url string, used bool) {
	if last := len(e.free) - 1; last >= 0 {
		url, used, e.free = e.free[last], true, e.free[:last]
	} else {
		url = e.server.Database()
	}
	t.Cleanup(func() {
		if !t.Failed() {
			e.server.Execute(url, emptying)
			e.free = append(e.free, url)
		}
	})
	return url, used
}

// emptying makes a store what it was when its tables had been made: another one by its
// identity, with numbers that begin anew. Triggers of tests do not see it.
const emptying = `DO $do$
DECLARE name text;
BEGIN
	SET LOCAL session_replication_role = replica;
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT IN ('goose_db_version', 'identity') LOOP
		EXECUTE format('DELETE FROM %I', name);
	END LOOP;
	UPDATE identity SET id = replace(gen_random_uuid()::text, '-', '');
	FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema() AND sequencename NOT LIKE 'goose%' LOOP
		EXECUTE format('ALTER SEQUENCE %I RESTART', name);
	END LOOP;
END $do$`

// TestEmptiedIsNew: a database that was emptied has the rows of a new one.
func TestEmptiedIsNew(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	databases := emptied{server: server}
	fresh := server.Database()
	open(t, fresh)
	var emptiedURL string
	t.Run("used", func(t *testing.T) {
		emptiedURL, _ = databases.next(t)
		s := open(t, emptiedURL)
		storetest.Publish(t, s, storetest.Register(t, s), []store.Entry{storetest.Text("web", "1")})
	})
	url, used := databases.next(t)
	if !used || url != emptiedURL {
		t.Fatalf("%s is handed out, and not %s again", url, emptiedURL)
	}
	// query_to_xml counts the rows of tables whose names are data.
	const counts = `SELECT string_agg(tablename || (xpath('/row/count/text()',
		query_to_xml(format('SELECT count(*) FROM %I', tablename), false, true, '')))[1]::text, ' ' ORDER BY tablename)
		|| ' ' || (SELECT string_agg(sequencename || coalesce(last_value::text, ''), ' ' ORDER BY sequencename) FROM pg_sequences WHERE schemaname = current_schema())
		FROM pg_tables WHERE schemaname = current_schema()`
	s := open(t, url)
	want, err := server.Query(fresh, counts)
	must(t, err)
	got, err := server.Query(url, counts)
	must(t, err)
	if want == "" || got != want {
		t.Errorf("emptied it has\n%s\nand new\n%s", got, want)
	}
	storetest.Publish(t, s, storetest.Register(t, s), []store.Entry{storetest.Text("web", "1")})
}

// open opens a store that is closed when the test ends.
func open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLeaseEndsByTheDatabasesClock: a lease is another's while its holder is
// heard of, and free when it is not any more, or says that it ends.
func TestLeaseEndsByTheDatabasesClock(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	a, b := open(t, url), open(t, url)
	must(t, a.Renew(t.Context(), "a", time.Second))
	must(t, a.AddPartition(t.Context(), "shop", "/srv/lehr.yaml", "a try", storetest.Tester))
	old, err := a.Acquire(t.Context(), "shop", "a")
	must(t, err)
	began := time.Now()
	if _, err := b.Acquire(t.Context(), "shop", "b"); !fault.Is(err, fault.Conflict) {
		t.Fatalf("the lease of a process that lives was taken: %v", err)
	}
	var lease store.Lease
	for lease.Epoch == 0 {
		if lease, err = b.Acquire(t.Context(), "shop", "b"); err != nil && !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the lease was taken after %s", took)
	}
	if err := a.Check(t.Context(), old); !fault.Is(err, fault.Conflict) {
		t.Errorf("the lease that ended counts still: %v", err)
	}
	must(t, b.Renew(t.Context(), "b", time.Hour))
	replicas, err := a.Replicas(t.Context())
	if err != nil || len(replicas) != 1 || replicas[0].Name != "b" || replicas[0].Partitions != 1 || replicas[0].Left < 59*time.Minute {
		t.Errorf("replicas are %+v, %v", replicas, err)
	}
	must(t, b.Retire(t.Context(), "b"))
	if next, err := a.Acquire(t.Context(), "shop", "a"); err != nil || next.Epoch <= lease.Epoch {
		t.Errorf("after the holder's end: %+v, %v", next, err)
	}
}

// TestAnotherReplicaIsNoticed: what one replica writes, the others hear of.
func TestAnotherReplicaIsNoticed(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	a, b := open(t, url), open(t, url)
	lease := storetest.Register(t, a)
	incarnation := storetest.Publish(t, a, lease, []store.Entry{storetest.Text("web", "1")})
	must(t, a.AddPartition(t.Context(), "zoo", "/zoo/lehr.yaml", "a try", storetest.Tester))
	for what, write := range map[string]func() error{
		"a hold": func() error {
			return b.SetHold(t.Context(), "shop", intent.Hold{Asset: "web", Owner: storetest.Tester})
		},
		"a hint": func() error { return b.Hint(t.Context(), "shop") },
		"a stop": func() error { return b.SetStop(t.Context(), intent.Stop{Owner: storetest.Tester}) },
		"a label": func() error {
			return b.SetLabel(t.Context(), incarnation.ID, "release", "1", "a try", storetest.Tester)
		},
		"partitions": func() error {
			return b.AddPartition(t.Context(), "other", "/other/lehr.yaml", "a try", storetest.Tester)
		},
		"the end": func() error {
			// It holds no lease: those were released before.
			if err := b.Renew(t.Context(), "b", time.Hour); err != nil {
				return err
			}
			return b.Retire(t.Context(), "b")
		},
	} {
		// What was written before this may be news still.
		for quiet := false; !quiet; {
			select {
			case <-a.Changed(""):
			case <-time.After(time.Second):
				quiet = true
			}
		}
		changed, uninvolved := a.Changed(""), a.Changed("zoo")
		must(t, write())
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Errorf("%s of another replica was not noticed", what)
		}
		select {
		case <-uninvolved:
			if what != "a stop" {
				t.Errorf("%s of another replica was told to those whom it does not matter", what)
			}
		default:
		}
	}
}

// TestReplicasWriteAtOnce: many writers of few rows, from two processes. All
// comes about, once, and the audit is one chain.
func TestReplicasWriteAtOnce(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	replicas := []*postgres.Store{open(t, url), open(t, url), open(t, url)}
	storetest.Register(t, replicas[0])
	const each = 60
	var writers sync.WaitGroup
	for number, s := range replicas {
		writers.Go(func() {
			for n := range each {
				hold := intent.Hold{Asset: intent.AssetID(fmt.Sprintf("asset-%d-%d", number, n)), Owner: storetest.Tester}
				if err := s.SetHold(t.Context(), "shop", hold); err != nil {
					t.Errorf("replica %d: %v", number, err)
				}
			}
		})
	}
	writers.Wait()
	holds, err := replicas[0].Holds(t.Context(), "shop")
	if err != nil || len(holds) != each*len(replicas) {
		t.Errorf("%d holds are there, %v", len(holds), err)
	}
	must(t, replicas[1].VerifyAudit(t.Context(), "shop"))
	records, err := replicas[2].AuditRecords(t.Context(), "shop", 0, 1000)
	if err != nil || len(records) != each*len(replicas)+2 {
		t.Errorf("%d records were written, %v", len(records), err)
	}
	partition, err := replicas[2].Partition(t.Context(), "shop")
	if err != nil || partition.Revision != uint64(each*len(replicas)+1) {
		t.Errorf("the revision is %d, %v", partition.Revision, err)
	}
}

// TestAWriterThatOthersComeBefore: a transaction that loses to others more often
// than ten times in a row, as among busy replicas on a slow disk, is tried still.
// A sequence counts the tries, for no rollback takes back what it gave out.
func TestAWriterThatOthersComeBefore(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	s := open(t, url)
	storetest.Register(t, s)
	const conflicts = 25
	server.Execute(url, fmt.Sprintf(`
		CREATE SEQUENCE tries;
		CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('tries') <= %d THEN
				RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER lose BEFORE INSERT ON hold FOR EACH ROW EXECUTE FUNCTION lose()`, conflicts))
	must(t, s.SetHold(t.Context(), "shop", intent.Hold{Asset: "asset-1", Owner: storetest.Tester}))
	holds, err := s.Holds(t.Context(), "shop")
	if err != nil || len(holds) != 1 {
		t.Errorf("%d holds are there, %v", len(holds), err)
	}
	must(t, s.VerifyAudit(t.Context(), "shop"))
}

// TestTheDatabaseComesBack: a server that crashes and is started again is
// used again, by reads and writes, and nothing that was answered is gone.
func TestTheDatabaseComesBack(t *testing.T) {
	server := pgserver.New(t)
	server.Start("fsync=on")
	s := open(t, server.Database())
	storetest.Register(t, s)
	for n := range 3 {
		hold := intent.Hold{Asset: intent.AssetID(fmt.Sprint("asset-", n)), Owner: storetest.Tester}
		must(t, s.SetHold(t.Context(), "shop", hold))
		server.Crash()
		if _, err := s.Holds(t.Context(), "shop"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("reading without a server: %v", err)
		}
		if err := s.SetHold(t.Context(), "shop", intent.Hold{Asset: "other", Owner: storetest.Tester}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("writing without a server: %v", err)
		}
		server.Start("fsync=on")
		holds, err := s.Holds(t.Context(), "shop")
		if err != nil || len(holds) != n+1 {
			t.Errorf("after restart %d there are %d holds, %v", n+1, len(holds), err)
		}
	}
	must(t, s.VerifyAudit(t.Context(), "shop"))
}

// TestConnectionsAreFew: however much is asked of ten replicas at once, they fit
// into a server as it comes.
func TestConnectionsAreFew(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	s := open(t, url)
	storetest.Register(t, s)
	var running sync.WaitGroup
	for n := range 40 {
		running.Go(func() {
			for i := range 25 {
				_, err := s.ListPartitions(t.Context())
				if err == nil && i%5 == 0 {
					err = s.SetHold(t.Context(), "shop", intent.Hold{Asset: intent.AssetID(fmt.Sprint("asset-", n)), Owner: storetest.Tester})
				}
				if err == nil && n == 0 {
					err = s.Renew(t.Context(), "a", time.Minute)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	// None is closed for being idle, so those that there were are there still.
	count := func(query string) int {
		answer, err := server.Query(url, query)
		must(t, err)
		number, err := strconv.Atoi(answer)
		must(t, err)
		return number
	}
	const replicas = 10
	most := count("SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int")
	if used := count("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lehr'"); used < 2 || replicas*used > most*9/10 {
		t.Errorf("one replica uses %d connections; %d of them are to leave a tenth of %d", used, replicas, most)
	}
}

// TestConnectionsAreCut: while an administrator ends all connections again
// and again, each write is there if it was answered, and reads go on.
func TestConnectionsAreCut(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	s := open(t, url)
	storetest.Register(t, s)
	var answered []intent.AssetID
	for n := range 200 {
		if n%10 == 5 {
			server.Execute(server.URL("postgres"), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lehr'")
		}
		asset := intent.AssetID(fmt.Sprint("asset-", n))
		err := s.SetHold(t.Context(), "shop", intent.Hold{Asset: asset, Owner: storetest.Tester})
		switch {
		case err == nil:
			answered = append(answered, asset)
		case !fault.Is(err, fault.Unavailable):
			t.Fatal(err)
		}
	}
	if len(answered) < 180 {
		t.Errorf("only %d writes were carried out: a lost connection is to be made again", len(answered))
	}
	holds, err := s.Holds(t.Context(), "shop")
	must(t, err)
	there := map[intent.AssetID]bool{}
	for _, hold := range holds {
		there[hold.Asset] = true
	}
	for _, asset := range answered {
		if !there[asset] {
			t.Errorf("the hold of %s was answered and is gone", asset)
		}
	}
	must(t, s.VerifyAudit(t.Context(), "shop"))
}

// TestLinear: three replicas, whose connections are cut and whose transactions
// are undone all the time.
func TestLinear(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	replicas := []store.All{open(t, url), open(t, url), open(t, url)}
	server.Execute(url, undoing)
	storetest.Linear(t, replicas, func(random *rand.Rand) {
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		server.Execute(server.URL("postgres"), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lehr' AND random() < 0.3")
	})
}

// TestLinearDocuments: as TestLinear does, with documents.
func TestLinearDocuments(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	replicas := []store.All{open(t, url), open(t, url), open(t, url)}
	server.Execute(url, undoing)
	storetest.LinearDocuments(t, replicas, func(random *rand.Rand) {
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		server.Execute(server.URL("postgres"), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lehr' AND random() < 0.3")
	})
}
