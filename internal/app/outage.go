package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// outage is the log of a process whose database may fail. That it does, is told
// once when it begins, and once with a count when it ends: what every partition
// would say of each attempt meanwhile is the same, and is told as debugging.
type outage struct {
	slog.Handler
	*absence
}

// absence is shared by all that log.
type absence struct {
	// root writes what is told of the outage itself.
	root  slog.Handler
	now   func() time.Time
	mutex sync.Mutex
	since time.Time
	// ended is when the last one did.
	ended time.Time
	// failures that were counted and not told.
	failures int
}

func newOutage(log *slog.Logger, now func() time.Time) outage {
	return outage{log.Handler(), &absence{root: log.Handler(), now: now}}
}

func (o outage) WithAttrs(attributes []slog.Attr) slog.Handler {
	return outage{o.Handler.WithAttrs(attributes), o.absence}
}

func (o outage) WithGroup(name string) slog.Handler {
	return outage{o.Handler.WithGroup(name), o.absence}
}

// Handle tells the record, unless it is one more of what an outage explains.
func (o outage) Handle(ctx context.Context, record slog.Record) error {
	var cause error
	if record.Level >= slog.LevelWarn {
		record.Attrs(func(attribute slog.Attr) bool {
			err, ok := attribute.Value.Any().(error)
			if ok && fault.Is(err, fault.Unavailable) {
				cause = err
			}
			return cause == nil
		})
	}
	if cause == nil || !o.explains(ctx, cause) {
		return o.Handler.Handle(ctx, record)
	}
	record.Level = slog.LevelDebug
	if !o.Enabled(ctx, record.Level) {
		return nil
	}
	return o.Handler.Handle(ctx, record)
}

// lateFailure is how long after an outage its last failures may still be logged: whoever met
// them may have stood still meanwhile. An outage that begins within that time is told by its
// next failure.
const lateFailure = time.Second

// explains counts a failure, if it is one of an outage. The first that says so
// itself begins one.
func (a *absence) explains(ctx context.Context, cause error) bool {
	if errors.Is(cause, store.ErrAway) {
		if a.isLate() {
			return true
		}
		a.begin(ctx, cause)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.since.IsZero() {
		return false
	}
	a.failures++
	return true
}

// isLate reports whether a failure comes so soon after an outage that it is one of that.
func (a *absence) isLate() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.since.IsZero() && !a.ended.IsZero() && a.now().Sub(a.ended).Abs() < lateFailure
}

func (a *absence) begin(ctx context.Context, cause error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.since.IsZero() {
		a.since = a.now()
		a.tell(ctx, slog.LevelError, "the database cannot be used: nothing is pushed here until it can, and another replica takes over if it can use it", slog.Any("error", cause))
	}
}

// lasting is since when it lasts; zero: there is none.
func (a *absence) lasting() time.Time {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.since
}

// end is called when a lease was renewed.
func (a *absence) end(ctx context.Context) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.since.IsZero() {
		return
	}
	a.tell(ctx, slog.LevelWarn, "the database can be used again", slog.Duration("after", a.now().Sub(a.since)), slog.Int("failures", a.failures))
	a.since, a.ended, a.failures = time.Time{}, a.now(), 0
}

func (a *absence) tell(ctx context.Context, level slog.Level, message string, attributes ...slog.Attr) {
	if !a.root.Enabled(ctx, level) {
		return
	}
	record := slog.NewRecord(a.now(), level, message, 0)
	record.AddAttrs(attributes...)
	_ = a.root.Handle(ctx, record)
}
