// Package quota bounds what one caller may keep, have logged and hold open, so that
// whoever has any token cannot take from others what is theirs. All limits stand in one
// table, Limits, which the operator's file may change. What is too much is Exhausted,
// with when to ask again. Calls that only stop, hold, reject or revoke are refused by
// none. The server asks it of each call, and app of each connection; it decides nothing
// else.
package quota

import (
	"slices"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/operator"
)

// Limits of one caller, but for those that say otherwise. A caller is the owner of the
// token, whichever of theirs it is.
type Limits struct {
	// Calls under way at once, and Watches, or other streams, that are open.
	Calls   int `yaml:"calls"`
	Watches int `yaml:"watches"`
	// Changes within ten minutes: calls that have something kept.
	Changes int `yaml:"changes"`
	// Tokens that are kept of one owner, ended and revoked ones too. The store counts
	// them, and Sessions, for all replicas.
	Tokens int `yaml:"tokens"`
	// Sessions of one person, by logins, that are in force, or began within an hour.
	Sessions int `yaml:"sessions"`
	// Denials that are logged within a minute; of more only the number is.
	Denials int `yaml:"denials"`
	// Connections at once of one address, and AllConnections of all.
	Connections    int `yaml:"connections"`
	AllConnections int `yaml:"all_connections"`
	// BodySeconds that a request's body may take to arrive.
	BodySeconds int `yaml:"body_seconds"`
}

// DefaultLimits hold where the operator's file says nothing else.
func DefaultLimits() Limits {
	return Limits{
		Calls: 200, Watches: 100, Changes: 1000, Tokens: 200, Sessions: 1000, Denials: 30,
		Connections: 1000, AllConnections: 5000, BodySeconds: 60,
	}
}

// Row of the table of limits, for people.
type Row struct {
	Key, What string
	Default   int
}

// Table lists all limits.
func Table() []Row {
	d := DefaultLimits()
	return []Row{
		{"calls", "calls of a caller under way at once", d.Calls},
		{"watches", "watches and other streams of a caller at once", d.Watches},
		{"changes", "changes of a caller within 10 minutes", d.Changes},
		{"tokens", "tokens that are kept of an owner, ended ones too", d.Tokens},
		{"sessions", "sessions of a person, by logins, that have not ended, or began within an hour", d.Sessions},
		{"denials", "denials of a caller that are logged within a minute", d.Denials},
		{"connections", "connections of one address at once", d.Connections},
		{"all_connections", "connections at once", d.AllConnections},
		{"body_seconds", "seconds in which a request's body arrives", d.BodySeconds},
	}
}

// values of the limits, in the order of the table.
func (l *Limits) values() []*int {
	return []*int{&l.Calls, &l.Watches, &l.Changes, &l.Tokens, &l.Sessions, &l.Denials, &l.Connections, &l.AllConnections, &l.BodySeconds}
}

// Read reads the operator's file; no path: the defaults.
func Read(path string) (Limits, error) {
	limits := DefaultLimits()
	if path == "" {
		return limits, nil
	}
	file := struct {
		Version string `yaml:"quotas"`
		*Limits `yaml:",inline"`
	}{Limits: &limits}
	if err := operator.Read(path, operator.Kind{Name: "file of quotas", Key: "quotas", Flag: "quotas", Page: "docs/operate/operating.md"}, &file); err != nil {
		return Limits{}, err
	}
	for i, value := range limits.values() {
		if *value < 1 {
			return Limits{}, fault.New(fault.Invalid, "%s: %s: %d is less than 1", path, Table()[i].Key, *value).WithHint("leave it out for the default, %d", Table()[i].Default)
		}
	}
	return limits, nil
}

// Periods over which changes and denials are counted.
const (
	changesPeriod = 10 * time.Minute
	denialsPeriod = time.Minute
)

// Never refused, of all calls of the API: who stops, holds, rejects or revokes makes
// less happen.
var never = []string{
	"/lehr.api.v1.BrakeService/SetStop", "/lehr.api.v1.BrakeService/SetHold",
	"/lehr.api.v1.ApprovalService/RejectAsset", "/lehr.api.v1.AuthService/RevokeToken",
}

