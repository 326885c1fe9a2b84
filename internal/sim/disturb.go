package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// Kind of a disturbance.
type Kind string

// The kinds. Those of plugins are world.TroubleKind's, with "plugin: " before.
const (
	KillAtPoint    Kind = "kill at a point"
	PauseAtPoint   Kind = "pause at a point"
	DelayAtPoint   Kind = "delay at a point"
	Takeover       Kind = "another process takes over"
	Restart        Kind = "restart"
	ClockJump      Kind = "clock jumps"
	ClockRate      Kind = "clock goes wrong"
	ClockFreeze    Kind = "clock stands"
	StoreRefuses   Kind = "store refuses"
	StoreLoses     Kind = "store loses replies"
	StoreFull      Kind = "store full"
	StoreLags      Kind = "store tells late"
	StoreRots      Kind = "a bit of the store turns"
	SourceFails    Kind = "sources cannot be read"
	SourceOld      Kind = "sources are old"
	SourceFlaps    Kind = "sources flap"
	SourceTorn     Kind = "sources are read half-way"
	SourceGone     Kind = "a source file is gone"
	SourceEmpty    Kind = "a source file is empty"
	Edit           Kind = "edit"
	EditBlink      Kind = "edit and undo"
	EditSlip       Kind = "bad edit"
	EditRevert     Kind = "back to the first intent"
	Drift          Kind = "someone changes production"
	Vanish         Kind = "someone removes a resource"
	SecondWriter   Kind = "a second writer"
	Autoscale      Kind = "an autoscaler"
	Sick           Kind = "a resource is unhealthy"
	PersonStop     Kind = "stop"
	PersonResume   Kind = "resume"
	PersonHold     Kind = "hold"
	PersonUnhold   Kind = "unhold"
	PersonPin      Kind = "pin"
	PersonUnpin    Kind = "unpin"
	PersonApprove  Kind = "approve"
	PersonTwice    Kind = "approve twice"
	PersonEarly    Kind = "approve, then edit"
	PersonAccept   Kind = "acknowledge a candidate"
	PersonDisown   Kind = "disown an orphan"
	PersonReject   Kind = "reject"
	PersonWithdraw Kind = "take rejections back"
	PersonOverride Kind = "override a check"
	PersonRetry    Kind = "have an asset tried again"
	PersonLooks    Kind = "look at everything"
	PersonLabels   Kind = "label an incarnation"
	// Situations: several things at once, as they come in bad weeks.
	Meanwhile    Kind = "delay at a point, and meanwhile"
	LongPush     Kind = "a long push, and meanwhile"
	Superseding  Kind = "edits while a push runs"
	PinBriefly   Kind = "a pin ends before its push begins"
	RolloutPin   Kind = "a rollout pins"
	ApproveBlink Kind = "approve, edit and undo"
	Flapping     Kind = "another process takes over, and is gone"
	Together     Kind = "neighbours change together"
	Turncoat     Kind = "an id comes back as something else"
	Probe        Kind = "bits turn, and somebody looks"
	Ramp         Kind = "less and less is wanted"
	Careless     Kind = "a lying plugin, and somebody approves"
	TwoPlans     Kind = "two plans are approved"
	Sleeper      Kind = "a push wakes up behind another process"
	Refusing     Kind = "a provider refuses, until there is new content"
	Fight        Kind = "somebody undoes all at once"
	HardStart    Kind = "a process begins while the store fails"
	CutOff       Kind = "a plugin dies within an effect"
	Orphan       Kind = "a plugin goes on behind another process"
	Returning    Kind = "a process loses the lease and has it back"
	ApproveBrief Kind = "an approval ends before its push begins"
	Linger       Kind = "a push lingers while another process takes over"
	Renamed      Kind = "a thing is called otherwise while it is pushed"
	TwoContents  Kind = "one plan is approved for two contents"
	NoNumber     Kind = "something shrinks, and how much there is is no number"
	Heir         Kind = "a resource gets another asset"
	Undermine    Kind = "turn down what others depend on"
	Cross        Kind = "neighbours change against each other"
	Loosen       Kind = "an edge is dropped, and somebody approves"
	Curt         Kind = "plugins show little while less is wanted"
	Abandon      Kind = "a job is left out, and more is wanted of it"
	CutShort     Kind = "a publication is cut off"
	Undone       Kind = "an undo is held"
	Overdue      Kind = "a push outlives its incarnation"
	Quorum       Kind = "several must approve, and none of them twice"
	Veto         Kind = "somebody rejects what others approve"
	Lifted       Kind = "a check is overridden"
	LiftedOther  Kind = "a check of other content is overridden"
	Poison       Kind = "a plugin fails at one asset"
	Rush         Kind = "a target is too busy, and more is wanted of it"
	// Of runs with a rollout.
	RolloutNews   Kind = "there is something new to roll out"
	RolloutBad    Kind = "there is something bad to roll out"
	RolloutOrder  Kind = "an order to a rollout"
	RolloutEdited Kind = "a rollout is edited"
	RolloutSource Kind = "what validations ask is in trouble"
	RolloutSoak   Kind = "something happens in the middle of a soak"
	RolloutNew    Kind = "an asset comes or goes"
)

