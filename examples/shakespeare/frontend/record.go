package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "modernc.org/sqlite"
)

// recordsCluster is set in releases that say which cluster was searched, and
// so need the column "cluster" in the table "searches".
var recordsCluster = ""

// recorder keeps what people search for. A search never waits for it: when the
// database is slow, searches go unrecorded.
type recorder struct {
	db      *sql.DB
	cluster string
	queue   chan searched
	done    chan struct{}
}

// searched is one search to be kept.
type searched struct {
	at    time.Time
	words string
}

// openRecorder fails when the table is not as this release needs it: the
// schema has to be there before the program.
func openRecorder(ctx context.Context, path, cluster string) (*recorder, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rw&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	columns := "at, words"
	if recordsCluster != "" {
		columns += ", cluster"
	}
	rows, err := db.QueryContext(ctx, "SELECT "+columns+" FROM searches LIMIT 0")
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("the table searches of %s is not as this release needs it (%s): %w", path, columns, err)
	}
	rows.Close()
	r := &recorder{db: db, cluster: cluster, queue: make(chan searched, 1000), done: make(chan struct{})}
	go r.run()
	return r, nil
}

// record asks for a search to be kept.
func (r *recorder) record(words string) {
	if r == nil {
		return
	}
	select {
	case r.queue <- searched{time.Now(), words}:
	default:
	}
}

// close writes what is left, and ends.
func (r *recorder) close() {
	if r == nil {
		return
	}
	close(r.queue)
	<-r.done
	r.db.Close()
}

// run writes in groups, so that many programs can share one file.
func (r *recorder) run() {
	defer close(r.done)
	const pause = 200 * time.Millisecond
	for first := range r.queue {
		group := []searched{first}
		timer := time.After(pause)
	collect:
		for {
			select {
			case next, open := <-r.queue:
				if !open {
					break collect
				}
				group = append(group, next)
			case <-timer:
				break collect
			}
		}
		if err := r.write(group); err != nil {
			fmt.Println("frontend: cannot record searches:", err)
		}
	}
}

func (r *recorder) write(group []searched) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, one := range group {
		at := one.at.UTC().Format(time.RFC3339Nano)
		if recordsCluster != "" {
			_, err = tx.ExecContext(ctx, "INSERT INTO searches (at, words, cluster) VALUES (?, ?, ?)", at, one.words, r.cluster)
		} else {
			_, err = tx.ExecContext(ctx, "INSERT INTO searches (at, words) VALUES (?, ?)", at, one.words)
		}
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}
