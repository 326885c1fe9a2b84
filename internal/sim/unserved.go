package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// In unserved runs the partition has assets that no plugin serves: those of one type never had
// one, and are a declared model now and then; those of another lose theirs, and get it back.

// Disturbances of unserved runs.
const (
	PluginUnbound    Kind = "a type loses its plugin, or gets it back"
	ModelDeclared    Kind = "a type is declared a model, or is none any more"
	UnservedEdited   Kind = "something changes that no plugin serves"
	UnservedAnswered Kind = "somebody counts what is in sync"
)

var unservedKinds = []weighed{{PluginUnbound, 30}, {ModelDeclared, 20}, {UnservedEdited, 20}, {UnservedAnswered, 40}}

// Unserved reports whether runs of a seed have assets that no plugin serves.
func Unserved(seed uint64) bool { return seed%27 == 25 }

// unserved reports whether this run has them.
func (l *Lab) unserved() bool { return l.options.Definition == "" && Unserved(l.options.Seed) }

// The types of such assets: of a leaf there never is a plugin, and of a note there mostly is.
const (
	leafType = "sim.v1.Leaf"
	noteType = "sim.v1.Note"
)

// bindings say which of both types a plugin serves, and which are models.
type bindings struct{ noteBound, leafIsModel bool }

// definition is what the definition says of them.
func (b bindings) definition(text string) string {
	if b.noteBound {
		text = strings.Replace(text, "plugins:\n", "plugins:\n  Note: {run: [sim-note, "+noteType+"]}\n", 1)
	}
	if b.leafIsModel {
		text += "models: [" + leafType + "]\n"
	}
	return text
}

const leafTypes = `edition = "2023";
package sim.v1;
message Leaf { string text = 1; }
message Note { string text = 1; }
`

// leafMaker makes both, beside the other makers.
const leafMaker = `
def leaf(t):
    return sim.v1.Leaf(text = t["text"])

def note(t):
    return sim.v1.Note(text = t["text"])

makers["leaf"] = leaf
makers["note"] = note
`

// scatter puts such assets into the first intent.
func (l *Lab) scatter() {
	if !l.unserved() {
		return
	}
	l.first.Bindings = &bindings{noteBound: true}
	for n := range 3 {
		leaf, note := fmt.Sprintf("leaf/%d", n), fmt.Sprintf("note/%d", n)
		l.first.Things = append(l.first.Things,
			Thing{ID: leaf, Kind: "leaf", Name: leaf, Scope: []string{"a", "b", ""}[n], Text: "l"},
			Thing{ID: note, Kind: "note", Name: note, Scope: []string{"a", "b", ""}[n], Text: "n"})
	}
}

// rebinds has sources say otherwise which types have plugins, or are models.
func (l *Lab) rebinds(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	if next.Bindings == nil {
		return
	}
	changed, what := *next.Bindings, ""
	if d.Kind == PluginUnbound {
		changed.noteBound = !changed.noteBound
		what = fmt.Sprintf("a plugin serves notes: %t", changed.noteBound)
	} else {
		changed.leafIsModel = !changed.leafIsModel
		what = fmt.Sprintf("leaves are models: %t", changed.leafIsModel)
	}
	next.Bindings = &changed
	if t := next.any(r, "note"); t != nil && r.IntN(2) == 0 {
		t.Text = fmt.Sprintf("n%d", r.IntN(9)) // In the same commit.
	}
	l.note(d.Kind, "sources")
	l.save(d.Number, next, what)
}

// editsUnserved changes some things of both types.
func (l *Lab) editsUnserved(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	var actions []string
	for range 1 + r.IntN(3) {
		if t := next.any(r, []string{"leaf", "note"}[r.IntN(2)]); t != nil {
			t.Text = fmt.Sprintf("%s%d", t.Kind, r.IntN(9))
			actions = append(actions, fmt.Sprintf("%s says %q", t.ID, t.Text))
		}
	}
	if len(actions) == 0 {
		return
	}
	l.note(d.Kind, "sources")
	l.save(d.Number, next, strings.Join(actions, "; "))
}

// counts has somebody ask how the partition is, once what was edited last is known.
func (l *Lab) counts(d Disturbance, _ *rand.Rand) {
	l.note(d.Kind, "API")
	l.tell("%s", d)
	l.people.Go("somebody counts", func() {
		for range 30 {
			if l.people.Wait(l.ctx, 20*time.Second, nil) != nil {
				return
			}
			if l.Now().Sub(l.changed) > l.sweep()+sayGrace && l.well() && l.Now().Sub(l.wellSince) > l.sweep()+sayGrace {
				l.count(l.ctx)
				return
			}
		}
	})
}

// count asks how many are in sync, and holds the answer to how many can be: no answer counts
// what no plugin serves (S11).
func (l *Lab) count(ctx context.Context) {
	replica := l.replica()
	if replica == nil || replica.Client == nil {
		return
	}
	previous := l.Head()
	served, unserved := l.byBinding()
	answer, err := replica.Client.Reports.Why(ctx, &apipb.WhyRequest{Partition: string(l.partition)})
	if err != nil || l.Head() != previous || answer.GetStanding() == nil {
		return
	}
	l.mark("unserved: counted")
	if n := answer.GetStanding().GetMembers()["in-sync"]; n > int64(served) {
		l.wrong("S11", "%d assets are told to be in sync, and plugins serve %d of head's, not the other %d", n, served, unserved)
	}
	if n := answer.GetStates()[string(intent.StateInSync)]; n > int64(served) {
		l.wrong("S11", "%d assets have the state in-sync, and plugins serve %d of head's, not the other %d", n, served, unserved)
	}
}

// byBinding counts the members of head by whether a plugin serves their type, as head says.
func (l *Lab) byBinding() (served, unserved int) {
	for _, m := range l.headMembers() {
		if l.hasPlugin(m.Type) {
			served++
		} else {
			unserved++
		}
	}
	return served, unserved
}

// hasPlugin reports whether head binds a plugin to a type.
func (l *Lab) hasPlugin(kind intent.TypeName) bool {
	switch {
	case l.good.Bindings == nil:
		return true
	case kind.IsIntent() || kind == leafType:
		return false
	}
	return kind != noteType || l.good.Bindings.noteBound
}
