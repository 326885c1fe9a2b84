package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// Whoever takes over must wait until what an earlier process, or an earlier
// time of its own, left under way is over (S3). Time alone tells where targets
// compare nothing: these situations use that time up.

// pushOf gives a job that anybody may push other content, and has its next push
// befallen by something.
func (l *Lab) pushOf(d Disturbance, r *rand.Rand, t world.Trouble) (id intent.AssetID, ok bool) {
	next := l.good.clone()
	job := next.wanting(r, "job")
	if job == nil || job.Approval || l.options.Definition != "" {
		return "", false
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, job.ID)
	if t.Kind != "" {
		t.Asset, t.Count, t.Seed = intent.AssetID(job.ID), 1, d.Seed
		l.World.Trouble(t)
	}
	l.save(d.Number, next, job.alter(r))
	return intent.AssetID(job.ID), true
}

// cutOff has a plugin die while its target is at work for it.
func (l *Lab) cutOff(d Disturbance, r *rand.Rand) {
	l.pushOf(d, r, world.Trouble{Kind: world.PushCutOff})
}

// orphan ends a process, or lets it sleep, in the middle of a push, whose
// plugin goes on under its last permit; another process begins at once.
func (l *Lab) orphan(d Disturbance, r *rand.Rand) {
	old := l.replica()
	if old == nil || !l.distant() || l.crowded(1) {
		return
	}
	const least, most = 1500 * time.Millisecond, 4 * time.Second
	slow := least + time.Duration(r.Int64N(int64(most-least)))
	id, ok := l.pushOf(d, r, world.Trouble{Kind: world.PushSlow, For: slow})
	if !ok {
		return
	}
	l.whilePushed(id, func() {
		if r.IntN(2) == 0 {
			old.Abandon()
			old.Kill("its plugin stays")
		} else {
			const asleep = 30 * time.Second
			old.Pause(asleep)
			l.after(asleep, func() { old.Kill("the process that took over stays") })
		}
		l.relieve()
	})
}

// returning has a process lose the lease and take it back while its plugin
// stands still before an effect: no other process has that plugin.
func (l *Lab) returning(d Disturbance, r *rand.Rand) {
	old := l.replica()
	if old == nil || l.distant() || l.crowded(1) {
		return
	}
	const least, most = 2200 * time.Millisecond, 3400 * time.Millisecond
	asleep := Disturbance{Number: d.Number, Kind: PauseAtPoint, Point: "effect", Plugins: true, Length: least + time.Duration(r.Int64N(int64(most-least)))}
	id, ok := l.pushOf(d, r, world.Trouble{})
	if !ok {
		return
	}
	l.armed = append(l.armed, armed{asleep, 0})
	l.people.Go("meanwhile", func() {
		for range 100 {
			if l.people.Wait(l.ctx, 100*time.Millisecond, nil) != nil || l.healing {
				return
			}
			if !slices.ContainsFunc(l.armed, func(a armed) bool { return a.d == asleep }) {
				l.loseBriefly(d, r, id)
				return
			}
		}
	})
}

// loseBriefly has a second process begin and end. The first one notices as
// soon as it wants to write.
func (l *Lab) loseBriefly(d Disturbance, r *rand.Rand, besides intent.AssetID) {
	young := l.Begin()
	_ = l.people.Wait(l.ctx, 200*time.Millisecond, nil)
	young.Kill("it was started by mistake")
	next := l.good.clone()
	if t := next.wanting(r, "command", "balancer"); t != nil && t.ID != string(besides) {
		l.save(d.Number, next, t.alter(r))
	}
}
