package explore

// The size of the worlds. Three pushes are enough for two assets and one that
// goes on after its end.
const (
	assets   = 2
	replicas = 2
	ranks    = 2
	slots    = 3
)

// state is one state of a world. It has no pointers and no gaps, so that it is
// compared and hashed as bytes. Numbers that only grow (revision, base, push
// ids) are kept as what anybody asks of them: has it moved since?
type state struct {
	// approvals are those of the store; owed are the same as a person meant
	// them: given, and neither used nor made void.
	approvals, owed [assets]plans
	replicas        [replicas]replica
	pushes          [slots]push
	pins            [assets][ranks]pin
	things          [assets]thing
	// enforced is the content that each asset was last recorded in sync with.
	enforced    [assets]content
	power       [replicas]power
	head, epoch uint8
	stopped     uint8
	left        Budget
}

// content is what intent asks of an asset, or what is there: 0 is nothing,
// foreign is what nobody asked for.
type content uint8

const (
	nothing content = 0
	// most is the highest content that an intent may ask for.
	most    content = 3
	foreign content = 4
)

// plans is a set of plans of one asset.
type plans uint16

// planTo is the plan that leads from what is there to a content.
func planTo(current, target content) plans {
	const ofNothing = 15 // Nothing is planned to nothing, but by what is unsafe.
	if target == nothing {
		return 1 << ofNothing
	}
	return 1 << (uint8(target-1)*(uint8(foreign)+1) + uint8(current))
}

// pin is the incarnation of a pin of one rank, and when it ends by itself.
type pin uint8

const (
	pinAt    pin = 0x0f
	pinEnds  pin = 0x10
	pinEnded pin = 0x20
)

// thing is what production has of an asset. token is the highest epoch that
// wrote it: a target of class F keeps it, for others it is not kept.
type thing struct {
	content content
	token   uint8
}

// replica is what one process, that may hold the lease, knows.
type replica struct {
	view  view
	asks  [assets]ask
	facts [assets]fact
	// lease is the epoch that it believes to hold; 0: none.
	lease uint8
	// behind: the store's revision is no longer that of the view.
	behind uint8
}

type power uint8

const (
	down power = iota
	up
	paused
)

// view is what a replica last read from the store.
type view struct {
	approvals [assets]plans
	pins      [assets][ranks]pin
	head      uint8
	stopped   uint8
}

// fact is what a replica last saw of an asset, compared with a content.
type fact struct {
	kind outcome
	from content
	with content
	// moved: what is there has changed since, and so its base.
	moved uint8
}

type outcome uint8

const (
	unknown outcome = iota
	inSync
	differs
)

// ask is a decision to push on its way to the store.
type ask struct {
	stage  stage
	target uint8
	with   content
	from   content
	marks  mark
	// quiet is the set of assets that must have no open push.
	quiet uint8
}

type stage uint8

const (
	notAsked stage = iota
	// pending waits for the group before it; flying is before the store.
	pending
	flying
)

// mark is what is known of an ask or a push.
type mark uint8

const (
	// stale: the revision has moved since it was decided.
	stale mark = 1 << iota
	// lapses: it rests on a pin that ends; expired: that pin has ended.
	lapses
	expired
	// needsApproval of a person; of a push: it used one.
	needsApproval
	// moved: what is there is not what it was decided on.
	moved
	// outdone: a later admission of the asset has changed production.
	outdone
)

// push is an admission with what runs under it.
type push struct {
	// asset counts from 1; 0: the slot is free.
	asset  uint8
	target uint8
	with   content
	from   content
	epoch  uint8
	by     uint8
	row    row
	run    run
	marks  mark
	late   lateness
	// older counts admissions of the asset after this one.
	older uint8
	// copied: it is a message delivered twice, not an admission.
	copied uint8
}

// row is the state of an admission in the journal.
type row uint8

const (
	closed row = iota
	open
	doubt
)

// run is how far the carrying out of a push has come.
type run uint8

const (
	// over: nothing runs, and no reply will come.
	over run = iota
	// fresh: admitted just now, not begun. old: admitted a while ago.
	fresh
	old
	// begun: its age was looked at, it is about to be sent; then a while ago.
	begun
	begunLong
	// sent: it is at the plugin, or on its way there, with a permit.
	sent
	// planned: the plugin found the same plan again, and has a permit.
	planned
	// effect: it changes production and cannot be cancelled.
	effect
	// ended: the plugin's part is over, and the reply on its way.
	ended
)

// lateness says what a permit should not have been given after.
type lateness uint8

const (
	afterStop lateness = 1 << iota
	afterMove
	afterLoss
)

// running: it may change production now or with the permit that it has.
func (p push) running() bool { return p.run == sent || p.run == planned || p.run == effect }

// mayRun: it may come to change production without anybody being asked.
func (p push) mayRun() bool { return p.run == fresh || p.run == begun || p.running() }

// Budget is how often each thing may still happen in a world.
type Budget struct {
	Crashes, Pauses, Duplicates, Pins, Stops, Drifts, Failures uint8
}

// bump moves the revision: no view and no decision rests on it any more.
func (s *state) bump() {
	for r := range s.replicas {
		replica := &s.replicas[r]
		if replica.lease == 0 {
			continue
		}
		replica.behind = 1
		for a := range replica.asks {
			if replica.asks[a].stage != notAsked {
				replica.asks[a].marks |= stale
			}
		}
	}
}

// enter puts an admission into a free slot; false: there is none.
func (s *state) enter(p push) bool {
	for i := range s.pushes {
		if s.pushes[i].asset == 0 {
			s.pushes[i] = p
			return true
		}
	}
	return false
}

// tidy gives states that differ in nothing that matters one form. knows says
// whether what a replica knows still matters once its lease is lost.
func (s *state) tidy(knows bool) {
	for r := range s.replicas {
		if held := &s.replicas[r]; held.lease != s.epoch && !knows {
			*held = replica{lease: held.lease}
		}
	}
	for i := range s.pushes {
		p := &s.pushes[i]
		if p.asset == 0 {
			continue
		}
		// What was not begun is not begun once it is closed: no permit for it.
		if p.run == ended && (p.copied != 0 || !s.hears(*p)) || p.run == old && p.row == closed {
			p.run = over
		}
		if p.run == over && (p.row == closed || p.copied != 0) {
			*p = push{}
		}
	}
	for i := 1; i < slots; i++ {
		for j := i; j > 0 && s.pushes[j].before(s.pushes[j-1]); j-- {
			s.pushes[j], s.pushes[j-1] = s.pushes[j-1], s.pushes[j]
		}
	}
}

// hears: the replica that was given the push still waits for its end.
func (s *state) hears(p push) bool {
	return s.power[p.by] != down && s.replicas[p.by].lease == p.epoch
}

func (p push) before(q push) bool { return p.order() > q.order() }

func (p push) order() uint64 {
	var key uint64
	for _, part := range [...]uint8{p.asset, p.older, p.epoch, p.copied, uint8(p.row), uint8(p.run), uint8(p.with), p.target} {
		key = key<<8 | uint64(part)
	}
	return key
}
