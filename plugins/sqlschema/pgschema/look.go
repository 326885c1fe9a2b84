package pgschema

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/recent"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// Engine is PostgreSQL. The zero value is not usable: see New.
type Engine struct {
	// understood is what statements were found to mean, so that looking makes
	// a scratch schema only when something changed.
	understood *recent.Map[string, understanding]
	idle       idle
}

type understanding struct {
	catalog *catalog
	at      time.Time
}

const (
	understoodBytes = 64 << 20
	// understoodFor bounds how long a change of another schema's objects, such
	// as an extension's, goes unseen.
	understoodFor = 5 * time.Minute
	// lookWait bounds how long looking waits for a lock, for many assets are
	// looked at together.
	lookWait = 2 * time.Second
)

// New returns the engine.
func New() *Engine {
	return &Engine{understood: recent.New[string, understanding](understoodBytes), idle: idle{free: map[string][]waiting{}}}
}

var _ database.Engine = (*Engine)(nil)

// Look reads the catalogs. It changes nothing: its transaction is rolled back.
func (e *Engine) Look(ctx context.Context, request database.Request) (database.Sight, error) {
	request.LockTimeout = min(request.LockTimeout, lookWait)
	key := idleKey(request)
	s, err := e.beginLook(ctx, request, key)
	if err != nil {
		return database.Sight{}, err
	}
	defer func() {
		// What cannot be rolled back is not used again.
		if s.tx.Rollback(ctx) != nil || ctx.Err() != nil {
			closeConn(ctx, s.conn)
			return
		}
		e.idle.give(key, s.conn)
	}()
	instance, err := s.instance(ctx)
	if err != nil {
		return database.Sight{}, err
	}
	wanted, err := e.understand(ctx, s, instance)
	if err != nil {
		return database.Sight{}, err
	}
	sight, err := s.look(ctx, wanted)
	sight.Instance = instance
	return sight, err
}

// beginLook uses a connection that waits, if there is one that still works.
func (e *Engine) beginLook(ctx context.Context, request database.Request, key string) (*session, error) {
	for conn := e.idle.take(key); conn != nil; conn = e.idle.take(key) {
		if s, err := begin(ctx, conn, request); err == nil {
			return s, nil
		}
		closeConn(ctx, conn)
	}
	conn, err := connect(ctx, request)
	if err != nil {
		return nil, err
	}
	s, err := begin(ctx, conn, request)
	if err != nil {
		closeConn(ctx, conn)
	}
	return s, err
}

// understand is wanted, unless that is known already.
func (e *Engine) understand(ctx context.Context, s *session, instance string) (*catalog, error) {
	var around string
	err := s.tx.QueryRow(ctx, `
		select current_setting('server_version_num') || ' ' || coalesce(string_agg(v, ' ' order by v), '') from (
			select 'c ' || oid || ' ' || xmin from pg_class where relnamespace = to_regnamespace(quote_ident($1))
			union all select 'p ' || oid || ' ' || xmin from pg_proc where pronamespace = to_regnamespace(quote_ident($1))) v(v)`,
		s.request.Schema).Scan(&around)
	if err != nil {
		return nil, s.explain("reading the versions of the catalogs", err)
	}
	key := digest(fmt.Sprintf("%s\n%s\n%s\n%s", instance, s.request.URL, around, s.request.SQL))
	if known, found := e.understood.Get(key); found && time.Since(known.at) < understoodFor {
		return known.catalog, nil
	}
	c, err := s.wanted(ctx)
	if err == nil {
		e.understood.Put(key, understanding{catalog: c, at: time.Now()}, 4*len(s.request.SQL)+1024)
	}
	return c, err
}

// look compares what is there with what is wanted. The base is read before
// and after: all of it is of one moment.
func (s *session) look(ctx context.Context, wanted *catalog) (sight database.Sight, err error) {
	all, err := s.records(ctx)
	if err != nil {
		return sight, err
	}
	if sight.Base, err = s.base(ctx, wanted, all); err != nil {
		return sight, err
	}
	sight.Wanted = wanted.words()
	if err := s.claimed(sight.Wanted, all); err != nil {
		return sight, err
	}
	current, err := s.readReal(ctx, wanted)
	if err != nil {
		return sight, err
	}
	sight.Current = current.words()
	if sight.Rows, err = s.rows(ctx, current); err != nil {
		return sight, err
	}
	if record := own(all, s.request.Asset); record != nil {
		sight.Recorded, sight.Version = true, record.version
		sight.Current[database.Managed] = record.objects
	}
	if after, err := s.base(ctx, wanted, all); err != nil || after != sight.Base {
		return sight, serve.Retryable(serve.Errorf(serve.Unavailable, "%s was changed while it was read", s.place).WithHint("it is read again"))
	}
	return sight, nil
}

// rows tells which tables hold rows. It reads one of each, and none of a table
// that this user may not read: that counts as one with rows.
func (s *session) rows(ctx context.Context, current *catalog) (map[string]bool, error) {
	rows := map[string]bool{}
	for name, r := range current.relations {
		if r.view {
			continue
		}
		var may, has bool
		err := s.tx.QueryRow(ctx, "select has_table_privilege($1::oid, 'select') or has_any_column_privilege($1::oid, 'select')", r.oid).Scan(&may)
		if err == nil && may {
			err = s.tx.QueryRow(ctx, "select exists (select from "+quote(s.request.Schema)+"."+quote(name)+")").Scan(&has)
		}
		if err != nil {
			return nil, s.explain("looking for rows of "+name, err)
		}
		rows[name] = has || !may
	}
	return rows, nil
}

// instance names the cluster and the database for ever, however they are
// reached.
func (s *session) instance(ctx context.Context) (string, error) {
	var cluster, name string
	var may bool
	err := s.tx.QueryRow(ctx, "select current_database()::text, has_function_privilege('pg_catalog.pg_control_system()', 'execute')").Scan(&name, &may)
	if err != nil {
		return "", s.explain("reading the name of the database", err)
	}
	config := s.conn.Config()
	cluster = fmt.Sprintf("%s:%d", config.Host, config.Port)
	if may {
		if err := s.tx.QueryRow(ctx, "select system_identifier::text from pg_catalog.pg_control_system()").Scan(&cluster); err != nil {
			return "", s.explain("reading the identity of the cluster", err)
		}
	}
	return "postgres:" + cluster + "/" + name + "/" + s.request.Schema, nil
}
