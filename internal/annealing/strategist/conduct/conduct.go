// Package conduct decides what a rollout does now: which assets go on, what was
// seen of them, whether what they were given is good or bad, and what a person
// asked for. It is pure: facts in, one step for the store out, and the same facts
// give the same step; so nothing is lost when whoever asks it starts anew.
package conduct

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
)

// Asset is one that a rollout governs, as it is known now.
type Asset struct {
	ID intent.AssetID
	// Target says to which stage it belongs; the rest of it is filled in here.
	Target selection.Target
	// Pin of the rollout, and Back, of its rollback, if there is one.
	Pin  intent.Pin
	Back *intent.Pin
	// Pinned is its content where Pin is, BackAt where Back is, Head at head, and
	// Goal at what the newest run brings; zero: there is none.
	Pinned, BackAt, Head, Goal intent.Digest
	// Selected by the policy of head. What is not is let go of.
	Selected bool
	Report   intent.Report
	Look     sight.Look
	// Stored is the observation in the store, Seen as it is now.
	Stored, Seen intent.Observation
	// Blocked says why it cannot be let go on, of itself.
	Blocked string
	// Known says of contents whether they are good.
	Known map[intent.Digest]bool
	// Pointer of its field, of a rollout that sets one, and what that has.
	Pointer    string
	fieldValue json.RawMessage
}

// content that the asset follows by its rollout.
func (a *Asset) content() (intent.Digest, intent.Pin) {
	if a.Pointer != "" {
		return a.Head, a.Pin
	}
	if a.Back != nil {
		return a.BackAt, *a.Back
	}
	return a.Pinned, a.Pin
}

// unproven: a run let it go on to what it follows, and nobody knows that it is good;
// or it is not back yet from there.
func (a *Asset) unproven() bool {
	content, _ := a.content()
	return a.Back != nil && a.Seen.Arrived.IsZero() || !content.IsZero() && !a.Known[content] && !a.Seen.Selected.IsZero()
}

// bad reports whether a content was judged bad.
func (a *Asset) bad(content intent.Digest) bool {
	good, judged := a.Known[content]
	return judged && !good
}

// recordJudgement takes up a judgement; what was handed in stays as it is.
func (a *Asset) recordJudgement(content intent.Digest, good bool) {
	a.Known = maps.Clone(a.Known)
	if a.Known == nil {
		a.Known = map[intent.Digest]bool{}
	}
	a.Known[content] = good
}

// goesOn is a new observation, of a content that a run lets it go on to now. Where that takes
// the place of what another let it go on to, it left what was there before at that time.
func (a *Asset) goesOn(rollout string, content intent.Digest, now time.Time, takesOver bool) intent.Observation {
	o := a.follows(rollout, content, now)
	if !takesOver || o.Left.IsZero() {
		o.Left = now
	}
	return o
}

// follows is a new observation: of a content that it follows from now on.
func (a *Asset) follows(rollout string, content intent.Digest, selected time.Time) intent.Observation {
	return intent.Observation{Rollout: rollout, Asset: a.ID, Effective: content, Selected: selected, Left: a.Seen.Left, Tells: a.Seen.Tells}
}

