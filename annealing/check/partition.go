package check

import (
	"errors"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
)

// Other is what a partition may know of another: that it is stopped, and how
// much of it is in sync; not of which asset, nor why, for its roles are its own.
type Other struct {
	At      time.Time
	Stopped bool
	// Of are the assets that are enforced, InSync those in sync with head.
	Of, InSync int
	// Back: it waits for this partition too.
	Back bool
	// Err: it is not known.
	Err error
}

// partition waits until another partition is not stopped, and in sync.
func (c *Configured) partition(asked *intentpb.OtherPartition) {
	c.Kind, c.Partition = KindPartition, intent.PartitionID(asked.GetId())
	c.judge = func(f Facts) intent.Verdict {
		other, known := f.Others[c.Partition]
		if !known {
			other.Err = errors.New("how partition " + asked.GetId() + " is, is not known")
		}
		back := ""
		if other.Back {
			back = "; it waits for this partition too: take one of the two checks out"
		}
		percent := 0
		if other.Of > 0 {
			percent = 100 * other.InSync / other.Of
		}
		switch {
		case other.Err != nil:
			return c.broken(other.Err)
		case other.Stopped:
			return c.waitsForPartition("partition %s is stopped", asked.GetId())
		case asked.GetInSync() > 0 && other.Of == 0:
			return c.waitsForPartition("partition %s enforces nothing yet%s", asked.GetId(), back)
		case percent < int(asked.GetInSync()):
			return c.waitsForPartition("%d%% of partition %s is in sync, and %d%% must be%s", percent, asked.GetId(), asked.GetInSync(), back)
		}
		return c.passes(other.At.Add(timely))
	}
}

func (c *Configured) waitsForPartition(format string, arguments ...any) intent.Verdict {
	v := c.waits(intent.WaitPartition, time.Time{}, format, arguments...)
	v.Waiting.Partition = c.Partition
	return v
}
