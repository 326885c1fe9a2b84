package world

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// TroubleKind is one way for a plugin to go wrong.
type TroubleKind string

// What befalls a call of Diff.
const (
	DiffHang  TroubleKind = "diff-hang"
	DiffSlow  TroubleKind = "diff-slow"
	DiffError TroubleKind = "diff-error"
	// DiffUnknown: the plugin cannot tell.
	DiffUnknown TroubleKind = "diff-unknown"
	// DiffSilent: it says neither that nor anything else.
	DiffSilent TroubleKind = "diff-silent"
	// DiffStale: it compares an earlier state of the resource.
	DiffStale TroubleKind = "diff-stale"
	// DiffGarbage: what no plugin may say.
	DiffGarbage     TroubleKind = "diff-garbage"
	DiffLiesInSync  TroubleKind = "diff-lies-in-sync"
	DiffLiesDiffers TroubleKind = "diff-lies-differs"
	// DiffLiesDelete: it plans to remove the resource.
	DiffLiesDelete    TroubleKind = "diff-lies-delete"
	DiffForOtherAsset TroubleKind = "diff-for-other-asset"
	// DiffMissing: one asset is left out of the answer.
	DiffMissing TroubleKind = "diff-missing"
	// DiffBare: it shows neither what is there nor any amounts.
	DiffBare          TroubleKind = "diff-bare"
	DiffHealthGarbage TroubleKind = "diff-health-garbage"
	// DiffNoNumber: of what is there it shows nothing but amounts that are no
	// numbers.
	DiffNoNumber TroubleKind = "diff-no-number"
	// DiffBusy: the target is too busy to be looked at.
	DiffBusy TroubleKind = "diff-busy"
	// DiffPending: a change is under way that no push hastens.
	DiffPending TroubleKind = "diff-pending"
	// DiffOld: the answer is honest about an age that nobody allows.
	DiffOld TroubleKind = "diff-old"
)

// What befalls a push.
const (
	// PushHang: the plugin holds it, with permits or, by the seed, without.
	PushHang      TroubleKind = "push-hang"
	PushSlow      TroubleKind = "push-slow"
	PushStartLost TroubleKind = "push-start-lost"
	// PushStartLate: up to three permit periods later.
	PushStartLate            TroubleKind = "push-start-late"
	PushStartTwice           TroubleKind = "push-start-twice"
	PushReplyLost            TroubleKind = "push-reply-lost"
	PushReplyLate            TroubleKind = "push-reply-late"
	PushPartialThenFail      TroubleKind = "push-partial-then-fail"
	PushAppliedButError      TroubleKind = "push-applied-but-error"
	PushSuccessButNotApplied TroubleKind = "push-success-but-not-applied"
	PushStaleAnswer          TroubleKind = "push-stale-answer"
	// PushRefused: the provider wants none of it.
	PushRefused TroubleKind = "push-refused"
	// PushBusy: the target is too busy for it.
	PushBusy TroubleKind = "push-busy"
	// PushCutOff: the plugin's process dies while its target is at work.
	PushCutOff TroubleKind = "push-cut-off"
	PermitLost TroubleKind = "permit-lost"
	PermitLate TroubleKind = "permit-late"
	// PushIgnoresPermitEnd: effects begin whatever the permit says. Only on
	// targets that compare.
	PushIgnoresPermitEnd TroubleKind = "push-ignores-permit-end"
)

// What befalls a plugin's process, at a call.
const (
	PluginCrash TroubleKind = "plugin-crash"
	// PluginCrashLoop: it dies at each start for a while.
	PluginCrashLoop TroubleKind = "plugin-crash-loop"
	// PluginDown: it cannot be started for a while.
	PluginDown TroubleKind = "plugin-down"
	// PluginVersionSkew: it is started anew and speaks another protocol or, by
	// the seed, serves other types.
	PluginVersionSkew TroubleKind = "plugin-version-skew"
	PluginPaused      TroubleKind = "plugin-paused"
	// PluginOutlivesParent: its replica's death does not end it at once.
	PluginOutlivesParent TroubleKind = "plugin-outlives-parent"
)

// Kinds are all kinds of trouble.
func Kinds() []TroubleKind {
	return []TroubleKind{
		DiffHang, DiffSlow, DiffError, DiffUnknown, DiffSilent, DiffStale, DiffGarbage, DiffLiesInSync, DiffLiesDiffers,
		DiffForOtherAsset, DiffMissing, DiffHealthGarbage, DiffNoNumber, DiffLiesDelete, DiffBare, DiffBusy, DiffPending, DiffOld,
		PushHang, PushSlow, PushStartLost, PushStartLate, PushStartTwice, PushReplyLost, PushReplyLate,
		PushPartialThenFail, PushAppliedButError, PushSuccessButNotApplied, PushStaleAnswer, PushRefused, PushBusy, PushCutOff, PermitLost, PermitLate,
		PushIgnoresPermitEnd,
		PluginCrash, PluginCrashLoop, PluginDown, PluginVersionSkew, PluginPaused, PluginOutlivesParent,
	}
}

