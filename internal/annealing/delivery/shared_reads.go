package delivery

import (
	"context"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// sharedReads is one look at an application: what several of its environments share is read once, and is the
// same for all of them.
type sharedReads struct {
	reader        *Reader
	home          store.Partition
	partitions    map[intent.PartitionID]foundPartition
	verifications map[intent.PartitionID][]intent.Verification
	documents     map[documentKey]foundDocument
	rollouts      map[intent.PartitionID][]intent.Rollout
	pins          map[intent.PartitionID][]intent.Pin
}

// foundPartition is one that was looked for; ok: it is there.
type foundPartition struct {
	partition store.Partition
	ok        bool
}

type documentKey struct {
	partition intent.PartitionID
	name      string
}

// foundDocument is one that was looked for; ok: it is there. Its content is not to be changed.
type foundDocument struct {
	revision string
	content  any
	ok       bool
}

func newSharedReads(r *Reader, home store.Partition) *sharedReads {
	return &sharedReads{
		reader: r, home: home, partitions: map[intent.PartitionID]foundPartition{home.ID: {home, true}}, verifications: map[intent.PartitionID][]intent.Verification{},
		documents: map[documentKey]foundDocument{}, rollouts: map[intent.PartitionID][]intent.Rollout{}, pins: map[intent.PartitionID][]intent.Pin{},
	}
}

// readOnce returns what is known under a key, or reads it and keeps it there.
func readOnce[K comparable, V any](known map[K]V, key K, read func() (V, error)) (V, error) {
	if value, ok := known[key]; ok {
		return value, nil
	}
	value, err := read()
	if err == nil {
		known[key] = value
	}
	return value, err
}

func (r *sharedReads) partition(ctx context.Context, id intent.PartitionID) (foundPartition, error) {
	return readOnce(r.partitions, id, func() (foundPartition, error) {
		partition, err := r.reader.Store.Partition(ctx, id)
		if fault.Is(err, fault.NotFound) {
			return foundPartition{}, nil
		}
		return foundPartition{partition, true}, err
	})
}

func (r *sharedReads) document(ctx context.Context, key documentKey) (foundDocument, error) {
	return readOnce(r.documents, key, func() (foundDocument, error) {
		doc, err := r.reader.Store.Document(ctx, key.partition, key.name, "")
		if fault.Is(err, fault.NotFound) {
			return foundDocument{}, nil
		}
		if err != nil {
			return foundDocument{}, err
		}
		content, err := document.Parse(doc.Content)
		return foundDocument{revision: doc.Revision.ID, content: content, ok: true}, err
	})
}

// place reads where an environment is.
func (r *sharedReads) place(ctx context.Context, m *Moment, e *intentpb.DeliveryEnvironment) (Place, error) {
	home, spec := r.home, m.Spec
	place := Place{Spec: e, Source: e.GetSource(), InRepository: e.GetInRepository()}
	id := PartitionOf(home.ID, e)
	found, err := r.partition(ctx, id)
	if err != nil {
		return place, err
	}
	if !found.ok {
		place.Trouble = promotion.Unreachable
		return place, nil
	}
	partition := found.partition
	place.Partition = partition
	open, err := readOnce(r.verifications, id, func() ([]intent.Verification, error) { return r.reader.Store.Verifications(ctx, id) })
	if err != nil {
		return place, err
	}
	for _, v := range open {
		if v.Home == home.ID && v.Application == spec.GetName() && v.Environment == e.GetName() {
			place.Verification = &v
		}
	}
	if id != home.ID {
		policy, err := r.reader.Policy(ctx, partition.Head)
		if err != nil {
			return place, err
		}
		grant := granted(policy, home.ID, spec.GetName(), e)
		if grant == nil {
			place.Trouble = promotion.NotAllowed
			return place, nil
		}
		place.Source, place.InRepository = grant.GetSource(), grant.GetInRepository()
	}
	if place.InRepository {
		place.readLanding(m.Records)
	} else if ok, err := r.readField(ctx, &place); err != nil || !ok {
		return place, err
	}
	if partition.Stop != nil {
		place.Trouble = promotion.Stopped
	}
	place.Assets, err = r.reader.assets(ctx, &place)
	return place, err
}

// readField of a document that the store has; ok: the document is there.
func (r *sharedReads) readField(ctx context.Context, place *Place) (ok bool, err error) {
	found, err := r.document(ctx, documentKey{place.Partition.ID, place.Spec.GetDocument()})
	if err != nil {
		return false, err
	}
	if !found.ok {
		place.Trouble = promotion.FieldGone
		return false, nil
	}
	place.Revision = found.revision
	place.Digest = digestIn(found.content, place.Spec)
	place.Found, place.Written, err = fieldIn(found.content, place.Spec.GetPointer())
	return err == nil, err
}

// digestIn is what the digest field of an environment holds; empty: no text.
func digestIn(content any, spec *intentpb.DeliveryEnvironment) string {
	if spec.GetDigestPointer() == "" {
		return ""
	}
	digest, _, err := fieldIn(content, spec.GetDigestPointer())
	if err != nil {
		return "" // Delivery writes it with the next version.
	}
	return digest
}

// fieldOf is what a field of a document holds, a text as it is and other values as JSON; ok: it
// is there and not empty.
func fieldOf(content []byte, pointer string) (value string, ok bool, err error) {
	parsed, err := document.Parse(content)
	if err != nil {
		return "", false, err
	}
	return fieldIn(parsed, pointer)
}

// fieldIn is fieldOf of a content that was parsed.
func fieldIn(content any, pointer string) (value string, ok bool, err error) {
	value, ok, err = document.TextOf(content, pointer)
	return value, ok && value != "", err
}

// rolledOut reports whether an open run of a rollout holds assets of a place.
func (r *sharedReads) rolledOut(ctx context.Context, place *Place) (bool, error) {
	if place.Partition.ID == "" || len(place.Assets.Members) == 0 {
		return false, nil
	}
	runs, err := readOnce(r.rollouts, place.Partition.ID, func() ([]intent.Rollout, error) {
		return r.reader.Store.Rollouts(ctx, place.Partition.ID, store.RolloutFilter{Open: true})
	})
	if err != nil || len(runs) == 0 {
		return false, err
	}
	governed, err := r.governed(ctx, place)
	if err != nil {
		return false, err
	}
	for _, run := range runs {
		if governed[run.Name] {
			return true, nil
		}
		if len(run.Value) == 0 {
			continue
		}
		selects, err := r.selects(ctx, place, run.Name)
		if err != nil || selects {
			return selects, err
		}
	}
	return false, nil
}

// governed names the rollouts that hold pins of a place's assets.
func (r *sharedReads) governed(ctx context.Context, place *Place) (map[string]bool, error) {
	pins, err := readOnce(r.pins, place.Partition.ID, func() ([]intent.Pin, error) { return r.reader.Store.Pins(ctx, place.Partition.ID) })
	if err != nil {
		return nil, err
	}
	own := make(map[intent.AssetID]bool, len(place.Assets.Members))
	for _, m := range place.Assets.Members {
		own[m.Asset] = true
	}
	names := map[string]bool{}
	for _, pin := range pins {
		if name := pin.Rollout(); name != "" && own[pin.Asset] {
			names[name] = true
		}
	}
	return names, nil
}

// selects reports whether a rollout that sets a field may set it for an asset of a place.
func (r *sharedReads) selects(ctx context.Context, place *Place, rollout string) (bool, error) {
	head := place.Partition.Head
	policy, err := r.reader.Policy(ctx, head)
	if err != nil {
		return false, err
	}
	incarnation, err := r.reader.Store.Incarnation(ctx, head)
	if err != nil {
		return false, err
	}
	set, err := r.reader.Schemas.Schema(ctx, place.Partition.ID, incarnation.Schema)
	if err != nil {
		return false, err
	}
	for _, spec := range policy.GetRollouts() {
		if spec.GetName() != rollout {
			continue
		}
		c, err := course.New(rule.New(set), policy, spec)
		if err != nil {
			return false, err
		}
		for _, m := range place.Assets.Members {
			_, body, err := r.reader.Store.Content(ctx, head, m.Asset)
			if err != nil {
				return false, err
			}
			asset, err := schema.Decode(body)
			if err != nil {
				return false, err
			}
			if selected, err := c.Selects(asset); err != nil || selected {
				return selected, err
			}
		}
	}
	return false, nil
}
