package relational

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"lehr.dev/document"
	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// row is a document in its table.
type documentRow struct {
	revision, oldest uint64
	history          int64
	// content is nil when it is deleted.
	content []byte
}

// changing is a change of a document that somebody asks for.
type changing struct {
	store     *Store
	attempt   string
	partition intent.PartitionID
	name      string
	kind      string
	// of is the revision that is undone, base the one that must be the newest; 0:
	// any may be.
	of, base uint64
	reason   string
	by       intent.Actor
	// asked is the rest of what is asked for, by which a repetition is known.
	asked []byte
	// paths that it is about; nil: all.
	paths []string
	// next is the content that it makes of what there is; nil: it is deleted.
	next func(t *transaction, now documentRow) ([]byte, error)
	// lease under which an actor of the partition changes it, by what it read at a
	// revision of the partition; nil: a caller does.
	lease    *store.Lease
	revision uint64
}

// CreateDocument makes a document. One that was deleted is made anew.
func (s *Store) CreateDocument(ctx context.Context, partition intent.PartitionID, name string, content []byte, reason string, by intent.Actor) (document.Document, error) {
	content, err := document.Canonicalize(content)
	if err != nil {
		return document.Document{}, err
	}
	c := changing{store: s, attempt: "creating", partition: partition, name: name, kind: document.Created, reason: reason, by: by, asked: content}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.content != nil {
			return nil, fault.New(fault.Conflict, "%s: it is there already, at revision %d", c.said(), now.revision).
				WithHint("edit it: lehr document set %s /PATH=VALUE", name).WithCause(&document.Conflict{Revision: fmt.Sprint(now.revision)})
		}
		return content, nil
	}
	return c.run(ctx)
}

// EditDocument carries an edit out.
func (s *Store) EditDocument(ctx context.Context, partition intent.PartitionID, name string, edit document.Edit, by intent.Actor) (document.Document, error) {
	c := changing{store: s, partition: partition, name: name, by: by}
	return c.edit(ctx, edit)
}

// SetFields carries the edit of a rollout out.
func (s *Store) SetFields(ctx context.Context, lease store.Lease, revision uint64, name string, edit document.Edit, by intent.Actor) (document.Document, error) {
	c := changing{store: s, partition: lease.Partition, name: name, by: by, lease: &lease, revision: revision}
	return c.edit(ctx, edit)
}

func (c *changing) edit(ctx context.Context, edit document.Edit) (document.Document, error) {
	asked, err := document.EncodeOperations(edit.Operations)
	if err != nil {
		return document.Document{}, err
	}
	c.attempt, c.kind, c.reason, c.asked, c.paths = "editing", document.Edited, edit.Reason, asked, edit.Paths()
	if edit.Back {
		c.kind = document.Returned
	}
	if c.base, err = revisionNumber(edit.Base); err != nil {
		return document.Document{}, err
	}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.content == nil {
			return nil, c.gone(t, now)
		}
		return document.Apply(now.content, edit.Operations)
	}
	return c.run(ctx)
}

// UndoDocument undoes a revision.
func (s *Store) UndoDocument(ctx context.Context, partition intent.PartitionID, name, revision, reason string, by intent.Actor) (document.Document, error) {
	c := changing{store: s, attempt: "undoing revision " + revision + " of", partition: partition, name: name, kind: document.Undone, reason: reason, by: by}
	var err error
	if c.of, err = revisionNumber(revision); err != nil {
		return document.Document{}, err
	}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.revision == 0 {
			return nil, c.gone(t, now)
		}
		after, err := contentAt(t, partition, name, now, c.of)
		if err != nil {
			return nil, err
		}
		changes, err := changesOf(t, partition, name, c.of)
		if err != nil {
			return nil, err
		}
		before, err := document.Before(after, changes)
		if err != nil {
			return nil, err
		}
		reverted, touched, err := document.Revert(now.content, before, after)
		if err != nil {
			return nil, err
		}
		if len(touched) > 0 {
			told, conflict, err := c.since(t, now, c.of, touched)
			if err != nil {
				return nil, err
			}
			return nil, fault.New(fault.Conflict, "%s: %s changed since: %s", c.said(), document.List(touched), told).
				WithHint("undo what came later first, or set the fields: lehr document history %s shows them", name).WithCause(conflict)
		}
		return reverted, nil
	}
	return c.run(ctx)
}

