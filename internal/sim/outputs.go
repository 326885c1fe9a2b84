package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/world"
)

// In runs with outputs, buckets have an address that their plugin tells, and pools ask for
// it. Addresses change, once or again and again; whoever tells them cannot be looked at, or
// is gone; processes end between what is told and what is written; people edit the document.

// Disturbances of runs with outputs.
const (
	OutputChanged  Kind = "an address changes"
	OutputFlapping Kind = "an address keeps changing"
	OutputUnknown  Kind = "what tells an address cannot be looked at"
	OutputGone     Kind = "what tells an address is turned down"
	OutputEdited   Kind = "somebody edits the document of outputs"
	OutputMoment   Kind = "an address changes, and something happens around its writing"
	OutputDeposed  Kind = "an address is written by a process that was deposed"
)

var outputKinds = []weighed{{OutputChanged, 30}, {OutputFlapping, 8}, {OutputUnknown, 12}, {OutputGone, 8}, {OutputEdited, 24}, {OutputMoment, 24}, {OutputDeposed, 14}}

// AsksOutputs reports whether assets tell outputs, and others ask for them, in runs of a seed.
func AsksOutputs(seed uint64) bool { return seed%27 == 20 }

// asksOutputs reports whether they do in this run.
func (l *Lab) asksOutputs() bool { return l.options.Definition == "" && AsksOutputs(l.options.Seed) }

const (
	bucketType = "sim.v1.Bucket"
	poolType   = "sim.v1.Pool"
	// bucketMessage is the type whose things have an address.
	bucketMessage = "Bucket"
	// pointSaveOutputs is where the enforcer is about to write.
	pointSaveOutputs = "save outputs"
)

// bucketTypes: the address comes behind another field, so that a push may bring it with a
// later effect. asked is of whom it is, for those who look on.
const bucketTypes = `edition = "2023";
package sim.v1;
message Bucket { string name = 1; string about = 2; }
message Pool { string name = 1; string about = 2; string address = 3; string asked = 4; }
`

// bucketMaker makes both, beside the other makers.
const bucketMaker = `
def bucket(t):
    return sim.v1.Bucket(name = t["name"], about = t["text"])

def pool(t):
    if not t["asks"]:
        return sim.v1.Pool(name = t["name"], about = t["text"])
    return sim.v1.Pool(name = t["name"], about = t["text"], address = "${output:" + t["asks"] + "#address}", asked = t["asks"])

makers["bucket"] = bucket
makers["pool"] = pool
`

// buckets are the things of the first intent that tell outputs, or ask for them.
func buckets() (list []Thing) {
	for _, scope := range []string{"a", "b"} {
		list = append(list,
			Thing{ID: "bucket/" + scope, Kind: "bucket", Name: scope, Text: "v1"},
			Thing{ID: "pool/" + scope, Kind: "pool", Name: scope, Scope: scope, Text: "v1", Asks: "bucket/" + scope})
	}
	return list
}

// bindsBuckets adds the plugins of both to a definition.
func bindsBuckets(text string) string {
	return strings.Replace(text, "plugins:\n", "plugins:\n  Bucket: {run: [sim-bucket, "+bucketType+"]}\n  Pool: {run: [sim-pool, "+poolType+"]}\n", 1)
}

// askedOutput tells the monitor what a pool asks for, by its bytes alone.
func (l *Lab) askedOutput() func(intent.Asset) monitor.AskedOutput {
	if !l.asksOutputs() {
		return nil
	}
	return func(asset intent.Asset) (asked monitor.AskedOutput) {
		if asset.Payload.Type != poolType {
			return asked
		}
		texts := map[protowire.Number]string{}
		for rest := asset.Payload.Bytes; len(rest) > 0; {
			number, _, n := protowire.ConsumeField(rest)
			_, _, tag := protowire.ConsumeTag(rest)
			if n < 0 || tag < 0 {
				return asked
			}
			texts[number], _ = protowire.ConsumeString(rest[tag:])
			rest = rest[n:]
		}
		const address, of = 3, 4
		text, err := json.Marshal(texts[address])
		if err != nil {
			return asked
		}
		return monitor.AskedOutput{Teller: intent.AssetID(texts[of]), Value: string(text)}
	}
}

// outputMessage is the type whose things have an address in this run.
func (l *Lab) outputMessage() string {
	if l.asksOutputs() {
		return bucketMessage
	}
	return ""
}

