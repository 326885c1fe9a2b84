package quota_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/quota"
)

const (
	list, edit = "/lehr.api.v1.AssetService/ListAssets", "/lehr.api.v1.DocumentService/EditDocument"
	watch      = "/lehr.api.v1.ReportService/WatchReports"
)

var brakes = []string{
	"/lehr.api.v1.BrakeService/SetStop", "/lehr.api.v1.BrakeService/SetHold", "/lehr.api.v1.ApprovalService/RejectAsset", "/lehr.api.v1.AuthService/RevokeToken",
}

func refused(t *testing.T, err error, what string) {
	t.Helper()
	e, ok := err.(*fault.Error)
	if !ok || e.Kind != fault.Exhausted || e.RetryAfter < time.Second || e.Hint == "" {
		t.Errorf("%s: %+v, want it exhausted, with when to ask again", what, err)
	}
}

func TestACallersShare(t *testing.T) {
	now := time.Unix(1e9, 0)
	limits := quota.Limits{Calls: 2, Watches: 1, Changes: 3, Tokens: 2, Denials: 2, Connections: 1, AllConnections: 1, BodySeconds: 1}
	k := quota.NewKeeper(limits, func() time.Time { return now })
	enter := func(caller, call string, stream bool) func() {
		t.Helper()
		leave, err := k.Enter(caller, call, stream)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, _, watching := enter("ann", list, false), enter("ann", list, false), enter("ann", watch, true)
	_, err := k.Enter("ann", list, false)
	refused(t, err, "a third call")
	_, err = k.Enter("ann", watch, true)
	refused(t, err, "a second watch")
	enter("bob", list, false)() // Another's share is their own.
	// No quota refuses who stops, holds, rejects or revokes.
	for range 20 {
		for _, call := range brakes {
			defer enter("ann", call, false)()
		}
	}
	first()
	first() // Once.
	watching()
	_, err = k.Enter("ann", list, false)
	refused(t, err, "a call beside 80 brakes") // They count, and are not refused.
	for i := range limits.Changes {
		if leave, err := k.Enter("cem", edit, false); err != nil {
			t.Fatal(i, err)
		} else {
			leave()
		}
	}
	_, err = k.Enter("cem", edit, false)
	refused(t, err, "a fourth change")
	for _, call := range append(brakes, list) {
		enter("cem", call, false)()
	}
	now = now.Add(10 * time.Minute)
	enter("cem", edit, false)()
	k.Use(quota.DefaultLimits())
	for range 100 {
		enter("cem", edit, false)()
	}
}

func TestDenialsAreLoggedWithinBounds(t *testing.T) {
	now := time.Unix(1e9, 0)
	k := quota.NewKeeper(quota.Limits{Denials: 3}, func() time.Time { return now })
	logged := 0
	for range 100 {
		if log, _ := k.Denied("ann"); log {
			logged++
		}
	}
	now = now.Add(time.Minute)
	if log, left := k.Denied("ann"); logged != 3 || !log || left != 97 {
		t.Errorf("%d logged; then %t, and %d were left out", logged, log, left)
	}
}

// TestTheTableHasAllLimits, with their names in the file, and in the documentation.
func TestTheTableHasAllLimits(t *testing.T) {
	defaults, table := reflect.ValueOf(quota.DefaultLimits()), quota.Table()
	if defaults.NumField() != len(table) {
		t.Fatalf("%d limits, %d rows", defaults.NumField(), len(table))
	}
	page, err := os.ReadFile("../../../docs/operate/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	text := "quotas: v1\n"
	for i, row := range table {
		if key := defaults.Type().Field(i).Tag.Get("yaml"); key != row.Key || int(defaults.Field(i).Int()) != row.Default {
			t.Errorf("row %+v is of %s, %v", row, key, defaults.Field(i))
		}
		if !bytes.Contains(page, fmt.Appendf(nil, "| `%s` | %s | %d |\n", row.Key, row.What, row.Default)) {
			t.Errorf("docs/operate/operating.md has no row of %+v", row)
		}
		text += fmt.Sprintf("%s: %d\n", row.Key, 7+i)
	}
	file := filepath.Join(t.TempDir(), "quotas.yaml")
	for content, want := range map[string]string{text: "", "quotas: v1\ncalls: 0\n": "less than 1", "quotas: v1\ncols: 1\n": "cols", "quotas: v2\n": "version v1"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := quota.Read(file)
		if want == "" && (err != nil || read.Calls != 7 || read.BodySeconds != 6+len(table)) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v", content, read, err)
		}
	}
}

// TestWhatIsNeverRefusedExists: a call that is renamed must not come under a quota.
func TestWhatIsNeverRefusedExists(t *testing.T) {
	for _, call := range brakes {
		if _, ok := access.CallOf(call); !ok || !quota.Never(call) || !quota.Changes(call) {
			t.Errorf("%s: known %t, never refused %t", call, ok, quota.Never(call))
		}
	}
	for _, call := range access.Calls() {
		if name := string(call.Method.Name()); strings.HasPrefix(name, "Set") && !quota.Changes("/"+call.Name()) || strings.HasPrefix(name, "Get") && quota.Changes("/"+call.Name()) {
			t.Errorf("%s is taken for what it is not", name)
		}
	}
}

// TestANewConnectionIsNeverRefused: another, idle for longest, ends in its place.
func TestANewConnectionIsNeverRefused(t *testing.T) {
	limits := quota.Limits{Connections: 2, AllConnections: 3}
	c := quota.NewConnections(func() quota.Limits { return limits })
	open := func(address string) *conn {
		made := &conn{address: address}
		c.Track(made, http.StateNew)
		c.Track(made, http.StateActive)
		return made
	}
	first, idle := open("10.0.0.1"), open("10.0.0.1")
	c.Track(idle, http.StateIdle)
	third := open("10.0.0.1")
	if first.closed || !idle.closed || third.closed {
		t.Errorf("idle ones go first: %t %t %t", first.closed, idle.closed, third.closed)
	}
	fourth := open("10.0.0.1")
	if !first.closed || third.closed || fourth.closed {
		t.Errorf("then the oldest: %t %t %t", first.closed, third.closed, fourth.closed)
	}
	other, last := open("10.0.0.2"), open("10.0.0.3")
	if other.closed || last.closed || !third.closed {
		t.Errorf("of all: %t %t %t", other.closed, last.closed, third.closed)
	}
	c.Track(fourth, http.StateClosed)
	if open("10.0.0.1"); other.closed || last.closed {
		t.Error("one that ended has no place")
	}
}

type conn struct {
	net.Conn
	address string
	closed  bool
}

func (c *conn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1}
}

func (c *conn) Close() error {
	c.closed = true
	return nil
}