// Facts are what a decision rests on.
type Facts struct {
	Now       time.Time
	Partition intent.PartitionID
	Name      string
	// Spec is what head's policy says; nil: it has no such rollout any more.
	Spec *intentpb.Rollout
	// Course is how targets are selected, by what Said says.
	Course func(emergency bool) selection.Policy
	// Back is how they are selected when they go back; nil, or without stages: Said
	// does not say.
	Back func() selection.Policy
	Head intent.IncarnationID
	// Revision of the partition that all of it was read at.
	Revision uint64
	Stop     *intent.Stop
	// Run is the newest of its name; nil: there was none.
	Run    *intent.Rollout
	Orders []intent.RolloutOrder
	// Assets that it governs, in the order of their ids.
	Assets []Asset
	// Verdicts of the validations, as they are known now, and how often each validation began anew.
	Verdicts []intent.ValidationVerdict
	Retries  map[string]int
	// Picked is what plugins say of stages, by the stage.
	Picked map[string]Picked
	// Gap is the longest time between two looks that are still one.
	Gap time.Duration
	// Before are the rollouts that it comes after.
	Before []Before
	// Loosened says what Said asks for no longer, or less of, than was asked for before
	// the content of these assets in an incarnation came. It may be nil: nothing.
	Loosened func(in intent.IncarnationID, assets []intent.AssetID) []string
	// Done is what the newest run before Run brought that was done; zero: none was. It is
	// nil where no rollout comes after this one.
	Done func() intent.IncarnationID
	// Older are the retained incarnations before the run's, the newest first, and
	// Content is what an asset is in one; zero: it is not.
	Older   func() []intent.IncarnationID
	Content func(at intent.IncarnationID, asset intent.AssetID) intent.Digest
	// Unreadable says why the types of head cannot read what an asset is in one; empty:
	// they can. Nil: all is readable.
	Unreadable func(at intent.IncarnationID, asset intent.AssetID) string
	// Field of a document that it sets; nil: it goes by pins.
	Field *Field
	// Proposed is what became of pull requests of the run, by their keys.
	Proposed map[string]Proposed
}

// Decision is what is done now.
type Decision struct {
	// Step for the store, if Act; what it judges and observes is in it.
	Step store.RolloutStep
	Act  bool
	// Next is when time alone may change the decision; zero: nothing but a change.
	Next time.Time
	// Seen is what is known of the assets now, to be handed in again.
	Seen map[intent.AssetID]intent.Observation
	// Ask are the validations to be asked now, of these stages.
	Ask []Question
	// Pick are the plugins to be asked now.
	Pick []Pick
	// Run as it is after the step; nil: there is none.
	Run *intent.Rollout
	// Edit of a document that is made after the step; nil: none.
	Edit *Editing
	// Landings are pull requests that are gone on with after the step.
	Landings []Landing
	// Through is the newest incarnation that it went through with, where others come
	// after it; zero: none that is known.
	Through intent.IncarnationID
}

// Question asks for a verdict of a validation on a stage.
type Question struct {
	Validation string
	Stage      string
	// Began is when the first of its assets left what was there before, Changed when the
	// last arrived at what it was given.
	Began   time.Time
	Changed time.Time
	// Experiment are the assets that have it, Control those that do not.
	Experiment, Control []intent.AssetID
	// ExperimentScopes and ControlScopes are the values of their scopes, by name.
	ExperimentScopes, ControlScopes map[string][]string
}

// looksEvery is how often, where nothing new is seen, a rollout under way, or one of which what is there is
// not known to be good, is looked at.
const looksEvery = 5 * time.Second

// groundEvery is how often it is looked whether what was there before is good.
const groundEvery = 5 * time.Second

// keeps is how much of what was seen may be lost by an end of the server.
const keeps = 10 * time.Second

// Decide says what is done.
func Decide(f Facts) Decision {
	d := &decider{Facts: f, decision: Decision{Step: store.RolloutStep{Rollout: f.Name, Revision: f.Revision}, Seen: map[intent.AssetID]intent.Observation{}}}
	if f.Run != nil {
		run := *f.Run
		run.Events, run.Skipped = slices.Clone(run.Events), slices.Clone(run.Skipped)
		run.Accepted, run.Edits, run.Proposals = slices.Clone(run.Accepted), slices.Clone(run.Edits), slices.Clone(run.Proposals)
		run.Votes, run.Approved = slices.Clone(run.Votes), slices.Clone(run.Approved)
		d.run = &run
	}
	d.next = d.source()
	d.observe()
	d.letGo()
	d.followProposals()
	if d.Field != nil {
		d.field()
		return d.finish()
	}
	d.obey()
	switch {
	case f.Run != nil && !d.run.State.Open() && !d.run.Ended.Equal(f.Run.Ended):
		d.wakeAt(d.Now) // A person ended it just now: another begins in a step of its own.
	case d.run == nil || !d.run.State.Open():
		d.idle()
	case d.run.State == intent.RolloutRollingBack && f.Run.State != intent.RolloutRollingBack:
		d.wakeAt(d.Now.Add(looksEvery)) // A person said so just now, and its pins are of this step.
	case (f.Spec == nil || d.sets()) && d.withdrawsAll():
		d.run.Progress.Wait(intent.CauseDocument, proposalWords(d.withdrawing()), nil)
	case f.Spec == nil:
		d.end(intent.RolloutStopped, d.holder(), "end", "head's policy has no such rollout any more")
	case d.sets():
		d.end(intent.RolloutStopped, d.holder(), "end", "by head's policy it sets no field any more")
	default:
		d.goOn()
	}
	return d.finish()
}

