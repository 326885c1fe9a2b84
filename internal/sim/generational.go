package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// In generational runs a setting has a number in its name, another with each change, and
// something comes after it. A rule says how many older ones are kept.

// Disturbances of generational runs.
const (
	GenerationNew  Kind = "a setting has a new generation"
	GenerationBack Kind = "a setting goes back to an older generation"
	GenerationRule Kind = "the rule of generations is another one"
)

var generationKinds = []weighed{{GenerationNew, 60}, {GenerationBack, 15}, {GenerationRule, 10}}

// Generations reports whether names are generated in runs of a seed.
func Generations(seed uint64) bool { return seed%27 == 26 || Overreaches(seed) }

// generational reports whether they are in this run.
func (l *Lab) generational() bool {
	return l.options.Definition == "" && Generations(l.options.Seed)
}

// settingPrefix begins the ids of a setting's generations.
const settingPrefix = "setting/web-"

// generationRule is the section of the definition.
func (i Intent) generationRule() string {
	if i.Kept == 0 {
		return ""
	}
	return fmt.Sprintf("generations:\n  web: {assets: \"%s*\", generator: all, suffix: version, keep: %d}\n", settingPrefix, i.Kept)
}

// setting is a generation of the setting.
func setting(number int) Thing {
	return Thing{ID: fmt.Sprint(settingPrefix, number), Kind: "balancer", Name: fmt.Sprint("setting-", number), Text: "s", Count: 1}
}

// set puts a setting, and what comes after it, into the first intent.
func (l *Lab) set() {
	if !l.generational() {
		return
	}
	l.first.Kept = 1
	l.first.Things = append(l.first.Things, setting(1),
		Thing{ID: "record/set", Kind: "command", Name: "set", Text: "s1", After: []string{setting(1).ID}})
}

// newGeneration gives the setting another number, a new one or one that it had, in one commit
// with what comes after it.
func (l *Lab) newGeneration(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	at := -1
	for i := range next.Things {
		if strings.HasPrefix(next.Things[i].ID, settingPrefix) {
			at = i
		}
	}
	if at < 0 {
		return
	}
	if l.generation == 0 {
		l.generation = 9 // Renames give smaller numbers.
	}
	number := l.generation + 1
	if d.Kind == GenerationBack {
		number = 10 + r.IntN(max(1, l.generation-9))
		if number > l.generation || next.count(setting(number).ID) > 0 {
			return
		}
		l.mark("generations: an older one is back")
	} else {
		l.generation++
	}
	old := next.Things[at].ID
	next.rename(&next.Things[at], setting(number).ID)
	next.Things[at].Name = setting(number).Name
	l.note(d.Kind, "sources")
	l.save(d.Number, next, fmt.Sprintf("%s follows %s", setting(number).ID, old))
}

// ruleEdited has the rule keep more or fewer, or leaves it out.
func (l *Lab) ruleEdited(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	next.Kept = []int{0, 1, 2, 3}[r.IntN(4)]
	l.mark("generations: a rule is another one")
	l.note(d.Kind, "sources")
	l.save(d.Number, next, fmt.Sprintf("%d older generations are kept", next.Kept))
}

// removedByRule reports whether an incarnation has an asset only so that a rule removes it.
func (l *Lab) removedByRule(head intent.IncarnationID, asset intent.AssetID) bool {
	if !l.generational() || !strings.HasPrefix(string(asset), settingPrefix) {
		return false
	}
	_, body, err := l.reading.Content(l.ctx, head, asset)
	if err != nil {
		return false
	}
	content, err := schema.Decode(body)
	if err != nil {
		return false
	}
	turndown := &intentpb.Turndown{}
	_, err = schema.Addon(content, turndown)
	return err == nil && turndown.GetGeneration() != nil
}
