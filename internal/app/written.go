package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
)

// repositories opens the documents that lie in repositories, on whichever
// replica is asked for them. Their mirrors are apart from those that are read.
type repositories struct {
	app *App

	mutex sync.Mutex
	desks map[intent.PartitionID]*desk
}

// desk has those of one partition, which no other waits for.
type desk struct {
	mutex sync.Mutex
	open  map[string]*writing
}

func (r *repositories) desk(partition intent.PartitionID) *desk {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.desks == nil {
		r.desks = map[intent.PartitionID]*desk{}
	}
	if r.desks[partition] == nil {
		r.desks[partition] = &desk{open: map[string]*writing{}}
	}
	return r.desks[partition]
}

// writing is one that is open, as the definition named it.
type writing struct {
	*fetch.Writing
	git source.Git
	// hint has the partition's sources looked at.
	hint func(context.Context)
}

func (w *writing) Create(ctx context.Context, content []byte, reason string, actor intent.Actor) (document.Document, error) {
	defer w.hint(context.WithoutCancel(ctx))
	return w.Writing.Create(ctx, content, reason, actor)
}

func (w *writing) Edit(ctx context.Context, edit document.Edit, actor intent.Actor) (document.Document, error) {
	defer w.hint(context.WithoutCancel(ctx))
	return w.Writing.Edit(ctx, edit, actor)
}

func (w *writing) Undo(ctx context.Context, revision, reason string, actor intent.Actor) (document.Document, error) {
	defer w.hint(context.WithoutCancel(ctx))
	return w.Writing.Undo(ctx, revision, reason, actor)
}

var _ server.Repositories = (*repositories)(nil)

// options of what is fetched to be edited, or to know what may be.
func (r *repositories) options(p store.Partition) fetch.Options {
	options := r.app.elsewhere.optionsOf(r.app.options, p.ID, p.Definition)
	options.Folder = documentsOf(options.Folder)
	options.Runtime, options.Mode = r.app.runtime, fetch.Once
	return options
}

// named are those that a partition's definition names.
func (r *repositories) named(ctx context.Context, p store.Partition) ([]prodspec.WrittenDocument, error) {
	own := r.desk(p.ID) // Whose definition may be fetched.
	own.mutex.Lock()
	defer own.mutex.Unlock()
	program := prodspec.Program{Definition: p.Definition, Partition: p.ID, Place: r.app.options.Parts.Sources, Elsewhere: r.options(p)}
	return prodspec.WrittenDocuments(ctx, program, r.app.runtime.Now())
}

// List implements server.Repositories.
func (r *repositories) List(ctx context.Context, p store.Partition) (list []document.Document, err error) {
	named, err := r.named(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, d := range named {
		opened, err := r.writing(p, d)
		if err != nil {
			return nil, err
		}
		doc, err := r.listed(ctx, opened)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			// The others are told all the same.
			doc = document.Document{Partition: p.ID, Name: d.Name, Place: opened.Place(), Revision: document.Revision{Reason: "cannot be read: " + err.Error()}}
		}
		doc.Content, doc.Revision.Changes = nil, nil
		list = append(list, doc)
	}
	return list, nil
}

// listed reads one, and does not wait for long.
func (r *repositories) listed(ctx context.Context, w *writing) (document.Document, error) {
	const most = 15 * time.Second
	ctx, cancel := loop.WithTimeout(ctx, r.app.runtime, most)
	defer cancel()
	return w.Read(ctx, "")
}

// Find implements server.Repositories.
func (r *repositories) Find(ctx context.Context, p store.Partition, name string) (server.Written, error) {
	found, err := r.find(ctx, p, name)
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (r *repositories) find(ctx context.Context, p store.Partition, name string) (*writing, error) {
	named, err := r.named(ctx, p)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(named, func(d prodspec.WrittenDocument) bool { return d.Name == name })
	if at < 0 {
		return nil, fault.New(fault.NotFound, "partition %s has no document %s in a repository", p.ID, name)
	}
	return r.writing(p, named[at])
}

// writing opens one, or returns the one that is open.
func (r *repositories) writing(p store.Partition, d prodspec.WrittenDocument) (*writing, error) {
	partition, own := p.ID, r.desk(p.ID)
	own.mutex.Lock()
	defer own.mutex.Unlock()
	previous := own.open[d.Name]
	if previous != nil && previous.git == d.Git {
		return previous, nil
	}
	opened, err := fetch.Write(r.options(p), d.Name, d.Git, func(ctx context.Context, name, detail, reason string, actor intent.Actor) error {
		return r.app.store.RecordCommit(ctx, partition, name, detail, reason, actor)
	})
	if err != nil {
		return nil, err
	}
	if previous != nil {
		go previous.Close() // It may be in use.
	}
	created := &writing{Writing: opened, git: d.Git, hint: func(ctx context.Context) { r.app.hint(ctx, partition) }}
	own.open[d.Name] = created
	return created, nil
}

func (r *repositories) close() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, own := range r.desks {
		for _, w := range own.open {
			w.Close()
		}
	}
	r.desks = nil
}