// DeleteDocument deletes a document; its revisions stay.
func (s *Store) DeleteDocument(ctx context.Context, partition intent.PartitionID, name, base, reason string, by intent.Actor) (document.Document, error) {
	c := changing{store: s, attempt: "deleting", partition: partition, name: name, kind: document.Deleted, reason: reason, by: by}
	var err error
	if c.base, err = revisionNumber(base); err != nil {
		return document.Document{}, err
	}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.content == nil {
			return nil, c.gone(t, now)
		}
		return nil, nil
	}
	return c.run(ctx)
}

// RecordCommit records what is about to be pushed to a repository.
func (s *Store) RecordCommit(ctx context.Context, partition intent.PartitionID, name, detail, reason string, by intent.Actor) error {
	c := changing{store: s, attempt: "editing", partition: partition, name: name}
	if err := s.mustServe(c.said()); err != nil {
		return err
	}
	return s.write(ctx, c.said(), func(t *transaction) error {
		if err := t.authorize(intent.Editor, partition); err != nil {
			return err
		}
		if err := mustRegister(t, c.said(), partition); err != nil {
			return err
		}
		t.audit(partition, t.now, by, "commit-document", name, detail).because(reason)
		return nil
	})
}

func (c *changing) said() string {
	return fmt.Sprintf("%s document %s of partition %s", c.attempt, c.name, c.partition)
}

func revisionNumber(text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil || number == 0 {
		return 0, fault.New(fault.Invalid, "%.100q is no revision of a document that the store holds", text).
			WithHint("name the number that lehr document get NAME -o json shows as its revision")
	}
	return number, nil
}

// run changes the document in one transaction.
func (c *changing) run(ctx context.Context) (made document.Document, err error) {
	if err := document.CheckName(c.name); err != nil {
		return made, err
	}
	if err := document.CheckReason(c.reason); err != nil {
		return made, err
	}
	if err := c.store.mustServe(c.said()); err != nil {
		return made, err
	}
	err = c.store.write(ctx, c.said(), func(t *transaction) error {
		if err := c.may(t); err != nil {
			return err
		}
		if err := mustRegister(t, c.said(), c.partition); err != nil {
			return err
		}
		now, err := readDocument(t, c.partition, c.name)
		if err != nil {
			return err
		}
		next, err := c.decide(t, now)
		if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
			repeated, known, repeatedErr := c.repeated(t, now)
			if repeatedErr != nil {
				return repeatedErr
			}
			if known {
				made = repeated
				return nil
			}
		}
		if err != nil {
			return err
		}
		made, err = c.keep(t, now, next)
		return err
	})
	return made, err
}

// may is asked in the transaction: an actor must hold the lease (S4), a caller the
// role.
func (c *changing) may(t *transaction) error {
	if c.lease == nil {
		return t.authorize(intent.Editor, c.partition)
	}
	now, err := c.store.fence(t, *c.lease)
	if err == nil && now.revision != c.revision {
		return fault.New(fault.Conflict, "%s: head, a pin, an order or a stop changed since it was decided: revision %d is now %d", c.said(), c.revision, now.revision)
	}
	return err
}

// decide returns what the document is to be.
func (c *changing) decide(t *transaction, now documentRow) ([]byte, error) {
	if c.base != 0 && now.revision != 0 && c.base != now.revision {
		if c.base > now.revision {
			return nil, fault.New(fault.Conflict, "%s: it was made on revision %d, and the newest is %d", c.said(), c.base, now.revision).
				WithHint("look at what there is (lehr document get %s) and edit again", c.name).WithCause(&document.Conflict{Revision: fmt.Sprint(now.revision), More: true})
		}
		told, conflict, err := c.since(t, now, c.base, nil)
		if err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Conflict, "%s: it was made on revision %d, and the document is at %d: %s", c.said(), c.base, now.revision, told).
			WithHint("look at what changed (lehr document diff %s %d) and edit again, on revision %d", c.name, c.base, now.revision).WithCause(conflict)
	}
	return c.next(t, now)
}

