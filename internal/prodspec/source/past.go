package source

import (
	"context"

	"lehr.dev/internal/ground/intent"
)

// Change of a source: a commit, or a revision of a document.
type Change struct {
	Revision string
	Commit   intent.Commit
	// Earlier: it is the oldest that is known, and what it has may be older.
	Earlier bool
}

// Past is a folder that knows who changed what is in it. What it says is of the
// snapshot that was read last.
type Past interface {
	Folder
	// Changes lists the changes of each file since a state, the newest first; of all
	// that is known, when the state is empty. Files that were not changed since are
	// left out, and changes beyond a bound. Nil: it is not known what was since.
	Changes(ctx context.Context, since string) (map[string][]Change, error)
	// Lines says of each line of a file which change it is from.
	Lines(ctx context.Context, file string) ([]Change, error)
}
