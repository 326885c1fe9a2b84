package relational

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/store"
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
	// undoneRevision is the revision that is undone, base the one that must be the newest; 0:
	// any may be.
	undoneRevision, base uint64
	reason               string
	actor                intent.Actor
	// payload is the rest of what is asked for, by which a repetition is known.
	payload []byte
	// paths that it is about; nil: all.
	paths []string
	// next is the content that it makes of what there is; nil: it is deleted.
	next func(t *transaction, now documentRow) ([]byte, error)
	// lease under which an actor of the partition changes it, by what it read at a
	// revision of the partition; nil: a caller does. What the change rests on may be of any
	// revision if atAnyRevision.
	lease         *store.Lease
	revision      uint64
	atAnyRevision bool
	// creates: an edit makes the document where there is none.
	creates bool
	// rests is asked in the transaction whether what the change rests on is as it was, and then
	// is done in it after the change; nil: nothing is.
	rests func(t *transaction) error
	then  func(t *transaction, result document.Document) error
	// repeats is called in place of then where the very same change was made before; nil:
	// nothing is.
	repeats func(t *transaction, result document.Document) error
	// isPreviews: it is the previewer that changes a document of previews.
	isPreviews bool
	// unlessStopped: the change is refused while the partition is stopped (S18).
	unlessStopped bool
}

// CreateDocument makes a document. One that was deleted is made anew.
func (s *Store) CreateDocument(ctx context.Context, partition intent.PartitionID, name string, content []byte, reason string, actor intent.Actor) (document.Document, error) {
	content, err := document.Canonicalize(content)
	if err != nil {
		return document.Document{}, err
	}
	c := changing{store: s, attempt: "creating", partition: partition, name: name, kind: document.Created, reason: reason, actor: actor, payload: content}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.content != nil {
			return nil, fault.New(fault.Conflict, "%s: it is there already, at revision %d", c.describe(), now.revision).
				WithHint("edit it: lehr document set %s /PATH=VALUE", name).WithCause(&document.Conflict{Revision: fmt.Sprint(now.revision)})
		}
		return content, nil
	}
	return c.run(ctx)
}

// EditDocument carries an edit out.
func (s *Store) EditDocument(ctx context.Context, partition intent.PartitionID, name string, edit document.Edit, actor intent.Actor) (document.Document, error) {
	c := changing{store: s, partition: partition, name: name, actor: actor}
	return c.edit(ctx, edit)
}

// SetFields carries the edit of a rollout out.
func (s *Store) SetFields(ctx context.Context, lease store.Lease, revision uint64, name string, edit document.Edit, actor intent.Actor) (document.Document, error) {
	c := changing{store: s, partition: lease.Partition, name: name, actor: actor, lease: &lease, revision: revision}
	return c.edit(ctx, edit)
}

// SaveOutputs carries an edit of the enforcer out.
func (s *Store) SaveOutputs(ctx context.Context, lease store.Lease, edit document.Edit) (document.Document, error) {
	c := changing{store: s, partition: lease.Partition, name: outputs.Document, actor: intent.OutputActor, lease: &lease, atAnyRevision: true, creates: true}
	return c.edit(ctx, edit)
}

// SavePreviews carries an edit of the previewer out.
func (s *Store) SavePreviews(ctx context.Context, lease store.Lease, rule string, edit document.Edit) (document.Document, error) {
	c := changing{store: s, partition: lease.Partition, name: branchpreview.Document(rule), actor: intent.PreviewActor, lease: &lease, atAnyRevision: true, creates: true, isPreviews: true}
	return c.edit(ctx, edit)
}

func (c *changing) edit(ctx context.Context, edit document.Edit) (document.Document, error) {
	payload, err := document.EncodeOperations(edit.Operations)
	if err != nil {
		return document.Document{}, err
	}
	c.attempt, c.kind, c.reason, c.payload, c.paths = "editing", document.Edited, edit.Reason, payload, edit.Paths()
	if edit.Back {
		c.kind = document.Returned
	}
	if edit.Base != "" || !c.creates {
		if c.base, err = revisionNumber(edit.Base); err != nil {
			return document.Document{}, err
		}
	}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.content == nil && c.creates {
			return document.Apply([]byte("{}"), edit.Operations)
		}
		if now.content == nil {
			return nil, c.missingError(t, now)
		}
		return document.Apply(now.content, edit.Operations)
	}
	return c.run(ctx)
}

