package postgres

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store/relational"
)

const (
	// readers are the connections that read. One more writes, and one says that
	// this process lives. Ten replicas are to fit into a server as it comes, which
	// takes 97 of users, and leave some for people.
	readers     = 6
	connections = readers + 2
	// patience with a server that does not answer at all.
	connectPatience = 5 * time.Second
	silencePatience = 5 * time.Second
	// startPatience is how long a server that starts waits for a database that is busy or
	// starts up itself, as both do after a power cut; startPause is between two attempts.
	startPatience = time.Minute
	startPause    = time.Second
)

//go:embed migrations/*.sql
var migrations embed.FS

var schema = relational.Schema{
	Dialect: goose.DialectPostgres, Migrations: migrations,
	There: "SELECT count(*) FROM pg_tables WHERE tablename = 'goose_db_version' AND schemaname = current_schema()",
	// The lock that goose takes, for as long as the transaction lasts. What another
	// process committed before is to be seen after it.
	Lock: fmt.Sprint("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(", lock.DefaultLockID, ")"),
}

// Is reports whether a store's name is that of a database.
func Is(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// Name is what people may see of a URL: no password.
func Name(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "postgres://…"
	}
	return (&url.URL{Scheme: parsed.Scheme, User: url.User(parsed.User.Username()), Host: parsed.Host, Path: parsed.Path}).String()
}

// Open opens the store, and makes its tables if there are none.
func Open(ctx context.Context, options Options) (*Store, error) {
	return openStore(ctx, options, engine{}, true)
}

// OpenBeside opens an existing store beside the replicas that serve it, for
// reading it and for the brakes. It never acts for a partition: everything that
// needs a lease is Denied.
func OpenBeside(ctx context.Context, options Options) (*Store, error) {
	return openStore(ctx, options, engine{}, false)
}

func openStore(ctx context.Context, options Options, dialect relational.Engine, serving bool) (*Store, error) {
	name := Name(options.URL)
	config, err := configure(options.URL)
	if err != nil {
		return nil, err
	}
	o := relational.Options{
		Engine: dialect, DB: stdlib.OpenDB(*config), Serving: serving, Readers: readers,
		Runtime: options.Runtime, Log: options.Log, Measure: options.Measure,
	}
	o.DB.SetMaxIdleConns(connections)
	if o.Runtime == nil {
		o.Runtime = loop.Real()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := prepareInTime(ctx, o, name); err != nil {
		o.DB.Close() // What was wrong before is what matters.
		return nil, err
	}
	if options.Witness != "" {
		if o.Witness, err = relational.OpenWitness(options.Witness, serving); err != nil {
			o.DB.Close()
			return nil, err
		}
	}
	s := &Store{Store: relational.New(o), db: o.DB}
	if serving {
		if err := s.Examine(ctx); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// prepareInTime prepares the database as soon as it takes connections. Whoever only
// looks is told at once that it does not.
func prepareInTime(ctx context.Context, o relational.Options, name string) error {
	for startedAt := o.Runtime.Now(); ; {
		err := prepare(ctx, o, name)
		if err == nil || !o.Serving || !isBusy(err) || ctx.Err() != nil || o.Runtime.Now().Sub(startedAt) >= startPatience {
			return err
		}
		o.Log.Warn("the database takes no connection yet: it is tried again", "error", err, "again_in", startPause)
		if err := o.Runtime.Wait(ctx, startPause, nil); err != nil {
			return err
		}
	}
}

// prepare reaches the database and brings its tables up to date, one process
// at a time.
func prepare(ctx context.Context, o relational.Options, name string) error {
	if err := o.DB.PingContext(ctx); err != nil {
		return failure("opening the store "+name, err)
	}
	// Asked for each second, for five minutes.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return fault.New(fault.Internal, "opening the store %s: %w", name, err)
	}
	locked := schema
	locked.Options = []goose.ProviderOption{goose.WithSessionLocker(locker)}
	return locked.Migrate(ctx, o.Engine, o.DB, name, o.Serving)
}

// configure reads the URL, and asks for what a URL should not have to say.
func configure(address string) (*pgx.ConnConfig, error) {
	parsed, err := url.Parse(address)
	if err != nil || !Is(address) {
		return nil, fault.New(fault.Invalid, "what --database says is no URL of a PostgreSQL database").WithHint("write postgres://USER@HOST:PORT/NAME?sslmode=verify-full")
	}
	query := parsed.Query()
	if _, hasPassword := parsed.User.Password(); hasPassword || query.Has("password") || query.Has("sslpassword") {
		return nil, fault.New(fault.Invalid, "the URL of the store %s has a password, which every list of processes would show", Name(address)).
			WithHint("put it into PGPASSWORD, or into a file named by PGPASSFILE")
	}
	if !query.Has("sslmode") && !isLocal(parsed, query) {
		query.Set("sslmode", "verify-full")
	}
	parsed.RawQuery = query.Encode()
	if err := files.CheckDatabase(parsed); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(parsed.String())
	if err != nil {
		return nil, fault.New(fault.Invalid, "the URL of the store %s: %w", Name(address), err)
	}
	config.ConnectTimeout = connectPatience
	config.DialFunc = dialer().DialContext
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "lehr"
	}
	return config, nil
}

// near: nobody is between this machine and the database, nor any other that the
// URL names.
func isLocal(address *url.URL, query url.Values) bool {
	hosts := address.Host
	if hosts == "" {
		hosts = query.Get("host")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && !strings.HasPrefix(host, "/") && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// dialer notices within seconds that the other side is gone without a word, as
// when its machine lost its power.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3},
		Control: func(network, _ string, raw syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			var failed error
			err := raw.Control(func(fd uintptr) {
				failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silencePatience.Milliseconds()))
			})
			if err != nil {
				return err
			}
			return failed
		},
	}
}
