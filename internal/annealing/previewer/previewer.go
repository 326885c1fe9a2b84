// Package previewer keeps the previews of a partition: for each rule it lists branches or pull
// requests, asks branchpreview what follows, and edits the document of entries, from which the
// pipeline makes assets and Turndowns. It acts under the partition's lease, by compare-and-set, and
// remembers nothing that is not in the store. It makes and removes nothing in production itself, and
// an answer that is missing ends nothing. App runs it.
package previewer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// Places list branches and pull requests, and take statuses.
type Places interface {
	// Branches are all of the repository of a source, which must be the one that is named, as the
	// definition writes it.
	Branches(ctx context.Context, partition store.Partition, source, repository string) ([]branchpreview.Branch, error)
	// Host is a git host that the operator lists for the partition.
	Host(partition intent.PartitionID, name string) (Host, error)
}

// Host is one repository at a git host, as githost.Host is.
type Host interface {
	ListOpen(ctx context.Context) ([]githost.Listed, error)
	FollowRequest(ctx context.Context, number int) (githost.Request, error)
	PostStatus(ctx context.Context, s githost.Status) (posted bool, err error)
}

// Store is what a Previewer reads and writes, as store.All says.
type Store interface {
	Reader
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Changed(partition intent.PartitionID) <-chan struct{}
	Hints(ctx context.Context, id intent.PartitionID) (int64, error)
	Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	SavePreviews(ctx context.Context, lease store.Lease, rule string, edit document.Edit) (document.Document, error)
	store.Blobs
}

// Options of a Previewer.
type Options struct {
	Partition intent.PartitionID
	Store     Store
	Places    Places
	Runtime   loop.Runtime
	Log       *slog.Logger
	// Link is the page of an asset or the partition, for statuses; nil: there is none.
	Link func() string
}

// Previewer of one partition.
type Previewer struct {
	Options
	lease store.Lease
	rules map[string]*ruleState

	// lock guards looks, which end in goroutines of their own: a place that hangs delays no other.
	lock  sync.Mutex
	looks map[string]*look

	// hints is how often somebody said that sources may have changed.
	hints int64
}

// ruleState is what a run of the actor knows of a rule.
type ruleState struct {
	memory Memory
	// stored is the memory as the store has it.
	stored string
	// due is when the place is listed next, and failures how often it did not answer in a row.
	due      time.Time
	failures int
	looks    int
	// tell is when a host that did not take a status is asked again, after refusals in a row.
	tell     time.Time
	refusals int
}

// look is one list that is being read, or was, for a rule as it was then: what one repository lists
// says nothing of another.
type look struct {
	rule   *intentpb.PreviewRule
	done   bool
	listed []branchpreview.Branch
	err    error
}

const (
	// leastPause is between two passes, however much changes; quiet where nothing does.
	leastPause = time.Second
	quiet      = 30 * time.Second
	// ends and makes are the pauses while a preview ends or is being made: nobody tells of reports.
	ends, makes = 2 * time.Second, 5 * time.Second
	// longestLook is how long a list may take.
	longestLook = time.Minute
	// mostPosts are made in one pass.
	mostPosts = 20
)

// again is how long a place is left alone that did not answer.
var again = loop.Backoff{First: 5 * time.Second, Most: 5 * time.Minute}

// New returns a Previewer.
func New(o Options) *Previewer {
	return &Previewer{Options: o, rules: map[string]*ruleState{}, looks: map[string]*look{}}
}