// UndoDocument undoes a revision.
func (s *Store) UndoDocument(ctx context.Context, partition intent.PartitionID, name, revision, reason string, actor intent.Actor) (document.Document, error) {
	c := changing{store: s, attempt: "undoing revision " + revision + " of", partition: partition, name: name, kind: document.Undone, reason: reason, actor: actor}
	var err error
	if c.undoneRevision, err = revisionNumber(revision); err != nil {
		return document.Document{}, err
	}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.revision == 0 {
			return nil, c.missingError(t, now)
		}
		contentAfter, err := contentAt(t, partition, name, now, c.undoneRevision)
		if err != nil {
			return nil, err
		}
		changes, err := changesOf(t, partition, name, c.undoneRevision)
		if err != nil {
			return nil, err
		}
		contentBefore, err := document.Before(contentAfter, changes)
		if err != nil {
			return nil, err
		}
		reverted, touched, err := document.Revert(now.content, contentBefore, contentAfter)
		if err != nil {
			return nil, err
		}
		if len(touched) > 0 {
			summary, conflict, err := c.changesSince(t, now, c.undoneRevision, touched)
			if err != nil {
				return nil, err
			}
			return nil, fault.New(fault.Conflict, "%s: %s changed since: %s", c.describe(), document.List(touched), summary).
				WithHint("undo what came later first, or set the fields: lehr document history %s shows them", name).WithCause(conflict)
		}
		return reverted, nil
	}
	return c.run(ctx)
}

// DeleteDocument deletes a document; its revisions stay.
func (s *Store) DeleteDocument(ctx context.Context, partition intent.PartitionID, name, base, reason string, actor intent.Actor) (document.Document, error) {
	c := changing{store: s, attempt: "deleting", partition: partition, name: name, kind: document.Deleted, reason: reason, actor: actor}
	var err error
	if c.base, err = revisionNumber(base); err != nil {
		return document.Document{}, err
	}
	c.next = func(t *transaction, now documentRow) ([]byte, error) {
		if now.content == nil {
			return nil, c.missingError(t, now)
		}
		return nil, nil
	}
	return c.run(ctx)
}

// RecordCommit records what is about to be pushed to a repository.
func (s *Store) RecordCommit(ctx context.Context, partition intent.PartitionID, name, detail, reason string, actor intent.Actor) error {
	c := changing{store: s, attempt: "editing", partition: partition, name: name}
	if err := s.mustServe(c.describe()); err != nil {
		return err
	}
	return s.write(ctx, c.describe(), func(t *transaction) error {
		if err := t.authorize(intent.Editor, partition); err != nil {
			return err
		}
		if err := mustRegister(t, c.describe(), partition); err != nil {
			return err
		}
		t.audit(partition, t.now, actor, "commit-document", name, detail).because(reason)
		return nil
	})
}

func (c *changing) describe() string {
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
func (c *changing) run(ctx context.Context) (result document.Document, err error) {
	if err := document.CheckName(c.name); err != nil {
		return result, err
	}
	if branchpreview.IsDocument(c.name) && !c.isPreviews {
		// An entry that ends is the approval of removals (S9).
		return result, fault.New(fault.Denied, "%s: it is Lehr's own, and says which previews there are", c.describe()).
			WithHint("delete the branch or close the pull request to have a preview end; for configuration of yours choose another name")
	}
	if err := document.CheckReason(c.reason); err != nil {
		return result, err
	}
	if err := c.store.mustServe(c.describe()); err != nil {
		return result, err
	}
	err = c.store.write(ctx, c.describe(), func(t *transaction) error {
		if err := c.may(t); err != nil {
			return err
		}
		if err := mustRegister(t, c.describe(), c.partition); err != nil {
			return err
		}
		now, err := readDocument(t, c.partition, c.name)
		if err != nil {
			return err
		}
		next, err := c.decide(t, now)
		if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
			repeated, isRepeat, repeatedErr := c.repeated(t, now)
			if repeatedErr != nil {
				return repeatedErr
			}
			if isRepeat {
				if result = repeated; c.repeats == nil {
					return nil
				}
				return c.repeats(t, repeated)
			}
		}
		if err != nil {
			return err
		}
		if c.rests != nil {
			if err := c.rests(t); err != nil {
				return err
			}
		}
		if result, err = c.keep(t, now, next); err != nil || c.then == nil {
			return err
		}
		return c.then(t, result)
	})
	return result, err
}

