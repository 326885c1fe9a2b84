package prodspec_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// cut is a store whose database is away while a build reads its cache or its
// documents, and there again when it would tell of it.
type cut struct {
	prodspec.Store
	cache, documents atomic.Bool
	// vain is how often a document was asked for while it was away.
	vain atomic.Int64
}

func unreachable(what string) error {
	return fault.New(fault.Unavailable, "reading %s: %w", what, store.ErrAway)
}

func (c *cut) GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error) {
	if kind == "generate" && c.cache.Load() {
		return nil, unreachable("a blob")
	}
	return c.Store.GetBlob(ctx, partition, kind, name)
}

func (c *cut) Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error) {
	if c.documents.Load() {
		c.vain.Add(1)
		return document.Document{}, unreachable("a document")
	}
	return c.Store.Document(ctx, partition, name, revision)
}

// Whatever a build was reading when the database went away: it is told as the
// database's failure, which others tell too, and not as one of generators or
// sources, which a person would look for in vain.
func TestADatabaseThatIsAwayIsNoSourcesFailure(t *testing.T) {
	for name, at := range map[string]func(*cut) *atomic.Bool{
		"the cache":  func(c *cut) *atomic.Bool { return &c.cache },
		"a document": func(c *cut) *atomic.Bool { return &c.documents },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t, "web"), (*cut)(nil)
			if name == "a document" {
				if testing.Short() {
					t.Skip("waits until sources are looked at again")
				}
				w = withKnobs(t)
			}
			w.through = func(s prodspec.Store) prodspec.Store { c = &cut{Store: s}; at(c).Store(true); return c }
			var told bytes.Buffer
			w.log = slog.New(slog.NewTextHandler(&told, nil))
			w.start()
			status := w.wait("unavailable", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable })
			if f := status.Findings[0]; f.Rule != "pipeline" || !strings.Contains(f.Message, store.ErrAway.Error()) {
				t.Errorf("finding %+v does not say that the database is away", f)
			}
			if _, err := w.store.CreateDocument(t.Context(), "shop", "tuning", []byte(tuning), "begun", person); err != nil {
				t.Fatal(err)
			}
			at(c).Store(false)
			w.served(1)
			// A document that is looked at in vain is used as it was, and nobody is
			// sent to look after it.
			at(c).Store(true)
			if name == "a document" {
				before := c.vain.Load()
				w.edit("1", "/clusters/a/version", `"2"`)
				w.wait("looked at in vain", func(s prodspec.Status) bool { return c.vain.Load() > before })
			}
			at(c).Store(false)
			if name == "a document" {
				w.served(2)
			}
			w.stop()
			// What is told has the error, by which an outage is told from others.
			if text := told.String(); strings.Count(text, "unavailable") != strings.Count(text, "error=") || strings.Contains(text, "cannot be read") {
				t.Errorf("it was told:\n%s", text)
			}
		})
	}
}
