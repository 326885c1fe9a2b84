package secret

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Request says on whose behalf a secret is read. serve.Asset makes it.
type Request struct {
	Partition intent.PartitionID
	// Asset has the reference. It is for messages.
	Asset intent.AssetID
	// Blob returns a blob of the asset, which a SOPS document is; nil: none is to be had.
	Blob func(context.Context, *intentpb.ExternalRef) ([]byte, error)
	// Push that needs the value; nil: a look, which takes a value that was read a short
	// time ago.
	Push *Push
}

// Push is one push, with the secrets that it was planned with. Its methods are called
// from many goroutines.
type Push struct {
	// Since is when the push began. What was read before does not count.
	Since time.Time

	mutex   sync.Mutex
	planned map[string]Digest
	rotated []string
}

// NewPush begins one.
func NewPush(now time.Time) *Push { return &Push{Since: now, planned: map[string]Digest{}} }

// Bind notes the digest of a reference when it is read first, which is while the push
// is planned. Later another digest is ErrRotated.
func (p *Push) Bind(reference, name string, digest Digest) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	planned, ok := p.planned[reference]
	if ok && planned != digest {
		return fmt.Errorf("%w: %s", ErrRotated, name)
	}
	p.planned[reference] = digest
	return nil
}

// NoteRotation says that a secret has another value than when production was looked at
// last.
func (p *Push) NoteRotation(name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !slices.Contains(p.rotated, name) {
		p.rotated = append(p.rotated, name)
	}
}

// Rotated lists the secrets of NoteRotation, by name.
func (p *Push) Rotated() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.rotated)
}
