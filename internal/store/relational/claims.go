package relational

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// turndownAddon is in the field index, as every addon's type is, for each
// asset that has one.
const turndownAddon = "lehr.intent.v1.Turndown"

// claimant wants a resource key; head is its partition's, and at is now.
type claimant struct {
	store.Claim
	head intent.Sequence
	at   time.Time
	// removes: it wants the resource gone, and takes it over from nobody.
	removes bool
	// creates: it is admitted to make the resource, which is not there.
	creates bool
}

// holding is what stands between a claimant and its key.
type holding struct {
	// ours: the claimant has the key already.
	ours bool
	// holder is the other asset that has the key; nil: free, or the claimant's.
	holder *store.Claim
	// passes says why the claim passes to the claimant; empty: it does not.
	passes string
	// obstacle says what must come first for it to pass; empty: nothing will do.
	obstacle string
}

// free: the claimant may take the key.
func (h holding) free() bool { return h.holder == nil || h.passes != "" }

// holdingOf decides by the contract of store.Claim.
func holdingOf(q querier, c claimant) (h holding, err error) {
	existing := store.Claim{Key: c.Key}
	ok, err := q.one("SELECT partition, asset FROM claim WHERE resource_key = $1", []any{string(c.Key)}, &existing.Partition, &existing.Asset)
	if err != nil || !ok {
		return h, err
	}
	if existing == c.Claim {
		return holding{ours: true}, nil
	}
	h.holder = &existing
	switch {
	case c.removes:
		return h, nil
	case existing.Partition == c.Partition:
		return h, h.checkWithinPartition(q, c)
	}
	var one int
	registered, err := q.one("SELECT 1 FROM partitions WHERE id = $1 AND registered = 1", []any{string(existing.Partition)}, &one)
	if err == nil && !registered {
		h.passes = "its partition was removed"
	}
	return h, err
}

// checkWithinPartition fills in whether the claim passes within its partition.
func (h *holding) checkWithinPartition(q querier, c claimant) error {
	reason, err := whyPasses(q, c, h.holder.Asset)
	if err != nil || reason == "" {
		return err
	}
	var push string
	ok, err := q.one("SELECT id FROM push WHERE partition = $1 AND asset = $2 AND open = 1",
		[]any{string(c.Partition), string(h.holder.Asset)}, &push)
	if err != nil {
		return err
	}
	if ok {
		h.obstacle = fmt.Sprintf("%s, but its push %s has not ended", reason, push)
		return nil
	}
	pinned, err := isPinned(q, c.Partition, h.holder.Asset, c.at)
	switch {
	case err != nil:
		return err
	case pinned:
		h.obstacle = fmt.Sprintf("%s, but a pin keeps it followed; lehr unpin %s --reason WHY lets it go", reason, h.holder.Asset)
	default:
		h.passes = reason
	}
	return nil
}

func whyPasses(q querier, c claimant, holder intent.AssetID) (string, error) {
	inHead, err := isMember(q, c.Partition, holder, c.head)
	if err != nil || !inHead {
		return "it has left head", err
	}
	elsewhere, err := isElsewhere(q, c.Claim, holder)
	if err != nil || elsewhere {
		return "it was seen in sync as another resource since", err
	}
	leaving, err := turnsDown(q, c.Partition, holder, c.head)
	if err != nil || !leaving {
		return "", err
	}
	leaving, err = turnsDown(q, c.Partition, c.Asset, c.head)
	if err != nil || leaving {
		return "", err
	}
	return "it is being turned down", nil
}

func isMember(q querier, partition intent.PartitionID, asset intent.AssetID, head intent.Sequence) (bool, error) {
	var one int
	return q.one("SELECT 1 FROM member WHERE partition = $1 AND asset = $2 AND from_seq <= $3 AND to_seq > $3",
		[]any{string(partition), string(asset), int64(head)}, &one)
}

// isElsewhere: what the holder was last seen in sync with is another resource, as after
// an edit of what names it. Until it is seen so it may still be about this one.
func isElsewhere(q querier, c store.Claim, holder intent.AssetID) (bool, error) {
	var one int
	return q.one("SELECT 1 FROM enforced WHERE partition = $1 AND asset = $2 AND resource_key NOT IN ('', $3) AND absent = 0 AND carried = 0",
		[]any{string(c.Partition), string(holder), string(c.Key)}, &one)
}