const pluginKind = "plugin: "

// kinds of all disturbances, in a fixed order, with how often each comes.
var kinds = append([]weighed{
	{KillAtPoint, 6}, {PauseAtPoint, 4}, {DelayAtPoint, 6}, {Takeover, 2}, {Restart, 1},
	{ClockJump, 1}, {ClockRate, 1}, {ClockFreeze, 1},
	{StoreRefuses, 3}, {StoreLoses, 3}, {StoreFull, 1}, {StoreLags, 2}, {StoreRots, 1},
	{SourceFails, 1}, {SourceOld, 1}, {SourceFlaps, 1}, {SourceTorn, 1}, {SourceGone, 1}, {SourceEmpty, 1},
	{Edit, 12}, {EditBlink, 3}, {EditSlip, 2}, {EditRevert, 2},
	{Drift, 5}, {Vanish, 2}, {SecondWriter, 1}, {Autoscale, 1}, {Sick, 1},
	{PersonStop, 2}, {PersonResume, 4}, {PersonHold, 2}, {PersonUnhold, 3}, {PersonPin, 2}, {PersonUnpin, 3},
	{PersonApprove, 10}, {PersonTwice, 1}, {PersonEarly, 2}, {PersonAccept, 5}, {PersonDisown, 1}, {PersonReject, 2}, {PersonWithdraw, 3}, {PersonOverride, 2}, {PersonRetry, 2}, {PersonLooks, 2}, {PersonLabels, 1},
	{Meanwhile, 8}, {LongPush, 10}, {Superseding, 5}, {PinBriefly, 3}, {RolloutPin, 3}, {ApproveBlink, 3}, {Flapping, 2},
	{Together, 5}, {Turncoat, 3}, {Probe, 2}, {Careless, 3}, {Ramp, 4}, {Sleeper, 5}, {TwoPlans, 3},
	{Refusing, 2}, {Fight, 2}, {HardStart, 1}, {CutOff, 3}, {Orphan, 3}, {Returning, 3},
	{ApproveBrief, 2}, {Linger, 2}, {Renamed, 2}, {TwoContents, 2}, {NoNumber, 1}, {Heir, 3}, {Undermine, 2}, {Cross, 3}, {Loosen, 2}, {Curt, 2}, {Abandon, 2},
	{CutShort, 2}, {Undone, 2}, {Overdue, 5},
	{Quorum, 2}, {Veto, 3}, {Lifted, 3}, {LiftedOther, 2}, {Poison, 1}, {Rush, 2},
}, pluginKinds()...)

// weighed is a kind with how often it comes.
type weighed struct {
	kind   Kind
	weight int
}

func pluginKinds() (list []weighed) {
	for _, kind := range world.Kinds() {
		if kind == world.DiffPending || kind == world.DiffOld {
			continue // Of caching runs.
		}
		list = append(list, weighed{pluginKind + Kind(kind), 1})
	}
	return list
}

