package relational

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// restored is why the copy that a backup is may not be served as it is; then
// follow the time of the backup and, once its witness told, what it lacks.
const restored = "the store is a backup"

// restoredOnly reports whether that is all that is known against a store.
func restoredOnly(suspect string) bool {
	return strings.HasPrefix(suspect, restored) && !strings.Contains(suspect, "; ")
}

// The store counts what each writer commits, in the transaction that commits
// it, and each writer remembers how far it was: in memory, and in its witness.
// A store that lacks any of it, or that nobody knows, is suspect, and nothing
// is admitted or permitted until a person adopts it (S15). DESIGN: no number
// that a target is shown grows faster than the counter, so what was lost bounds
// what they may have been.

// selectHistory reads the row that counts; after it comes the database's place
// now.
func (s *Store) selectHistory() string {
	return "SELECT generation, timeline, place, suspect, since, lost, unsure, " + s.engine.Place() +
		" FROM history WHERE generation = (SELECT max(generation) FROM history)"
}

// chapter is the last row of history.
type chapter struct {
	generation      int64
	timeline, place string
	suspect         string
	since           time.Time
	lost            int64
	unsure          bool
	// currentPlace is the database's place now.
	currentPlace string
}

func (s *Store) chapter(q querier) (c chapter, ok bool, err error) {
	var since int64
	ok, err = q.one(s.selectHistory(), nil, &c.generation, &c.timeline, &c.place, &c.suspect, &since, &c.lost, &c.unsure, &c.currentPlace)
	c.since = unstamp(since)
	return c, ok, err
}

// trusted reports whether nothing stands against the store's being the newest
// that there was.
func (c chapter) trusted() bool { return c.suspect == "" && c.place == c.currentPlace }

// stop is the one that a store which is not trusted puts on all partitions.
func (c chapter) stop() intent.Stop {
	reason := c.suspect
	if reason == "" {
		reason = "the database is another than before, as after a failover or a restore, and not everybody who wrote to it has found all of that again"
	}
	return intent.Stop{
		Owner: intent.Actor{Name: "lehr", Origin: "server"}, Since: c.since, Adopt: true,
		Reason: reason,
	}
}

// suspicion is the stop of a store that is not trusted, or that could not be
// after a restore; nil otherwise.
func (s *Store) suspicion(q querier) (*intent.Stop, error) {
	c, ok, err := s.chapter(q)
	if err != nil || !ok || c.trusted() {
		return s.writer.unwitnessed.Load(), err
	}
	stop := c.stop()
	return &stop, nil
}

// History says which generation the store is of, and what stands against it.
func (s *Store) History(ctx context.Context) (h store.History, err error) {
	err = s.read(ctx, "reading the store's history", func(q querier) error {
		c, _, err := s.chapter(q)
		h = historyOf(c)
		return err
	})
	return h, err
}

// loss is what a writer misses in the store.
type loss struct {
	reason  string
	commits int64
	// lacks says it shortly of a store that is known to be a backup.
	lacks string
	// unsure: more may be missing than is known.
	unsure bool
}

func (l loss) Error() string { return l.reason }

// count counts the commit at hand, and finds everything that this writer
// committed before it. The mark is to be witnessed once the commit is durable.
// An error of type loss says that something is missing.
func (w *writer) count(t *transaction, requests int, ends bool) (mark, error) {
	var m mark
	var generation, endedFlag int64
	var place, currentPlace string
	m.Writer = w.name
	if ends {
		endedFlag = 1
	}
	ok, err := t.one(`INSERT INTO writer (generation, name, commits, place, ended)
		SELECT h.generation, $1, $2, `+w.engine.Place()+`, $3 FROM history h WHERE h.generation = (SELECT max(generation) FROM history)
		ON CONFLICT (generation, name) DO UPDATE SET commits = writer.commits + excluded.commits, ended = excluded.ended
		RETURNING generation, commits, place, `+w.engine.Place()+`,
			(SELECT h.timeline FROM history h ORDER BY h.generation DESC LIMIT 1)`,
		[]any{w.name, requests, endedFlag}, &generation, &m.Commits, &place, &currentPlace, &m.Timeline)
	if err != nil {
		return m, err
	}
	if !ok {
		if err := w.beginHistory(t); err != nil {
			return m, err
		}
		return w.count(t, requests, ends)
	}
	if err := w.miss(t, m, m.Commits-int64(requests)); err != nil {
		return m, err
	}
	if place != currentPlace && w.lastMark.Commits > 0 {
		return m, w.vouch(t, generation, currentPlace)
	}
	return m, nil
}

