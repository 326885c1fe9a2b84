package enforcer

import (
	"fmt"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestAHubOfSlowNeighbours is pushed though its plugin needs longer to look at
// all of them than what it told first usually holds (L1).
func TestAHubOfSlowNeighbours(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, spokes := range []int{300, 1000, 2000} {
		t.Run(fmt.Sprint(spokes), func(t *testing.T) {
			simulate(t, func(w *world) {
				partition := func(replicas uint32) []thing {
					things := []thing{job("hub", replicas, "1")}
					for i := range spokes {
						things = append(things, job(intent.AssetID(fmt.Sprintf("spoke/%d", i)), 2, "1", serves("hub")))
					}
					return things
				}
				w.publish(partition(1)...)
				w.eventually("created", func() bool { return w.report("hub").State == intent.StateInSync })
				w.restart(func() { w.production.access(func() { w.production.each = 50 * time.Millisecond }) })
				w.publish(partition(2)...)
				for waited := 0; w.production.word("hub") != "2 1" && waited < 10; waited++ {
					w.pass(time.Minute)
				}
				if w.production.word("hub") != "2 1" {
					t.Error("it waits for ever")
				}
				w.stop()
				w.pass(time.Minute) // For what is under way still.
			})
		})
	}
}
