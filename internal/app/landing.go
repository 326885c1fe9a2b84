package app

import (
	"context"
	"sync"

	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source/fetch"
)

// landings brings what delivery and rollouts decide into the documents of a partition that lie in
// repositories.
type landings struct {
	app     *App
	runtime loop.Runtime

	lock sync.Mutex
	// revisions that documents had last.
	revisions map[string]string
}

var _ landing.Repositories = (*landings)(nil)

// lands is who brings values into repositories; nil: nobody, as where what lies outside is replaced.
func (a *App) lands(runtime loop.Runtime) landing.Repositories {
	if a.options.Parts.Outside != nil || a.options.Parts.Plugins != nil {
		return nil
	}
	return &landings{app: a, runtime: runtime, revisions: map[string]string{}}
}

// find opens a document.
func (l *landings) find(ctx context.Context, partition intent.PartitionID, name string) (*writing, error) {
	p, err := l.app.store.Partition(ctx, partition)
	if err != nil {
		return nil, err
	}
	return l.app.written.find(ctx, p, name)
}

// Read implements landing.Repositories. Where the document changed, the partition's sources are
// looked at as well.
func (l *landings) Read(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error) {
	w, err := l.find(ctx, partition, name)
	if err != nil {
		return document.Document{}, err
	}
	d, err := w.Read(ctx, "")
	if err != nil {
		return d, err
	}
	l.lock.Lock()
	previous := l.revisions[name]
	l.revisions[name] = d.Revision.ID
	l.lock.Unlock()
	if previous != "" && previous != d.Revision.ID {
		w.hint(context.WithoutCancel(ctx))
	}
	return d, nil
}

// Land implements landing.Repositories.
func (l *landings) Land(ctx context.Context, partition intent.PartitionID, name string, asked landing.Landing) (answer landing.Request, err error) {
	w, err := l.find(ctx, partition, name)
	if err != nil {
		return answer, err
	}
	if asked.Host == "" {
		_, err = w.Edit(ctx, asked.Edit, asked.Actor)
		return answer, err
	}
	proposals, err := l.proposals(partition, w, asked.Host)
	if err != nil {
		return answer, err
	}
	var request githost.Request
	if asked.Request != 0 {
		request, err = proposals.Follow(ctx, asked.Request)
	} else {
		request, err = proposals.Propose(ctx, asked.Key, asked.Edit, asked.Actor)
	}
	answer.PullRequest = intent.PullRequest{Number: request.Number, Link: request.Link}
	answer.Closed, answer.Merged = request.Progress == githost.Closed, request.Progress == githost.Merged
	return answer, err
}

// Withdraw implements landing.Repositories.
func (l *landings) Withdraw(ctx context.Context, partition intent.PartitionID, name string, asked landing.Landing) error {
	if asked.Host == "" {
		return nil
	}
	w, err := l.find(ctx, partition, name)
	if err != nil {
		return err
	}
	proposals, err := l.proposals(partition, w, asked.Host)
	if err != nil {
		return err
	}
	return proposals.Withdraw(ctx, asked.Key)
}

// Includes implements landing.Repositories.
func (l *landings) Includes(ctx context.Context, partition intent.PartitionID, name, commit, ancestor string) (bool, error) {
	w, err := l.find(ctx, partition, name)
	if err != nil {
		return false, err
	}
	return w.Includes(ctx, commit, ancestor)
}

// At implements landing.Repositories.
func (l *landings) At(ctx context.Context, partition intent.PartitionID, name, commit string) (document.Document, error) {
	w, err := l.find(ctx, partition, name)
	if err != nil {
		return document.Document{}, err
	}
	return w.At(ctx, commit)
}

// Since implements landing.Repositories.
func (l *landings) Since(ctx context.Context, partition intent.PartitionID, name, until, after string) ([]document.Revision, error) {
	w, err := l.find(ctx, partition, name)
	if err != nil {
		return nil, err
	}
	return w.Since(ctx, until, after)
}

func (l *landings) proposals(partition intent.PartitionID, w *writing, name string) (*fetch.Proposals, error) {
	host, err := l.app.elsewhere.options(l.app.options).GitHost(partition, name, l.runtime)
	if err != nil {
		return nil, err
	}
	return &fetch.Proposals{Writing: w.Writing, Host: host}, nil
}