// beginHistory gives a new store its first row. The witness knows of it before,
// so that none is missed that there never was; but where there was another
// store before, that one is not forgotten.
func (w *writer) beginHistory(t *transaction) error {
	first := w.lastMark
	if first.Timeline == "" || first.Commits > 0 {
		first = mark{Timeline: rand.Text(), Writer: w.name}
	}
	if w.lastMark.Timeline == "" {
		if err := w.witness.raise(first); err != nil {
			return fault.New(fault.Unavailable, "writing the store's witness: %w", err)
		}
		w.lastMark = first
	}
	_, err := t.exec(insertChapter(w.engine), 1, first.Timeline, stamp(t.now))
	return err
}

func insertChapter(engine Engine) string {
	return `INSERT INTO history (generation, timeline, place, began, suspect, since, lost, unsure)
		VALUES ($1, $2, ` + engine.Place() + `, $3, '', 0, 0, 0)`
}

// miss compares what the store had before this commit with what is known.
func (w *writer) miss(t *transaction, m mark, storedCommits int64) error {
	lastMark := w.lastMark
	switch {
	case lastMark.Timeline == m.Timeline:
	case lastMark.Commits == 0 && w.demanding && storedCommits > 0:
		return loss{reason: "nobody knows whether the store is as new as it was: its witness is missing, as beside a copy", unsure: true}
	case lastMark.Commits == 0:
		return nil // Another replica began the history that this one was to begin.
	default:
		ok, err := t.one("SELECT coalesce(w.commits, 0) FROM history h LEFT JOIN writer w ON w.generation = h.generation AND w.name = $2 WHERE h.timeline = $1",
			[]any{lastMark.Timeline, lastMark.Writer}, &storedCommits)
		if err != nil {
			return err
		}
		if !ok {
			return loss{reason: "the store is another than was served here before: a copy that went its own way, or a new one", unsure: true}
		}
	}
	if storedCommits < lastMark.Commits {
		lacks := fmt.Sprintf("lost the last %d commits of %d", lastMark.Commits-storedCommits, lastMark.Commits)
		return loss{reason: "the store " + lacks + ": was it restored from a backup, or did a failover lose them?", lacks: "it " + lacks, commits: lastMark.Commits - storedCommits}
	}
	return nil
}

// vouch records that this writer found all of its own in the database's new
// place. Who is the last to do so accepts the place.
func (w *writer) vouch(t *transaction, generation int64, currentPlace string) error {
	if _, err := t.exec("UPDATE writer SET place = $3 WHERE generation = $1 AND name = $2", generation, w.name, currentPlace); err != nil {
		return err
	}
	var missing int64
	if _, err := t.one("SELECT count(*) FROM writer WHERE generation = $1 AND ended = 0 AND place <> $2",
		[]any{generation, currentPlace}, &missing); err != nil || missing > 0 {
		return err
	}
	accepted, err := t.exec("UPDATE history SET place = $2 WHERE generation = $1 AND place <> $2", generation, currentPlace)
	if err != nil || accepted == 0 {
		return err
	}
	return w.record(t, "accept", "the database moved to "+currentPlace+", and everybody who writes to it found all of that there")
}

// declare makes the store suspect.
func (w *writer) declare(l loss) error {
	if err := w.begin(); err != nil {
		return err
	}
	t := &transaction{writer: w, now: w.runtime.Now()}
	m, err := w.suspect(t, l)
	if err == nil {
		_, err = w.exec("COMMIT")
	}
	if err != nil {
		w.undo(err)
		return err
	}
	w.log.Error("nothing is pushed until the store is adopted: lehr store adopt --reason WHY", "why", l.reason)
	w.remember(m)
	return nil
}

