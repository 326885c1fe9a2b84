// Package landing writes values into documents that are files of repositories, by commits or by
// pull requests. Delivery and rollouts decide on the values. No transaction spans a store and a
// repository. So an actor first stores what it wants to land, and this package carries it out at
// most once, however often it is tried. The next visit shows the result. Visits to repositories run
// in the background; the actor never waits for them.
package landing

import (
	"context"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// Repositories reads and edits the documents of a partition that are files of repositories. It may
// take as long as a network does, and is called in the background.
type Repositories interface {
	// Read returns the newest revision. NotFound: the file is not there.
	Read(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error)
	// Land makes the commit of a landing, or opens its pull request. Repeated calls make nothing
	// twice. Conflict: somebody else set the field.
	Land(ctx context.Context, partition intent.PartitionID, name string, l Landing) (Request, error)
	// Withdraw closes the pull request of a landing where it is open.
	Withdraw(ctx context.Context, partition intent.PartitionID, name string, l Landing) error
	// Includes reports whether a commit has another one in its history.
	Includes(ctx context.Context, partition intent.PartitionID, name, commit, ancestor string) (bool, error)
	// At returns the document at a commit. NotFound: the document did not exist there, or the branch
	// does not have the commit.
	At(ctx context.Context, partition intent.PartitionID, name, commit string) (document.Document, error)
	// Since lists the revisions up to one that are not in the history of another, the newest first.
	Since(ctx context.Context, partition intent.PartitionID, name, until, after string) ([]document.Revision, error)
}

// Landing is an edit that an actor wants in a document of a repository.
type Landing struct {
	// ID identifies the landing within its actor. Owner names the environment or rollout that decided on it.
	ID, Owner string
	// Number distinguishes this request from earlier ones with the same ID.
	Number   uint64
	Document string
	// Key names the branch of the pull request, and Host the git host where it is opened. Without a
	// Host, the landing is a commit to the branch that is read. Request is the number of the pull
	// request, if it is known.
	Key, Host string
	Request   int
	// Withdraw: the actor does not want the edit any more, and its pull request is to be closed.
	Withdraw bool
	Edit     document.Edit
	Actor    intent.Actor
	// Decided is called right before the landing is carried out. It reports whether the facts of the
	// decision are unchanged, because no transaction covers the commit.
	Decided func(ctx context.Context) bool
}

// Request is a pull request and its state.
type Request struct {
	intent.PullRequest
	// Closed: people closed it without merging it. Merged: they merged it.
	Closed, Merged bool
}

// Outcome is the result of carrying out a landing.
type Outcome struct {
	// Number of the landing.
	Number uint64
	Request
	// Withdrawn: Withdraw was set, and the pull request is not open.
	Withdrawn bool
	Err       error
}
