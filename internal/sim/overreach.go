package sim

import (
	"math/rand/v2"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// In some generational runs things come about that a rule names and must not be the approval
// of: a setting that people marked for their approval, one that they turn down themselves, and
// one that another edition of the rule turned down.

// Disturbances of these runs.
const (
	GenerationMarked Kind = "a setting is marked for approval, and two newer ones follow"
	GenerationLeaves Kind = "people turn a setting down that a rule names"
	GenerationPinned Kind = "a setting that a rule turned down is held and pinned, and the rule is another one"
)

var overreachKinds = append([]weighed{{GenerationMarked, 30}, {GenerationLeaves, 30}, {GenerationPinned, 30}}, generationKinds...)

// Overreaches reports whether such things come about in runs of a seed.
func Overreaches(seed uint64) bool { return seed%108 == 91 }

// overreaches reports whether they do in this run.
func (l *Lab) overreaches() bool { return l.generational() && Overreaches(l.options.Seed) }

// presentSetting is the one of an intent; nil: it has none.
func (i *Intent) presentSetting() *Thing {
	for at := range i.Things {
		if strings.HasPrefix(i.Things[at].ID, settingPrefix) {
			return &i.Things[at]
		}
	}
	return nil
}

// editSetting saves an intent in which the present setting is edited, and the newest one is kept.
func (l *Lab) editSetting(d Disturbance, what string, edit func(*Thing)) (id intent.AssetID, ok bool) {
	next := l.good.clone()
	setting := next.presentSetting()
	if setting == nil {
		return "", false
	}
	next.Kept = 1
	edit(setting)
	l.save(d.Number, next, what)
	return intent.AssetID(setting.ID), true
}

// markSetting has people ask for their approval of the present setting, which then becomes one
// that the rule has removed.
func (l *Lab) markSetting(d Disturbance, r *rand.Rand) {
	if _, ok := l.editSetting(d, "the setting is marked for approval", func(t *Thing) { t.Approval, t.Turndown, t.Mode = true, false, "" }); !ok {
		return
	}
	l.note(d.Kind, "sources")
	l.soonApproved(d)
	l.followSettings(d, r)
}

// followSettings has two newer generations follow, which are not marked.
func (l *Lab) followSettings(d Disturbance, r *rand.Rand) {
	newer := Disturbance{Number: d.Number, Kind: GenerationNew, Seed: d.Seed}
	l.after(2*settling, func() {
		l.newGeneration(newer, r)
		l.after(settling, func() {
			l.editSetting(d, "the setting is not marked", func(t *Thing) { t.Approval = false })
			l.soonApproved(d)
		})
	})
	l.after(5*settling, func() { l.newGeneration(newer, r) })
}

// turnSettingDown has people turn the present setting down, which only they approve.
func (l *Lab) turnSettingDown(d Disturbance, _ *rand.Rand) {
	plain := func(down bool) func(*Thing) {
		return func(t *Thing) { t.Turndown, t.Approval, t.Mode = down, false, "" }
	}
	next := l.good.clone()
	if follower := next.find("record/set"); follower != nil {
		follower.After = nil // Or it would keep the setting.
	}
	l.note(d.Kind, "sources")
	next.Kept = 1
	l.save(d.Number, next, "nothing comes after the setting")
	l.soonApproved(d)
	l.after(2*settling, func() { l.editSetting(d, "people turn the setting down", plain(true)) })
	l.after(5*settling, func() {
		l.editSetting(d, "the setting stays", plain(false))
		l.soonApproved(d)
	})
}

// pinSetting holds a setting while two newer ones follow, so that the rule turns it down and it
// stays; then it is pinned as it is, and the rule is another one when the hold ends.
func (l *Lab) pinSetting(d Disturbance, r *rand.Rand) {
	id, ok := l.editSetting(d, "the newest older setting is kept", func(t *Thing) { t.Approval, t.Turndown, t.Mode = false, false, "" })
	if !ok {
		return
	}
	l.note(d.Kind, "sources")
	l.after(settling, func() { l.holdFor(id, 7*settling) })
	l.followSettings(d, r)
	l.after(7*settling, func() {
		replica := l.replica()
		partition, err := l.reading.Partition(l.ctx, l.partition)
		if replica == nil || replica.link == nil || err != nil {
			return
		}
		_, err = replica.link.SetPin(l.ctx, intent.Pin{
			Asset: id, Incarnation: partition.Head, Rank: intent.RankPerson, Holder: intent.Actor{Name: "ann", Origin: "sim"},
			Reason: "as it is", Until: l.Now().Add(4 * settling),
		})
		if err != nil {
			return
		}
		next := l.good.clone()
		next.Kept = 2
		l.save(d.Number, next, "2 older generations are kept")
	})
}