func (w *writer) suspect(t *transaction, l loss) (m mark, err error) {
	var rows int64
	if _, err := t.one("SELECT count(*) FROM history", nil, &rows); err != nil {
		return m, err
	}
	if rows == 0 {
		if err := w.beginHistory(t); err != nil {
			return m, err
		}
	}
	var reason string
	var since int64
	var unsure bool
	if _, err := t.one("SELECT suspect, since, unsure FROM history WHERE generation = (SELECT max(generation) FROM history)", nil, &reason, &since, &unsure); err != nil {
		return m, err
	}
	switch {
	case reason == "":
		reason, since, unsure = l.reason, stamp(t.now), l.unsure
	case restoredOnly(reason):
		// A backup says only what it is; its witness says what it lacks.
		if l.commits > 0 {
			unsure = false
		}
		reason += "; " + cmp.Or(l.lacks, l.reason)
	}
	if _, err := t.exec("UPDATE history SET lost = lost + $1, unsure = $2, since = $3, suspect = $4 WHERE generation = (SELECT max(generation) FROM history)",
		l.commits, flag(unsure), since, reason); err != nil {
		return m, err
	}
	m.Writer = w.name
	// As far as it was known to be, so that nothing is missed twice.
	if _, err := t.one(`INSERT INTO writer (generation, name, commits, place, ended)
		SELECT h.generation, $1, 1, `+w.engine.Place()+`, 0 FROM history h WHERE h.generation = (SELECT max(generation) FROM history)
		ON CONFLICT (generation, name) DO UPDATE SET commits = writer.commits + 1 + $2
		RETURNING commits, (SELECT h.timeline FROM history h ORDER BY h.generation DESC LIMIT 1)`,
		[]any{w.name, l.commits}, &m.Commits, &m.Timeline); err != nil {
		return m, err
	}
	return m, w.record(t, "suspect", l.reason)
}

// record audits what the store itself found, and tells everybody.
func (w *writer) record(t *transaction, verb, detail string) error {
	t.audit("", t.now, intent.Actor{Name: "lehr", Origin: "server"}, verb, "store", detail)
	var records auditTrail
	records.append(t.records)
	if err := records.write(t); err != nil {
		return err
	}
	t.records = nil
	return t.bump("")
}

// remember is called when the commit is durable, and before anybody is told.
func (w *writer) remember(m mark) {
	w.lastMark = m
	w.memory.Store(&m)
	w.noteWitness(w.witness.raise(m))
}

// noteWitness stops pushes while the witness cannot be written: what is done
// meanwhile, and then lost, would be missed by nobody.
func (w *writer) noteWitness(err error) {
	previous := w.unwitnessed.Load()
	if (err == nil) == (previous == nil) {
		return
	}
	if err == nil {
		w.unwitnessed.Store(nil)
		w.log.Info("the store's witness is written again")
	} else {
		w.unwitnessed.Store(&intent.Stop{
			Owner: intent.Actor{Name: "lehr", Origin: "server"}, Since: w.runtime.Now(), Unwitnessed: true,
			Reason: fmt.Sprintf("the store's witness cannot be written, so a restore of the store might go unnoticed: %v; pushes go on by themselves once it can be", err),
		})
		w.log.Error("nothing is pushed while the store's witness cannot be written: is its disk full, or failing?", "error", err)
	}
	w.turned = true
}

// turn tells everybody that the store's own stop came or went.
func (w *writer) turn(t *transaction) error {
	if !w.turned {
		return nil
	}
	w.turned = false
	return t.bump("")
}

// Examine compares the store with what is known of it. Whoever serves it does
// so before anything else. A backup that was restored is stopped from then on.
func (s *Store) Examine(ctx context.Context) error {
	return s.write(ctx, "comparing the store with its witness", func(t *transaction) error {
		_, err := t.exec("UPDATE history SET since = $1 WHERE since = 0 AND suspect <> '' AND generation = (SELECT max(generation) FROM history)", stamp(t.now))
		return err
	})
}

// MarkRestored makes a copy of a store say that it is one: it is suspect until
// its witness says what it lacks, or a person adopts it.
func MarkRestored(ctx context.Context, engine Engine, db *sql.DB, now time.Time) error {
	// One that was never served since there is a history has none.
	_, err := db.ExecContext(ctx, insertChapter(engine)+" ON CONFLICT (generation) DO NOTHING", 1, rand.Text(), stamp(now))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `UPDATE history SET suspect = $1, since = 0, unsure = 1
		WHERE generation = (SELECT max(generation) FROM history) AND suspect = ''`,
		restored+" of "+now.UTC().Format("2006-01-02 15:04:05 UTC"))
	return err
}
