package fetch

import (
	"context"
	"fmt"
	"sync"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
)

// Writing is a document that lies in a repository: a file whose edits are
// commits, which change the fields that are named and no other byte. A commit is
// pushed only upon the one that it was made on; where somebody else was faster,
// it is made anew, unless they changed the same fields.
type Writing struct {
	partition intent.PartitionID
	name      string
	git       source.Git
	mirror    *mirror
	runtime   loop.Runtime
	record    Record

	// lock is held while the mirror is used.
	lock sync.Mutex
}

// Record keeps, before a commit is pushed, that somebody makes it; an error: they
// may not.
type Record func(ctx context.Context, name, detail, reason string, actor intent.Actor) error

// Write opens a document by the name of its source. It does no I/O. The folder
// of the options is for what is written alone.
func Write(o Options, name string, git source.Git, record Record) (*Writing, error) {
	if err := (source.Remote{Git: &git}).Check(); err != nil {
		return nil, err
	}
	w := &Writing{partition: o.Partition, name: name, git: git, record: record, runtime: o.Runtime}
	w.mirror = newMirror(o.Folder, git, o.guard())
	w.mirror.whole = true
	return w, nil
}

// Place is where it lies, for people.
func (w *Writing) Place() string {
	return fmt.Sprintf("%s of %s, branch %s", w.git.Document, w.git.URL, w.git.Branch)
}

func (w *Writing) describeAttempt(attempt string) string {
	return fmt.Sprintf("%s document %s of partition %s (%s)", attempt, w.name, w.partition, w.Place())
}

// Close ends what it runs.
func (w *Writing) Close() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.mirror.close()
}

// begin has the mirror for one call, and for so long only.
func (w *Writing) begin(ctx context.Context) (limited context.Context, release func()) {
	w.lock.Lock()
	limited, cancel := loop.WithTimeout(ctx, w.runtime, gitPatience)
	return limited, func() {
		cancel()
		// Between calls it may be swept.
		w.mirror.close()
		w.lock.Unlock()
	}
}

// wish is a change that somebody asks for.
type wish struct {
	attempt, kind, of, reason string
	actor                     intent.Actor
	// digest of what is asked for, by which a repetition is known. base is the
	// commit before which it was not made.
	digest, base string
	// next is the value that it makes of what there is.
	next func(ctx context.Context, now fileState) (any, error)
}

// Create adds the file.
func (w *Writing) Create(ctx context.Context, content []byte, reason string, actor intent.Actor) (document.Document, error) {
	value, err := document.Parse(content)
	if err != nil {
		return document.Document{}, err
	}
	wished := wish{attempt: "creating", kind: document.Created, reason: reason, actor: actor, digest: wishDigest(document.Created, actor, reason, string(content))}
	wished.next = func(_ context.Context, now fileState) (any, error) {
		if now.content != nil {
			return nil, fault.New(fault.Conflict, "%s: it is there already", w.describeAttempt("creating")).WithHint("edit it: lehr document set %s /PATH=VALUE", w.name).WithCause(&document.Conflict{Revision: now.commit})
		}
		return value, nil
	}
	return w.make(ctx, wished)
}

// Delete is nothing that is done from here.
func (w *Writing) Delete(context.Context, string, string, intent.Actor) (document.Document, error) {
	return document.Document{}, fault.New(fault.Invalid, "%s: it belongs to its repository", w.describeAttempt("deleting")).WithHint("remove the file there, with git rm")
}

// Edit changes fields. What others changed since its base is no hindrance,
// unless it is the same fields.
func (w *Writing) Edit(ctx context.Context, edit document.Edit, actor intent.Actor) (document.Document, error) {
	wished, err := w.wishOf(edit, actor)
	if err != nil {
		return document.Document{}, err
	}
	return w.make(ctx, wished)
}

