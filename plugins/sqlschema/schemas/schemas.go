// Package schemas keeps parts of databases as their SQL declares them
// (lehr.sqlschema.v1.Schema): the resource between sdk/serve and the
// engines. It judges what a change destroys, and says which database and which
// objects an asset is about. It never changes what the SQL does not name, and
// shows no secret. Only the program lehr-sqlschema calls it.
package schemas

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/recent"
	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/plugins/sqlschema/liteschema"
	"lehr.dev/plugins/sqlschema/pgschema"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

const (
	defaultLockTimeout      = 3 * time.Second
	defaultStatementTimeout = 30 * time.Second
	// lookTimeout bounds one look, so that a database that hangs delays no
	// other.
	lookTimeout = 7 * time.Second
	// looksAtOnce bounds the looks at all databases, looksAtOne those at one:
	// its connections are others' as well.
	looksAtOnce = 32
	looksAtOne  = 4
	// wantedBytes bounds what is remembered of what statements mean.
	wantedBytes = 64 << 20
)

// Schemas serves lehr.sqlschema.v1.Schema.
type Schemas struct {
	postgres database.Engine
	lite     database.Engine
	secrets  *resolver.Resolver
	// wanted is what the last look found statements to mean.
	wanted *recent.Map[string, database.Objects]
}

type asset = serve.Asset[*sqlschemapb.Schema]

var (
	_ serve.Resource[*sqlschemapb.Schema]  = (*Schemas)(nil)
	_ serve.Destroyer[*sqlschemapb.Schema] = (*Schemas)(nil)
	_ serve.Remover[*sqlschemapb.Schema]   = (*Schemas)(nil)
)

// New returns the resource. Passwords are what the resolver reads.
func New(secrets *resolver.Resolver) *Schemas {
	return &Schemas{secrets: secrets, postgres: pgschema.New(), lite: liteschema.Engine{}, wanted: recent.New[string, database.Objects](wantedBytes)}
}

// Serving: each engine compares the base inside the transaction that changes
// it. What cannot be cancelled is the commit.
func Serving() serve.Serving {
	return serve.Serving{Guarantee: serve.CompareAndSet, LongestEffect: 5 * time.Second}
}

func (s *Schemas) engine(request database.Request) database.Engine {
	if isLite(request.URL) {
		return s.lite
	}
	return s.postgres
}

func isLite(url string) bool { return strings.HasPrefix(url, "sqlite:") }

func dialect(url string) statement.Dialect {
	if isLite(url) {
		return statement.SQLite
	}
	return statement.PostgreSQL
}

// defaults fills in what the intent leaves open.
func defaults(payload *sqlschemapb.Schema) *sqlschemapb.Schema {
	full := proto.CloneOf(payload)
	if full.Schema == "" && !isLite(full.Database) {
		full.Schema = "public"
	}
	if full.LockTimeout == nil {
		full.LockTimeout = durationpb.New(defaultLockTimeout)
	}
	if full.StatementTimeout == nil {
		full.StatementTimeout = durationpb.New(defaultStatementTimeout)
	}
	return full
}

// request reads an asset's intent.
func (s *Schemas) request(ctx context.Context, a asset) (database.Request, error) {
	full := defaults(a.Payload)
	r := database.Request{
		Asset: string(a.Incarnation.Partition) + ":" + string(a.ID), URL: full.Database, Schema: full.Schema, Version: full.Version, SQL: full.Sql,
		LockTimeout: full.LockTimeout.AsDuration(), StatementTimeout: full.StatementTimeout.AsDuration(),
	}
	if err := checkAddress(full); err != nil {
		return r, err
	}
	var err error
	if r.Statements, err = statement.Parse(dialect(full.Database), full.Sql); err != nil {
		return r, serve.Errorf(serve.Invalid, "%w", err)
	}
	r.Password, err = s.password(ctx, a)
	return r, err
}

func checkAddress(full *sqlschemapb.Schema) error {
	if isLite(full.Database) {
		if full.Schema != "" {
			return serve.Errorf(serve.Invalid, "schema is %q, but SQLite has no schemas", full.Schema).WithHint("leave it out")
		}
		_, err := liteschema.Path(full.Database)
		return err
	}
	if !strings.HasPrefix(full.Database, "postgres://") {
		return serve.Errorf(serve.Invalid, "database is neither sqlite:/absolute/path.db nor postgres://user@host:port/database").WithHint("write one of them; a password goes into the field password")
	}
	_, err := pgschema.ParseURL(full.Database)
	return err
}

// Resolve adds what the statements mean.
func (s *Schemas) Resolve(ctx context.Context, a asset) (*sqlschemapb.Schema, error) {
	r, err := s.request(ctx, a)
	if err != nil {
		return nil, err
	}
	wanted, found := s.wanted.Get(meaning(r))
	if !found {
		sight, err := s.engine(r).Look(ctx, r)
		if err != nil {
			return nil, err
		}
		wanted, _ = database.Told(sight.Wanted)
	}
	full := defaults(a.Payload)
	full.Objects = wanted
	return full, nil
}

