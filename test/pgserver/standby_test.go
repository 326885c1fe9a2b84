package pgserver_test

import (
	"testing"

	"lehr.dev/test/pgserver"
)

// An asynchronous standby, promoted, is on a new timeline and lacks what was
// committed after its stream ended; a URL of both leads to it from then on.
func TestPromotedStandbyLacksWhatItDidNotReceive(t *testing.T) {
	primary := pgserver.New(t)
	primary.Start()
	url := primary.Database()
	primary.Execute(url, "CREATE TABLE said (what TEXT)")
	standby := primary.Standby()
	standby.Start()
	either := primary.Either(url, standby)
	primary.Execute(either, "INSERT INTO said VALUES ('received')")
	primary.CatchUp(standby)
	standby.Sever()
	primary.Execute(either, "INSERT INTO said VALUES ('lost')")
	primary.Crash()
	standby.Promote()

	got, err := standby.Query(either, "SELECT string_agg(what, ' ') FROM said")
	if err != nil || got != "received" {
		t.Errorf("after the failover: %q, %v; want what was received alone", got, err)
	}
	standby.Execute(either, "INSERT INTO said VALUES ('after')")
	standby.Crash()
	if id, of := standby.Control("Database system identifier"), primary.Control("Database system identifier"); id != of {
		t.Errorf("the standby's system is %s, its origin's %s", id, of)
	}
}
