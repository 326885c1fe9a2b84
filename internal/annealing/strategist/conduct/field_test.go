package conduct_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/test/detector"
)

// partition is a document, what head and production have of it, and the runs of a
// rollout that sets fields of it.
type partition struct {
	t   *testing.T
	now time.Time
	// revisions of the document from 1 on, and who made each.
	revisions []json.RawMessage
	by        []string
	// head is the revision that head has; refused ones never are.
	head    int
	refuses func(content string) bool
	assets  []conduct.Asset
	run     *intent.Rollout
	said    *intentpb.Rollout
	stages  []selection.Stage
	orders  []intent.RolloutOrder
	others  []conduct.Other
	seen    map[intent.AssetID]intent.Observation
	stop    *intent.Stop
	ill     map[intent.AssetID]bool
	// changes of revisions that were asked for.
	changes map[int][]document.Change
	parsed  map[int]*conduct.Content
	// besides are assets that each landing changes too.
	besides []intent.AssetID
	// edits that were carried out by the rollout.
	edits int
	last  conduct.Decision
}

// newPartition has a job for each cluster, fed by /CLUSTER/version, the first of which
// is the canary.
func newPartition(t *testing.T, content string, clusters ...string) *partition {
	p := &partition{
		t: t, now: noon, changes: map[int][]document.Change{}, parsed: map[int]*conduct.Content{}, revisions: []json.RawMessage{json.RawMessage(content)}, by: []string{"ann"}, head: 1, refuses: func(string) bool { return false },
		said: &intentpb.Rollout{Name: "sizes"}, seen: map[intent.AssetID]intent.Observation{}, ill: map[intent.AssetID]bool{},
	}
	for _, cluster := range clusters {
		p.asset("web/"+cluster, "/"+cluster+"/version")
	}
	first := p.assets[0].ID
	p.stages = []selection.Stage{
		{Name: "canary", Soak: 2 * time.Second, Wants: func(t selection.Target) bool { return t.Asset == first }},
		{Name: "rest", Soak: 2 * time.Second},
	}
	return p
}

func (p *partition) asset(id, pointer string) {
	p.assets = append(p.assets, conduct.Asset{ID: intent.AssetID(id), Pointer: pointer, Selected: true})
}

func (p *partition) content(revision int) *conduct.Content {
	if known := p.parsed[revision]; known != nil {
		return known
	}
	value, err := document.Parse(p.revisions[revision-1])
	if err != nil {
		p.t.Fatal(err)
	}
	p.parsed[revision] = &conduct.Content{Revision: fmt.Sprint(revision), Value: value}
	return p.parsed[revision]
}

