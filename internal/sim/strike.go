package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// strike makes a disturbance happen. Those at points wait for their point.
func (l *Lab) strike(d Disturbance) {
	r := rand.New(rand.NewPCG(d.Seed, 1))
	if kind, ok := strings.CutPrefix(string(d.Kind), pluginKind); ok {
		t := world.Trouble{Kind: world.TroubleKind(kind), Count: 1 + r.IntN(3), For: d.Length, Seed: d.Seed}
		if r.IntN(3) > 0 {
			t.Asset = l.asset(r)
		}
		l.tell("%s, asset %q, %d times", d, t.Asset, t.Count)
		l.note(d.Kind, "call")
		l.World.Trouble(t)
		return
	}
	if strike, ok := strikes[d.Kind]; ok {
		strike(l, d, r)
		return
	}
	l.armed = append(l.armed, armed{d, d.Skip})
}

// strikes by kind; what is not here is armed for a point.
var strikes map[Kind]func(*Lab, Disturbance, *rand.Rand)

func init() {
	strikes = map[Kind]func(*Lab, Disturbance, *rand.Rand){
		Takeover: (*Lab).takeover, Restart: (*Lab).restart,
		ClockJump: (*Lab).clock, ClockRate: (*Lab).clock, ClockFreeze: (*Lab).clock,
		StoreRefuses: (*Lab).storeFails, StoreLoses: (*Lab).storeFails, StoreFull: (*Lab).storeFails,
		StoreLags: (*Lab).storeFails, StoreRots: (*Lab).rot,
		SourceFails: (*Lab).sourcesFail, SourceOld: (*Lab).sourcesFail, SourceFlaps: (*Lab).sourcesFlap,
		SourceTorn: (*Lab).sourcesFail, SourceGone: (*Lab).sourcesFail, SourceEmpty: (*Lab).sourcesFail,
		Edit: (*Lab).edit, EditBlink: (*Lab).editBlink, EditSlip: (*Lab).edit, EditRevert: (*Lab).edit,
		Drift: (*Lab).others, Vanish: (*Lab).others, SecondWriter: (*Lab).others, Autoscale: (*Lab).others, Sick: (*Lab).others,
		PersonStop: (*Lab).person, PersonResume: (*Lab).person, PersonHold: (*Lab).person, PersonUnhold: (*Lab).person,
		PersonPin: (*Lab).person, PersonUnpin: (*Lab).person, PersonApprove: (*Lab).person, PersonTwice: (*Lab).person,
		PersonEarly: (*Lab).person, PersonAccept: (*Lab).person, PersonDisown: (*Lab).person,
		PersonLooks: (*Lab).person, PersonLabels: (*Lab).person,
		PersonReject: (*Lab).person, PersonWithdraw: (*Lab).person, PersonOverride: (*Lab).person, PersonRetry: (*Lab).person,
		Quorum: (*Lab).quorum, Veto: (*Lab).veto, Lifted: (*Lab).lift, LiftedOther: (*Lab).liftOther, Poison: (*Lab).poison, Rush: (*Lab).rush,
		StopUnwritten: (*Lab).stopUnwritten,
		Sleeper:       (*Lab).sleeper, TwoPlans: (*Lab).twoPlans, ApproveBrief: (*Lab).approveBriefly, Linger: (*Lab).linger, Renamed: (*Lab).renamed, TwoContents: (*Lab).twoContents, NoNumber: (*Lab).noNumber, LongPush: (*Lab).longPush, Superseding: (*Lab).supersede, PinBriefly: (*Lab).pinBriefly, RolloutPin: (*Lab).rolloutPin,
		ApproveBlink: (*Lab).approveBlink, Flapping: (*Lab).flap, Together: (*Lab).together, Turncoat: (*Lab).turncoat,
		Probe: (*Lab).probe, Careless: (*Lab).careless, Ramp: (*Lab).ramp,
		Refusing: (*Lab).refusing, Fight: (*Lab).fight, HardStart: (*Lab).hardStart,
		CutOff: (*Lab).cutOff, Orphan: (*Lab).orphan, Returning: (*Lab).returning, Heir: (*Lab).heir, Undermine: (*Lab).undermine,
		Cross: (*Lab).cross, Loosen: (*Lab).loosen, Curt: (*Lab).curt, Abandon: (*Lab).abandon,
		LeaderDies: (*Lab).strikeFleet, LeaderSleeps: (*Lab).strikeFleet, Unreachable: (*Lab).strikeFleet, Rolling: (*Lab).strikeFleet,
		RolloutNews: (*Lab).rolloutNews, RolloutBad: (*Lab).rolloutNews, RolloutOrder: (*Lab).person, RolloutEdited: (*Lab).rolloutEdited, RolloutSource: (*Lab).rolloutSource, RolloutSoak: (*Lab).rolloutSoak,
		FieldRun: (*Lab).person, FieldEdit: (*Lab).person, FieldUndo: (*Lab).person, FieldRace: (*Lab).fieldRace, FieldMoment: (*Lab).fieldMoment,
		HoursEnd: (*Lab).hoursEnd, HoursEdited: (*Lab).hoursEdited, OldNews: (*Lab).oldNews, OldOrder: (*Lab).oldOrder,
		HintsBreak: (*Lab).hintsBreak, HintsSilent: (*Lab).hintsSilent, HintsFalse: (*Lab).hintsFalse, HintsForeign: (*Lab).hintsForeign, HintsFlood: (*Lab).hintsFlood,
		Rotation: (*Lab).rotation, RotationApproved: (*Lab).rotationApproved, RotationInPush: (*Lab).rotationInPush,
		ManagerTakes: (*Lab).managerTakes, ManagerFights: (*Lab).managerFights, WatchesLag: (*Lab).watchesLag,
		OutputChanged: (*Lab).outputChanged, OutputFlapping: (*Lab).outputFlapping, OutputUnknown: (*Lab).outputUnknown, OutputGone: (*Lab).outputGone,
		OutputEdited: (*Lab).outputEdited, OutputMoment: (*Lab).outputMoment, OutputDeposed: (*Lab).outputDeposed,
		VersionBuilt: (*Lab).person, VersionVoted: (*Lab).person, DeliveryAct: (*Lab).person, DeliveryEdited: (*Lab).person, DeliveryProgram: (*Lab).programsFail, DeliveryMoment: (*Lab).deliveryMoment, DeliveryStory: (*Lab).deliveryStory, GrantEdited: (*Lab).editGrant,
		ReleaseMade: (*Lab).person, ReleaseActed: (*Lab).person, ReleaseMoment: (*Lab).releaseMoment, CartBuilt: (*Lab).person, CartActed: (*Lab).person, TaskIll: (*Lab).taskFails,
		RunStarted: (*Lab).person, RunVoted: (*Lab).person, RunSignalled: (*Lab).person, RunCancelled: (*Lab).person, CourseEdited: (*Lab).person, CallsFail: (*Lab).callsFail, WorkflowPoint: (*Lab).workflowPoint,
		FirmwareNew: (*Lab).person, DeviceMended: (*Lab).person, FirmwareLost: (*Lab).firmwareLost, DeviceFaulty: (*Lab).deviceFaulty, DeviceCallsBad: (*Lab).deviceCallsBad, UpgradePoint: (*Lab).upgradePoint,
		CommonChanged: (*Lab).changesCommon, CommonBroken: (*Lab).breaksCommon,
		PluginUnbound: (*Lab).rebinds, ModelDeclared: (*Lab).rebinds, UnservedEdited: (*Lab).editsUnserved, UnservedAnswered: (*Lab).counts,
		GenerationMarked: (*Lab).markSetting, GenerationLeaves: (*Lab).turnSettingDown, GenerationPinned: (*Lab).pinSetting,
		PullOpened: (*Lab).pullOpened, PullPushed: (*Lab).pullPushed, PullClosed: (*Lab).pullClosed, HostAway: (*Lab).hostAway, HostOmits: (*Lab).hostOmits,
		GenerationNew: (*Lab).newGeneration, GenerationBack: (*Lab).newGeneration, GenerationRule: (*Lab).ruleEdited,
		Receiver: (*Lab).receives, Awaited: (*Lab).awaits, Noticed: (*Lab).notifiesOtherwise, JudgeEdited: (*Lab).judgeEdited,
		Ailing: (*Lab).falls, AilingLimit: (*Lab).limits, Declared: (*Lab).fallsByAddon, Circle: (*Lab).circle,
		JudgeTurns: (*Lab).judgeTurns, JudgeDuring: (*Lab).judgeDuring, JudgeAfter: (*Lab).judgeAfter,
		CutShort: (*Lab).cutShort, Undone: (*Lab).undone, Overdue: (*Lab).overdue,
	}
}