// Disturbance is one thing that happens in a run.
type Disturbance struct {
	Number int           `json:"number"`
	At     time.Duration `json:"at"`
	Kind   Kind          `json:"kind"`
	// Point is part of the name of the await points at which it may strike,
	// of plugins or of Lehr, Skip how many of them it leaves alone.
	Point   string `json:"point,omitempty"`
	Plugins bool   `json:"plugins,omitempty"`
	Skip    int    `json:"skip,omitempty"`
	// Length of what lasts.
	Length time.Duration `json:"length,omitempty"`
	// Then is what happens meanwhile.
	Then Kind `json:"then,omitempty"`
	// Seed of what else is to be chosen when it happens.
	Seed uint64 `json:"seed"`
}

// MarshalJSON writes durations as text.
func (d Disturbance) MarshalJSON() ([]byte, error) {
	type plain Disturbance
	return json.Marshal(struct {
		plain
		At     string `json:"at"`
		Length string `json:"length,omitempty"`
	}{plain(d), d.At.String(), lasting(d.Length)})
}

func lasting(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (d Disturbance) String() string {
	text := fmt.Sprintf("#%d %s %s", d.Number, clock(d.At), d.Kind)
	if d.Point != "" || d.Skip > 0 {
		text += fmt.Sprintf(" (the %dth at %q)", d.Skip+1, d.Point)
	}
	if d.Then != "" {
		text += " (" + string(d.Then) + ")"
	}
	if d.Length > 0 {
		text += " for " + d.Length.String()
	}
	return text
}

// points at which crashes and pauses are aimed; "" is any.
var points = []string{"", "", "store", "commit", "push", "pushed", "admit", "close", "diff", "publish", "stage", "enforced", "settle", "wait"}

var pluginPoints = []string{"", "effect", "reply", "diff in plugin"}

// daily is what happens in every run.
var daily = []Kind{Edit, PersonApprove, PersonAccept, PersonResume, PersonUnhold, PersonUnpin, PersonWithdraw}

// between two of them there are meanwhiles.
var (
	duringPush = []Kind{Superseding, Superseding, PersonStop, PersonStop, PersonPin, RolloutPin, PersonHold, PersonUnpin, KillAtPoint, Takeover, Flapping, Restart, Drift, EditRevert, ClockJump, StoreLoses}
	atPoint    = []Kind{Superseding, Superseding, PersonStop, PersonPin, RolloutPin, PersonHold, PersonUnpin, Drift, Takeover, PersonApprove}
	atPoints   = []string{"admit", "admit", "push", "push start", "admitted", "diff", "pushed", "publish", "close", "effect"}
)

// plan draws what is to happen: by swarm, each run has kinds of its own.
func (l *Lab) plan(o Options) []Disturbance {
	r := l.stream("plan")
	var chosen []Kind
	possible := kinds
	if l.fleet() {
		possible = slices.Concat(kinds, fleetKinds)
	}
	own := l.ownKinds()
	possible = slices.Concat(possible, own)
	for _, k := range possible {
		always := slices.Contains(daily, k.kind) || slices.ContainsFunc(own, func(r weighed) bool { return r.kind == k.kind })
		if (always || r.IntN(100) < 45) && !slices.Contains(o.Without, k.kind) && l.fits(k.kind) {
			for range k.weight {
				chosen = append(chosen, k.kind)
			}
		}
	}
	density := o.Density * (0.25 + 1.5*r.Float64())
	count := int(density*o.Hours + 0.5)
	list := make([]Disturbance, 0, count)
	for at := time.Duration(0); len(chosen) > 0; {
		at += between(r, density)
		if at >= hours(o.Hours) {
			break
		}
		list = append(list, l.draw(r, len(list), at, chosen[r.IntN(len(chosen))]))
	}
	if end := hours(o.Hours) - last; r.IntN(4) == 0 && end > 0 && !slices.Contains(o.Without, HardStart) {
		list = slices.DeleteFunc(list, func(d Disturbance) bool { return d.At >= end })
		list = append(list, l.draw(r, len(list), end, HardStart))
	}
	return list
}

// ownKinds are those of runs such as this.
func (l *Lab) ownKinds() []weighed {
	switch {
	case l.ownRollout():
		return rolloutKinds
	case l.sets():
		return fieldKinds
	case l.judged():
		return judgedKinds
	case l.declaresHealth():
		return declaredKinds
	case l.ailing():
		return ailingKinds
	case l.circles():
		return circleKinds
	case l.tells():
		return tellingKinds
	case l.byHours():
		return hoursKinds
	case l.braked():
		return brakedKinds
	case l.caching():
		return cachingKinds
	case l.hinting():
		return hintingKinds
	case l.rotating():
		return rotatingKinds
	case l.unserved():
		return unservedKinds
	case l.overreaches():
		return overreachKinds
	case l.previews():
		return previewKinds
	case l.generational():
		return generationKinds
	case l.shares():
		return sharingKinds
	case l.asksOutputs():
		return outputKinds
	case l.underCommon():
		return commonKinds
	case l.deliveryHome() != l.partition:
		return acrossKinds
	case l.hasReleases():
		return releaseKinds
	case l.hasTasks():
		return taskKinds
	case l.delivers():
		return deliveryKinds
	case l.releases():
		return workflowKinds
	case l.upgrades():
		return upgradeKinds
	case l.rolls():
		return anyRolloutKinds
	}
	return nil
}

// last is how long before the end a process begins hard in some runs: nothing
// after that helps its actors up.
const last = 20 * time.Second

// between is the pause until the next disturbance: they come in bursts.
func between(r *rand.Rand, density float64) time.Duration {
	if r.IntN(3) > 0 {
		return time.Duration(r.Int64N(int64(5 * time.Second)))
	}
	return time.Duration(r.ExpFloat64() * 3 * float64(time.Hour) / density)
}

func (l *Lab) draw(r *rand.Rand, number int, at time.Duration, kind Kind) Disturbance {
	d := Disturbance{Number: number, At: at, Kind: kind, Seed: r.Uint64()}
	long, short := time.Duration(r.Int64N(int64(40*time.Minute))), time.Duration(r.Int64N(int64(30*time.Second)))
	d.Length = short
	if r.IntN(4) == 0 {
		d.Length = long
	}
	switch kind {
	case LongPush:
		d.Then = duringPush[r.IntN(len(duringPush))]
		d.Length = min(short, 25*time.Second)
	case Meanwhile:
		d.Then, d.Point = atPoint[r.IntN(len(atPoint))], atPoints[r.IntN(len(atPoints))]
		d.Plugins = d.Point == "effect"
		d.Length, d.Skip = min(short, 12*time.Second), r.IntN(3)
	case RolloutSoak:
		d.Then = duringSoak[r.IntN(len(duringSoak))]
	case PersonStop, PersonHold, PersonPin, RolloutPin, SourceFails, SourceOld, SourceTorn, SourceGone, SourceEmpty, StoreRots, StoreFull:
		const brief = 4 * time.Minute
		d.Length = min(d.Length, brief)
	case KillAtPoint, PauseAtPoint, DelayAtPoint:
		d.Plugins = r.IntN(4) == 0
		d.Point = points[r.IntN(len(points))]
		if d.Plugins {
			d.Point = pluginPoints[r.IntN(len(pluginPoints))]
		}
		d.Skip = r.IntN(1 << r.IntN(7))
		if kind == DelayAtPoint {
			d.Length = min(short, 12*time.Second)
		}
	}
	return d
}

// happens reports whether a disturbance was asked for.
func (l *Lab) happens(d Disturbance) bool {
	return l.options.Only == nil || slices.Contains(l.options.Only, d.Number)
}

// asset chosen among those of intent now.
func (l *Lab) asset(r *rand.Rand) intent.AssetID {
	head := l.members()
	if len(head) == 0 {
		return ""
	}
	return head[r.IntN(len(head))]
}