// may is asked in the transaction: an actor must hold the lease (S4), a caller the
// role.
func (c *changing) may(t *transaction) error {
	if c.lease == nil {
		return t.authorize(intent.Editor, c.partition)
	}
	now, err := c.store.fence(t, *c.lease)
	if err == nil && c.unlessStopped && now.stopped {
		return fault.New(fault.Conflict, "%s: %s stopped by %s: %s", c.describe(), scopeName(now.stop.Partition), now.stop.Owner.Name, now.stop.Reason).
			WithHint("%s ends the stop", now.stop.Ending())
	}
	if err == nil && !c.atAnyRevision && now.revision != c.revision {
		return fault.New(fault.Conflict, "%s: head, a pin, an order or a stop changed since it was decided: revision %d is now %d", c.describe(), c.revision, now.revision)
	}
	return err
}

// decide returns what the document is to be.
func (c *changing) decide(t *transaction, now documentRow) ([]byte, error) {
	if c.base != 0 && now.revision != 0 && c.base != now.revision {
		if c.base > now.revision {
			return nil, fault.New(fault.Conflict, "%s: it was made on revision %d, and the newest is %d", c.describe(), c.base, now.revision).
				WithHint("look at what there is (lehr document get %s) and edit again", c.name).WithCause(&document.Conflict{Revision: fmt.Sprint(now.revision), More: true})
		}
		summary, conflict, err := c.changesSince(t, now, c.base, nil)
		if err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Conflict, "%s: it was made on revision %d, and the document is at %d: %s", c.describe(), c.base, now.revision, summary).
			WithHint("look at what changed (lehr document diff %s %d) and edit again, on revision %d", c.name, c.base, now.revision).WithCause(conflict)
	}
	return c.next(t, now)
}

// missingError is the error of a document that is not there, or not any more.
func (c *changing) missingError(q querier, now documentRow) error {
	return goneDocument(q, c.describe(), c.partition, c.name, now)
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
	detail := ""
	if len(last) > 0 {
		detail = fmt.Sprintf(" by %s at %s: %s", last[0].By.Name, last[0].At.Format("2006-01-02T15:04:05Z"), last[0].Reason)
	}
	return fault.New(fault.NotFound, "%s: it was deleted in revision %d%s", attempt, now.revision, detail).
		WithHint("bring it back: lehr document undo %s %d -p %s", name, now.revision, partition)
}

// mostTold is how many revisions a conflict tells of, of the newest mostSince.
const (
	mostTold  = 5
	mostSince = 1000
)

// changesSince tells who changed what after a revision; of paths, if there are any. The
// conflict has all that changed, and what of it the change is about: those paths, or
// else its own.
func (c *changing) changesSince(t *transaction, now documentRow, base uint64, paths []string) (string, *document.Conflict, error) {
	revisions, err := revisionsOf(t, c.partition, c.name, 0, mostSince)
	if err != nil {
		return "", nil, err
	}
	var summaries []string
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
		summaries = append(summaries, r.Told())
	}
	if len(summaries) > mostTold {
		summaries = append(summaries[:mostTold], fmt.Sprintf("and %d more", len(summaries)-mostTold))
	}
	if paths == nil {
		paths = c.paths
	}
	conflict, err := document.NewConflict(fmt.Sprint(now.revision), changed, paths)
	if err != nil {
		return "", nil, err
	}
	conflict.More = conflict.More || more || next > base+1 // What came first is forgotten.
	return strings.Join(summaries, "; "), conflict, nil
}

// digest of what is asked for.
func (c *changing) digest() intent.Digest {
	return intent.Sum("lehr.document.asked.v1", []byte(c.kind), []byte(fmt.Sprint(c.undoneRevision, " ", c.base)), []byte(c.actor.Name), []byte(c.reason), c.payload)
}