// after does something when the disturbance is over, unless all was healed
// before.
func (l *Lab) after(d time.Duration, do func()) {
	l.people.Go("end of a disturbance", func() {
		if l.people.Wait(l.ctx, d, nil) == nil && !l.healing {
			do()
		}
	})
}

// takeover starts a second process while the first goes on, as when a lock
// was lost; the first is killed some time later.
func (l *Lab) takeover(d Disturbance, r *rand.Rand) {
	old := l.replica()
	if old == nil || l.crowded(2) {
		return
	}
	l.note(d.Kind, "any")
	l.tell("%s", d)
	if r.IntN(2) == 0 {
		period := min(d.Length, 30*time.Second)
		l.holdsUp(period)
		old.Pause(period)
	}
	l.Begin()
	l.after(min(d.Length, time.Minute)+time.Duration(r.Int64N(int64(time.Minute))), func() { old.Kill("the process that took over stays") })
}

func (l *Lab) restart(d Disturbance, _ *rand.Rand) {
	if r := l.replica(); r != nil && r.app != nil && !r.Paused() {
		l.note(d.Kind, "any")
		l.tell("%s", d)
		r.Stop()
	}
}

func (l *Lab) clock(d Disturbance, r *rand.Rand) {
	l.setClock(d, func(replica *Replica) {
		switch d.Kind {
		case ClockJump:
			by := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}[r.IntN(5)]
			if r.IntN(2) == 0 {
				by = -by
			}
			replica.Jump(by)
		case ClockRate:
			replica.Rate(0.98 + 0.04*r.Float64())
			replica.Drift(0.98 + 0.04*r.Float64())
		case ClockFreeze:
			replica.Rate(0)
		}
	})
}