func turnsDown(q querier, partition intent.PartitionID, asset intent.AssetID, head intent.Sequence) (bool, error) {
	var one int
	return q.one("SELECT 1 FROM field WHERE partition = $1 AND path = $4 AND asset = $2 AND from_seq <= $3 AND to_seq > $3",
		[]any{string(partition), string(asset), int64(head), turndownAddon}, &one)
}

// isPinned: some pin of the asset has not ended. Pins end by the actor's
// clock; without a time none has.
func isPinned(q querier, partition intent.PartitionID, asset intent.AssetID, at time.Time) (bool, error) {
	var one int
	return q.one("SELECT 1 FROM pin WHERE partition = $1 AND asset = $2 AND (ends = 0 OR ends > $3) LIMIT 1",
		[]any{string(partition), string(asset), stamp(at)}, &one)
}

// takeClaim gives the key to the claimant, whom holdingOf let through. What
// the former holder was enforced as with this key goes with it: the resource
// lives on as the claimant's, and is an orphan only when that one leaves, too.
func takeClaim(t *transaction, c claimant, h holding, actor intent.Actor) error {
	if h.ours && !c.creates {
		return nil
	}
	_, err := t.exec(`INSERT INTO claim (resource_key, partition, asset, made) VALUES ($1, $2, $3, $4)
		ON CONFLICT (resource_key) DO UPDATE SET partition = excluded.partition, asset = excluded.asset, made = excluded.made`,
		string(c.Key), string(c.Partition), string(c.Asset), flag(c.creates))
	if err != nil || h.holder == nil {
		return err
	}
	source := fmt.Sprintf("%q", h.holder.Asset)
	if h.holder.Partition != c.Partition {
		source = fmt.Sprintf("partition %q", h.holder.Partition)
	} else if err := carryRecord(t, c, h.holder.Asset); err != nil {
		return err
	}
	t.audit(c.Partition, c.at, actor, "claim", string(c.Asset), fmt.Sprintf("claim carried: resource %q from %s, as %s", c.Key, source, h.passes))
	return nil
}

// hasMade: the asset has the key, and was admitted to create what is there.
func hasMade(q querier, partition intent.PartitionID, asset intent.AssetID, key intent.ResourceKey) (bool, error) {
	var one int
	return q.one("SELECT 1 FROM claim WHERE resource_key = $1 AND partition = $2 AND asset = $3 AND made = 1",
		[]any{string(key), string(partition), string(asset)}, &one)
}

// HasMade asks the claims.
func (s *Store) HasMade(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, key intent.ResourceKey) (made bool, err error) {
	err = s.read(ctx, fmt.Sprintf("asking who made the resource of %q", asset), func(q querier) error {
		made, err = hasMade(q, partition, asset, key)
		return err
	})
	return made, err
}

func carryRecord(t *transaction, c claimant, holder intent.AssetID) error {
	arguments := []any{string(c.Partition), string(holder), string(c.Key)}
	_, err := t.exec(`UPDATE enforced SET asset = $4, carried = 1, adrift = 1
		WHERE partition = $1 AND asset = $2 AND resource_key = $3 AND absent = 0
		AND NOT EXISTS (SELECT 1 FROM enforced WHERE partition = $1 AND asset = $4)`, append(arguments, string(c.Asset))...)
	if err != nil {
		return err
	}
	_, err = t.exec("DELETE FROM enforced WHERE partition = $1 AND asset = $2 AND resource_key = $3", arguments...)
	return err
}

// giveUpClaims frees what the asset holds, and returns the keys.
func giveUpClaims(t *transaction, partition intent.PartitionID, asset intent.AssetID) (keys []string, err error) {
	err = t.queryEach("DELETE FROM claim WHERE partition = $1 AND asset = $2 RETURNING resource_key",
		[]any{string(partition), string(asset)}, func(row scanner) error {
			var key string
			err := row.Scan(&key)
			keys = append(keys, key)
			return err
		})
	return keys, err
}
