package relational

import (
	"bytes"
	"context"
	"fmt"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

func contentDigest(content []byte) intent.Digest {
	if content == nil {
		return intent.Digest{}
	}
	return intent.Sum("lehr.document.v1", content)
}

func digestBytes(d intent.Digest) []byte { return d[:] }

// readDocument reads the row; its revision is 0 when there is none.
func readDocument(q querier, partition intent.PartitionID, name string) (now documentRow, err error) {
	var deleted bool
	var content []byte
	var digest intent.Digest
	ok, err := q.one("SELECT revision, deleted, content, digest, oldest, history FROM document WHERE partition = $1 AND name = $2",
		[]any{string(partition), name}, &now.revision, &deleted, &content, digestColumn{&digest}, &now.oldest, &now.history)
	if err != nil || !ok {
		return documentRow{}, err
	}
	if !deleted {
		now.content = content
	}
	return now, intact(partition, name, now.revision, now.content, digest)
}

// intact: what is damaged is never served (S7).
func intact(partition intent.PartitionID, name string, revision uint64, content []byte, digest intent.Digest) error {
	if contentDigest(content) != digest {
		return fault.New(fault.Internal, "document %s of partition %s, revision %d, is not as it was written", name, partition, revision).
			WithHint("the store is damaged: restore it from a backup")
	}
	return nil
}

// contentAt is what a document was at a revision; nil: it was deleted.
func contentAt(q querier, partition intent.PartitionID, name string, now documentRow, revision uint64) ([]byte, error) {
	if revision > now.revision || revision < now.oldest {
		reason := fmt.Sprintf("the newest is %d", now.revision)
		if revision < now.oldest {
			reason = fmt.Sprintf("its history is kept from revision %d on", now.oldest)
		}
		return nil, fault.New(fault.NotFound, "document %s of partition %s has no revision %d: %s", name, partition, revision, reason).
			WithHint("lehr document history %s lists them", name)
	}
	content := now.content
	var digest intent.Digest
	if revision == now.revision {
		return content, nil
	}
	err := q.queryEach("SELECT revision, digest, changes FROM document_revision WHERE partition = $1 AND name = $2 AND revision >= $3 ORDER BY revision DESC",
		[]any{string(partition), name, int64(revision)}, func(row scanner) error {
			var number uint64
			var text []byte
			var changes []document.Change
			err := row.Scan(&number, digestColumn{&digest}, &text)
			if err != nil || number == revision {
				return err
			}
			if err := decode("changes of a document", string(text), &changes); err != nil {
				return err
			}
			content, err = document.Before(content, changes)
			return err
		})
	if err != nil {
		return nil, err
	}
	return content, intact(partition, name, revision, content, digest)
}

func changesOf(q querier, partition intent.PartitionID, name string, revision uint64) (changes []document.Change, err error) {
	var text []byte
	ok, err := q.one("SELECT changes FROM document_revision WHERE partition = $1 AND name = $2 AND revision = $3",
		[]any{string(partition), name, int64(revision)}, &text)
	if err != nil || !ok {
		return nil, err
	}
	return changes, decode("changes of a document", string(text), &changes)
}

// revisionsOf lists those before a number, the newest first; 0: all.
func revisionsOf(q querier, partition intent.PartitionID, name string, cursor uint64, limit int) (list []document.Revision, err error) {
	if cursor == 0 {
		cursor = uint64(open)
	}
	remaining := mostChanges
	err = q.queryEach(`SELECT revision, kind, of, author, origin, caller, created, reason, changes FROM document_revision
		WHERE partition = $1 AND name = $2 AND revision < $3 ORDER BY revision DESC LIMIT $4 + 0`,
		[]any{string(partition), name, int64(cursor), limit}, func(row scanner) error {
			var r document.Revision
			var number, undoneRevision uint64
			var created int64
			var text []byte
			if err := row.Scan(&number, &r.Kind, &undoneRevision, &r.By.Name, &r.By.Origin, &r.From, &created, &r.Reason, &text); err != nil {
				return err
			}
			r.ID, r.At = fmt.Sprint(number), unstamp(created)
			if undoneRevision != 0 {
				r.Of = fmt.Sprint(undoneRevision)
			}
			if remaining -= len(text); remaining < 0 && len(list) > 0 {
				r.More = true
			} else if err := decode("changes of a document", string(text), &r.Changes); err != nil {
				return err
			}
			list = append(list, r)
			return nil
		})
	return list, err
}

// mostChanges bounds the bytes of changes in one list of revisions.
const mostChanges = 2 << 20

// Document reads one as of a revision.
func (s *Store) Document(ctx context.Context, partition intent.PartitionID, name, revision string) (doc document.Document, err error) {
	attempt := fmt.Sprintf("reading document %s of partition %s", name, partition)
	if err := document.CheckName(name); err != nil {
		return doc, err
	}
	number := uint64(0)
	if revision != "" {
		if number, err = revisionNumber(revision); err != nil {
			return doc, err
		}
	}
	err = s.read(ctx, attempt, func(q querier) error {
		if err := mustRegister(q, attempt, partition); err != nil {
			return err
		}
		now, err := readDocument(q, partition, name)
		if err != nil {
			return err
		}
		if number == 0 || now.revision == 0 {
			number = now.revision
		}
		doc, err = documentAt(q, attempt, partition, name, now, number)
		return err
	})
	return doc, err
}

func documentAt(q querier, attempt string, partition intent.PartitionID, name string, now documentRow, number uint64) (doc document.Document, err error) {
	if now.revision == 0 {
		return doc, goneDocument(q, attempt, partition, name, now)
	}
	content, err := contentAt(q, partition, name, now, number)
	if err != nil {
		return doc, err
	}
	revisions, err := revisionsOf(q, partition, name, number+1, 1)
	if err != nil || len(revisions) == 0 {
		return doc, err
	}
	doc = document.Document{Partition: partition, Name: name, Revision: revisions[0], Content: content, Size: len(content)}
	if content == nil {
		return doc, goneDocument(q, attempt, partition, name, documentRow{revision: number})
	}
	return doc, nil
}

// ListDocuments lists those that are not deleted.
func (s *Store) ListDocuments(ctx context.Context, partition intent.PartitionID) (list []document.Document, err error) {
	attempt := fmt.Sprintf("listing the documents of partition %s", partition)
	err = s.read(ctx, attempt, func(q querier) error {
		if err := mustRegister(q, attempt, partition); err != nil {
			return err
		}
		return q.queryEach(`SELECT d.name, d.revision, length(d.content), r.kind, r.author, r.origin, r.caller, r.created, r.reason FROM document d
			JOIN document_revision r ON r.partition = d.partition AND r.name = d.name AND r.revision = d.revision
			WHERE d.partition = $1 AND d.deleted = 0 ORDER BY d.name`, []any{string(partition)}, func(row scanner) error {
			d := document.Document{Partition: partition}
			r := &d.Revision
			var created int64
			err := row.Scan(&d.Name, &r.ID, &d.Size, &r.Kind, &r.By.Name, &r.By.Origin, &r.From, &created, &r.Reason)
			r.At = unstamp(created)
			list = append(list, d)
			return err
		})
	})
	return list, err
}

// DocumentRevisions lists the newest first.
func (s *Store) DocumentRevisions(ctx context.Context, partition intent.PartitionID, name, cursor string, limit int) (list []document.Revision, err error) {
	attempt := fmt.Sprintf("listing the revisions of document %s of partition %s", name, partition)
	if err := document.CheckName(name); err != nil {
		return nil, err
	}
	number := uint64(0)
	if cursor != "" {
		if number, err = revisionNumber(cursor); err != nil {
			return nil, err
		}
	}
	err = s.read(ctx, attempt, func(q querier) error {
		if err := mustRegister(q, attempt, partition); err != nil {
			return err
		}
		list, err = revisionsOf(q, partition, name, number, pageSize(limit))
		if err == nil && len(list) == 0 && number == 0 {
			return goneDocument(q, attempt, partition, name, documentRow{})
		}
		return err
	})
	return list, err
}

// verifyDocuments recomputes what each document is and was.
func (v *verifier) verifyDocuments() error {
	type named struct {
		partition intent.PartitionID
		name      string
	}
	var all []named
	err := v.queryEach("SELECT partition, name FROM document ORDER BY partition, name", nil, func(row scanner) error {
		var n named
		err := row.Scan(&n.partition, &n.name)
		all = append(all, n)
		return err
	})
	if err != nil {
		return err
	}
	for _, n := range all {
		if err := v.verifyDocument(n.partition, n.name); err != nil {
			return damaged("%v", err)
		}
	}
	return nil
}

func (v *verifier) verifyDocument(partition intent.PartitionID, name string) error {
	now, err := readDocument(v, partition, name)
	if err != nil {
		return err
	}
	content, expected := now.content, now.revision
	err = v.queryEach("SELECT revision, digest, changes FROM document_revision WHERE partition = $1 AND name = $2 ORDER BY revision DESC",
		[]any{string(partition), name}, func(row scanner) error {
			var number uint64
			var digest intent.Digest
			var text []byte
			if err := row.Scan(&number, digestColumn{&digest}, &text); err != nil {
				return err
			}
			if number != expected {
				return fault.New(fault.Internal, "document %s of partition %s lacks revision %d", name, partition, expected)
			}
			expected--
			if err := intact(partition, name, number, content, digest); err != nil {
				return err
			}
			var changes []document.Change
			if err := decode("changes of a document", string(text), &changes); err != nil {
				return err
			}
			content, err = document.Before(content, changes)
			if again, compareErr := document.EncodeChanges(changes); compareErr != nil || !bytes.Equal(again, text) {
				return fault.New(fault.Internal, "the changes of revision %d of document %s of partition %s are not as they were written", number, name, partition)
			}
			return err
		})
	if err == nil && expected != now.oldest-1 {
		return fault.New(fault.Internal, "document %s of partition %s lacks revisions from %d on", name, partition, now.oldest)
	}
	v.Documents++
	return err
}
