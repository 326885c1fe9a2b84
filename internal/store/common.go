package store

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
)

// CommonPolicy is what whoever runs the server asks of many partitions, as it was read
// last.
type CommonPolicy struct {
	// Body is a lehr.intent.v1.CommonPolicy in canonical bytes; empty: nothing is asked.
	Body   []byte
	Digest intent.Digest
	// Place is the file, or where it lies in a repository, and Revision that of its source
	// which Body was read from.
	Place, Revision string
	// Since is when Body was stored.
	Since time.Time
	// Problems say why what the place holds now cannot be used; none: Body is what it
	// holds. ProblemsSince is when that began.
	Problems      []intent.Finding
	ProblemsSince time.Time
}

// Common is the one common policy of a store.
type Common interface {
	// SetCommonPolicy stores it. A changed Body raises the revision of all partitions in
	// the same transaction, so that no push is admitted which was decided under another one,
	// and is told in the audit; so are problems that begin or end. The same again
	// changes nothing. Since and ProblemsSince are set by the store. Only Lehr itself and the
	// local user may.
	SetCommonPolicy(ctx context.Context, policy CommonPolicy, actor intent.Actor) error
	// CommonPolicy is the zero value where there was none. It asks nothing of the caller.
	CommonPolicy(ctx context.Context) (CommonPolicy, error)
}
