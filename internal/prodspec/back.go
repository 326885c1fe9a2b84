package prodspec

import (
	"context"
	"strconv"
)

// mostUndone revisions of one document are looked at, to see whether all of them undo.
const mostUndone = 20

// goesBack reports whether all that the sources changed since what head covers are edits
// of documents of the store that undo earlier ones: what is published then goes back.
func (p *Pipeline) goesBack(ctx context.Context, r reading) (bool, error) {
	partition, err := p.options.Store.Partition(ctx, p.lease.Partition)
	if err != nil || partition.Head.IsZero() {
		return false, err
	}
	revisions := map[string]string{}
	for _, covered := range partition.Covered {
		revisions[covered.Source] = covered.Revision
	}
	undone := false
	for _, now := range r.revisions {
		previous, ok := revisions[now.Source]
		delete(revisions, now.Source)
		if ok && previous == now.Revision {
			continue
		}
		allUndo, err := p.revisionsGoBack(ctx, r, now.Source, previous, now.Revision)
		if err != nil || !ok || !allUndo {
			return false, err
		}
		undone = true
	}
	return undone && len(revisions) == 0, nil
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
