package prodspec

import (
	"context"
	"slices"
	"strconv"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
)

// mostUndone revisions of one document are looked at, to see whether all of them undo.
const mostUndone = 20

// mostRestored assets are looked at, to see whether all of them get back what they had.
const mostRestored = 1000

// goesBack reports whether all that the sources changed since what head covers are edits
// of documents that undo earlier ones: what is published then goes back. The store knows of
// its own documents which edits undo. What a commit says of itself proves nothing, so of
// documents in git it is what comes of it that counts: each asset that changes gets back
// what it had before its last change.
func (p *Pipeline) goesBack(ctx context.Context, r reading, delta change) (bool, error) {
	partition, err := p.options.Store.Partition(ctx, p.lease.Partition)
	if err != nil || partition.Head.IsZero() {
		return false, err
	}
	revisions := map[string]string{}
	for _, covered := range partition.Covered {
		revisions[covered.Source] = covered.Revision
	}
	undone, inGit := false, false
	for _, now := range r.revisions {
		previous, ok := revisions[now.Source]
		delete(revisions, now.Source)
		if ok && previous == now.Revision {
			continue
		}
		if ok && isDocumentInGit(r, now.Source) {
			inGit = true
			continue
		}
		allUndo, err := p.revisionsGoBack(ctx, r, now.Source, previous, now.Revision)
		if err != nil || !ok || !allUndo {
			return false, err
		}
		undone = true
	}
	if len(revisions) > 0 || !inGit {
		return undone && len(revisions) == 0, nil
	}
	return p.restores(ctx, partition.Head, delta)
}

func isDocumentInGit(r reading, name string) bool {
	return slices.ContainsFunc(r.definition.Sources, func(s definition.Source) bool {
		return s.Name == name && s.Remote != nil && s.Remote.Git != nil && s.Remote.Git.Document != ""
	})
}

// restores reports whether each asset that changes gets back what it had before it changed
// last. What came by going back is no change that one goes back from: that would be the
// change anew.
func (p *Pipeline) restores(ctx context.Context, head intent.IncarnationID, delta change) (bool, error) {
	if len(delta.entries) == 0 || len(delta.entries) > mostRestored {
		return false, nil
	}
	came := map[intent.Sequence]bool{} // By going back.
	for _, entry := range delta.entries {
		current, exists, err := memberAt(ctx, p.options.Store, head, entry.Asset)
		if err != nil || !exists || entry.Removed || current.Since <= 1 {
			return false, err
		}
		before := intent.IncarnationID{Partition: head.Partition, Sequence: current.Since - 1}
		previous, existed, err := memberAt(ctx, p.options.Store, before, entry.Asset)
		if fault.Is(err, fault.NotFound) {
			return false, nil // It is collected.
		}
		if err != nil || !existed || previous.Effective != entry.Member.Effective {
			return false, err
		}
		rollback, ok := came[current.Since]
		if !ok {
			changed, err := p.options.Store.Incarnation(ctx, intent.IncarnationID{Partition: head.Partition, Sequence: current.Since})
			if err != nil && !fault.Is(err, fault.NotFound) {
				return false, err
			}
			rollback = err != nil || changed.Back
			came[current.Since] = rollback
		}
		if rollback {
			return false, nil
		}
	}
	return true, nil
}

// revisionsGoBack reports whether a source is a document of the store, and all its
// revisions after one, up to another, undo.
func (p *Pipeline) revisionsGoBack(ctx context.Context, r reading, source, previous, current string) (bool, error) {
	name := ""
	for _, s := range r.definition.Sources {
		if s.Name == source && s.Remote != nil {
			name = s.Remote.Document
		}
	}
	first, err := strconv.ParseUint(previous, 10, 63)
	last, lastErr := strconv.ParseUint(current, 10, 63)
	if name == "" || err != nil || lastErr != nil || last <= first || last-first > mostUndone {
		return false, nil
	}
	for revision := first + 1; revision <= last; revision++ {
		doc, err := p.options.Store.Document(ctx, p.lease.Partition, name, strconv.FormatUint(revision, 10))
		if err != nil || !doc.Revision.GoesBack() {
			return false, nil // What cannot be told is a change as any other: it keeps nothing from being served.
		}
	}
	return true, nil
}