// decider makes one decision.
type decider struct {
	Facts
	run      *intent.Rollout
	decision Decision
	// next is the incarnation that is brought next; zero: none yet.
	next intent.IncarnationID
	// edited says where the edit of a field is among the run's.
	edited map[string]int
}

func (d *decider) holder() intent.Actor { return intent.RolloutHolder(d.Name) }

// event adds to the run's events, and is what the audit says of the step.
func (d *decider) event(actor intent.Actor, kind, format string, arguments ...any) {
	e := intent.RolloutEvent{At: d.Now, By: actor, Kind: kind, Text: fmt.Sprintf(format, arguments...)}
	if d.decision.Step.Event.Kind == "" {
		d.decision.Step.Event = e
	} else {
		d.decision.Step.Event.Text += "; " + e.Text
	}
	if d.run != nil {
		d.run.Events = append(d.run.Events, e)
		if more := len(d.run.Events) - intent.MaxRolloutEvents; more > 0 {
			d.run.Events = d.run.Events[more:]
		}
	}
}

// end ends the run.
func (d *decider) end(state intent.RolloutState, actor intent.Actor, kind, format string, arguments ...any) {
	d.run.State, d.run.Ended = state, d.Now
	d.withdrawsAll()
	d.event(actor, kind, format, arguments...)
}

func (d *decider) wakeAt(at time.Time) {
	if !at.IsZero() && (d.decision.Next.IsZero() || at.Before(d.decision.Next)) {
		d.decision.Next = at
	}
}

// pin moves an asset of the rollout.
func (d *decider) pin(a *Asset, target intent.IncarnationID, rank intent.Rank, reason string) {
	d.decision.Step.Pins = append(d.decision.Step.Pins, intent.Pin{
		Asset: a.ID, Incarnation: target, Rank: rank, Holder: d.holder(), Reason: reason, Created: d.Now,
	})
}

func (d *decider) unpin(a *Asset, rank intent.Rank) {
	d.decision.Step.Unpin = append(d.decision.Step.Unpin, store.PinOf{Asset: a.ID, Rank: rank})
}

