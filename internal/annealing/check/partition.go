package check

import (
	"errors"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Other is what a partition may know of another: that it is stopped, and how
// much of it is in sync; not of which asset, nor why, for its roles are its own.
type Other struct {
	At      time.Time
	Stopped bool
	// Total are the assets that are enforced, InSync those in sync with head.
	Total, InSync int
	// Back: it waits for this partition too.
	Back bool
	// Err: it is not known.
	Err error
}

// partition waits until another partition is not stopped, and in sync.
func (c *Configured) partition(config *intentpb.OtherPartition) {
	c.Kind, c.Partition = KindPartition, intent.PartitionID(config.GetId())
	c.judge = func(f Facts) intent.Verdict {
		state, ok := f.Others[c.Partition]
		if !ok {
			state.Err = errors.New("how partition " + config.GetId() + " is, is not known")
		}
		note := ""
		if state.Back {
			note = "; it waits for this partition too: take one of the two checks out"
		}
		percent := 0
		if state.Total > 0 {
			percent = 100 * state.InSync / state.Total
		}
		switch {
		case state.Err != nil:
			return c.broken(state.Err)
		case state.Stopped:
			return c.waitsForPartition("partition %s is stopped", config.GetId())
		case config.GetInSync() > 0 && state.Total == 0:
			return c.waitsForPartition("partition %s enforces nothing yet%s", config.GetId(), note)
		case percent < int(config.GetInSync()):
			return c.waitsForPartition("%d%% of partition %s is in sync, and %d%% must be%s", percent, config.GetId(), config.GetInSync(), note)
		}
		return c.passes(state.At.Add(timely))
	}
}

func (c *Configured) waitsForPartition(format string, arguments ...any) intent.Verdict {
	v := c.waits(intent.WaitPartition, time.Time{}, format, arguments...)
	v.Waiting.Partition = c.Partition
	return v
}