// outputTold takes up what a plugin told.
func (l *Lab) outputTold(news world.OutputNews) {
	l.Monitor.OutputTold(news, l.leader != nil && l.leader.Name() == news.Replica)
}

// bucketKeys are those of the things that have addresses and are there.
func (l *Lab) bucketKeys() (keys []intent.ResourceKey) {
	for _, resource := range l.World.Resources() {
		if resource.Type == bucketType && resource.Exists {
			keys = append(keys, resource.Key)
		}
	}
	return keys
}

// readdress gives one of them another address.
func (l *Lab) readdress(d Disturbance, r *rand.Rand) {
	if keys := l.bucketKeys(); len(keys) > 0 {
		key := keys[r.IntN(len(keys))]
		l.World.ChangeOutput(key)
		l.tell("%s: %s has %s", d, key, l.World.Output(key))
	}
}

func (l *Lab) outputChanged(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "production")
	l.readdress(d, r)
}

// outputFlapping has addresses be others at each look, for up to two hours.
func (l *Lab) outputFlapping(d Disturbance, r *rand.Rand) {
	keys := l.bucketKeys()
	if len(keys) == 0 {
		return
	}
	key, length := keys[r.IntN(len(keys))], 20*time.Minute+within(r, 100*time.Minute)
	l.note(d.Kind, "production")
	l.tell("%s for %s: %s", d, length, key)
	l.World.KeepChanging(key, true)
	l.after(length, func() { l.World.KeepChanging(key, false) })
}

// outputUnknown has looks at a bucket fail for a while, in which its address may change: what
// was told stays.
func (l *Lab) outputUnknown(d Disturbance, r *rand.Rand) {
	t := l.good.any(r, "bucket")
	if t == nil {
		return
	}
	length := time.Minute + within(r, 8*time.Minute)
	l.note(d.Kind, "call")
	l.tell("%s for %s: %s", d, length, t.ID)
	l.World.Trouble(world.Trouble{Kind: world.DiffUnknown, Asset: intent.AssetID(t.ID), Count: 1000, For: length, Seed: d.Seed})
	if r.IntN(2) == 0 {
		l.readdress(d, r)
	}
	if r.IntN(2) == 0 {
		l.after(within(r, length), func() { l.restart(d, r) })
	}
}

// outputGone has a bucket turned down, so that it tells nothing any more, and brings it back
// later. Pools that ask for it wait.
func (l *Lab) outputGone(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.any(r, "bucket")
	if t == nil || t.Turndown || t.Mode != "" {
		return
	}
	id := t.ID
	t.Turndown = true
	if r.IntN(3) > 0 { // Else it stays until nobody asks for it.
		for at := range next.Things {
			if next.Things[at].Asks == id {
				next.Things[at].Asks = ""
			}
		}
	}
	l.note(d.Kind, "sources")
	l.save(d.Number, next, id+" is turned down")
	for _, delay := range []time.Duration{0, 20 * time.Second, time.Minute} {
		l.after(delay, func() { l.soonApproved(d) })
	}
	l.after(3*time.Minute+within(r, 8*time.Minute), func() {
		back := l.good.clone()
		if t := back.find(id); t != nil && t.Turndown {
			t.Turndown = false
			if pool := back.any(r, "pool"); pool != nil {
				pool.Asks = id
			}
			l.save(d.Number, back, id+" is back")
		}
	})
}

// outputEdited has somebody edit what a plugin tells, which is put right, or what none tells,
// which stays.
func (l *Lab) outputEdited(d Disturbance, r *rand.Rand) {
	replica := l.replica()
	if replica == nil || replica.Client == nil {
		return
	}
	l.note(d.Kind, "API")
	value, kind, own := fmt.Sprintf("p-%d", r.IntN(1000)), r.IntN(3), r.IntN(2)
	l.people.Go("somebody edits outputs", func() {
		p := l.named(replica, somebody, d, r)
		response, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: string(l.partition), Name: outputs.Document})
		if err != nil {
			return
		}
		path := "/network~1main"
		operation := &apipb.DocumentOperation{Path: path, Value: fmt.Sprintf(`{"id": %q}`, value)}
		switch asset := []string{"bucket~1a", "bucket~1b"}[own]; kind {
		case 1:
			operation = &apipb.DocumentOperation{Path: "/" + asset, Value: fmt.Sprintf(`{%q: %q}`, world.OutputName, value)}
		case 2:
			operation = &apipb.DocumentOperation{Path: "/" + asset + "/" + world.OutputName, Value: fmt.Sprintf("%q", value)}
		}
		_, err = p.c.Documents.EditDocument(p.ctx, &apipb.EditDocumentRequest{
			Partition: string(l.partition), Name: outputs.Document, Base: response.Document.Revision.Id, Reason: "I know better",
			Operations: []*apipb.DocumentOperation{operation},
		})
		l.tell("%s: %s is %s: %v", d, operation.Path, operation.Value, err)
		if err == nil {
			l.mark("outputs: edited by a person")
		}
	})
}

