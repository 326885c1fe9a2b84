package remote

import (
	"context"
	"slices"
	"sync"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// changing is a Contents that says what changed.
type changing struct {
	*intents
	lock     sync.Mutex
	changed  []intent.AssetID
	failure  error
	compared int
	// history is another one where the store lost commits.
	history string
}

func (c *changing) Identity(_ context.Context, id intent.IncarnationID) (intent.Digest, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return intent.BodyDigest([]byte(c.history + id.String())), nil
}

func (c *changing) Changed(_ context.Context, older, newer intent.IncarnationID, most int) ([]intent.AssetID, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.compared++
	return c.changed, c.failure
}

// lose gives all ids to other incarnations.
func (c *changing) lose() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.history += "another "
}

func (c *changing) change(failure error, changed ...intent.AssetID) {
	for i, id := range changed {
		c.put(id, job(1000+i))
	}
	c.lock.Lock()
	c.changed, c.failure, c.compared = changed, failure, 0
	c.lock.Unlock()
	c.mutex.Lock()
	clear(c.asked)
	c.mutex.Unlock()
}

// What a plugin asks after a change of one asset depends on the change, and not on how
// many assets there are.
func TestAPluginAsksForWhatChanged(t *testing.T) {
	t.Parallel()
	for _, size := range []int{20, 200} {
		contents := &changing{intents: newIntents()}
		ids := jobs(contents.intents, size)
		child := started(t, Options{Name: "folder", Run: self(t, "folder", t.TempDir()), Contents: contents})
		sequence := head.Sequence
		// Four batches at once, as the enforcer asks.
		look := func() {
			at := intent.IncarnationID{Partition: head.Partition, Sequence: sequence}
			var all sync.WaitGroup
			for batch := range slices.Chunk(ids, size/4) {
				all.Go(func() {
					differences, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: at, Assets: batch})
					if err != nil {
						t.Error(err)
					}
					for _, d := range differences {
						if d.Outcome == intent.Unknown {
							t.Errorf("%s: %s", d.Asset, d.Reason)
						}
					}
				})
			}
			all.Wait()
			sequence++
		}
		asked := func() (count int) {
			contents.mutex.Lock()
			defer contents.mutex.Unlock()
			for _, times := range contents.asked {
				count += times
			}
			return count
		}
		look()
		for _, step := range []struct {
			name    string
			failure error
			changed []intent.AssetID
			want    int
			lost    bool
		}{
			{"one changed", nil, ids[3:4], 1, false},
			{"none changed", nil, nil, 0, false},
			{"too many changed", fault.New(fault.Invalid, "too many"), ids[:2], size, false},
			{"after too many", nil, ids[5:6], 1, false},
			// What it holds is of a history that is no more, though nothing differs in this one.
			{"the store lost commits", nil, nil, size, true},
			{"after the loss", nil, ids[6:7], 1, false},
			{"there was no telling", fault.New(fault.Unavailable, "no store"), ids[7:8], size, false},
		} {
			contents.change(step.failure, step.changed...)
			if step.lost {
				contents.lose()
			}
			if look(); asked() != step.want {
				t.Errorf("%d assets, %s: the plugin asked for %d, want %d", size, step.name, asked(), step.want)
			}
			if contents.compared != 1 && !step.lost {
				t.Errorf("%d assets, %s: compared %d times", size, step.name, contents.compared)
			}
		}
	}
}
