package fetch

import (
	"context"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/versionlist"
)

// listPushed lists what programs put into a document by call. Who did is the author, where nobody
// says another.
func (l *look) listPushed(ctx context.Context) error {
	if l.options.Documents == nil {
		return fault.New(fault.Unavailable, "the document %s is held by a server, and none is asked here", l.remote.Pushed).
			WithHint("name the server with --server URL")
	}
	doc, err := l.options.Documents(ctx, l.options.Partition, l.remote.Pushed)
	if err != nil {
		return err
	}
	items, err := itemsOf(doc.Content, "")
	if err != nil {
		return fault.New(fault.Invalid, "the document %s is no list of versions: %w", l.remote.Pushed, err).
			WithHint(`lehr document set %s '/1.2.3={"digest": "sha256:…", "commit": "…"}'`, l.remote.Pushed)
	}
	for _, item := range items {
		l.addItem(item)
	}
	for i := range l.found.Refused {
		if a := &l.found.Refused[i]; a.Cause == versionlist.Unreadable {
			a.Reason += "; lehr document get " + l.remote.Pushed + " shows it"
		}
	}
	return nil
}
