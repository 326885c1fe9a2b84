package faults

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/test/faults/production"
)

// afterlife is how many steps a push may make after the death of its plugin
// or of the server, one every 4 ms at most: a few are usual, and more where
// there is a queue for the processor. A long push that is not ended makes
// hundreds.
const afterlife = 75

// judge reads what production and the store have recorded.
func (c *campaign) judge() {
	c.Helper()
	effects := readEffects(c.T, c.production)
	c.judgeOrder(effects)
	c.judgeOrphans(effects)
	c.judgeJournal(effects)
	c.end()
	c.judgeFile()
}

// judgeOrder: one push at a time (S3), none twice, and nothing older after
// anything newer (S2).
func (c *campaign) judgeOrder(effects []production.Effect) {
	c.Helper()
	started, newest, done := map[string]production.Effect{}, map[string]production.Effect{}, map[string]production.Effect{}
	for _, e := range effects {
		switch e.Step {
		case "contended":
			c.Errorf("S3: push %+v began while another push of the resource was at work", e)
		case "end":
			done[e.Resource] = e
		case "start":
			if e.Push == "" {
				c.Errorf("a push without an id: %+v", e)
			}
			if before, ok := started[e.Push]; ok {
				c.Errorf("push %s was carried out twice: %+v and %+v", e.Push, before, e)
			}
			started[e.Push] = e
			if before := newest[e.Resource]; e.Value < before.Value {
				c.Errorf("S2: push %+v of something older came after %+v", e, before)
			}
			newest[e.Resource] = e
			if before, ok := done[e.Resource]; ok && before.Value == e.Value {
				c.Errorf("push %+v repeats %+v, which had its effect", e, before)
			}
		}
	}
	c.tally.pushes = len(started)
	if least := rounds * resources; len(started) < least {
		c.Errorf("only %d pushes in %d rounds: nothing was tested", len(started), rounds)
	}
}

// judgeOrphans: nothing goes on for long after the death of who ran it.
func (c *campaign) judgeOrphans(effects []production.Effect) {
	c.Helper()
	began, steps := map[string]int64{}, map[string]int{}
	for _, e := range effects {
		if e.Step == "start" {
			began[e.Push] = e.At
		}
		// The first death is the one that counts.
		for _, death := range c.deaths {
			if began[e.Push] < death.UnixNano() && death.UnixNano() < e.At {
				steps[e.Push]++
				break
			}
		}
	}
	for push, made := range steps {
		c.tally.afterlife = max(c.tally.afterlife, made)
		if made > afterlife {
			c.Errorf("push %s made %d steps after its plugin or server was killed", push, made)
		}
	}
}

// judgeJournal: every effect was admitted, in the journal and in the audit
// chain, before it began (S1, S25); no push is left open (L6).
func (c *campaign) judgeJournal(effects []production.Effect) {
	c.Helper()
	ctx, client := context.Background(), c.client()
	admitted := map[string]*apipb.Push{}
	for resource := range c.wanted {
		response, err := client.Journal.ListPushes(ctx, &apipb.ListPushesRequest{Partition: "kills", Asset: "resource/" + resource, Limit: 1000})
		if err != nil {
			c.Fatal(err)
		}
		for _, push := range response.Pushes {
			admitted[push.Push] = push
			if push.Ending == "" {
				c.Errorf("L6: push %s is open though nothing is under way", push.Push)
			}
		}
	}
	audited := map[string]time.Time{}
	for after := uint64(0); ; {
		response, err := client.Audit.ListAudit(ctx, &apipb.ListAuditRequest{Partition: "kills", After: after, Limit: 1000})
		if err != nil {
			c.Fatal(err)
		}
		for _, record := range response.Records {
			if words := strings.Fields(record.Detail); record.Verb == "admit" && len(words) > 1 {
				audited[words[1]] = record.At.AsTime()
			}
		}
		if after = response.Next; after == 0 {
			break
		}
	}
	for _, e := range effects {
		if e.Step != "start" {
			continue
		}
		push, recorded := admitted[e.Push], audited[e.Push]
		if push == nil || push.Asset != "resource/"+e.Resource || push.Admitted.AsTime().UnixNano() > e.At {
			c.Errorf("S1: the journal has %v for the effect %+v", push, e)
		}
		if recorded.IsZero() || recorded.UnixNano() > e.At {
			c.Errorf("S25: the audit recorded %v for the effect %+v", recorded, e)
		}
	}
	for _, scope := range []string{"", "kills"} {
		response, err := client.Audit.VerifyAudit(ctx, &apipb.VerifyAuditRequest{Partition: scope})
		if err != nil || !response.Intact {
			c.Errorf("the audit chain %q: %v %v", scope, response, err)
		}
	}
}

// judgeFile has SQLite look at every page.
func (c *campaign) judgeFile() {
	c.Helper()
	db, err := sql.Open("sqlite", "file:"+c.store+"?mode=ro")
	if err != nil {
		c.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		c.Errorf("the store's file: %s %v", verdict, err)
	}
}

// tally is what a campaign did.
type tally struct {
	mutex            sync.Mutex
	kills            map[string]int
	restarts, pushes int
	converged        []time.Duration
	// afterlife is the most steps of a push after its plugin's death.
	afterlife int
}

func newTally() *tally { return &tally{kills: map[string]int{}} }

func (t *tally) add(other *tally) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for name, n := range other.kills {
		t.kills[name] += n
	}
	t.restarts += other.restarts
	t.pushes += other.pushes
	t.converged = append(t.converged, other.converged...)
	t.afterlife = max(t.afterlife, other.afterlife)
}

func (t *tally) sum() (kills int) {
	for _, n := range t.kills {
		kills += n
	}
	return kills
}

func (t *tally) String() string {
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(t.kills)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", t.kills[name], name))
	}
	slices.Sort(t.converged)
	median, worst := time.Duration(0), time.Duration(0)
	if n := len(t.converged); n > 0 {
		median, worst = t.converged[n/2], t.converged[n-1]
	}
	return fmt.Sprintf("%d kills (%s), %d restarts, %d pushes; converged within %s (median), %s (worst)",
		t.sum(), strings.Join(kinds, ", "), t.restarts, t.pushes, median.Round(time.Millisecond), worst.Round(time.Millisecond))
}
