package measure

import (
	"sync"
	"sync/atomic"
	"time"

	"lehr.dev/internal/ground/deliveryhistory"
)

// Step is how long an actor has been at one step. What it waits for is none.
type Step struct{ Moment }

// Enforcer is what a partition's enforcer tells. Gauges are of its life now,
// counters of all in this process.
type Enforcer struct {
	// Step of its loop; unset while it waits.
	Step Step
	// Assets that it knows, and Queued those of them that have a time to be looked
	// at.
	Assets, Queued atomic.Int64
	Stances        Tally
	Plugins        Named[Plugin]
	// Refused admissions, by the kind of what they wait for.
	Refused Named[Counter]
	// Delay of looks: from when an asset was due until it was asked about.
	Delay  Histogram
	Pushes Pushes
}

// Begin is called when an enforcer begins: what an earlier one knew is void.
func (e *Enforcer) Begin() {
	e.Step.Set(time.Time{})
	e.Assets.Store(0)
	e.Queued.Store(0)
	e.Stances.Reset()
	e.Pushes.reset()
	for _, ending := range []string{"pushed", "failed", "stale", "stopped", "settled"} {
		e.Pushes.Ended.Of(ending)
	}
	e.Refused.Of("stale")
	for _, p := range e.Plugins.All() {
		p.Open.Store(false)
		p.InARow.Store(0)
	}
}

// Plugin is how one does.
type Plugin struct {
	// Diffs took so long and had so many assets.
	Diffs   Histogram
	Batches Histogram
	// Failed diffs: nothing is known of any of their assets.
	Failed Counter
	// Open is its breaker: next to nothing is asked of it until it answers. InARow are
	// its failures since it answered last.
	Open   atomic.Bool
	InARow atomic.Int64
	// Reason is why its breaker is open, for people.
	Reason atomic.Pointer[string]
	// Binding tells it from others of its name.
	Binding atomic.Pointer[string]
}

// Pushes are those under way, and how those before ended.
type Pushes struct {
	// Ended pushes took so long from their admission, by ending.
	Ended Named[Histogram]

	mutex sync.Mutex
	open  map[string]opened
}

// opened is a push without an end. doubt: its end was lost.
type opened struct {
	at    time.Time
	doubt bool
}

// Open adds a push, or says of one that its end was lost.
func (p *Pushes) Open(id string, admitted time.Time, doubt bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.open == nil {
		p.open = map[string]opened{}
	}
	p.open[id] = opened{admitted, doubt}
}

// End takes a push out.
func (p *Pushes) End(id, ending string, now time.Time) {
	p.mutex.Lock()
	was, ok := p.open[id]
	delete(p.open, id)
	p.mutex.Unlock()
	if ok {
		p.Ended.Of(ending).Took(now.Sub(was.at))
	}
}

func (p *Pushes) reset() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	clear(p.open)
}

// Read counts the open ones, and those in doubt, and tells when the oldest was
// admitted; zero: there is none.
func (p *Pushes) Read() (open, doubt int, oldest time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, push := range p.open {
		if oldest.IsZero() || push.at.Before(oldest) {
			oldest = push.at
		}
		if push.doubt {
			doubt++
		}
	}
	return len(p.open), doubt, oldest
}

// Pipeline is what a partition's pipeline tells.
type Pipeline struct {
	// Step: what it builds now; unset while it waits for changes.
	Step Step
	// Builds took so long, by what they led to.
	Builds Named[Histogram]
	// Ran and Kept are runs of generators: those carried out, and those that still
	// held.
	Ran, Kept Counter
	// Unserved is since when sources are there that are not served.
	Unserved Moment
}

// Begin is called when a pipeline begins.
func (p *Pipeline) Begin() {
	p.Step.Set(time.Time{})
	p.Unserved.Set(time.Time{})
}

// Notifier is what a partition's notifications tell, by the names of their targets.
type Notifier struct{ Targets Named[Target] }

// Target is how it goes with what is sent to one.
type Target struct {
	// Failing: what was sent last did not arrive, and is tried again.
	Failing atomic.Bool
	// Waiting messages have not arrived yet.
	Waiting atomic.Int64
}

// Delivery is what a partition's deliverer tells, by application.
type Delivery struct{ Applications Named[Delivered] }

// Delivered are figures of an application's environments, as they were taken last.
type Delivered struct {
	figures atomic.Pointer[[]deliveryhistory.Figures]
}

// Set the figures.
func (d *Delivered) Set(figures []deliveryhistory.Figures) { d.figures.Store(&figures) }

// Figures that were set last.
func (d *Delivered) Figures() []deliveryhistory.Figures {
	if figures := d.figures.Load(); figures != nil {
		return *figures
	}
	return nil
}

// Store is what a store's writer tells.
type Store struct {
	// Step of its loop; unset while nothing is to be written.
	Step Step
	// Commits took so long, retries included, and had so many callers' work.
	Commits Histogram
	Groups  Histogram
	// Failed commits: nothing of them was done, or nobody knows.
	Failed Counter
}

// API is what callers ask.
type API struct {
	// Calls took so long; streams until they ended.
	Calls Named[Named[Histogram]]
	// Streams that are open, watches among them.
	Streams atomic.Int64
}
