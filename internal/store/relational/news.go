package relational

import (
	"lehr.dev/internal/ground/intent"
)

// lookForOthers announces what another process committed.
func (w *writer) lookForOthers() {
	now := w.runtime.Now()
	// A clock that was set back says nothing of how long ago that was.
	if age := now.Sub(w.polled); w.engine.News() == "" || age >= 0 && age < pollPeriod/2 {
		return
	}
	w.polled = now
	news, err := w.readNews()
	switch {
	case err != nil && !w.blind:
		w.log.Warn("changes by other processes are seen late", "error", w.engine.Failure("looking whether another process writes to the store", err))
	case err == nil && news != w.news:
		var changed []intent.PartitionID
		if changed, err = w.whatChanged(); err == nil {
			w.announce(changed)
			w.news = news
		}
	}
	w.blind = err != nil
}

func (w *writer) readNews() (news int64, err error) {
	if err := w.connect(); err != nil {
		return 0, err
	}
	statement, err := w.statement(w.engine.News())
	if err == nil {
		err = statement.QueryRow().Scan(&news)
	}
	if err != nil && w.engine.Lost(err) {
		w.disconnect()
	}
	return news, err
}

// whatChanged lists the partitions that were changed since it was asked last. Of
// a database that tells of every commit, one that changed none of them may
// matter to all.
func (w *writer) whatChanged() (changed []intent.PartitionID, err error) {
	numbers := make(map[intent.PartitionID]int64, len(w.newsNumbers))
	t := &transaction{writer: w}
	err = t.queryEach("SELECT id, revision + news FROM partitions ORDER BY id", nil, func(row scanner) error {
		var id intent.PartitionID
		var number int64
		err := row.Scan(&id, &number)
		if numbers[id] = number; number != w.newsNumbers[id] {
			changed = append(changed, id)
		}
		return err
	})
	if err != nil && w.engine.Lost(err) {
		w.disconnect()
	}
	if err == nil {
		w.newsNumbers = numbers
	}
	if len(changed) == 0 && w.engine.News() != SharedNews {
		changed = []intent.PartitionID{""}
	}
	return changed, err
}
