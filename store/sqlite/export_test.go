package sqlite

// RowsWritten counts the rows that the writer changed, for benchmarks and for
// tests of what a change costs.
func (s *Store) RowsWritten() int64 { return s.writer.rows.Load() }
