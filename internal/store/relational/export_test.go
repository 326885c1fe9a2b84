package relational

import (
	"context"
	"os"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// LimitNames bounds the bytes of asset ids that are kept for searches.
func (s *Store) LimitNames(most int) { s.names.most = most }

// NameBytes is how many are kept.
func (s *Store) NameBytes() int { return s.names.bytes }

// RowsWritten counts the rows that the writer changed, for benchmarks and for
// tests of what a change costs. Only SQLite tells.
func (s *Store) RowsWritten() (total int64) {
	_ = s.write(context.Background(), "counting", func(t *transaction) error {
		_, err := t.one("SELECT total_changes()", nil, &total)
		return err
	})
	return total
}

// Halt has the writer wait, and returns what ends that. What is written
// meanwhile waits in its queue.
func (s *Store) Halt() (goOn func()) {
	reached, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.write(context.Background(), "halting", func(*transaction) error {
			close(reached)
			<-release
			return nil
		})
	}()
	<-reached
	return func() { close(release) }
}

// RefuseCutOff is a write that is refused at the moment in which its connection
// is lost.
func (s *Store) RefuseCutOff(refusal error) error {
	return s.write(context.Background(), "being cut off", func(t *transaction) error {
		if err := t.writer.conn.Close(); err != nil {
			return err
		}
		return refusal
	})
}

// SpoilWitness lets no write to the witness succeed, until it is mended.
func (s *Store) SpoilWitness() (mend func()) {
	replace := func(file *os.File) (before *os.File) {
		_ = s.write(context.Background(), "replacing the witness", func(t *transaction) error {
			before, t.writer.witness.file = t.writer.witness.file, file
			return nil
		})
		return before
	}
	readOnly, err := os.Open(os.DevNull)
	if err != nil {
		panic(err)
	}
	whole := replace(readOnly)
	return func() { replace(whole).Close() }
}

// WriteWith writes nothing, by work that holds a value.
func (s *Store) WriteWith(value *[1 << 16]byte) error {
	return s.write(context.Background(), "holding a value", func(*transaction) error {
		value[0]++
		return nil
	})
}

// Queued is how many writes wait.
func (s *Store) Queued() int {
	s.writer.mutex.Lock()
	defer s.writer.mutex.Unlock()
	return len(s.writer.queue)
}

// Statements whose plans are tested.
const (
	FewChanges, ManyChanges = fewChanges, manyChanges
	CountChanges            = countChanges
	ChangedBuckets          = changedBuckets
	MembersOfBucket         = membersOfBucket
	RowsOfAsset             = rowsOfAsset
	FieldsOfAsset           = fieldsOfAsset
	DiscardFields           = discardFields
	ReopenFields            = reopenFields
	CollectFields           = collectFields
	SearchFields            = searchFields
	ListOrphans             = listOrphans
	CountOrphans            = countOrphans
	MarkAdrift              = markAdrift
)

// EdgesOf is the statement that reads edges by an end of theirs.
func EdgesOf(end string) string { return edgesOf(end) }

// Members is the statement that lists members by a filter.
func Members(filter store.AssetFilter) string {
	text, _ := membersBy(intent.IncarnationID{}, filter)
	return text
}

// Incarnations is the statement that finds one.
func Incarnations(lookup store.Lookup) string {
	text, _ := incarnationBy("shop", lookup)
	return text
}

// IdleClaims is the statement that lists claims without an asset.
func IdleClaims() string { return idleClaims }

// KeepLess bounds what is kept of the changes of a document.
func (s *Store) KeepLess(revisions uint64, bytes int64) {
	s.mostRevisions, s.mostHistory = revisions, bytes
}

// SpillLess bounds what is kept of blobs that assets name.
func (s *Store) SpillLess(bytes int64) { s.mostSpilled = bytes }

// JudgeLess bounds the bytes of the records of validations.
func (s *Store) JudgeLess(bytes int64) { s.mostJudged = bytes }

// Statements of groups, for tests of how they are carried out.
const (
	ServicesAfter  = servicesAfter
	SurveyService  = surveyService
	SurveyAsking   = surveyAsking
	ServicePushes  = surveyServicePushes
	CountGroups    = countGroups
	CountInstance  = countInstance
	CountUnseen    = countUnseen
	CountUnhealthy = countUnhealthy
	FieldsOfGroup  = fieldsOfGroup
)

func ReportsBy(filter store.ReportFilter) string {
	text, _ := reportsBy("", filter)
	return text
}

// WorkflowRuns is the statement of Store.WorkflowRuns.
func WorkflowRuns(filter store.WorkflowFilter) string {
	text, _ := runsBy("", filter)
	return text
}
