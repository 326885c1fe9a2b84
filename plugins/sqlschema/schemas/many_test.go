package schemas

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
)

// TestManyAssetsOfOneDatabase pushes assets of one database at once: each ends
// in sync, however often it has to be tried again.
func TestManyAssetsOfOneDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				schema := g.schema(fmt.Sprintf("CREATE TABLE t%d (id integer PRIMARY KEY); CREATE INDEX i%d ON t%d (id)", i, i, i))
				asset := asIntent(t, fmt.Sprintf("db%d", i), schema)
				for range 100 {
					d := kind.Diff(t.Context(), []serve.Intent{asset})[0]
					if d.Outcome == serve.InSync {
						return
					}
					outcome := kind.Push(t.Context(), serve.Push{
						ID: intent.PushID(fmt.Sprintf("push-%d", pushes.Add(1))), Asset: asset, Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {},
					}, allowed{})
					if outcome.Ending == serve.Failed && !outcome.Retryable && d.Outcome != serve.Unknown {
						t.Errorf("asset %d: %s", i, outcome.Reason)
						return
					}
				}
				t.Errorf("asset %d is not in sync after 100 pushes", i)
			})
		}
		all.Wait()
		// One batch looks at them all, and at one that cannot be read.
		var batch []serve.Intent
		for i := range 8 {
			batch = append(batch, asIntent(t, fmt.Sprintf("db%d", i), g.schema(fmt.Sprintf("CREATE TABLE t%d (id integer PRIMARY KEY); CREATE INDEX i%d ON t%d (id)", i, i, i))))
		}
		batch = append(batch, asIntent(t, "bad", g.schema("DROP TABLE t1")))
		for i, d := range kind.Diff(t.Context(), batch) {
			if (i < 8) != (d.Outcome == serve.InSync) || i == 8 && !strings.Contains(d.Reason, "DROP is not") {
				t.Errorf("asset %d: %+v", i, d)
			}
		}
	})
}
