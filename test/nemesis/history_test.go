package nemesis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
)

// All times of a history are by one clock, the machine's CLOCK_BOOTTIME, since
// its start. What replicas wrote by clocks of their own has been set right.

// effect is one change of production, or one that the target refused, as the
// target saw it.
type effect struct {
	At        time.Duration
	Partition string
	Asset     string
	Class     plugin.Guarantee
	// Push, Incarnation and Plan are what the plugin was told; Token is the
	// epoch of the lease.
	Push        string
	Incarnation uint64
	Plan        string
	Token       uint64
	// Life is the replica's process that the plugin belongs to.
	Life string
	// Late is how long the request was on its way since the plugin held a
	// permit for it: longer than E only when the plugin stood still meanwhile.
	Late time.Duration
	// Before and After are the states; Gone: nothing is there.
	Before, After state
	// Last of the push's effects.
	Last    bool
	Refused string
}

// state is a real thing as the target has it.
type state struct {
	Value, Disk string
	Gone        bool
	// Version is never used again; Token the highest that was seen.
	Version, Token uint64
}

// content of an asset in an incarnation.
type content struct {
	Value, Disk, Site string
	Turndown          bool
}

// destroys: the disk that was there is not there any more.
func (e effect) destroys() bool {
	return e.Refused == "" && !e.Before.Gone && (e.After.Gone || e.Before.Disk != e.After.Disk)
}

// removes: something was there.
func (e effect) removes() bool { return e.Refused == "" && !e.Before.Gone && e.After.Gone }

// name of the thing, unique in production.
func (e effect) name() string { return e.Partition + "/" + e.Asset }

// excused: the plugin stood still between its permit and the request, so that
// nothing but the target can refuse it.
func (e effect) excused() bool { return e.Late > longestEffect }

func (e effect) String() string {
	return fmt.Sprintf("%s at %s by push %s of %s (epoch %d, incarnation %d, %+v → %+v)", e.name(), e.At, e.Push, e.Life, e.Token, e.Incarnation, e.Before, e.After)
}

// admission is a row of the journal.
type admission struct {
	Push, Partition, Asset string
	Target                 uint64
	Plan                   string
	Epoch                  uint64
	// Life that admitted it.
	Life string
	At   time.Duration
	Open bool
}

// record of the audit, of one partition's chain or, "", of that of all.
type record struct {
	Number uint64
	// Seen is when it was in the database for certain.
	Seen                    time.Duration
	By                      string
	Verb, Subject, Argument string
}

// call is what a person asked of a replica.
type call struct {
	Asked, Answered time.Duration
	// By is unique: the audit names it.
	By, Verb, Partition, Asset string
	// Server is the process that answered; 0: not known.
	Server int
	// Revision of the pin that was answered.
	Revision uint64
	// Done: it was answered well. Else it may have come to be, or not.
	Done bool
}

// stopped is a stop from its answer until somebody asked to resume.
type stopped struct {
	// Partition that is stopped; "": all.
	Partition string
	From, To  time.Duration
	// Life that alone keeps to it, as its answer says, while the store cannot take it;
	// "": every replica does.
	Life string
	// server is the process of Life.
	server int
}

// version is a member's interval: the content from an incarnation on.
type version struct {
	From    uint64
	Content content
	// Absent: the asset left intent.
	Absent bool
}

// history is all that a run left behind.
type history struct {
	Effects []effect
	Journal []admission
	Audit   map[string][]record
	Calls   []call
	Stops   []stopped
	// Contents by "partition/asset", oldest first.
	Contents map[string][]version
	// Deaths of replicas, by life.
	Deaths map[string]time.Duration
	// Epochs and Heads in the database at the end, by partition.
	Epochs, Heads map[string]uint64
	// Missing is what live rows name and the store does not have.
	Missing []string
	// Pins and Holds in the database at the end, "partition/asset".
	Pins, Holds map[string]bool
	// Wanted at the end, by "partition/asset", and what production Has.
	Wanted map[string]content
	Has    map[string]state
	// Healed is when all faults and edits had ended, Settled when production
	// was as wanted; 0: never. Ended is when the world did.
	Healed, Settled, Ended time.Duration
	// Takeovers are how long others took to act for what a replica had.
	Takeovers []takeover
	// InFlight is the budget of each site.
	InFlight int
	// Drift is how far the machine's clocks moved against each other.
	Drift time.Duration
}

// takeover of a partition by another replica.
type takeover struct {
	Fault, Partition string
	// At is when the fault came, Took how long nobody acted, and Stalled for
	// how much of it the machine stood still, or kept from running who was to
	// act.
	At, Took, Stalled time.Duration
	// Promised is the bound.
	Promised time.Duration
}

// at returns an asset's content in an incarnation; unknown when the collector
// was quicker than the history.
func (h *history) at(name string, incarnation uint64) (content, bool, bool) {
	versions := h.Contents[name]
	at, exact := slices.BinarySearchFunc(versions, incarnation, func(v version, n uint64) int { return cmp.Compare(v.From, n) })
	if !exact {
		at--
	}
	if at < 0 {
		return content{}, false, false
	}
	return versions[at].Content, !versions[at].Absent, true
}

// admissions by push.
func (h *history) admissions() map[string]admission {
	found := map[string]admission{}
	for _, a := range h.Journal {
		found[a.Push] = a
	}
	return found
}

// happened are the effects that changed production, in their order.
func (h *history) happened() []effect {
	return slices.DeleteFunc(slices.Clone(h.Effects), func(e effect) bool { return e.Refused != "" })
}

// violation of a property.
type violation struct{ Property, Text string }

func (v violation) String() string { return v.Property + ": " + v.Text }

// verdicts collects violations.
type verdicts []violation

func (v *verdicts) add(property, format string, arguments ...any) {
	*v = append(*v, violation{property, fmt.Sprintf(format, arguments...)})
}

// The bounds that are promised.
const (
	longestEffect = time.Second
	leasePeriod   = 3 * time.Second
	// cease is when nothing of a push can happen any more that was told to end.
	cease = plugin.PermitPeriod + longestEffect
	// failover is when others act for what a dead replica had.
	failover = 10 * time.Second
	// handover is the same for one that was told to end.
	handover = time.Second
)
