package nemesis

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // what the world asks for itself

	"lehr.dev/test/pgserver"
)

// database is a PostgreSQL server and its standby, which has all that was ever
// acknowledged: commits wait for it. Each has a disk of its own, if that may
// be had.
type database struct {
	w        *world
	disks    map[*pgserver.Server]*volume
	mounted  []*volume
	made     int
	primary  *pgserver.Server
	standby  *pgserver.Server
	settings []string

	mutex sync.Mutex
	at    string
	db    *sql.DB
}

// onDisk makes a server on a disk of its own.
func (d *database) onDisk(make func() *pgserver.Server) *pgserver.Server {
	d.w.Helper()
	const bytes = 512 << 20
	d.made++
	path := filepath.Join(d.w.folder, fmt.Sprint("disk", d.made))
	if err := os.Mkdir(path, 0o755); err != nil {
		d.w.Fatal(err)
	}
	disk, err := newVolume(path, bytes)
	if err == nil {
		d.mounted = append(d.mounted, disk)
		usual := os.Getenv("TMPDIR")
		os.Setenv("TMPDIR", path)
		defer os.Setenv("TMPDIR", usual)
	}
	server := make()
	if err == nil {
		d.disks[server] = disk
	}
	return server
}

// newDatabase starts both.
func (w *world) newDatabase() {
	d := &database{
		w: w, disks: map[*pgserver.Server]*volume{},
		settings: []string{"max_wal_size=64MB", "min_wal_size=32MB", "max_connections=80", "wal_sender_timeout=5s"},
	}
	w.database = d
	d.primary = d.onDisk(func() *pgserver.Server { return pgserver.New(w.T) })
	d.primary.Start(d.settings...)
	d.follow()
	d.turn()
}

// follow makes a standby, and has commits wait for it unless some may be lost.
func (d *database) follow() {
	d.standby = d.onDisk(d.primary.Standby)
	d.standby.Start(d.settings...)
	if *lossy {
		return
	}
	url := d.primary.URL("postgres")
	d.primary.Execute(url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	d.primary.Execute(url, "SELECT pg_reload_conf()")
}

// turn lets everybody reach the primary from now on.
func (d *database) turn() {
	db, err := sql.Open("pgx", d.primary.URL("postgres"))
	if err != nil {
		d.w.Fatal(err)
	}
	d.mutex.Lock()
	old := d.db
	d.at, d.db = fmt.Sprintf("127.0.0.1:%d", d.primary.Port()), db
	d.mutex.Unlock()
	if old != nil {
		old.Close()
	}
}

func (d *database) address() string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.at
}

// ask reads rows directly, past every proxy.
func (d *database) ask(query string, row func(scan func(...any) error) error) error {
	d.mutex.Lock()
	db := d.db
	d.mutex.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// crash kills every process of the primary, and starts it again.
func (d *database) crash() {
	d.primary.Kill()
	d.primary.Start(d.settings...)
}

// promote kills the primary for good, and lets the standby take its place.
func (d *database) promote() {
	if *lossy {
		d.standby.Sever()
		d.w.wait(d.w.upTo(leasePeriod))
	}
	d.primary.Kill()
	d.leave(d.primary)
	d.standby.Promote()
	d.primary = d.standby
	d.turn()
	for _, r := range d.w.replicas {
		r.database.reset()
	}
	d.follow()
}

// fill takes all space of the primary's disk for a while.
func (d *database) fill(period time.Duration) {
	disk := d.disks[d.primary]
	if err := disk.fill(); err != nil {
		d.w.Fatal(err)
	}
	d.w.wait(period)
	if err := disk.free(); err != nil {
		d.w.Fatal(err)
	}
	if err := d.ask("SELECT 1", func(func(...any) error) error { return nil }); err != nil {
		d.crash() // It ended for want of space, as PostgreSQL does; whoever runs it starts it again.
	}
}

// leave gives up the disk of a server that is gone.
func (d *database) leave(server *pgserver.Server) {
	if disk := d.disks[server]; disk != nil {
		if err := disk.close(); err != nil {
			d.w.Error(err)
		}
		delete(d.disks, server)
	}
}

func (d *database) close() {
	if d.db != nil {
		d.db.Close()
	}
	for _, server := range []*pgserver.Server{d.standby, d.primary} {
		if server != nil {
			server.Crash()
		}
	}
	for _, disk := range d.mounted {
		_ = disk.close() // Those of servers that were given up are gone.
	}
}
