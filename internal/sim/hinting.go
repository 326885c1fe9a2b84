package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// In hinting runs plugins watch production and hint what changes, and declare a cadence of
// minutes: what nobody hints is let be for so long. Hints go wrong in all the ways in which
// they may.

// Disturbances of hinting runs.
const (
	HintsBreak   Kind = "hints break off, and production changes"
	HintsSilent  Kind = "hints are lost, and nobody is told"
	HintsFalse   Kind = "hints of what did not change"
	HintsForeign Kind = "hints about what is not the plugin's"
	HintsFlood   Kind = "a flood of hints"
)

var hintingKinds = []weighed{{HintsBreak, 24}, {HintsSilent, 12}, {HintsFalse, 12}, {HintsForeign, 6}, {HintsFlood, 12}, {Drift, 30}, {Vanish, 6}, {Poison, 8}}

// Hints reports whether plugins give hints in runs of a seed.
func Hints(seed uint64) bool { return seed%27 == 22 }

// hinting reports whether they do in this run.
func (l *Lab) hinting() bool { return l.options.Definition == "" && Hints(l.options.Seed) }

// hintCadence is the cadence that plugins declare which give hints; 0: they give none. All
// must come to rest within patience, also after what was not hinted.
func (l *Lab) hintCadence() time.Duration {
	if !l.hinting() {
		return 0
	}
	return []time.Duration{10 * time.Minute, 15 * time.Minute}[l.options.Seed/27%2]
}

// unseenFor is for how long plugins allow Lehr not to see what nobody hinted: its longest
// pauses are up to a fifth longer than the cadence.
func (l *Lab) unseenFor() time.Duration { return l.hintCadence() * 6 / 5 }

// drifts has somebody change something that Lehr brought about and that fits, in so long.
func (l *Lab) drifts(d Disturbance, r *rand.Rand, delay time.Duration, fits func(world.Resource) bool) {
	which, seed := r.IntN(1<<16), r.Uint64()
	l.after(delay, func() {
		var resources []intent.ResourceKey
		for _, resource := range l.World.Resources() {
			if resource.Exists && fits(resource) {
				resources = append(resources, resource.Key)
			}
		}
		if len(resources) == 0 {
			return
		}
		key := resources[which%len(resources)]
		l.tell("%s: %s is changed", d, key)
		l.World.Drift(key, seed)
	})
}

func anything(world.Resource) bool { return true }

// within draws a time up to most.
func within(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// hintsBreak has the connections for hints break, for a moment or for minutes. What changes
// meanwhile is hinted by nobody, and seen by the looks of a sweep.
func (l *Lab) hintsBreak(d Disturbance, r *rand.Rand) {
	length := time.Second + within(r, 20*time.Second)
	if r.IntN(2) == 0 {
		length = 5*time.Minute + within(r, 10*time.Minute)
	}
	l.note(d.Kind, "call")
	l.tell("%s, for %s", d, length)
	l.World.BreakHints(length)
	for range 1 + r.IntN(2) {
		l.drifts(d, r, within(r, length), anything)
	}
}

// hintsSilent has changes not be hinted, and nobody told: what changed is seen after a
// cadence.
func (l *Lab) hintsSilent(d Disturbance, r *rand.Rand) {
	length := time.Second + within(r, 30*time.Second)
	l.note(d.Kind, "call")
	l.tell("%s, for %s", d, length)
	l.World.SilenceHints(length)
	l.drifts(d, r, within(r, length), anything)
}

// hintsFalse has plugins hint for a while what did not change, also about what is in
// quarantine, as something soon is in half of the cases.
func (l *Lab) hintsFalse(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "call")
	l.tell("%s", d)
	length := time.Minute
	if r.IntN(2) == 0 {
		length *= 3
		l.poison(d, r)
	}
	for range 10 + r.IntN(30) {
		which := r.Uint64()
		l.after(within(r, length), func() {
			assets := l.quarantined()
			if len(assets) > 0 {
				l.mark("hints: about what is in quarantine")
			} else {
				assets = l.members()
			}
			if len(assets) > 0 {
				l.World.SayHints(false, l.partition, assets[which%uint64(len(assets))])
			}
		})
	}
}

// quarantined are the assets of head that are reported to be kept apart.
func (l *Lab) quarantined() (ids []intent.AssetID) {
	for _, id := range l.members() {
		report, err := l.reading.Report(l.ctx, l.partition, id)
		if err == nil && slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitQuarantined }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// hintsForeign has plugins hint about what they were not asked: assets of other partitions,
// those that nobody knows, and the policy.
func (l *Lab) hintsForeign(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "call")
	l.tell("%s", d)
	for range 1 + r.IntN(5) {
		l.after(within(r, 10*time.Second), func() {
			l.World.SayHints(true, "elsewhere", l.members()...)
			l.World.SayHints(true, "", "")
			l.World.SayHints(true, l.partition, intent.PolicyAsset, "of/nobody", "", intent.AssetID(strings.Repeat("x", 2000)))
		})
	}
}

// hintsFlood has a plugin hint much about a few assets, as one does that hints each request:
// as much as it may, or more, so that true hints are dropped too. Others of its type
// change meanwhile.
func (l *Lab) hintsFlood(d Disturbance, r *rand.Rand) {
	const (
		pace = 100 * time.Millisecond
		// burst empties what may come at once; allowed and excess are how many come at each
		// pace, less and more than may.
		burst, allowed, excess = 1200, 15, 40
	)
	var about []intent.AssetID
	members := l.headMembers()
	if len(members) == 0 {
		return
	}
	first := members[r.IntN(len(members))]
	for _, m := range members {
		if m.Type == first.Type {
			about = append(about, m.Asset)
		}
	}
	about = about[:max(1, min(3, len(about)-1))] // Another one is to change.
	each, kind := allowed, "of as many as may be"
	if r.IntN(3) > 0 {
		each, kind = excess, "of more than may be"
	}
	length := 25*time.Second + within(r, 15*time.Second)
	l.note(d.Kind, "call")
	l.mark("hints: a flood, " + kind)
	l.tell("%s: %d each %s for %s, about %v", d, each, pace, length, about)
	say := func(n int) {
		l.World.SayHints(false, l.partition, slices.Repeat(about, n/len(about))...)
	}
	end := l.Now().Add(length)
	l.people.Go("a flood of hints", func() {
		if each == excess {
			say(burst)
		}
		for l.Now().Before(end) && !l.healing && l.people.Wait(l.ctx, pace, nil) == nil {
			say(each)
		}
	})
	for range 3 {
		l.drifts(d, r, within(r, length), func(resource world.Resource) bool {
			return resource.Type == first.Type && !slices.Contains(about, resource.Asset)
		})
	}
}
