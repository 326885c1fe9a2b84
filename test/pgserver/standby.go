package pgserver

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// Standby makes a streaming standby of this running server, which does not run
// yet: a base backup in a folder of its own, on a port of its own. It follows
// asynchronously, so that a failover can lose commits, unless this server's
// settings name it (its application_name is "walreceiver").
func (s *Server) Standby() *Server {
	s.t.Helper()
	standby := place(s.t, s.bin)
	standby.run("pg_basebackup", "-d", s.URL("postgres"), "-D", standby.data(), "-X", "stream", "-R", "-c", "fast", "--no-sync")
	return standby
}

// CatchUp waits until a running standby shows everything this server has
// committed until now.
func (s *Server) CatchUp(standby *Server) {
	s.t.Helper()
	written := s.value("SELECT pg_current_wal_lsn()")
	standby.until("it did not catch up with "+written, func() bool {
		return standby.value("SELECT pg_last_wal_replay_lsn() >= '"+written+"'::pg_lsn") == "true"
	})
}

// Sever ends a running standby's stream: what the other server commits from
// now on does not reach it. There is no way back but a new standby.
func (s *Server) Sever() {
	s.t.Helper()
	s.Execute(s.URL("postgres"), "ALTER SYSTEM SET primary_conninfo = ''")
	s.Execute(s.URL("postgres"), "SELECT pg_reload_conf()")
	s.until("it still receives", func() bool {
		return s.value("SELECT count(*) FROM pg_stat_wal_receiver") == "0"
	})
}

// Promote makes a running standby a server of its own, on a new timeline, and
// waits until it takes writes. It replays everything received before, and ends
// its stream; the other server is not told, and goes on if it runs.
func (s *Server) Promote() {
	s.t.Helper()
	if done := s.value("SELECT pg_promote(true, 60)"); done != "true" {
		s.t.Fatalf("the standby at port %d was not promoted: %s", s.port, done)
	}
}

// Either is a URL of one of this server's databases that leads to this server
// or to the other, whichever takes writes, asked in this order.
func (s *Server) Either(url string, other *Server) string {
	here := net.JoinHostPort("127.0.0.1", fmt.Sprint(s.port))
	there := net.JoinHostPort("127.0.0.1", fmt.Sprint(other.port))
	return strings.Replace(url, here, here+","+there, 1) + "&target_session_attrs=read-write"
}

// Control is a line of pg_controldata: what the server's files say of it,
// running or not.
func (s *Server) Control(name string) string {
	s.t.Helper()
	for line := range strings.Lines(s.output("pg_controldata", "-D", s.data())) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			return strings.TrimSpace(value)
		}
	}
	s.t.Fatalf("pg_controldata of %s says no %q", filepath.Base(s.folder), name)
	return ""
}

func (s *Server) value(query string) string {
	s.t.Helper()
	value, err := s.Query(s.URL("postgres"), query)
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return value
}

// until asks until it is so. PostgreSQL tells nobody when a standby moves.
func (s *Server) until(otherwise string, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the standby at port %d: %s within a minute", s.port, otherwise)
		}
	}
}