// Run goes on until the context ends or the lease is lost.
func (p *Previewer) Run(ctx context.Context, lease store.Lease) error {
	p.lease = lease
	for ctx.Err() == nil {
		changed := p.Store.Changed(p.Partition)
		pause, err := p.pass(ctx)
		if err != nil {
			return err
		}
		if err := p.Runtime.Wait(ctx, leastPause, nil); err != nil {
			return err
		}
		if err := p.Runtime.Wait(ctx, max(0, pause-leastPause), changed); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pass looks at every rule, and returns how long nothing is to be done unless something changes.
func (p *Previewer) pass(ctx context.Context) (time.Duration, error) {
	partition, err := p.Store.Partition(ctx, p.Partition)
	if err != nil {
		return 0, err
	}
	policy, err := ReadPolicy(ctx, p.Store, partition.Head)
	if err != nil {
		return 0, err
	}
	hints, err := p.Store.Hints(ctx, p.Partition)
	if err != nil {
		return 0, err
	}
	if hints != p.hints {
		p.hints = hints
		for _, state := range p.rules {
			state.due = time.Time{}
		}
	}
	pause := quiet
	for _, rule := range branchpreview.Rules(policy) {
		own, err := p.passRule(ctx, partition, policy, rule)
		if err != nil {
			return 0, err
		}
		pause = min(pause, own)
	}
	return pause, nil
}

// passRule does what follows for one rule.
func (p *Previewer) passRule(ctx context.Context, partition store.Partition, policy *intentpb.Policy, rule branchpreview.Rule) (time.Duration, error) {
	state, err := p.stateOf(ctx, rule.GetName())
	if err != nil {
		return 0, err
	}
	doc, err := p.Store.Document(ctx, p.Partition, branchpreview.Document(rule.GetName()), "")
	if fault.Is(err, fault.NotFound) {
		doc, err = document.Document{Content: []byte("{}")}, nil
	}
	if err != nil {
		return 0, err
	}
	entries, err := branchpreview.Parse(doc.Content)
	if err != nil {
		p.problem(state, err)
		return quiet, p.remember(ctx, rule.GetName(), state)
	}
	standings := map[string]Standing{}
	gone := map[string]bool{}
	for name, entry := range entries {
		standing, err := ReadStanding(ctx, p.Store, partition, policy, rule, name, doc.Revision.ID)
		if err != nil {
			return 0, err
		}
		standings[name], gone[name] = standing, entry.Ending != nil && standing.IsGone()
	}
	now := p.Runtime.Now()
	facts := branchpreview.Facts{Rule: rule, Now: now, Entries: entries, Gone: gone, Expired: state.memory.expired()}
	facts.Listed, facts.IsListed = p.look(ctx, partition, rule, state, entries)
	var occupiedErr error
	facts.Occupied = func(preview string) (intent.AssetID, bool) {
		members, records, err := assetsOf(ctx, p.Store, partition, rule, preview)
		if err != nil {
			occupiedErr = err
			return "", true
		}
		for _, m := range members {
			return m.Asset, true
		}
		for id := range records {
			return id, true
		}
		return "", false
	}
	decision := branchpreview.Decide(facts)
	if occupiedErr != nil {
		return 0, occupiedErr
	}
	if facts.IsListed {
		state.memory.setWaiting(decision.Waiting)
		state.memory.setExpired(decision.Expired)
		// Before the entries: an entry that ended because it expired is not made anew, whatever happens.
		if err := p.remember(ctx, rule.GetName(), state); err != nil {
			return 0, err
		}
	}
	if err := p.save(ctx, rule, doc, decision.Changes); err != nil {
		return 0, err
	}
	for _, c := range decision.Changes {
		if c.Kind == branchpreview.Removed {
			state.due = now // There is room for another one.
		}
		if entries[c.Name] = c.Entry; c.Kind == branchpreview.Removed {
			delete(entries, c.Name)
		}
	}
	p.tell(ctx, rule, state, entries, standings)
	return min(p.pause(rule, state), pauseOf(entries, standings)), p.remember(ctx, rule.GetName(), state)
}

// pauseOf what goes on.
func pauseOf(entries branchpreview.Entries, standings map[string]Standing) time.Duration {
	pause := quiet
	for name, entry := range entries {
		if entry.Ending != nil {
			pause = min(pause, ends)
		} else if !standings[name].IsReady() {
			pause = min(pause, makes)
		}
	}
	return pause
}

// stateOf a rule, with what the store remembers.
func (p *Previewer) stateOf(ctx context.Context, rule string) (*ruleState, error) {
	if p.rules[rule] != nil {
		return p.rules[rule], nil
	}
	memory, err := ReadMemory(ctx, p.Store, p.Partition, rule)
	if err != nil {
		return nil, err
	}
	if memory.Posted == nil {
		memory.Posted = map[string]Posted{}
	}
	text, err := json.Marshal(memory)
	if err != nil {
		return nil, err
	}
	p.rules[rule] = &ruleState{memory: memory, stored: string(text)}
	return p.rules[rule], nil
}

// remember stores what changed.
func (p *Previewer) remember(ctx context.Context, rule string, state *ruleState) error {
	text, err := json.Marshal(state.memory)
	if err != nil {
		return fault.New(fault.Internal, "what is known of previews cannot be encoded: %w", err)
	}
	if string(text) == state.stored {
		return nil
	}
	if err := p.Store.PutBlobs(ctx, p.lease, BlobKind, map[string][]byte{rule: text}); err != nil {
		return err
	}
	state.stored = string(text)
	return nil
}

func (p *Previewer) problem(state *ruleState, err error) {
	text := messageOf(err)
	if state.memory.Problem == "" {
		state.memory.Since = p.Runtime.Now().UTC().Truncate(time.Second)
	}
	state.memory.Problem = text
}

// messageOf is an error in one line, of a length that people read.
func messageOf(err error) string {
	const most = 500
	text := strings.Join(strings.Fields(err.Error()), " ")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// save edits the document by what was decided on its revision.
func (p *Previewer) save(ctx context.Context, rule branchpreview.Rule, doc document.Document, changes []branchpreview.Change) error {
	operations, err := branchpreview.Operations(changes)
	if err != nil {
		return fault.New(fault.Internal, "entries of previews cannot be encoded: %w", err)
	}
	if len(operations) == 0 {
		return nil
	}
	p.Runtime.Point("save previews")
	_, err = p.Store.SavePreviews(ctx, p.lease, rule.GetName(), document.Edit{Base: doc.Revision.ID, Operations: operations, Reason: reasonOf(changes)})
	if err != nil {
		return err
	}
	for _, c := range changes {
		p.Log.Info("a preview changed", "partition", p.Partition, "rule", rule.GetName(), "preview", c.Name, "change", c.Kind, "branch", c.Entry.Branch, "commit", c.Entry.Commit)
	}
	return nil
}

// reasonOf changes, for the document's history.
func reasonOf(changes []branchpreview.Change) string {
	const most = 10
	var parts []string
	for _, c := range changes[:min(len(changes), most)] {
		text := fmt.Sprintf("%s %s of %s", c.Kind, c.Name, c.Entry.Subject())
		if c.Kind == branchpreview.Ended {
			text += ": " + c.Entry.Ending.Cause.Text()
		}
		parts = append(parts, text)
	}
	if more := len(changes) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// look returns what was listed since the pass before, and has the place listed when that is due.
func (p *Previewer) look(ctx context.Context, partition store.Partition, rule branchpreview.Rule, state *ruleState, entries branchpreview.Entries) (listed []branchpreview.Branch, isListed bool) {
	p.lock.Lock()
	current := p.looks[rule.GetName()]
	if current != nil && !proto.Equal(current.rule, rule.PreviewRule) {
		delete(p.looks, rule.GetName())
		current, state.due = nil, time.Time{}
	}
	isDone := current != nil && current.done
	if isDone {
		delete(p.looks, rule.GetName())
	}
	p.lock.Unlock()
	now := p.Runtime.Now()
	if isDone {
		state.looks++
		state.due = now.Add(loop.Jitter(rule.GetEvery().AsDuration(), rule.GetName(), state.looks))
		if current.err != nil {
			state.failures++
			state.due = now.Add(max(again.After(state.failures), min(rule.GetEvery().AsDuration(), again.Most)))
			p.problem(state, current.err)
			p.Log.Warn("branches or pull requests cannot be listed, and no preview ends by that", "partition", p.Partition, "rule", rule.GetName(), "error", current.err)
			return nil, false
		}
		state.failures, state.memory.Problem, state.memory.Since = 0, "", time.Time{}
		return current.listed, true
	}
	if current != nil || now.Before(state.due) {
		return nil, false
	}
	next, entries := &look{rule: rule.PreviewRule}, maps.Clone(entries)
	p.lock.Lock()
	p.looks[rule.GetName()] = next
	p.lock.Unlock()
	p.Runtime.Go("list for previews", func() {
		ctx, cancel := loop.WithTimeout(ctx, p.Runtime, longestLook)
		defer cancel()
		p.Runtime.Point("list for previews")
		found, err := p.list(ctx, partition, rule, entries)
		p.lock.Lock()
		defer p.lock.Unlock()
		next.done, next.listed, next.err = true, found, err
	})
	return nil, false
}

// pause until a rule is to be looked at again.
func (p *Previewer) pause(rule branchpreview.Rule, state *ruleState) time.Duration {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.looks[rule.GetName()] != nil {
		return leastPause
	}
	return max(leastPause, state.due.Sub(p.Runtime.Now()))
}

// list all that a rule may make previews of. Of a pull request that has a preview and is in no list,
// the host is asked: lists are read in pages, and what moves between them is not closed.
func (p *Previewer) list(ctx context.Context, partition store.Partition, rule branchpreview.Rule, entries branchpreview.Entries) ([]branchpreview.Branch, error) {
	if rule.GetSource() != "" {
		return p.Places.Branches(ctx, partition, rule.GetSource(), rule.GetRepository())
	}
	host, err := p.Places.Host(p.Partition, rule.GetHost())
	if err != nil {
		return nil, err
	}
	open, err := host.ListOpen(ctx)
	if err != nil {
		return nil, err
	}
	var listed []branchpreview.Branch
	for _, r := range open {
		listed = append(listed, branchpreview.Branch{Name: r.Branch, Commit: r.Commit, PullRequest: r.Number, Link: r.Link, Fork: r.Fork})
	}
	for _, entry := range entries {
		isListed := slices.ContainsFunc(listed, func(b branchpreview.Branch) bool { return b.Key() == entry.Key() })
		if entry.Ending != nil || isListed {
			continue
		}
		found, err := host.FollowRequest(ctx, entry.PullRequest)
		if err != nil {
			return nil, err
		}
		if found.Progress == githost.Open {
			listed = append(listed, branchpreview.Branch{Name: entry.Branch, Commit: entry.Commit, PullRequest: entry.PullRequest, Link: entry.Link})
		}
	}
	return listed, nil
}