// gone is the error of a document that is not there, or not any more.
func (c *changing) gone(q querier, now documentRow) error {
	return goneDocument(q, c.said(), c.partition, c.name, now)
}

func goneDocument(q querier, attempt string, partition intent.PartitionID, name string, now documentRow) error {
	if now.revision == 0 {
		return fault.New(fault.NotFound, "%s: there is none of that name", attempt).
			WithHint("make it: lehr document create %s -p %s --file %s", name, partition, document.File(name))
	}
	last, err := revisionsOf(q, partition, name, now.revision+1, 1)
	if err != nil {
		return err
	}
	why := ""
	if len(last) > 0 {
		why = fmt.Sprintf(" by %s at %s: %s", last[0].By.Name, last[0].At.Format("2006-01-02T15:04:05Z"), last[0].Reason)
	}
	return fault.New(fault.NotFound, "%s: it was deleted in revision %d%s", attempt, now.revision, why).
		WithHint("bring it back: lehr document undo %s %d -p %s", name, now.revision, partition)
}

// mostTold is how many revisions a conflict tells of, of the newest mostSince.
const (
	mostTold  = 5
	mostSince = 1000
)

// since tells who changed what after a revision; of paths, if there are any. The
// conflict has all that changed, and what of it the change is about: those paths, or
// else its own.
func (c *changing) since(t *transaction, now documentRow, base uint64, paths []string) (string, *document.Conflict, error) {
	revisions, err := revisionsOf(t, c.partition, c.name, 0, mostSince)
	if err != nil {
		return "", nil, err
	}
	var told []string
	var changed []document.Change
	next, more := now.revision+1, false
	for _, r := range revisions {
		number, err := revisionNumber(r.ID)
		if err != nil {
			return "", nil, err
		}
		if number <= base {
			break
		}
		next, more, changed = number, more || r.More, append(changed, r.Changes...)
		if paths != nil {
			touched, err := document.Touches(r.Changes, paths)
			if err != nil {
				return "", nil, err
			}
			if len(touched) == 0 && !r.More {
				continue
			}
			r.Changes = touched
		}
		told = append(told, r.Told())
	}
	if len(told) > mostTold {
		told = append(told[:mostTold], fmt.Sprintf("and %d more", len(told)-mostTold))
	}
	if paths == nil {
		paths = c.paths
	}
	conflict, err := document.NewConflict(fmt.Sprint(now.revision), changed, paths)
	if err != nil {
		return "", nil, err
	}
	conflict.More = conflict.More || more || next > base+1 // What came first is forgotten.
	return strings.Join(told, "; "), conflict, nil
}

// digest of what is asked for.
func (c *changing) digest() intent.Digest {
	return intent.Sum("lehr.document.asked.v1", []byte(c.kind), []byte(fmt.Sprint(c.of, " ", c.base)), []byte(c.by.Name), []byte(c.reason), c.asked)
}

// repeated finds the revision that the very same call has made: the one behind
// its base, or, where it names none, the newest.
func (c *changing) repeated(t *transaction, now documentRow) (made document.Document, known bool, err error) {
	number := now.revision
	if c.base != 0 {
		number = c.base + 1
	}
	var asked intent.Digest
	found, err := t.one("SELECT asked FROM document_revision WHERE partition = $1 AND name = $2 AND revision = $3",
		[]any{string(c.partition), c.name, int64(number)}, digestColumn{&asked})
	if err != nil || !found || asked != c.digest() {
		return made, false, err
	}
	content, err := contentAt(t, c.partition, c.name, now, number)
	if err != nil {
		return made, false, err
	}
	revisions, err := revisionsOf(t, c.partition, c.name, number+1, 1)
	if err != nil || len(revisions) == 0 {
		return made, false, err
	}
	return document.Document{Partition: c.partition, Name: c.name, Revision: revisions[0], Content: content, Size: len(content)}, true, nil
}