// wishOf is an edit as it is asked for.
func (w *Writing) wishOf(edit document.Edit, actor intent.Actor) (wish, error) {
	encoded, err := document.EncodeOperations(edit.Operations)
	if err != nil {
		return wish{}, err
	}
	wished := wish{attempt: "editing", kind: document.Edited, reason: edit.Reason, actor: actor, base: edit.Base, digest: wishDigest(document.Edited, actor, edit.Reason, edit.Base, string(encoded))}
	wished.next = func(ctx context.Context, now fileState) (any, error) {
		if now.content == nil {
			return nil, w.absent("editing")
		}
		base, err := w.resolve(ctx, now.commit, edit.Base)
		if err != nil {
			return nil, err
		}
		baseState, err := w.at(ctx, base)
		if err != nil {
			return nil, err
		}
		changes, err := document.Compare(baseState.content, now.content)
		if err != nil {
			return nil, err
		}
		conflict, err := document.NewConflict(now.commit, changes, edit.Paths())
		if err != nil {
			return nil, err
		}
		if len(conflict.Conflicting) > 0 {
			return nil, w.conflict(ctx, "editing", base, conflict)
		}
		return applied(now, edit.Operations)
	}
	return wished, nil
}

func applied(now fileState, operations []document.Operation) (any, error) {
	content, err := document.Apply(now.content, operations)
	if err != nil {
		return nil, err
	}
	return document.Parse(content)
}

// Undo makes a commit with the values of before another.
func (w *Writing) Undo(ctx context.Context, revision, reason string, actor intent.Actor) (document.Document, error) {
	wished := wish{attempt: "undoing " + brief(revision, 12) + " of", kind: document.Undone, reason: reason, actor: actor, base: revision, digest: wishDigest(document.Undone, actor, reason, revision)}
	wished.next = func(ctx context.Context, now fileState) (any, error) {
		commit, err := w.resolve(ctx, now.commit, revision)
		if err != nil {
			return nil, err
		}
		entries, err := w.log(ctx, commit, 1)
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 || entries[0].ID != commit {
			return nil, fault.New(fault.Invalid, "%s: that commit did not change it", w.describeAttempt("undoing "+commit[:12]+" of")).WithHint("lehr document history %s lists those that did", w.name)
		}
		afterState, err := w.at(ctx, commit)
		if err != nil {
			return nil, err
		}
		var beforeState fileState
		if entries[0].parent != "" {
			if beforeState, err = w.at(ctx, entries[0].parent); err != nil {
				return nil, err
			}
		}
		if beforeState.content == nil || afterState.content == nil || now.content == nil {
			return nil, fault.New(fault.Invalid, "%s: a file that came or went is for git to bring back", w.describeAttempt("undoing "+commit[:12]+" of")).WithHint("use git revert in its repository")
		}
		reverted, touched, err := document.Revert(now.content, beforeState.content, afterState.content)
		if err != nil {
			return nil, err
		}
		if len(touched) > 0 {
			changes, err := document.Compare(afterState.content, now.content)
			if err != nil {
				return nil, err
			}
			conflict, err := document.NewConflict(now.commit, changes, touched)
			if err != nil {
				return nil, err
			}
			return nil, w.conflict(ctx, "undoing "+commit[:12]+" of", commit, conflict)
		}
		return document.Parse(reverted)
	}
	return w.make(ctx, wished)
}

// conflict says who changed the fields since.
func (w *Writing) conflict(ctx context.Context, attempt, base string, conflict *document.Conflict) error {
	entries, err := w.log(ctx, base+".."+conflict.Revision, 20)
	if err != nil {
		return err
	}
	paths := conflict.Conflicting
	var descriptions []string
	for _, l := range entries {
		r, err := w.change(ctx, l)
		if err != nil {
			return err
		}
		touched, err := document.Touches(r.Changes, paths)
		if err != nil {
			return err
		}
		if r.Changes = touched; len(touched) > 0 {
			descriptions = append(descriptions, r.Told())
		}
	}
	return fault.New(fault.Conflict, "%s: %s changed since %.12s: %s", w.describeAttempt(attempt), document.List(paths), base, document.List(descriptions)).
		WithHint("look at what changed (lehr document diff %s %.12s) and edit again, on the newest revision", w.name, base).WithCause(conflict)
}
