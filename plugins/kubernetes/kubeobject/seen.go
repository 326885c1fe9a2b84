package kubeobject

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lehr.dev/plugins/kubernetes/kubewatch"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/sdk/serve"
)

const (
	// seenBytes bounds what is kept of answers, of all assets. What is forgotten is asked anew.
	seenBytes = 128 << 20
	// seenOverhead is about what one takes beside the object that it shows.
	seenOverhead = 1000
)

// seenKey names an answer: what was asked about, with which content.
type seenKey struct {
	asset   kubewatch.Asset
	cluster string
	content [sha256.Size]byte
}

// seen is an answer that found an asset in sync, and what it rests on.
type seen struct {
	resource schema.GroupResource
	// uid and version of the object; empty: there was none. Without a version alone, the answer is a
	// prediction, and the object is read.
	uid     types.UID
	version string
	// accepted is the restore after which the version was read.
	accepted string
	// live is the digest of the object without what says nothing about a prediction.
	live [sha256.Size]byte
	// basis of the prediction, when it was made, and how long it holds. No basis: none was
	// needed.
	basis       string
	predictedAt time.Time
	holds       time.Duration
	difference  serve.Difference
}

// key of what is asked: the effective content, and all that this program makes of it.
func (s *subject) seenKey() seenKey {
	h := sha256.New()
	add := func(content []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(content))))
		h.Write(content)
	}
	content, err := json.Marshal(s.wanted.Object)
	if err != nil { // What came from JSON can be written.
		content = s.asset.Payload.Bytes
	}
	add(content)
	for _, addon := range s.asset.Addons {
		add([]byte(addon.Type))
		add(addon.Bytes)
	}
	return seenKey{kubewatch.Asset{Partition: s.asset.Incarnation.Partition, ID: s.asset.ID}, s.payload.Cluster, [sha256.Size]byte(h.Sum(nil))}
}

// object that the subject stands for.
func (s *subject) object() kubewatch.Object {
	return kubewatch.Object{Kind: s.kind(), Namespace: s.payload.Namespace, Name: s.payload.Name}
}

// recall answers without asking the server: the last answer was in sync, a watch shows that
// the object is still in that version, and the prediction still holds. With so many assets that are
// asked about at once, one list may show it as of now.
func (o *Objects) recall(ctx context.Context, c *connection, s *subject, count int) (serve.Difference, bool) {
	last, ok := o.seen.Get(s.seenKey())
	if !ok {
		return serve.Difference{}, false
	}
	if accepted, err := o.believe(ctx, c, last.resource); err != nil || accepted != last.accepted {
		return serve.Difference{}, false
	}
	item, age, exists := c.watches.Find(s.object())
	at, ok := age.AsOf(s.asset.ReadSince)
	if !ok && age.IsKnown() {
		c.watches.Confirm(ctx, s.object(), s.asset.ReadSince, count)
		item, age, exists = c.watches.Find(s.object())
		at, ok = age.AsOf(s.asset.ReadSince)
	}
	now, isThere := time.Now(), last.uid != ""
	switch {
	case !ok || now.Sub(at) > cadence/2:
		return serve.Difference{}, false
	case exists != isThere, exists && (item.UID != last.uid || item.Version != last.version):
		return serve.Difference{}, false
	case !last.isPredicted(c, s, now):
		return serve.Difference{}, false
	}
	difference := last.difference
	difference.At = at
	return difference, true
}

// isPredicted reports whether what the server predicted still holds.
func (s seen) isPredicted(c *connection, of *subject, now time.Time) bool {
	if s.basis == "" {
		return true
	}
	basis, holds := c.watches.Basis(s.resource, of.payload.Namespace)
	return basis == s.basis && now.Sub(s.predictedAt) < spread(min(holds, s.holds), s.live)
}

// spread is between a half and the whole of a time, so that what was predicted at once is
// not predicted anew at once.
func spread(most time.Duration, by [sha256.Size]byte) time.Duration {
	part := time.Duration(binary.BigEndian.Uint16(by[:]))
	return most/2 + most/2*part/(1<<16)
}

// isAsPredicted reports whether the server has predicted of this very object, for this very
// intent, that nothing would change.
func (o *Objects) isAsPredicted(l *look, now time.Time) bool {
	last, ok := o.seen.Get(l.seenKey())
	if !ok || last.basis == "" || last.uid != l.live.GetUID() || last.live != l.liveDigest || !last.isPredicted(l.connection, l.subject, now) {
		return false
	}
	l.predictedAt, l.predicted = last.predictedAt, l.live
	return true
}

// remember keeps an answer that found an asset in sync, where a watch may later show that
// nothing has changed. One that rests on what nothing watches, as the reason of a pod, is
// not kept.
func (o *Objects) remember(l *look, difference serve.Difference) {
	needsBasis := l.alone == "" && l.live != nil
	if difference.Outcome != serve.InSync || difference.Health.State == serve.Unhealthy || needsBasis && l.holds == 0 {
		return
	}
	answer := seen{resource: l.resource(), accepted: l.accepted, difference: difference, live: l.liveDigest}
	if l.live != nil {
		answer.uid, answer.version = l.live.GetUID(), l.live.GetResourceVersion()
	}
	if needsBasis {
		answer.basis, answer.holds, answer.predictedAt = l.basis, l.holds, l.predictedAt
	}
	o.seen.Put(l.seenKey(), answer, len(difference.Current)+seenOverhead)
}

// rememberCreation keeps what the server made of a new object as its prediction: the same apply
// again changes nothing, where the answer has all that intent names and nobody else's admission
// changes objects. A webhook may change at an update what it leaves at a creation, so where there
// is one, or that is not known, the server is asked. The object itself is read in any case.
func (o *Objects) rememberCreation(l *look) {
	switch {
	case l.written == nil || l.live != nil || l.alone != "" || l.basis == "" || len(l.subject.unmanaged) > 0:
		return
	case l.connection.watches.MayMutate() || len(objectdiff.Named(l.written.Object, l.sending.Object)) > 0:
		return
	}
	answer := seen{resource: l.resource(), accepted: l.accepted, uid: l.written.GetUID(), live: digestOf(l.written)}
	answer.basis, answer.holds, answer.predictedAt = l.basis, l.holds, l.predictedAt
	o.seen.Put(l.seenKey(), answer, seenOverhead)
}

// digestOf an object, without its status, its version, and when each manager wrote.
func digestOf(live *unstructured.Unstructured) [sha256.Size]byte {
	object := maps.Clone(live.Object)
	delete(object, "status")
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	entries, _ := metadata["managedFields"].([]any)
	var kept []any
	for _, one := range entries {
		entry, ok := one.(map[string]any)
		if !ok || entry["subresource"] == "status" {
			continue
		}
		entry = maps.Clone(entry)
		delete(entry, "time")
		kept = append(kept, entry)
	}
	metadata["managedFields"] = kept
	object["metadata"] = metadata
	text, err := json.Marshal(object)
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(text)
}