// keep writes the new revision.
func (c *changing) keep(t *transaction, now documentRow, content []byte) (made document.Document, err error) {
	changes, err := document.Compare(now.content, content)
	if err != nil {
		return made, err
	}
	if len(changes) == 0 {
		return made, fault.New(fault.Invalid, "%s: it changes nothing", c.said()).WithHint("lehr document get %s shows what it is at revision %d", c.name, now.revision)
	}
	if now.revision == 0 {
		var count int
		if _, err := t.one("SELECT count(*) FROM document WHERE partition = $1", []any{string(c.partition)}, &count); err != nil {
			return made, err
		}
		if count >= document.MaxDocuments {
			return made, fault.New(fault.Invalid, "%s: the partition has %d documents, at most %d are kept", c.said(), count, document.MaxDocuments).
				WithHint("put several into one, or keep some in git")
		}
	}
	r := document.Revision{ID: fmt.Sprint(now.revision + 1), Kind: c.kind, By: c.by, At: t.now.UTC(), Reason: c.reason, Changes: changes}
	if c.of != 0 {
		r.Of = fmt.Sprint(c.of)
	}
	if t.caller != nil {
		r.From = t.caller.From
	}
	text, err := document.EncodeChanges(changes)
	if err != nil {
		return made, err
	}
	next := documentRow{revision: now.revision + 1, oldest: max(now.oldest, 1), history: now.history + int64(len(text)), content: content}
	digest := contentDigest(content)
	if _, err := t.exec(`INSERT INTO document_revision (partition, name, revision, kind, of, author, origin, caller, created, reason, asked, digest, changes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		string(c.partition), c.name, int64(next.revision), c.kind, int64(c.of), r.By.Name, r.By.Origin, r.From, stamp(r.At), r.Reason,
		digestBytes(c.digest()), digestBytes(digest), text); err != nil {
		return made, err
	}
	forgot, err := c.forget(t, &next)
	if err != nil {
		return made, err
	}
	deleted := int64(0)
	if content == nil {
		deleted = 1
	}
	if _, err := t.exec(`INSERT INTO document (partition, name, revision, deleted, content, digest, oldest, history) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (partition, name) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, content = excluded.content,
		digest = excluded.digest, oldest = excluded.oldest, history = excluded.history`,
		string(c.partition), c.name, int64(next.revision), deleted, append([]byte{}, content...), digestBytes(digest), int64(next.oldest), next.history); err != nil {
		return made, err
	}
	t.audit(c.partition, t.now, c.by, c.kind+"-document", c.name, "revision "+r.ID+": "+r.What()+forgot).because(c.reason)
	made = document.Document{Partition: c.partition, Name: c.name, Revision: r, Content: content, Size: len(content)}
	return made, t.tell(c.partition)
}

// forget removes the oldest changes beyond the limits, never the newest. What
// was built from a revision has its author, time and reason of its own, and the
// audit has all: nothing that lives refers to them (S17).
func (c *changing) forget(t *transaction, next *documentRow) (told string, err error) {
	from := next.oldest
	for next.oldest < next.revision && (next.revision-next.oldest >= c.store.mostRevisions || next.history > c.store.mostHistory) {
		var size int64
		where := []any{string(c.partition), c.name, int64(next.oldest)}
		if _, err := t.one("SELECT length(changes) FROM document_revision WHERE partition = $1 AND name = $2 AND revision = $3", where, &size); err != nil {
			return "", err
		}
		if _, err := t.exec("DELETE FROM document_revision WHERE partition = $1 AND name = $2 AND revision = $3", where...); err != nil {
			return "", err
		}
		next.oldest++
		next.history -= size
	}
	if next.oldest == from {
		return "", nil
	}
	return fmt.Sprintf("; forgot revisions %d to %d", from, next.oldest-1), nil
}