// Read looks at each asset's part of a database.
func (s *Schemas) Read(ctx context.Context, assets []asset) ([]serve.State[*sqlschemapb.Schema], error) {
	states := make([]serve.State[*sqlschemapb.Schema], len(assets))
	slots := make(chan struct{}, looksAtOnce)
	own := map[string]chan struct{}{}
	for _, a := range assets {
		own[a.Payload.Database] = make(chan struct{}, looksAtOne)
	}
	var looks sync.WaitGroup
	for i, a := range assets {
		looks.Go(func() {
			for _, limit := range []chan struct{}{own[a.Payload.Database], slots} {
				limit <- struct{}{}
				defer func() { <-limit }()
			}
			states[i] = s.lookWithin(ctx, a)
		})
	}
	looks.Wait()
	return states, nil
}

// lookWithin looks at one asset. Neither time nor a panic is lost to others
// (S12).
func (s *Schemas) lookWithin(ctx context.Context, a asset) (state serve.State[*sqlschemapb.Schema]) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(serve.Stderr(), "panic in looking at %s: %v\n%s", a.ID, problem, debug.Stack())
			state = serve.State[*sqlschemapb.Schema]{Err: fmt.Errorf("looking at %s panicked: %v (a defect of the plugin; its log has the stack)", a.ID, problem)}
		}
	}()
	return s.read(ctx, a)
}

func (s *Schemas) read(ctx context.Context, a asset) serve.State[*sqlschemapb.Schema] {
	r, err := s.request(ctx, a)
	if err != nil {
		return serve.State[*sqlschemapb.Schema]{Err: err}
	}
	sight, err := s.engine(r).Look(ctx, r)
	if err != nil {
		return serve.State[*sqlschemapb.Schema]{Err: err}
	}
	name := key(sight.Instance, sight.Wanted)
	sight.Wanted, _ = database.Told(sight.Wanted)
	sight.Current = database.Bound(sight.Current)
	if err := cmp.Or(database.Fits(sight.Current), database.Fits(sight.Wanted)); err != nil {
		return serve.State[*sqlschemapb.Schema]{Err: serve.Errorf(serve.Invalid, "%w", err)}
	}
	s.wanted.Put(meaning(r), sight.Wanted, 4*len(r.SQL)+1024)
	if !sight.Recorded && r.Version == "" && asDeclared(sight.Current, sight.Wanted) {
		// Made before it was managed, and just so: nothing is to be done. It is
		// claimed by the first push, when something differs.
		sight.Current[database.Managed] = sight.Wanted[database.Managed]
	}
	state := serve.State[*sqlschemapb.Schema]{Base: sight.Base, Key: name, Health: health(r, sight), Notes: map[string]string{}}
	for object, harm := range database.Judge(sight.Current, sight.Wanted, sight.Rows) {
		state.Notes[path(object)] = harmful + harm
	}
	if len(sight.Current) > 0 || sight.Recorded {
		// What only directs the plugin is no part of the database and is as
		// intended.
		state.Current = defaults(a.Payload)
		state.Current.Objects, state.Current.Version = sight.Current, sight.Version
	}
	return state
}

// asDeclared reports whether only the claim of the objects is missing.
func asDeclared(current, wanted database.Objects) bool {
	claimed := maps.Clone(current)
	claimed[database.Managed] = wanted[database.Managed]
	return maps.Equal(claimed, wanted)
}

// harmful marks the notes of changes that need an approval. The judgement
// rests on the rows that there were, so it is made once, while looking.
const harmful = "destructive: "

// path is the field path of an object, as the differ writes it.
func path(object string) string { return "objects[" + strconv.Quote(object) + "]" }

// Destructive tells which changes destroy something.
func (s *Schemas) Destructive(change serve.Change[*sqlschemapb.Schema]) []string {
	var paths []string
	for _, field := range change.Plan.Changes {
		if strings.HasPrefix(change.State.Notes[field.Path], harmful) {
			paths = append(paths, field.Path)
		}
	}
	return paths
}

// health says whether the database is as the wanted version declares. One that
// is not may yet serve its users well: that is not known here.
func health(r database.Request, sight database.Sight) serve.Health {
	health := serve.Health{State: serve.HealthUnknown, ObservedVersion: sight.Version}
	switch {
	case !sight.Recorded:
		health.Reason = "no push of this schema is remembered in the database"
	case sight.Version != r.Version:
		health.Reason = fmt.Sprintf("the database has version %q of the schema, wanted is %q", sight.Version, r.Version)
	case database.Left(sight.Current, sight.Wanted) != "":
		health.Reason = "the database is not as this version declares: " + database.Left(sight.Current, sight.Wanted)
	default:
		health.State = serve.Healthy
	}
	return health
}

// Apply changes the database in one transaction.
func (s *Schemas) Apply(ctx context.Context, change serve.Change[*sqlschemapb.Schema], permit serve.Permit) error {
	r, push, err := s.changing(ctx, change, permit)
	if err != nil {
		return err
	}
	push.Wanted = change.Target.Objects
	return s.engine(r).Apply(ctx, r, push)
}

// Remove drops what the SQL declares, in one transaction.
func (s *Schemas) Remove(ctx context.Context, change serve.Change[*sqlschemapb.Schema], permit serve.Permit) error {
	r, push, err := s.changing(ctx, change, permit)
	if err != nil {
		return err
	}
	return s.engine(r).Remove(ctx, r, push)
}

func (s *Schemas) changing(ctx context.Context, change serve.Change[*sqlschemapb.Schema], permit serve.Permit) (database.Request, database.Push, error) {
	r, err := s.request(ctx, change.Asset)
	push := database.Push{
		ID: string(change.Push), Base: change.State.Base, Effect: permit.Effect,
		Progress: change.Progress,
	}
	return r, push, err
}