// Never reports whether no quota refuses a call.
func Never(procedure string) bool { return slices.Contains(never, procedure) }

// reading calls have nothing kept.
var reading = []string{"Get", "List", "Watch", "Why", "Who", "Can", "Compare", "Export", "Blame", "Plan", "Verify"}

// Changes reports whether a call has something kept.
func Changes(procedure string) bool {
	name := procedure[strings.LastIndexByte(procedure, '/')+1:]
	return !slices.ContainsFunc(reading, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Keeper counts. It may be used by many goroutines.
type Keeper struct {
	now func() time.Time

	mutex   sync.Mutex
	limits  Limits
	callers map[string]*counts
}

// counts of one caller.
type counts struct {
	calls, watches   int
	changes, denials window
}

// window counts within a period that begins with the first.
type window struct {
	began time.Time
	count int
}

// add one, and report whether it is within a limit; else when the period ends.
func (w *window) add(now time.Time, period time.Duration, most int) (excess int, again time.Duration) {
	// A clock that was set back begins another.
	if age := now.Sub(w.began); age >= period || age < 0 {
		*w = window{began: now}
	}
	if w.count++; w.count <= most {
		return 0, 0
	}
	return w.count - most, max(time.Second, w.began.Add(period).Sub(now))
}

// NewKeeper counts by a clock.
func NewKeeper(limits Limits, now func() time.Time) *Keeper {
	return &Keeper{now: now, limits: limits, callers: map[string]*counts{}}
}

// Use other limits from now on.
func (k *Keeper) Use(limits Limits) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.limits = limits
}

// Limits in force.
func (k *Keeper) Limits() Limits {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.limits
}

// of a caller; the mutex is held.
func (k *Keeper) of(caller string) *counts {
	if k.callers[caller] == nil {
		k.forget()
		k.callers[caller] = &counts{}
	}
	return k.callers[caller]
}

// mostCallers beyond which those are forgotten who did nothing for a while.
const mostCallers = 1000

func (k *Keeper) forget() {
	if len(k.callers) < mostCallers {
		return
	}
	now := k.now()
	for name, c := range k.callers {
		if c.calls+c.watches == 0 && now.Sub(c.changes.began) > changesPeriod && now.Sub(c.denials.began) > denialsPeriod {
			delete(k.callers, name)
		}
	}
}

// Enter lets a call begin; leave ends it. Exhausted: it may not now. Streams are watches.
func (k *Keeper) Enter(caller, procedure string, stream bool) (leave func(), err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	c := k.of(caller)
	under, most, what := &c.calls, k.limits.Calls, "calls"
	if stream {
		under, most, what = &c.watches, k.limits.Watches, "watches"
	}
	if !Never(procedure) {
		if *under >= most {
			return nil, exhausted(time.Second, "%d %s of yours are under way, which is the most at once", most, what).
				WithHint("end some, or ask again in a second; whoever runs the server may allow more: %s in the file of --quotas", what)
		}
		if Changes(procedure) {
			if excess, again := c.changes.add(k.now(), changesPeriod, k.limits.Changes); excess > 0 {
				return nil, exhausted(again, "you made %d changes within %s, which is the most", k.limits.Changes, changesPeriod).
					WithHint("ask again in %s; whoever runs the server may allow more: changes in the file of --quotas", again.Round(time.Second))
			}
		}
	}
	*under++
	return sync.OnceFunc(func() {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		*under--
	}), nil
}

// Denied counts a denial. It reports whether it is to be logged, and how many before it
// were not.
func (k *Keeper) Denied(caller string) (log bool, remaining int) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	c, now := k.of(caller), k.now()
	last := c.denials
	excess, _ := c.denials.add(now, denialsPeriod, k.limits.Denials)
	if c.denials.began != last.began {
		remaining = max(0, last.count-k.limits.Denials)
	}
	return excess == 0, remaining
}

func exhausted(again time.Duration, format string, arguments ...any) *fault.Error {
	err := fault.New(fault.Exhausted, format, arguments...)
	err.RetryAfter = again
	return err
}