// setClock lets the clock of the process that acts be wrong, for as long as the
// disturbance.
func (l *Lab) setClock(d Disturbance, set func(*Replica)) {
	replica := l.replica()
	if replica == nil {
		return
	}
	l.note(d.Kind, "any")
	l.tell("%s of %s", d, replica.Name())
	l.moveClock()
	set(replica)
	l.wrongUntil = later(l.wrongUntil, l.Now().Add(d.Length))
	l.after(d.Length, func() {
		replica.Correct()
		l.moveClock()
	})
}

// moveClock notes that the clock of a process was set.
func (l *Lab) moveClock() {
	l.clockMoved = l.Now()
	l.Monitor.ClockMoved()
}

func (l *Lab) storeFails(d Disturbance, r *rand.Rand) {
	calls := []string{"", "", "Admit", "ClosePushes", "Publish", "Stage", "SaveEnforced", "SaveReports", "Permit", "Check", "Acquire", "Collect", "SaveCandidate", "Member", "Partition", "EdgesTo"}
	l.note(d.Kind, "store call")
	s := &l.store
	switch d.Kind {
	case StoreFull:
		s.full = l.Now().Add(d.Length)
	case StoreLags:
		s.lag, s.lagUntil = time.Duration(r.Int64N(int64(20*time.Second))), l.Now().Add(d.Length)
	default:
		s.refuse, s.lose = d.Kind == StoreRefuses, d.Kind == StoreLoses
		s.only, s.left = calls[r.IntN(len(calls))], 1+r.IntN(4)
	}
	l.tell("%s (%q, %d calls)", d, s.only, s.left)
}

// rot turns a bit of a stored body for a while.
func (l *Lab) rot(d Disturbance, r *rand.Rand) {
	var digests [][]byte
	rows, err := l.db.Query("SELECT digest FROM body ORDER BY digest")
	if err != nil {
		l.wrong("simulator", "reading bodies: %v", err)
		return
	}
	for rows.Next() {
		var digest []byte
		if rows.Scan(&digest) == nil {
			digests = append(digests, digest)
		}
	}
	rows.Close()
	if len(digests) == 0 {
		return
	}
	digest := digests[r.IntN(len(digests))]
	l.note(d.Kind, "any")
	l.tell("%s, body %x", d, digest[:4])
	l.flip(digest)
	l.rotten = append(l.rotten, digest)
	l.after(d.Length, l.mendStore)
}

