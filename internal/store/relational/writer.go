package relational

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/store"
)

const (
	// Bounds of one commit: callers waiting, and time spent on their work.
	maxBatch     = 256
	maxBatchTime = 25 * time.Millisecond
	// unseen is a number of news that no connection has: what was committed
	// before this one was made may be news.
	unseen = -1
	// tries of a transaction at least, and the pause after the first, which doubles.
	tries      = 10
	firstPause = 2 * time.Millisecond
	// conflictPeriod is how long a transaction is tried at least while those of
	// other processes come first. A count alone would not do: how often it loses
	// depends on how many others write, and on how long each commit takes.
	// conflictPause bounds the pause between two tries: who waits longer loses
	// more often.
	conflictPeriod = 15 * time.Second
	conflictPause  = 50 * time.Millisecond
	// pollPeriod is how often another process's commits are looked for.
	pollPeriod = 400 * time.Millisecond
)

// writer owns the one connection that writes. Callers hand it closures; as
// many as wait are run in one transaction, each under a savepoint of its own,
// and answered after the commit is durable (S14).
type writer struct {
	engine   Engine
	db       *sql.DB
	runtime  loop.Runtime
	log      *slog.Logger
	announce func(changed []intent.PartitionID)
	memory   *atomic.Pointer[mark]
	measure  *measure.Store

	mutex  sync.Mutex
	queue  []*request
	closed bool
	wake   chan struct{}
	done   chan struct{}

	// The rest belongs to the writer's goroutine.
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	// news is the number that was read last, and seen those of the partitions.
	news        int64
	newsNumbers map[intent.PartitionID]int64
	polled      time.Time
	// trouble is why the audit could not be written last.
	trouble atomic.Pointer[string]
	// unwitnessed is the stop while the witness cannot be written. turned: it
	// came or went, and nobody was told.
	unwitnessed atomic.Pointer[intent.Stop]
	turned      bool
	// elsewhere: a new connection may have led to another database, as after a
	// failover, and nothing was committed over it yet.
	elsewhere bool
	// blind: the last look failed, and it was said.
	blind bool
	// name is whose commits are counted, known how far they were, and witness
	// who else knows. demanding: a store with commits has a witness. passing: it
	// is not missed when it is gone.
	name               string
	lastMark           mark
	witness            *Witness
	demanding, passing bool
}

// request is one caller's work and, once done is closed, its outcome.
type request struct {
	work func(*transaction) error
	// caller causes it; nil: Lehr itself.
	caller *store.Caller
	done   chan struct{}
	err    error
}

func newWriter(o Options, announce func([]intent.PartitionID), memory *atomic.Pointer[mark]) *writer {
	w := &writer{
		engine: o.Engine, db: o.DB, runtime: o.Runtime, log: o.Log, announce: announce, memory: memory,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		witness: o.Witness, demanding: o.Serving && o.Witness != nil && o.Writer != "", passing: !o.Serving,
	}
	if w.measure = o.Measure; w.measure == nil {
		w.measure = &measure.Store{}
	}
	if o.Witness != nil {
		w.lastMark = o.Witness.lastMark
	}
	w.name = cmp.Or(o.Writer, w.lastMark.Writer, crand.Text())
	return w
}

// write runs work in a transaction and returns when it is durable. The words
// say what was attempted. A context that ends withdraws work not yet begun.
func (s *Store) write(ctx context.Context, attempt string, work func(*transaction) error) error {
	if err := ctx.Err(); err != nil {
		return s.engine.Failure(attempt, err)
	}
	r := &request{work: work, done: make(chan struct{})}
	if caller, ok := store.CallerOf(ctx); ok {
		r.caller = &caller
	}
	if !s.writer.enqueue(r) {
		return fault.New(fault.Unavailable, "%s: the store is closed", attempt)
	}
	if err := s.runtime.Wait(ctx, -1, r.done); err != nil {
		if s.writer.withdraw(r) {
			return s.engine.Failure(attempt, err)
		}
		// It is being written: the answer must tell what became of it.
		if err := s.runtime.Wait(context.WithoutCancel(ctx), -1, r.done); err != nil {
			return s.engine.Failure(attempt, err)
		}
	}
	if failed, bad := errors.AsType[unaudited](r.err); bad {
		return failed.failure(s.engine, attempt)
	}
	return s.engine.Failure(attempt, r.err)
}