// set as a person would.
func (p *partition) set(by, path, value string) {
	p.t.Helper()
	content, err := document.Apply(p.revisions[len(p.revisions)-1], []document.Operation{{Path: path, Value: json.RawMessage(value)}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.revisions, p.by = append(p.revisions, content), append(p.by, by)
}

func (p *partition) order(kind intent.OrderKind, value string) {
	o := intent.RolloutOrder{Number: uint64(len(p.orders) + 1), Name: "sizes", Kind: kind, By: intent.Actor{Name: "bob"}, Reason: "spring", At: p.now}
	if value != "" {
		o.Value = json.RawMessage(value)
	}
	p.orders = append(p.orders, o)
}

// digest of what an asset is in head: by its field there.
func (p *partition) digest(a *conduct.Asset) intent.Digest {
	value, err := document.ParsePath(a.Pointer)
	if err != nil {
		p.t.Fatal(err)
	}
	found, _ := document.At(p.content(p.head).Value, value)
	return intent.Sum(fmt.Sprint(a.ID, found))
}

func (p *partition) facts() conduct.Facts {
	f := conduct.Facts{
		Now: p.now, Partition: "shop", Name: "sizes", Spec: p.said, Head: at(intent.Sequence(p.head)), Gap: time.Minute, Run: p.run, Stop: p.stop,
		Course: func(bool) selection.Policy { return selection.Policy{Stages: slices.Clone(p.stages)} },
	}
	done := uint64(0)
	if p.run != nil {
		done = p.run.Orders
	}
	for _, o := range p.orders {
		if o.Number > done {
			f.Orders = append(f.Orders, o)
		}
	}
	f.Field = &conduct.Field{Document: "knobs", Source: "held", Now: p.content(len(p.revisions)), Head: p.content(p.head), Others: p.others}
	if p.run != nil && p.run.Base != "" {
		var base int
		fmt.Sscan(p.run.Base, &base)
		f.Field.Base = p.content(base)
	}
	if newest := len(p.revisions); p.head < newest && p.refuses(string(p.revisions[newest-1])) {
		f.Field.Candidate = &intent.Candidate{
			ID: intent.CandidateID{Partition: "shop", Digest: intent.Sum("c")}, State: intent.CandidateRejected,
			Sources: []intent.SourceRevision{{Source: "held", Revision: fmt.Sprint(newest)}}, Findings: []intent.Finding{{Message: "no such version"}},
		}
	}
	f.Field.Since = func(revision, pointer string) conduct.Setting {
		for i := len(p.revisions); i > 1 && conduct.Older(revision, fmt.Sprint(i)); i-- {
			changes, ok := p.changes[i]
			if !ok {
				var err error
				if changes, err = document.Compare(p.revisions[i-2], p.revisions[i-1]); err != nil {
					p.t.Fatal(err)
				}
				p.changes[i] = changes
			}
			touched, err := document.Touches(changes, []string{pointer})
			if err != nil {
				p.t.Fatal(err)
			}
			if len(touched) > 0 {
				return conduct.Setting{Revision: fmt.Sprint(i), By: intent.Actor{Name: p.by[i-1]}, Description: p.by[i-1] + " at noon"}
			}
		}
		return conduct.Setting{}
	}
	f.Field.Landing = func(revision string) (intent.IncarnationID, []intent.AssetID) {
		return at(intent.Sequence(p.head)), append([]intent.AssetID{"web/a"}, p.besides...)
	}
	for i := range p.assets {
		a := p.assets[i]
		a.Head, a.Seen = p.digest(&a), p.seen[a.ID]
		a.Look = sight.Look{At: p.now, Effective: a.Head, State: intent.StateInSync, Health: intent.Healthy}
		if p.ill[a.ID] {
			a.Look.Health = intent.Unhealthy
		}
		f.Field.Assets = append(f.Field.Assets, a)
	}
	return f
}

// decide and store the step; what it wants of the document is done when edits says so.
func (p *partition) decide(edits bool) {
	p.t.Helper()
	p.last = conduct.Decide(p.facts())
	if p.last.Step.Run.Name != "" {
		text, err := json.Marshal(p.last.Step.Run)
		if err != nil {
			p.t.Fatal(err)
		}
		p.run = &intent.Rollout{}
		if err := json.Unmarshal(text, p.run); err != nil {
			p.t.Fatal(err)
		}
	}
	p.seen = p.last.Seen
	e := p.last.Edit
	if e == nil || !edits || e.Edit.Base != fmt.Sprint(len(p.revisions)) {
		return
	}
	content, err := document.Apply(p.revisions[len(p.revisions)-1], e.Edit.Operations)
	if err != nil {
		p.t.Fatal(err)
	}
	if string(content) == string(p.revisions[len(p.revisions)-1]) {
		p.t.Fatalf("an edit changes nothing: %+v", e)
	}
	p.revisions, p.by, p.edits = append(p.revisions, content), append(p.by, "rollout/sizes"), p.edits+1
}

// pass lets a second go by, in which head follows unless it refuses.
func (p *partition) pass() {
	p.t.Helper()
	p.decide(true)
	if newest := len(p.revisions); !p.refuses(string(p.revisions[newest-1])) {
		p.head = newest
	}
	p.now = p.now.Add(time.Second)
}

// until lets time go by until it is so.
func (p *partition) until(what string, is func() bool) {
	p.t.Helper()
	for range 1000 {
		if p.run != nil && is() {
			return
		}
		p.pass()
	}
	p.t.Fatalf("never %s: %+v\n%s", what, p.run, p.document())
}

func (p *partition) state(state intent.RolloutState) func() bool {
	return func() bool { return p.run.State == state }
}

func (p *partition) document() string { return string(p.revisions[len(p.revisions)-1]) }

func (p *partition) is(want string) {
	p.t.Helper()
	if got := p.document(); got != want {
		p.t.Errorf("the document is %s, want %s", got, want)
	}
}

func (p *partition) edit(pointer string) intent.RolloutEdit {
	for _, e := range p.run.Edits {
		if e.Pointer == pointer {
			return e
		}
	}
	return intent.RolloutEdit{}
}

func (p *partition) told() (text string) {
	for _, e := range p.run.Events {
		text += e.Kind + ": " + e.Text + "\n"
	}
	return text
}

const three = `{"a":{"version":1},"b":{"version":1},"c":{"version":1}}`

// TestAFieldIsSetStageByStage: the canary first, in head and healthy for its soak, then
// the rest; each edit is named in the run before it is made.
func TestAFieldIsSetStageByStage(t *testing.T) {
	p := newPartition(t, three, "a", "b", "c")
	p.besides = []intent.AssetID{"db/main"}
	p.order(intent.OrderStart, "2")
	p.until("chosen", func() bool { return len(p.run.Edits) > 0 })
	p.is(`{"a":{"version":2},"b":{"version":1},"c":{"version":1}}`)
	if e := p.edit("/a/version"); string(e.Before) != "1" || e.Revision != "" || e.At.IsZero() {
		t.Errorf("stored before the edit: %+v", e)
	}
	began := p.now
	p.until("at the rest", func() bool { return len(p.run.Edits) > 1 })
	if soaked := p.now.Sub(began); soaked < 2*time.Second {
		t.Errorf("the rest follows after %s", soaked)
	}
	if e := p.edit("/a/version"); e.Revision != "2" || e.Landed != at(2) {
		t.Errorf("the canary is %+v", e)
	}
	p.until("done", p.state(intent.RolloutDone))
	p.is(`{"a":{"version":2},"b":{"version":2},"c":{"version":2}}`)
	if p.edits != 2 {
		t.Errorf("%d edits", p.edits)
	}
	if told := p.told(); !strings.Contains(told, "it also changed 1 asset of other fields: db/main") {
		t.Error(told)
	}
	before := len(p.revisions)
	p.set("ann", "/a/version", "7") // It is nobody's any more.
	for range 5 {
		p.pass()
	}
	if len(p.revisions) != before+1 || p.edit("/a/version").Changed != "" {
		t.Errorf("a run that is done goes on: %s %+v", p.document(), p.run.Edits)
	}
}

// TestAllAssetsOfAFieldGoOnTogether, or none of them does.
func TestAllAssetsOfAFieldGoOnTogether(t *testing.T) {
	p := newPartition(t, three, "a", "b", "c")
	p.asset("web/a2", "/a/version")
	p.assets[1].Blocked = "it is held by ann"
	p.asset("web/b2", "/b/version")
	p.order(intent.OrderStart, "2")
	p.until("chosen", func() bool { return len(p.run.Edits) > 0 })
	if got := p.last.Step.Event.Text; !strings.Contains(got, "1 field is set to 2 for 2 assets: web/a, web/a2") {
		t.Errorf("chosen: %s", got)
	}
	p.until("in its way", func() bool { return strings.Contains(p.run.Progress.Waits, "held") })
	p.is(`{"a":{"version":2},"b":{"version":1},"c":{"version":2}}`)
	if waits := p.run.Progress.Waits; !strings.Contains(waits, "its field is that of web/b too") && !strings.Contains(waits, "it is held by ann") {
		t.Error(waits)
	}
	p.assets[1].Blocked = ""
	p.until("done", p.state(intent.RolloutDone))
}

// TestAPersonsEditIsKept: by going on, and by undo, whether the run was there already
// or not; and what a person changes elsewhere hinders nothing.
func TestAPersonsEditIsKept(t *testing.T) {
	p := newPartition(t, three, "a", "b", "c")
	p.order(intent.OrderStart, "2")
	p.until("at the canary", func() bool { return len(p.run.Edits) > 0 && p.run.Edits[0].Revision != "" })
	p.set("ann", "/log", `"debug"`)
	p.set("ann", "/b/version", "9")
	p.until("done", p.state(intent.RolloutDone))
	p.is(`{"a":{"version":2},"b":{"version":9},"c":{"version":2},"log":"debug"}`)
	if e := p.edit("/b/version"); e.Changed != "ann at noon" || e.Revision != "" || string(e.Before) != "1" {
		t.Errorf("%+v", e)
	}
	p.set("carl", "/a/version", "8")
	p.order(intent.OrderRollback, "")
	p.until("back", p.state(intent.RolloutRolledBack))
	p.is(`{"a":{"version":8},"b":{"version":9},"c":{"version":1},"log":"debug"}`)
	if told := p.told(); !strings.Contains(told, "/b/version of knobs is kept as it is: set by ann") || !strings.Contains(told, "/a/version of knobs is kept as it is: set by carl") {
		t.Error(told)
	}
}

// TestACrashBetweenRecordAndEdit is taken up without a second edit, wherever it came.
func TestACrashBetweenRecordAndEdit(t *testing.T) {
	for _, crash := range []string{"before the edit", "after the edit", "before, and a person was faster"} {
		t.Run(crash, func(t *testing.T) {
			p := newPartition(t, three, "a", "b")
			p.order(intent.OrderStart, "2")
			for p.run == nil || len(p.run.Edits) == 0 {
				p.decide(crash == "after the edit")
				p.now = p.now.Add(time.Second)
			}
			p.seen = map[intent.AssetID]intent.Observation{} // Another process goes on.
			if crash == "before, and a person was faster" {
				p.set("ann", "/a/version", "5")
			}
			p.until("done", p.state(intent.RolloutDone))
			if crash == "before, and a person was faster" {
				p.is(`{"a":{"version":5},"b":{"version":2},"c":{"version":1}}`)
				return
			}
			p.is(`{"a":{"version":2},"b":{"version":2},"c":{"version":1}}`)
			if e := p.edit("/a/version"); p.edits != 2 || e.Revision != "2" {
				t.Errorf("%d edits, %+v", p.edits, e)
			}
		})
	}
}

// TestABadValueIsUndoneInTheSameStep (L8): the undo is asked for with the verdict; what
// was nothing before is nothing again, and null is not nothing.
func TestABadValueIsUndoneInTheSameStep(t *testing.T) {
	p := newPartition(t, `{"a":{},"b":{"version":null},"c":{"version":1}}`, "a", "b", "c")
	p.stages = []selection.Stage{{Name: "all", Soak: time.Hour}}
	p.order(intent.OrderStart, "2")
	p.until("landed", func() bool { return len(p.run.Edits) == 3 && p.run.Edits[0].Landed.Sequence > 0 })
	p.ill["web/b"] = true
	for range 1000 {
		if p.run.State != intent.RolloutRunning {
			break
		}
		p.decide(false)
		p.now = p.now.Add(time.Second)
	}
	if p.run.State != intent.RolloutRollingBack || p.run.Bad == "" || p.last.Edit == nil || len(p.last.Edit.Edit.Operations) != 3 {
		t.Fatalf("%+v, with the edit %+v", p.run, p.last.Edit)
	}
	p.until("in the document", func() bool { return p.document() == `{"a":{},"b":{"version":null},"c":{"version":1}}` })
	if p.run.State != intent.RolloutRollingBack {
		t.Errorf("it is %s before its assets are back", p.run.State)
	}
	delete(p.ill, "web/b")
	p.until("back", p.state(intent.RolloutRolledBack))
	if len(p.last.Step.Judged) > 0 && p.last.Step.Judged[0].Good {
		t.Error("what went bad is judged good")
	}
}

// TestWhatIsRejectedIsBadInTime: a candidate that is not served with the value is named,
// and counts as bad after the patience.
func TestWhatIsRejectedIsBadInTime(t *testing.T) {
	p := newPartition(t, three, "a", "b")
	p.refuses = func(content string) bool { return strings.Contains(content, "2") }
	p.order(intent.OrderStart, "2")
	p.until("named", func() bool { return strings.Contains(p.run.Progress.Waits, "is rejected: no such version") })
	began := p.now
	p.until("back", p.state(intent.RolloutRolledBack))
	if waited := p.now.Sub(began); waited < 9*time.Minute || waited > 11*time.Minute {
		t.Errorf("it went back after %s", waited)
	}
	p.is(three)
	if !strings.Contains(p.run.Bad, "/a/version of knobs cannot be served") || !strings.Contains(p.run.Bad, "no such version") {
		t.Error(p.run.Bad)
	}
}

// TestAClockThatIsSetBackKeepsNothingRejected for longer than the patience.
func TestAClockThatIsSetBackKeepsNothingRejected(t *testing.T) {
	p := newPartition(t, three, "a", "b")
	p.refuses = func(content string) bool { return strings.Contains(content, "2") }
	p.order(intent.OrderStart, "2")
	p.until("named", func() bool { return strings.Contains(p.run.Progress.Waits, "is rejected: no such version") })
	p.now = p.now.Add(-time.Hour)
	began := p.now
	p.until("back", p.state(intent.RolloutRolledBack))
	if waited := p.now.Sub(began); waited > 11*time.Minute {
		t.Errorf("it went back after %s", waited)
	}
}

// TestAQueuedRunBeginsByItself when the other's field is free, and can be aborted.
func TestAQueuedRunBeginsByItself(t *testing.T) {
	p := newPartition(t, three, "a", "b")
	p.others = []conduct.Other{{Rollout: "flags", Run: 4, Began: noon.Add(-time.Hour), Pointers: []string{"/b"}}}
	p.order(intent.OrderStart, "2")
	p.until("queued", p.state(intent.RolloutQueued))
	for range 3 {
		p.pass()
	}
	p.is(three)
	if waits := p.run.Progress.Waits; waits != "for run 4 of the rollout flags to end, which sets /b and goes on" {
		t.Error(waits)
	}
	p.set("ann", "/a/version", "5") // Before it began: it is not in its middle.
	p.others[0].Pointers = []string{"/c", "/bb/version"}
	p.until("done", p.state(intent.RolloutDone))
	p.is(`{"a":{"version":2},"b":{"version":2},"c":{"version":1}}`)

	p.others[0].Pointers, p.others[0].Queued = []string{"/a/version/major"}, true
	p.order(intent.OrderStart, "3")
	p.until("queued behind one that is queued", p.state(intent.RolloutQueued))
	p.others[0].Began = p.now.Add(time.Hour)
	p.until("first", p.state(intent.RolloutRunning))
	p.others[0].Queued, p.others[0].Began = false, noon
	p.order(intent.OrderAbort, "")
	p.until("aborted", p.state(intent.RolloutStopped))
	p.order(intent.OrderStart, "4")
	p.until("queued again", func() bool { return p.run.Run == 3 && p.run.State == intent.RolloutQueued })
	p.order(intent.OrderAbort, "")
	p.until("aborted in the queue", p.state(intent.RolloutStopped))
}

// TestANewerStart takes the place of what goes on where the policy says so; what it
// goes back to is what was there before both.
func TestANewerStart(t *testing.T) {
	p := newPartition(t, three, "a", "b")
	p.order(intent.OrderStart, "2")
	p.until("at the canary", func() bool { return len(p.run.Edits) > 0 && p.run.Edits[0].Landed.Sequence > 0 })
	p.order(intent.OrderStart, "3")
	p.order(intent.OrderPause, "")
	p.until("begun and paused", func() bool { return p.run.Run == 2 && p.run.State == intent.RolloutPaused })
	if e := p.edit("/a/version"); !e.At.IsZero() || string(e.Before) != "1" {
		t.Errorf("it begins with %+v", e)
	}
	p.order(intent.OrderResume, "")
	p.until("at the canary", func() bool { return p.edit("/a/version").Landed.Sequence > 0 })
	p.is(`{"a":{"version":3},"b":{"version":1},"c":{"version":1}}`)
	if o := p.seen["web/a"]; o.Left.IsZero() || !o.Left.Before(o.Selected) {
		t.Errorf("what is before is before both: %+v", o)
	}
	p.order(intent.OrderRollback, "")
	p.until("back", p.state(intent.RolloutRolledBack))
	p.is(three)

	// Also what it had not come to itself.
	p.order(intent.OrderStart, "2")
	p.until("at the canary", func() bool { return p.run.Run == 3 && p.edit("/a/version").Landed.Sequence > 0 })
	p.order(intent.OrderStart, "3")
	p.until("begun", func() bool { return p.run.Run == 4 })
	p.order(intent.OrderRollback, "")
	p.until("back", p.state(intent.RolloutRolledBack))
	p.is(three)

	// And what the one between had let go on, and came to no edit of.
	p.order(intent.OrderStart, "2")
	p.until("at the canary", func() bool { return p.run.Run == 5 && p.edit("/a/version").Landed.Sequence > 0 })
	p.order(intent.OrderStart, "3")
	for p.run.Run != 6 || p.edit("/a/version").At.IsZero() {
		p.decide(false)
		p.now = p.now.Add(time.Second)
	}
	p.order(intent.OrderStart, "4")
	p.until("begun", func() bool { return p.run.Run == 7 })
	p.order(intent.OrderRollback, "")
	p.until("back", p.state(intent.RolloutRolledBack))
	p.is(three)

	p.said.Newer = intentpb.Rollout_NEWER_QUEUES
	p.order(intent.OrderStart, "4")
	p.until("begun", func() bool { return p.run.Run == 8 && len(p.run.Edits) > 0 })
	p.order(intent.OrderStart, "5")
	p.until("done", p.state(intent.RolloutDone))
	p.is(`{"a":{"version":4},"b":{"version":4},"c":{"version":1}}`)
	if !strings.Contains(p.told(), "start: with 5 it was not begun, for run 8 is running") {
		t.Error(p.told())
	}
}

// TestWhileStoppedNothingIsSet, and it says who stopped it.
func TestWhileStoppedNothingIsSet(t *testing.T) {
	p := newPartition(t, three, "a", "b")
	p.stop = &intent.Stop{Partition: "shop", Owner: intent.Actor{Name: "ann"}, Reason: "it burns"}
	p.order(intent.OrderStart, "2")
	p.until("waits", func() bool { return strings.Contains(p.run.Progress.Waits, "for the stop by ann to end: it burns") })
	p.is(three)
	p.stop = nil
	p.until("done", p.state(intent.RolloutDone))
}

// TestOtherChangesDoNotBeginASoakAnew: an asset follows head, and what it was healthy
// for with the value counts on.
func TestOtherChangesDoNotBeginASoakAnew(t *testing.T) {
	p := newPartition(t, three, "a")
	p.assets[0].Pointer = "/a"
	p.revisions[0] = json.RawMessage(`{"a":1}`)
	p.stages = []selection.Stage{{Name: "all", Soak: time.Minute}}
	p.order(intent.OrderStart, "2")
	p.until("landed", func() bool { return len(p.run.Edits) > 0 && p.run.Edits[0].Landed.Sequence > 0 })
	began := p.now
	// The digest of what it is changes with its id here.
	for range 20 {
		p.pass()
		o := p.seen["web/a"]
		o.Effective = intent.Sum(fmt.Sprint(p.now))
		p.seen["web/a"] = o
	}
	p.until("done", p.state(intent.RolloutDone))
	if took := p.now.Sub(began); took > 100*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestAMissingDocument is waited for, by name.
func TestAMissingDocument(t *testing.T) {
	p := newPartition(t, three, "a")
	p.order(intent.OrderStart, "2")
	f := p.facts()
	f.Field.Now, f.Field.Problem = nil, "it was deleted in revision 3 by ann"
	run := conduct.Decide(f).Run
	if run == nil || run.State != intent.RolloutQueued {
		t.Fatalf("%+v", run)
	}
	f.Run, f.Orders = run, nil
	if waits := conduct.Decide(f).Run.Progress.Waits; !strings.Contains(waits, "deleted in revision 3 by ann") {
		t.Error(waits)
	}
}

// TestAnotherDocument: what was set in the one before is not looked for in it.
func TestAnotherDocument(t *testing.T) {
	p := newPartition(t, three, "a", "b")
	p.order(intent.OrderStart, "2")
	p.until("done", p.state(intent.RolloutDone))
	for i := range p.run.Edits {
		p.run.Edits[i].Document = "older"
	}
	p.order(intent.OrderRollback, "")
	p.until("stopped", p.state(intent.RolloutStopped))
	if told := p.told(); !strings.Contains(told, "not of the document knobs") || p.run.Edits[0].Changed != "" {
		t.Error(told)
	}
	p.is(`{"a":{"version":2},"b":{"version":2},"c":{"version":1}}`)
}

// TestTheClockIsSetBack in a run that sets fields: what was set is not of the future, and
// nothing is stored again and again.
func TestTheClockIsSetBack(t *testing.T) {
	p := newPartition(t, `{"a":{"version":1},"b":{"version":1}}`, "a", "b")
	p.order(intent.OrderStart, "2")
	for range 4 {
		p.pass()
	}
	if len(p.run.Edits) != 1 || p.run.Edits[0].Landed.Sequence == 0 {
		t.Fatalf("it is not there: %+v", p.run)
	}
	p.now = p.now.Add(-time.Hour)
	p.decide(true)
	first := p.last.Seen["web/a"].Selected
	p.now = p.now.Add(time.Second)
	p.decide(true)
	if again := p.last.Seen["web/a"].Selected; !again.Equal(first) || again.After(p.now) {
		t.Errorf("it was let go on at %s, and then at %s", first, again)
	}
	for range 10 {
		p.pass()
	}
	if p.run.State != intent.RolloutDone {
		t.Errorf("the run is %+v", p.run)
	}
}

// TestMoreFieldsThanAnEditTakes are set, and given back, by several edits.
func TestMoreFieldsThanAnEditTakes(t *testing.T) {
	detector.SkipSequential(t)
	var clusters []string
	fields := map[string]any{}
	for i := range document.MaxOperations + 200 {
		name := fmt.Sprintf("c%04d", i)
		clusters, fields[name] = append(clusters, name), map[string]int{"version": 1}
	}
	before, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	p := newPartition(t, string(before), clusters...)
	p.order(intent.OrderStart, "2")
	most, edits := 0, 0
	count := func() {
		if e := p.last.Edit; e != nil {
			edits++
			most = max(most, len(e.Edit.Operations))
		}
	}
	p.until("all set", func() bool { count(); return !strings.Contains(p.document(), `"version":1`) })
	if edits < 3 || most > document.MaxOperations || most < document.MaxOperations/2 {
		t.Errorf("it took %d edits, of %d fields at most", edits, most)
	}
	p.ill["web/c1100"], most, edits = true, 0, 0
	p.until("all back", func() bool { count(); return p.document() == string(before) })
	if edits < 2 || most > document.MaxOperations {
		t.Errorf("going back took %d edits, of %d fields at most", edits, most)
	}
	delete(p.ill, "web/c1100")
	p.until("rolled back", p.state(intent.RolloutRolledBack))
}