// letGo takes pins back of what is governed no more: at once where intent does not
// name it, or where head asks for what the pin does; else when a person says so.
func (d *decider) letGo() {
	release := slices.ContainsFunc(d.Orders, func(o intent.RolloutOrder) bool { return o.Kind == intent.OrderRelease })
	remaining := d.Assets[:0:0]
	for i := range d.Assets {
		a := &d.Assets[i]
		// Head says nothing yet of what the next publication governs.
		coming := a.Pin.Governed > d.Head.Sequence
		same := a.Back == nil && a.Pinned == a.Head
		if coming || !a.Head.IsZero() && (a.Selected || !same && !release) {
			remaining = append(remaining, *a)
			continue
		}
		d.unpin(a, intent.RankRollout)
		if a.Back != nil {
			d.unpin(a, intent.RankRollback)
		}
		d.decision.Step.Forget = append(d.decision.Step.Forget, a.ID)
		delete(d.decision.Seen, a.ID)
	}
	if n := len(d.Assets) - len(remaining); n > 0 {
		d.event(d.holder(), "release", "%s governed no more", count(n, "asset is", "assets are"))
	}
	d.Assets = remaining
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// finish says what is to be stored, if anything is.
func (d *decider) finish() Decision {
	most := d.mostHealthy()
	for i := range d.Assets {
		a := &d.Assets[i]
		if worthKeeping(a.Stored, a.Seen, most) || d.soaked(a, a.Seen) && !d.soaked(a, a.Stored) {
			d.decision.Step.Observed = append(d.decision.Step.Observed, a.Seen)
		}
	}
	d.decision.Run, d.decision.Through = d.run, d.completedIncarnation()
	s := &d.decision.Step
	if d.run != nil && (d.Run == nil || runSummary(*d.run) != runSummary(*d.Run)) {
		s.Run = *d.run
	}
	if s.Run.Name == "" && d.run != nil {
		d.decision.Run = d.Run // What is new of it is not worth telling yet.
	}
	if d.run != nil {
		d.decision.Landings = d.landings()
	}
	d.decision.Act = s.Run.Name != "" || len(s.Pins)+len(s.Unpin)+len(s.Observed)+len(s.Judged)+len(s.Forgiven) > 0
	return d.decision
}

// soaked reports whether what was seen is enough for the asset's stage. What others go
// on by is stored before they do.
func (d *decider) soaked(a *Asset, observed intent.Observation) bool {
	if d.Spec == nil || d.run == nil || observed.Effective != a.Seen.Effective {
		return false
	}
	stages := d.Course(d.run.Emergency).Stages
	at := slices.IndexFunc(stages, func(s selection.Stage) bool { return s.Name == d.stageOf(a) })
	return at >= 0 && observed.Healthy > 0 && observed.Healthy >= stages[at].Soak
}

// mostHealthy is for how long an asset must have been healthy at the most for anything that
// is decided. Plugins may ask for any time.
func (d *decider) mostHealthy() (most time.Duration) {
	if d.Spec == nil {
		return 0
	}
	for _, course := range []selection.Policy{d.Course(false), d.Course(true)} {
		if slices.ContainsFunc(course.Stages, func(s selection.Stage) bool { return s.Plugin != "" }) {
			return math.MaxInt64
		}
		most = max(most, longestSoak(course))
	}
	return most
}

// worthKeeping reports whether a server that ended now would lose something that counts:
// not by how much longer than most it was healthy.
func worthKeeping(stored, observed intent.Observation, most time.Duration) bool {
	if observed.Asset == "" {
		return false
	}
	return stored.Effective != observed.Effective || !stored.Selected.Equal(observed.Selected) || !stored.Left.Equal(observed.Left) || !stored.Arrived.Equal(observed.Arrived) ||
		stored.Ill.IsZero() != observed.Ill.IsZero() || !observed.Ill.IsZero() && observed.LastBad.Sub(stored.LastBad) >= keeps ||
		stored.Tells != observed.Tells || observed.Healthy < stored.Healthy || stored.Healthy < most && observed.Healthy-stored.Healthy >= keeps
}

// runSummary is what is worth telling of a run: all but the numbers in its words.
func runSummary(run intent.Rollout) string {
	var text strings.Builder
	p := run.Progress
	fmt.Fprintln(&text, run.Run, run.State, run.To, run.Skipped, run.Accepted, run.Approved, run.Promoted, run.Emergency, run.Bad, run.Back, run.Orders, len(run.Events), len(run.Edits), p.For)
	fmt.Fprintln(&text, words(p.Waits))
	for _, e := range run.Edits {
		fmt.Fprintln(&text, e.Pointer, e.Revision, e.At.UnixNano(), e.Changed, e.Landed)
	}
	for _, p := range run.Proposals {
		fmt.Fprintln(&text, p.Key, p.State, p.Request, words(p.Trouble))
	}
	if len(run.Events) > 0 {
		fmt.Fprintln(&text, run.Events[len(run.Events)-1])
	}
	for _, s := range p.Stages {
		fmt.Fprintln(&text, s.Name, s.Total, s.Selected, s.Done, words(s.Waits), s.Began.UnixNano(), s.Ended.UnixNano())
		if a := s.Approval; a != nil {
			fmt.Fprintln(&text, a.State, a.Approved, a.Needs, a.Roles)
		}
	}
	fmt.Fprintln(&text, p.Retries)
	for _, v := range p.Verdicts {
		fmt.Fprintln(&text, v.Validation, v.Stage, v.Result, v.At.UnixNano(), words(v.Reason))
	}
	return text.String()
}

// words of a text are all but its numbers.
func words(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}
