package sqlite

import "context"

// RowsWritten counts the rows that the writer changed, for benchmarks and for
// tests of what a change costs.
func (s *Store) RowsWritten() (total int64) {
	_ = s.write(context.Background(), "counting", func(t *transaction) error {
		_, err := t.one("SELECT total_changes()", nil, &total)
		return err
	})
	return total
}