func (w *writer) enqueue(r *request) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, r)
	w.signal()
	return true
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// withdraw takes back a request that the writer has not taken yet.
func (w *writer) withdraw(r *request) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i, waiting := range w.queue {
		if waiting == r {
			w.queue = append(w.queue[:i:i], w.queue[i+1:]...)
			return true
		}
	}
	return false
}

// take takes the oldest requests, as many as one commit may have.
func (w *writer) take() (batch []*request, closed bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	count := min(len(w.queue), maxBatch)
	batch = slices.Clone(w.queue[:count])
	w.queue = slices.Delete(w.queue, 0, count)
	return batch, w.closed
}

// giveBack puts requests before all that wait. Where there are none it keeps nothing: an
// empty end of a batch would hold all that was written.
func (w *writer) giveBack(batch []*request) {
	if len(batch) == 0 {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.queue = append(batch, w.queue...)
}

func (w *writer) close() {
	w.mutex.Lock()
	w.closed = true
	w.signal()
	w.mutex.Unlock()
	_ = w.runtime.Wait(context.Background(), -1, w.done)
}

func (w *writer) run() {
	defer close(w.done)
	defer w.disconnect()
	w.lookForOthers()
	for {
		batch, closed := w.take()
		if len(batch) == 0 && !closed && (w.elsewhere || w.turned) {
			// It finds there what this process committed, though nobody asks for
			// a commit: others may wait for that. Or all look at their stops again.
			batch = []*request{{work: w.turn, done: make(chan struct{})}}
		}
		switch {
		case len(batch) == 0 && closed:
			return
		case len(batch) == 0:
			period := time.Duration(-1)
			if w.engine.News() != "" {
				period = pollPeriod
			}
			w.noteWitness(w.witness.settle(w.runtime.Now()))
			_ = w.runtime.Wait(context.Background(), period, w.wake)
		default:
			w.runtime.Point("store: before a commit")
			w.elsewhere = false
			batch, changed := w.measured(batch)
			w.runtime.Point("store: after a commit")
			for _, r := range batch {
				close(r.done)
			}
			w.announce(changed)
		}
		w.lookForOthers()
	}
}

// measured commits, and tells how long it took.
func (w *writer) measured(batch []*request) (committed []*request, changed []intent.PartitionID) {
	startedAt := w.runtime.Now()
	w.measure.Step.Set(startedAt)
	committed, changed = w.commit(batch)
	w.measure.Step.Set(time.Time{})
	w.measure.Commits.Took(w.runtime.Now().Sub(startedAt))
	w.measure.Groups.Size(len(committed))
	return committed, changed
}

// commit runs requests in one transaction, again and again while others are in
// its way. Every request returned has its outcome set; the others wait again.
func (w *writer) commit(batch []*request) (committed []*request, changed []intent.PartitionID) {
	pause, startedAt := firstPause, w.runtime.Now()
	for try := 1; ; try++ {
		changed, count, broken := w.transact(batch)
		w.giveBack(batch[count:])
		if batch = batch[:count:count]; broken == nil {
			return batch, changed
		}
		if missing, ok := errors.AsType[loss](broken); ok {
			if broken = w.declare(missing); broken == nil && try < tries {
				continue
			}
		}
		lastTry := try >= tries
		if !w.engine.Lost(broken) {
			lastTry = lastTry && w.runtime.Now().Sub(startedAt) >= conflictPeriod
			pause = min(pause, conflictPause)
		}
		if lastTry || !w.again(broken) {
			for _, r := range batch {
				r.err = broken
			}
			w.measure.Failed.Add(1)
			return batch, nil
		}
		// A different part of the pause for each process, so that two that are
		// in each other's way are not again.
		_ = w.runtime.Wait(context.Background(), pause/2+rand.N(pause), nil)
		pause *= 2
	}
}

// transact runs the batch in one transaction, or as many of it as it has time
// for. Nothing joins it later: a transaction may not see what was committed
// after it began, and whoever asks then has been told of that. The error says
// that the transaction is lost, and nothing of it was done.
func (w *writer) transact(batch []*request) (changed []intent.PartitionID, count int, broken error) {
	if err := w.begin(); err != nil {
		return nil, len(batch), err
	}
	var records auditTrail
	started := w.runtime.Now()
	succeeded, ends := 0, w.passing
	for count < len(batch) && broken == nil && (count == 0 || w.runtime.Now().Sub(started) < maxBatchTime) {
		r := batch[count]
		t := &transaction{writer: w, now: started, caller: r.caller}
		r.err, broken = w.attempt(t, r.work)
		if r.err == nil {
			records.append(t.records)
			changed = append(changed, t.changed...)
			ends = ends || t.ends
			succeeded++
		}
		count++
	}
	var reached mark
	if broken == nil && succeeded > 0 {
		reached, broken = w.count(&transaction{writer: w, now: started}, succeeded, ends)
	}
	if broken == nil {
		broken = records.write(&transaction{writer: w, now: started})
	}
	if broken == nil {
		_, broken = w.exec("COMMIT")
		if broken != nil && w.engine.Lost(broken) && !w.engine.Undone(broken) {
			broken = unanswered{broken}
		}
	}
	w.noteAudit(&records, broken)
	switch {
	case broken != nil:
		w.undo(broken)
	case succeeded > 0:
		w.remember(reached)
	}
	return changed, count, broken
}

// unanswered: it is not known whether the commit came to be.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// again reports whether a transaction that was lost is to be run again.
func (w *writer) again(broken error) bool {
	_, unknown := errors.AsType[unanswered](broken)
	return !unknown && w.engine.Again(broken)
}

func (w *writer) undo(broken error) {
	if w.engine.Lost(broken) {
		w.disconnect()
		return
	}
	if _, err := w.exec("ROLLBACK"); err != nil && w.engine.Lost(err) {
		w.disconnect() // It also fails when SQLite has rolled back by itself.
	}
}

// attempt runs one caller's work under a savepoint. The second error says
// that the whole transaction is lost.
func (w *writer) attempt(t *transaction, work func(*transaction) error) (err, broken error) {
	if _, err := w.exec("SAVEPOINT caller"); err != nil {
		return err, err
	}
	if err := work(t); err != nil {
		if w.engine.Again(err) || w.engine.Lost(err) {
			return err, err
		}
		if _, undo := w.exec("ROLLBACK TO caller"); undo != nil {
			if w.engine.Lost(undo) || w.engine.Again(undo) {
				return err, undo // What this caller is refused for is no answer to the others.
			}
			return err, err // SQLite has rolled back for it, by itself.
		}
		_, broken := w.exec("RELEASE caller")
		return err, broken
	}
	_, err = w.exec("RELEASE caller")
	return err, err
}

func (w *writer) begin() error {
	if err := w.connect(); err != nil {
		return err
	}
	_, err := w.exec(w.engine.Begin())
	if err != nil && w.engine.Lost(err) {
		w.disconnect()
	}
	return err
}

func (w *writer) connect() error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(context.Background())
	if err != nil {
		return err
	}
	w.conn, w.prepared, w.news = conn, map[string]*sql.Stmt{}, unseen
	w.elsewhere = w.lastMark.Commits > 0
	if err := w.engine.Tune(context.Background(), conn); err != nil {
		w.disconnect()
		return err
	}
	return nil
}

func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	for _, statement := range w.prepared {
		statement.Close()
	}
	w.conn.Close()
	w.conn = nil
}

func (w *writer) statement(text string) (*sql.Stmt, error) {
	if statement, ok := w.prepared[text]; ok {
		return statement, nil
	}
	statement, err := w.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, fmt.Errorf("%w in %q", err, text)
	}
	w.prepared[text] = statement
	return statement, nil
}

func (w *writer) exec(text string, arguments ...any) (int64, error) {
	statement, err := w.statement(text)
	if err != nil {
		return 0, err
	}
	result, err := statement.Exec(arguments...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
