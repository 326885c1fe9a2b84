package intent

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Rank orders pins: a person's beats a rollback's beats a rollout's.
type Rank uint8

const (
	RankRollout Rank = iota + 1
	RankRollback
	RankPerson
)

// Pin makes an asset follow one incarnation instead of head.
type Pin struct {
	Asset AssetID `json:"asset"`
	// Incarnation of sequence 0: the asset follows none, for the rollout that
	// governs it has not let it go on yet.
	Incarnation IncarnationID `json:"incarnation"`
	// Revision grows with every pin of the partition (S16).
	Revision uint64    `json:"revision"`
	Rank     Rank      `json:"rank"`
	Holder   Actor     `json:"holder"`
	Reason   string    `json:"reason"`
	Created  time.Time `json:"created"`
	// Until is when it ends by itself; zero: never.
	Until time.Time `json:"until,omitzero"`
	// Governed is, of a rollout's, the incarnation from which on it governs the asset:
	// before that one is head, neither the asset nor the rollout may be there yet. 0: it
	// did so already.
	Governed Sequence `json:"governed,omitempty"`
	// Back: it takes the asset back to what it was before, as a rollback does. The store
	// says so when it is set: of a person's, where it names older content than the asset
	// followed, which is not newer than what it was enforced with.
	Back bool `json:"back,omitempty"`
}

// Hold is a person's brake on one asset.
type Hold struct {
	Asset   AssetID   `json:"asset"`
	Owner   Actor     `json:"owner"`
	Reason  string    `json:"reason"`
	Created time.Time `json:"created"`
	// Until is when it ends by itself; zero: never.
	Until time.Time `json:"until,omitzero"`
}

// Stop is the big brake. Resuming is a separate act.
type Stop struct {
	// Partition stopped; empty: all of them.
	Partition PartitionID `json:"partition,omitempty"`
	Owner     Actor       `json:"owner"`
	Reason    string      `json:"reason"`
	Since     time.Time   `json:"since"`
	// Adopt: the store itself asks for it, having lost what was committed, and
	// no resume ends it (S15).
	Adopt bool `json:"adopt,omitempty"`
	// Unwitnessed: the store stops itself while its witness cannot be written
	// (S15).
	Unwitnessed bool `json:"unwitnessed,omitempty"`
	// Reach is how far it got; empty: it is stored.
	Reach Reach `json:"reach,omitempty"`
}

// Reach is how far a stop got that is in force.
type Reach string

// ReachMemory: a restart of the server forgets it. ReachFile: it is kept beside the
// store.
const (
	ReachMemory Reach = "memory"
	ReachFile   Reach = "file"
)

// Words say it to people; empty where it is stored.
func (r Reach) Words() string {
	switch r {
	case ReachMemory:
		return "It is in force, not written yet; a restart forgets it"
	case ReachFile:
		return "It is in force, and kept in the file beside the store, which does not take it now; a restart keeps it"
	}
	return ""
}

// Ending is the command, or whatever else, that ends the stop.
func (s Stop) Ending() string {
	switch {
	case s.Adopt:
		return "lehr store adopt --reason WHY"
	case s.Unwitnessed:
		return "mending that"
	case s.Partition != "":
		return "lehr resume " + string(s.Partition) + " --reason WHY"
	default:
		return "lehr resume --reason WHY"
	}
}

// Target is the incarnation that an asset must follow now, and the pin that
// says so, if any. The newest unexpired pin of the highest rank wins; without
// one it follows head. What a rollout governs has its pin from the publication on
// that says so, so that it never follows head by itself. Pins move forward by
// revision even when their content is older (S16).
func Target(head IncarnationID, pins []Pin, now time.Time) (IncarnationID, *Pin) {
	live := slices.DeleteFunc(slices.Clone(pins), func(p Pin) bool { return Expired(p.Until, now) })
	if len(live) > 0 {
		pin := slices.MaxFunc(live, func(a, b Pin) int {
			return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Revision, b.Revision))
		})
		return pin.Incarnation, &pin
	}
	return head, nil
}

// Waits reports that the asset follows no incarnation yet.
func (p Pin) Waits() bool { return p.Incarnation.Sequence == 0 }

// Rollout names the rollout that holds the pin; empty: a person does.
func (p Pin) Rollout() string {
	if p.Rank == RankPerson {
		return ""
	}
	name, _ := strings.CutPrefix(p.Holder.Name, RolloutPrefix)
	return name
}

// Expired reports whether a time limit has passed; a zero limit never does.
func Expired(end, now time.Time) bool {
	return !end.IsZero() && !now.Before(end)
}
