package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// In runs that ail, the budget of a cluster bounds how many of its assets may be
// unhealthy or pushed at once, and things there become ill.

// Disturbances of runs that ail.
const (
	Ailing      Kind = "some of a cluster are ill, and more of it is to be pushed"
	AilingLimit Kind = "another number of a cluster may be ill"
)

var ailingKinds = []weighed{{Ailing, 60}, {AilingLimit, 8}, {Sick, 10}}

// Ails reports whether runs of a seed have a budget of unhealthy assets.
func Ails(seed uint64) bool { return seed%27 == 18 || DeclaresHealth(seed) }

// ailing reports whether this run has one.
func (l *Lab) ailing() bool { return l.options.Definition == "" && Ails(l.options.Seed) }

// ail puts a few records into each cluster of the first intent, and bounds the ill ones.
func (l *Lab) ail() {
	if !l.ailing() {
		return
	}
	r := l.stream("ailing")
	l.first.Unhealthy, l.first.Budget, l.first.Declares = 1+r.IntN(3), 1+r.IntN(3), l.declaresHealth()
	for n := range 6 {
		id := fmt.Sprintf("record/r%d", n+1)
		l.first.Things = append(l.first.Things, Thing{ID: id, Kind: "command", Name: id, Text: "r", Scope: []string{"a", "b"}[n%2]})
	}
}

// ills are the assets whose resource is unhealthy now, by itself or by what their addon says.
func (l *Lab) ills() map[intent.AssetID]bool {
	ills := map[intent.AssetID]bool{}
	for _, r := range l.World.Resources() {
		if r.Exists && r.Health == intent.Unhealthy {
			ills[r.Asset] = true
		}
	}
	if l.declaresHealth() {
		for _, asset := range l.illDeclared() {
			ills[asset] = true
		}
	}
	return ills
}

// falls makes some of a cluster ill for minutes, and has more of it be pushed once that
// is known, or at once.
func (l *Lab) falls(d Disturbance, r *rand.Rand) {
	scope := []string{"a", "b"}[r.IntN(2)]
	next := l.good.clone()
	period := time.Duration(3+r.IntN(8)) * time.Minute
	most := 1 + r.IntN(4)
	l.note(d.Kind, "production")
	var ill []string
	for _, at := range r.Perm(len(next.Things)) {
		t := &next.Things[at]
		if t.Scope != scope || len(ill) == most {
			continue
		}
		for _, of := range l.World.Resources() {
			if of.Exists && of.Asset == intent.AssetID(t.ID) {
				ill = append(ill, t.ID)
				l.World.Sick(of.Key, true)
				l.after(period, func() { l.World.Sick(of.Key, false) })
			}
		}
	}
	l.tell("%s: %s are ill for %s", d, strings.Join(ill, ", "), period)
	l.after([]time.Duration{time.Second, 40 * time.Second, 150 * time.Second, 170 * time.Second}[r.IntN(4)], func() {
		next := l.good.clone()
		var actions []string
		for at := range next.Things {
			if t := &next.Things[at]; t.Scope == scope && t.Mode == "" && !t.Turndown && r.IntN(3) > 0 {
				actions = append(actions, t.alter(r))
			}
		}
		l.save(d.Number, next, strings.Join(actions, "; "))
		l.soonApproved(d)
	})
}

// limits says how many may be ill, and pushed, from now on.
func (l *Lab) limits(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	next.Unhealthy, next.Budget = 1+r.IntN(3), 1+r.IntN(3)
	l.note(d.Kind, "sources")
	l.save(d.Number, next, fmt.Sprintf("budget %d, and %d of a cluster may be ill", next.Budget, next.Unhealthy))
}

// waitsForHealth marks that a report waits for others to be healthy.
func (l *Lab) waitsForHealth(waiting intent.WaitingOn) {
	if l.ailing() && waiting.Unhealthy {
		l.mark("waits: others of its cluster are not healthy")
	}
}