// flip turns the first bit of a body. Turned twice, it is as it was.
func (l *Lab) flip(digest []byte) {
	var body []byte
	if err := l.db.QueryRow("SELECT bytes FROM body WHERE digest = ?", digest).Scan(&body); err != nil || len(body) == 0 {
		return // Collected meanwhile.
	}
	body[0] ^= 1
	if _, err := l.db.Exec("UPDATE body SET bytes = ? WHERE digest = ?", body, digest); err != nil {
		l.wrong("simulator", "turning a bit: %v", err)
	}
}

func (l *Lab) mendStore() {
	for _, digest := range l.rotten {
		l.flip(digest)
	}
	l.rotten = nil
}

// tornGrace is how long after a torn read it may still be served.
const tornGrace = 10 * time.Second

func (l *Lab) sourcesFail(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "sources")
	l.tell("%s", d)
	end := func() { l.Sources.Write(l.intent.files()) }
	switch d.Kind {
	case SourceFails:
		l.Sources.FailBelow([]string{"/", "/sim/records"}[r.IntN(2)], fault.New(fault.Unavailable, "the share is not mounted"))
		end = func() { l.Sources.Fail(nil) }
	case SourceOld:
		l.Sources.Serve(r.IntN(l.Sources.Version() + 1))
		end = func() { l.Sources.Serve(-1) }
	case SourceTorn:
		l.Sources.Torn(true)
		l.tornUntil = l.Now().Add(d.Length + tornGrace)
		l.change(d.Number, r, 2, edits)
		end = func() { l.Sources.Torn(false) }
	case SourceGone:
		if r.IntN(2) == 0 {
			l.Sources.Remove(recordFiles[:]...)
		} else {
			l.Sources.Remove([]string{"/sim/intent.yaml", "/sim/all.star", "/sim/lehr.yaml"}[r.IntN(3)])
		}
	case SourceEmpty:
		l.Sources.Write(map[string]string{[]string{"/sim/intent.yaml", "/sim/all.star", "/sim/lehr.yaml"}[r.IntN(3)]: ""})
	}
	l.after(d.Length, end)
}

// sourcesFlap lets a good and a bad version alternate.
func (l *Lab) sourcesFlap(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "sources")
	l.tell("%s", d)
	good := l.intent
	for n := range 6 {
		l.after(time.Duration(n)*d.Length/6, func() {
			if n%2 == 0 {
				l.change(d.Number, r, 1, slips)
				return
			}
			l.save(d.Number, good.clone(), "the good version again")
		})
	}
}

func (l *Lab) edit(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "sources")
	switch d.Kind {
	case EditSlip:
		l.change(d.Number, r, 1, slips)
	case EditRevert:
		l.save(d.Number, l.first.clone(), "back to the first intent")
	default:
		from := edits
		if r.IntN(2) == 0 {
			from = touches
		}
		l.change(d.Number, r, 1+r.IntN(2), from)
	}
}

// editBlink changes something and takes it back at once, so that perhaps
// nobody sees it.
func (l *Lab) editBlink(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "sources")
	before := l.intent
	l.change(d.Number, r, 1, edits)
	l.after(time.Duration(r.Int64N(int64(5*time.Second))), func() { l.save(d.Number, before.clone(), "undone") })
}

// others change production.
func (l *Lab) others(d Disturbance, r *rand.Rand) {
	resources := l.World.Resources()
	if len(resources) == 0 {
		return
	}
	key := resources[r.IntN(len(resources))].Key
	// As often as not, under the hands of a push.
	if pushes := l.World.Pushing(); len(pushes) > 0 && r.IntN(2) == 0 {
		key = pushes[r.IntN(len(pushes))].Key
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, key)
	switch d.Kind {
	case Drift:
		l.World.Drift(key, d.Seed)
	case Vanish:
		l.World.Vanish(key)
	case SecondWriter:
		l.World.Writer(key, time.Duration(1+r.IntN(60))*time.Second, 3+r.IntN(8))
	case Autoscale:
		l.World.Autoscale(key, 1+r.Uint32N(6))
	case Sick:
		l.World.Sick(key, true)
		l.after(d.Length, func() { l.World.Sick(key, false) })
	}
}

// members of head, in the order of their ids.
func (l *Lab) members() (ids []intent.AssetID) {
	for _, m := range l.headMembers() {
		ids = append(ids, m.Asset)
	}
	return ids
}
