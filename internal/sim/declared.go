package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/internal/ground/intent"
)

// In runs that declare health, the records of clusters have the addon Health: production may
// be as intent asks and still not healthy, and the addon may fail to say which. Budgets of
// unhealthy assets are as in runs that ail.

// Declared is the disturbance of runs that declare health.
const Declared Kind = "some of a cluster become ill by what their addon says, and more of it is to be pushed"

var declaredKinds = []weighed{{Declared, 60}, {Ailing, 20}, {AilingLimit, 8}, {Sick, 10}, {Restart, 12}}

// DeclaresHealth reports whether records have the addon Health in runs of a seed.
func DeclaresHealth(seed uint64) bool { return seed%54 == 10 }

// declaresHealth reports whether they have it in this run.
func (l *Lab) declaresHealth() bool {
	return l.options.Definition == "" && DeclaresHealth(l.options.Seed)
}

// declaredPrefix begins the ids of what has the addon.
const declaredPrefix = "record/r"

// Inputs of which the addon says that they are ill, and of which it cannot say anything.
const declaredIll, declaredOdd = "ill", "odd"

// declaresAddon has the definition derive the addon.
func declaresAddon(definition string) string {
	const derive = `generate:
  health:
    derive: Health
    where: id.startsWith("%s")
    expression: 'payload.input == "%s" ? parseJSON(payload.input).up : payload.input != "%s"'
`
	return strings.Replace(definition, "generate:\n", fmt.Sprintf(derive, declaredPrefix, declaredOdd, declaredIll), 1)
}

// illDeclared are the assets of which the addon does not say that they are healthy, by what
// is in production. What is to go is judged by its plugin alone.
func (l *Lab) illDeclared() []intent.AssetID {
	var ill []intent.AssetID
	for _, r := range l.World.Resources() {
		if !r.Exists || !strings.HasPrefix(string(r.Asset), declaredPrefix) || r.Type != typeOf("command") {
			continue
		}
		has := &commandpb.Command{}
		if proto.Unmarshal(r.Payload, has) == nil && !healthyByAddon(has.GetInput()) && l.isToStay(r.Asset) {
			ill = append(ill, r.Asset)
		}
	}
	return ill
}

// healthyByAddon is what the expression gives, worked out without Lehr.
func healthyByAddon(input string) bool {
	if input != declaredOdd {
		return input != declaredIll
	}
	var state struct{ Up bool }
	return json.Unmarshal([]byte(input), &state) == nil && state.Up
}

// isToStay reports whether what an asset follows has it as a record that is not turned down.
func (l *Lab) isToStay(asset intent.AssetID) bool {
	k := look{Lab: l}
	k.At = l.Now()
	partition, err := l.reading.Partition(l.ctx, l.partition)
	if err != nil {
		return false
	}
	k.head = partition.Head
	if k.pins, err = l.reading.Pins(l.ctx, l.partition); err != nil {
		return false
	}
	content, ok := k.declares(k.follows(asset), asset)
	return ok && !content.turndown && content.Payload.Type == typeOf("command")
}

// fallsByAddon has some records of a cluster become what the addon calls ill, or cannot judge,
// and more of the cluster be pushed once they are; later they are well again.
func (l *Lab) fallsByAddon(d Disturbance, r *rand.Rand) {
	scope := []string{"a", "b"}[r.IntN(2)]
	next := l.good.clone()
	var ill []string
	most := 1 + r.IntN(3)
	for _, at := range r.Perm(len(next.Things)) {
		t := &next.Things[at]
		if t.Scope != scope || !strings.HasPrefix(t.ID, declaredPrefix) || t.Mode != "" || t.Turndown || len(ill) == most {
			continue
		}
		t.Text = []string{declaredIll, declaredOdd}[r.IntN(2)]
		ill = append(ill, t.ID)
	}
	if len(ill) == 0 {
		return
	}
	l.note(d.Kind, "sources")
	l.save(d.Number, next, strings.Join(ill, ", ")+" become ill")
	l.soonApproved(d)
	l.after(settling+[]time.Duration{time.Second, 40 * time.Second, 150 * time.Second, 170 * time.Second}[r.IntN(4)], func() {
		next := l.good.clone()
		var actions []string
		for at := range next.Things {
			if t := &next.Things[at]; t.Scope == scope && t.Mode == "" && !t.Turndown && !isIllText(t.Text) && r.IntN(3) > 0 {
				actions = append(actions, t.alter(r))
			}
		}
		l.save(d.Number, next, strings.Join(actions, "; "))
		l.soonApproved(d)
	})
	l.after(time.Duration(6+r.IntN(8))*time.Minute, func() {
		next := l.good.clone()
		for at := range next.Things {
			if t := &next.Things[at]; isIllText(t.Text) {
				t.Text = "r"
			}
		}
		l.save(d.Number, next, "what was ill is well")
		l.soonApproved(d)
	})
}

func isIllText(text string) bool { return text == declaredIll || text == declaredOdd }