// repeated finds the revision that the very same call has made: the one behind
// its base, or, where it names none, the newest.
func (c *changing) repeated(t *transaction, now documentRow) (result document.Document, isRepeat bool, err error) {
	number := now.revision
	if c.base != 0 {
		number = c.base + 1
	}
	var storedDigest intent.Digest
	ok, err := t.one("SELECT asked FROM document_revision WHERE partition = $1 AND name = $2 AND revision = $3",
		[]any{string(c.partition), c.name, int64(number)}, digestColumn{&storedDigest})
	if err != nil || !ok || storedDigest != c.digest() {
		return result, false, err
	}
	content, err := contentAt(t, c.partition, c.name, now, number)
	if err != nil {
		return result, false, err
	}
	revisions, err := revisionsOf(t, c.partition, c.name, number+1, 1)
	if err != nil || len(revisions) == 0 {
		return result, false, err
	}
	return document.Document{Partition: c.partition, Name: c.name, Revision: revisions[0], Content: content, Size: len(content)}, true, nil
}

// keep writes the new revision.
func (c *changing) keep(t *transaction, now documentRow, content []byte) (result document.Document, err error) {
	changes, err := document.Compare(now.content, content)
	if err != nil {
		return result, err
	}
	if len(changes) == 0 {
		return result, fault.New(fault.Invalid, "%s: it changes nothing", c.describe()).WithHint("lehr document get %s shows what it is at revision %d", c.name, now.revision)
	}
	if now.revision == 0 {
		var count int
		if _, err := t.one("SELECT count(*) FROM document WHERE partition = $1", []any{string(c.partition)}, &count); err != nil {
			return result, err
		}
		if count >= document.MaxDocuments {
			return result, fault.New(fault.Invalid, "%s: the partition has %d documents, at most %d are kept", c.describe(), count, document.MaxDocuments).
				WithHint("put several into one, or keep some in git")
		}
	}
	r := document.Revision{ID: fmt.Sprint(now.revision + 1), Kind: c.kind, By: c.actor, At: t.now.UTC(), Reason: c.reason, Changes: changes}
	if c.undoneRevision != 0 {
		r.Of = fmt.Sprint(c.undoneRevision)
	}
	if t.caller != nil {
		r.From = t.caller.From
	}
	text, err := document.EncodeChanges(changes)
	if err != nil {
		return result, err
	}
	next := documentRow{revision: now.revision + 1, oldest: max(now.oldest, 1), history: now.history + int64(len(text)), content: content}
	digest := contentDigest(content)
	if _, err := t.exec(`INSERT INTO document_revision (partition, name, revision, kind, of, author, origin, caller, created, reason, asked, digest, changes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		string(c.partition), c.name, int64(next.revision), c.kind, int64(c.undoneRevision), r.By.Name, r.By.Origin, r.From, stamp(r.At), r.Reason,
		digestBytes(c.digest()), digestBytes(digest), text); err != nil {
		return result, err
	}
	forgot, err := c.forget(t, &next)
	if err != nil {
		return result, err
	}
	deleted := int64(0)
	if content == nil {
		deleted = 1
	}
	if _, err := t.exec(`INSERT INTO document (partition, name, revision, deleted, content, digest, oldest, history) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (partition, name) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, content = excluded.content,
		digest = excluded.digest, oldest = excluded.oldest, history = excluded.history`,
		string(c.partition), c.name, int64(next.revision), deleted, append([]byte{}, content...), digestBytes(digest), int64(next.oldest), next.history); err != nil {
		return result, err
	}
	t.audit(c.partition, t.now, c.actor, c.kind+"-document", c.name, "revision "+r.ID+": "+r.What()+forgot).because(c.reason)
	result = document.Document{Partition: c.partition, Name: c.name, Revision: r, Content: content, Size: len(content)}
	return result, t.tell(c.partition)
}

// forget removes the oldest changes beyond the limits, never the newest. What
// was built from a revision has its author, time and reason of its own, and the
// audit has all: nothing that lives refers to them (S17).
func (c *changing) forget(t *transaction, next *documentRow) (note string, err error) {
	oldest := next.oldest
	for next.oldest < next.revision && (next.revision-next.oldest >= c.store.mostRevisions || next.history > c.store.mostHistory) {
		var size int64
		key := []any{string(c.partition), c.name, int64(next.oldest)}
		if _, err := t.one("SELECT length(changes) FROM document_revision WHERE partition = $1 AND name = $2 AND revision = $3", key, &size); err != nil {
			return "", err
		}
		if _, err := t.exec("DELETE FROM document_revision WHERE partition = $1 AND name = $2 AND revision = $3", key...); err != nil {
			return "", err
		}
		next.oldest++
		next.history -= size
	}
	if next.oldest == oldest {
		return "", nil
	}
	return fmt.Sprintf("; forgot revisions %d to %d", oldest, next.oldest-1), nil
}
