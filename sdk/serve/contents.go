package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/recent"
)

// heldKey names an asset whose intent is held for a connection.
type heldKey struct {
	connection uint64
	partition  intent.PartitionID
	asset      AssetID
}

// heldIntent is the intent of an asset. Incarnations never change, so what was true
// of sequence stays true; for another one Lehr has said that it is the same still,
// or is asked whether the digest is.
type heldIntent struct {
	sequence intent.Sequence
	digest   Digest
	content  []byte
}

// heldOverhead is about what an entry weighs beside its content.
const heldOverhead = 200

// asker asks Lehr for intent on one stream and hands out the answers.
type asker struct {
	heldIntents *recent.Map[heldKey, heldIntent]
	histories   *recent.Map[historyKey, *history]
	connection  uint64
	send        func(*pluginpb.Need) error

	mutex   sync.Mutex
	waiting map[askKey][]*asking
	blobs   map[blobKey][]chan *pluginpb.BlobContent
}

type askKey struct {
	incarnation string
	asset       AssetID
}

// asking is one call's wait for the intent of several assets.
type asking struct {
	places  map[AssetID]int
	answers []answer
	missing int
	done    chan struct{}
}

// answer is canonical bytes, or why there are none.
type answer struct {
	content []byte
	err     error
}

var errNoContent = errors.New("no content")

func newAsker(heldIntents *recent.Map[heldKey, heldIntent], histories *recent.Map[historyKey, *history], connection uint64, send func(*pluginpb.Need) error) *asker {
	return &asker{heldIntents: heldIntents, histories: histories, connection: connection, send: send, waiting: map[askKey][]*asking{}, blobs: map[blobKey][]chan *pluginpb.BlobContent{}}
}

// fetch returns the intent of each asset as of the incarnation, in order.
func (a *asker) fetch(ctx context.Context, incarnation IncarnationID, assets []AssetID) ([]answer, error) {
	answers := make([]answer, len(assets))
	var ask *asking
	var needs []*pluginpb.NeedAsset
	history := a.historyOf(incarnation.Partition)
	for i, asset := range assets {
		key := heldKey{a.connection, incarnation.Partition, asset}
		entry, ok := a.heldIntents.Get(key)
		if ok && entry.sequence != incarnation.Sequence && history.isUnchanged(asset, entry.sequence, incarnation.Sequence) {
			entry.sequence = incarnation.Sequence
			a.hold(key, entry)
		}
		if ok && entry.sequence == incarnation.Sequence {
			answers[i].content = entry.content
			continue
		}
		if ask == nil {
			ask = &asking{places: map[AssetID]int{}, answers: answers, done: make(chan struct{})}
		}
		need := &pluginpb.NeedAsset{Asset: string(asset)}
		if ok {
			need.Known = entry.digest[:]
		}
		needs = append(needs, need)
		ask.places[asset] = i
	}
	if ask == nil {
		return answers, nil
	}
	ask.missing = len(ask.places)
	name := incarnation.String()
	a.await(name, ask)
	defer a.forget(name, ask)
	if err := a.send(&pluginpb.Need{Partition: string(incarnation.Partition), Incarnation: name, Assets: needs}); err != nil {
		return nil, fmt.Errorf("asking for intent: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for intent: %w", context.Cause(ctx))
	case <-ask.done:
		return answers, nil
	}
}

func (a *asker) await(incarnation string, ask *asking) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for asset := range ask.places {
		key := askKey{incarnation, asset}
		a.waiting[key] = append(a.waiting[key], ask)
	}
}

// forget ends the wait for what did not come.
func (a *asker) forget(incarnation string, ask *asking) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if ask.missing == 0 {
		return
	}
	for asset := range ask.places {
		key := askKey{incarnation, asset}
		for i, waiter := range a.waiting[key] {
			if waiter == ask {
				a.waiting[key] = append(a.waiting[key][:i:i], a.waiting[key][i+1:]...)
			}
		}
		if len(a.waiting[key]) == 0 {
			delete(a.waiting, key)
		}
	}
}

// deliver takes what Lehr answers.
func (a *asker) deliver(content *pluginpb.Content) {
	incarnation, err := intent.ParseIncarnationID(content.Incarnation)
	if err != nil {
		return
	}
	a.deliverBlobs(content)
	for _, one := range content.Assets {
		result := a.accept(incarnation, one)
		key := askKey{content.Incarnation, AssetID(one.Asset)}
		a.mutex.Lock()
		for _, ask := range a.waiting[key] {
			ask.answers[ask.places[key.asset]] = result
			if ask.missing--; ask.missing == 0 {
				close(ask.done)
			}
		}
		delete(a.waiting, key)
		a.mutex.Unlock()
	}
}

// accept keeps one answer for later.
func (a *asker) accept(incarnation IncarnationID, one *pluginpb.AssetContent) answer {
	key := heldKey{a.connection, incarnation.Partition, AssetID(one.Asset)}
	if one.Refused != "" {
		return answer{err: fmt.Errorf("%w of %s as of %s: %s", errNoContent, one.Asset, incarnation, one.Refused)}
	}
	if len(one.Digest) != len(Digest{}) {
		return answer{err: fmt.Errorf("Lehr sent a digest of %d bytes for %s", len(one.Digest), one.Asset)}
	}
	entry := heldIntent{sequence: incarnation.Sequence, digest: Digest(one.Digest), content: one.Content}
	if one.Unchanged {
		old, ok := a.heldIntents.Get(key)
		if !ok || old.digest != entry.digest {
			return answer{err: fmt.Errorf("the intent of %s was forgotten while Lehr was asked whether it had changed; it comes with the next call", one.Asset)}
		}
		entry.content = old.content
	}
	a.hold(key, entry)
	return answer{content: entry.content}
}

func (a *asker) hold(key heldKey, entry heldIntent) {
	a.heldIntents.Put(key, entry, len(entry.content)+len(key.asset)+heldOverhead)
}