// wholeBatch says which troubles of a diff befall all assets of the call.
func (k TroubleKind) wholeBatch() bool { return k == DiffHang || k == DiffSlow || k == DiffError }

// ofProcess says which befall the process.
func (k TroubleKind) ofProcess() bool { return strings.HasPrefix(string(k), "plugin-") }

// Lies says which have a plugin tell what is not so.
func (k TroubleKind) Lies() bool {
	switch k {
	case DiffStale, DiffGarbage, DiffLiesInSync, DiffLiesDiffers, DiffLiesDelete, DiffForOtherAsset:
		return true
	}
	return false
}

// Trouble is what goes wrong with the next calls that concern an asset ("":
// any) of the plugins.
type Trouble struct {
	Kind  TroubleKind
	Asset intent.AssetID
	// Count is how many calls it befalls; 0: one.
	Count int
	// For is how long it lasts; 0: what is usual for its kind.
	For  time.Duration
	Seed uint64
}

// armed is a trouble that waits for calls.
type armed struct {
	Trouble
	left   int
	random *rand.Rand
}

// lasts is how long it lasts: what was asked for, or between least and most.
func (a *armed) lasts(least, most time.Duration) time.Duration {
	if a.For > 0 {
		return a.For
	}
	return least + time.Duration(a.random.Int64N(int64(most-least)))
}

// within is how long it lasts where more than most would be another trouble.
func (a *armed) within(least, most time.Duration) time.Duration {
	if a.For > 0 && a.For <= most {
		return a.For
	}
	return least + time.Duration(a.random.Int64N(int64(most-least)))
}

// strike is a trouble that has come to a call.
type strike struct {
	*armed
	asset intent.AssetID
}

// Trouble arms a trouble.
func (w *World) Trouble(t Trouble) {
	w.armed = append(w.armed, &armed{Trouble: t, left: max(1, t.Count), random: rand.New(rand.NewPCG(t.Seed, 0x7b0b1e))})
}

// Struck counts how often each kind of trouble came to a call.
func (w *World) Struck() map[TroubleKind]int { return maps.Clone(w.struck) }

// LiedOf is when a plugin last told what is not so of an asset; zero: never.
func (w *World) LiedOf(asset intent.AssetID) time.Time { return w.lied[asset] }

// Spare forgets the troubles that wait for calls about the asset alone.
func (w *World) Spare(asset intent.AssetID) {
	w.armed = slices.DeleteFunc(w.armed, func(a *armed) bool { return a.Asset == asset })
}

// hit returns the next trouble that fits and counts it; none: nil.
func (w *World) hit(asset intent.AssetID, fits func(TroubleKind) bool) *armed {
	for i, a := range w.armed {
		if a.Asset != "" && a.Asset != asset || !fits(a.Kind) {
			continue
		}
		if a.left--; a.left == 0 {
			w.armed = slices.Delete(w.armed, i, i+1)
		}
		w.struck[a.Kind]++
		w.process.Scheduler().Note("trouble " + string(a.Kind) + " for " + string(asset))
		return a
	}
	return nil
}

// hitPush returns what befalls a push, apart from what befalls the process.
func (w *World) hitPush(asset intent.AssetID, class plugin.Guarantee) *armed {
	return w.hit(asset, func(kind TroubleKind) bool {
		return strings.HasPrefix(string(kind), "push-") && (kind != PushIgnoresPermitEnd || class == plugin.Fenced || class == plugin.CompareAndSet)
	})
}

// hitDiff returns what befalls a call of Diff: the batch, each of its assets,
// and the process.
func (w *World) hitDiff(assets []intent.AssetID) (whole *armed, single []strike, process *armed) {
	for _, asset := range assets {
		if whole == nil {
			whole = w.hit(asset, TroubleKind.wholeBatch)
		}
		if process == nil {
			process = w.hit(asset, TroubleKind.ofProcess)
		}
		one := w.hit(asset, func(kind TroubleKind) bool { return strings.HasPrefix(string(kind), "diff-") && !kind.wholeBatch() })
		if one != nil {
			single = append(single, strike{one, asset})
		}
	}
	return whole, single, process
}

// Heal ends all trouble: what is armed is forgotten, what goes on ends, nobody
// else writes any more, and everything is healthy. What exists stays as it is,
// and messages that are late still come.
func (w *World) Heal() {
	w.armed, w.memoFaults = nil, nil
	w.hints.brokenUntil, w.hints.silentUntil = time.Time{}, time.Time{}
	for _, state := range w.outputs {
		state.changing = false
	}
	close(w.healed)
	w.healed = make(chan struct{})
	keys := slices.Sorted(maps.Keys(w.resources))
	for _, key := range keys {
		w.resources[key].Health = intent.Healthy
	}
	w.changesHealth(keys...)
	for _, key := range slices.Sorted(maps.Keys(w.programs)) {
		p := w.programs[key]
		p.crashUntil, p.downUntil, p.skewUntil = time.Time{}, time.Time{}, time.Time{}
	}
	for _, c := range w.children {
		if c.life != nil && c.life.skewed {
			c.life.process.Scheduler().Kill(c.life.process)
		}
	}
}