// outputMoment changes an address, and has the process die before or after it is written, the
// answer be lost, or somebody edit the document meanwhile.
func (l *Lab) outputMoment(d Disturbance, r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: KillAtPoint, Point: pointSaveOutputs, Seed: d.Seed}, 0})
	case 1:
		l.store.refuse, l.store.lose, l.store.only, l.store.left = false, true, "SaveOutputs", 1
	case 2:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: Meanwhile, Then: OutputEdited, Point: pointSaveOutputs, Length: 3 * time.Second, Seed: d.Seed}, 0})
	default:
		l.savedOutputs = func() { l.restart(Disturbance{Number: d.Number, Kind: Restart, Seed: d.Seed}, r) }
	}
	l.after(4*time.Minute, func() { l.forgetMoment(d) })
	l.readdress(d, r)
}

func (l *Lab) forgetMoment(d Disturbance) {
	l.armed = slices.DeleteFunc(l.armed, func(a armed) bool { return a.d.Number == d.Number })
	if l.store.only == "SaveOutputs" {
		l.store = storeTrouble{}
	}
	l.savedOutputs = nil
}

// outputDeposed has the process that is about to write an address stand still until another
// has taken its lease and written a newer one: what it writes then comes too late (S4).
func (l *Lab) outputDeposed(d Disturbance, r *rand.Rand) {
	old := l.replica()
	if old == nil || l.crowded(1) || l.fleet() {
		return
	}
	l.note(d.Kind, "production")
	const asleep = 40 * time.Second
	written := l.marks[markOutputsWritten]
	l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: PauseAtPoint, Point: pointSaveOutputs, Length: asleep, Seed: d.Seed}, 0})
	l.readdress(d, r)
	l.people.Go("another takes over", func() {
		defer l.forgetMoment(d)
		if !l.until(3*time.Minute, func() bool { return old.Paused() }) || l.healing || l.marks[markOutputsWritten] != written {
			return
		}
		l.readdress(d, r)
		l.relieve()
		l.after(2*asleep, func() { old.Kill("the process that took over stays") })
		l.until(asleep, func() bool { return !old.Paused() })
	})
}

const markOutputsWritten = "outputs: written"

// outputsSaved marks what came of a write of the enforcer.
func (l *Lab) outputsSaved(err error, replica *Replica) {
	switch {
	case err == nil:
		l.mark(markOutputsWritten)
		if then := l.savedOutputs; then != nil {
			l.savedOutputs = nil
			l.mark("outputs: restart after they were written")
			l.people.Go("after outputs were written", then)
		}
	case fault.Is(err, fault.Conflict) && l.leader != replica:
		l.mark("outputs: a deposed process came too late")
	case fault.Is(err, fault.Conflict):
		l.mark("outputs: somebody was faster")
	}
}

// outputReported marks what a report says of outputs.
func (l *Lab) outputReported(report intent.Report) {
	for _, problem := range report.OutputProblems {
		l.mark("outputs: told to be " + string(problem.Kind))
	}
}

// outputsMissing says which pool of head does not have what its bucket tells.
func (l *Lab) outputsMissing(head intent.IncarnationID) (open []string) {
	if !l.asksOutputs() {
		return nil
	}
	for _, t := range l.intent.Things {
		if t.Kind != "pool" || t.Asks == "" {
			continue
		}
		teller := l.intent.find(t.Asks)
		if teller == nil || teller.Turndown {
			continue
		}
		want := l.World.Output(intent.ResourceKey("sim:" + bucketMessage + "/" + teller.Name))
		if address := l.World.Text(l.ctx, head, intent.AssetID(t.ID), "address"); fmt.Sprintf("%q", address) != want {
			open = append(open, fmt.Sprintf("%s has the address %q, and %s has %s", t.ID, address, t.Asks, want))
		}
	}
	return open
}
