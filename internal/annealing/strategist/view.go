package strategist

import (
	"context"
	"fmt"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
)

// view is what one pass read.
type view struct {
	store.Partition
	policy  *intentpb.Policy
	courses map[string]*course.Course
	runs    map[string]intent.Rollout
	// orders by rollout, from the run's on.
	orders map[string][]intent.RolloutOrder
	// pins by the rollout that holds them, and those of people by asset.
	pins   map[string][]intent.Pin
	people map[intent.AssetID]intent.Pin
	holds  map[intent.AssetID]intent.Hold
	// names of all rollouts that there is something to do about.
	names []string
	// dropped are rollouts that head does not have, with a run that has ended and a pull request
	// that is still to be closed.
	dropped []string
	// read at this revision: nothing of the above can have changed since.
	contents map[contentAt]intent.Digest
	targets  map[targetOf]target
	// made of this policy, with these types.
	madeOf [2]intent.Digest
}

type contentAt struct {
	at    intent.Sequence
	asset intent.AssetID
}

type targetOf struct {
	rollout string
	asset   intent.AssetID
	digest  intent.Digest
}

// target is what a rollout says of an asset with a content.
type target struct {
	selected bool
	selection.Target
	// pointer of the field that it sets.
	pointer string
}

// read brings the view up to the store's revision.
func (s *Strategist) read(ctx context.Context) (*view, error) {
	partition, err := s.Store.Partition(ctx, s.Partition)
	if err != nil {
		return nil, err
	}
	previous := s.view
	if previous == nil {
		previous = &view{contents: map[contentAt]intent.Digest{}, targets: map[targetOf]target{}}
	}
	v := &view{Partition: partition, policy: previous.policy, courses: previous.courses, madeOf: previous.madeOf, contents: previous.contents, targets: previous.targets}
	if previous.courses == nil || previous.Head != partition.Head {
		if err := s.readPolicy(ctx, v); err != nil {
			return nil, err
		}
	}
	if previous.runs != nil && previous.Revision == v.Revision {
		// Nobody else writes them under this lease, and an order moves the revision.
		v.pins, v.people, v.holds = previous.pins, previous.people, previous.holds
		v.runs, v.orders, v.names = previous.runs, previous.orders, previous.names
		s.view = v
		return v, nil
	}
	if err := s.readPins(ctx, v); err != nil {
		return nil, err
	}
	if v.dropped = previous.dropped; previous.runs == nil || previous.madeOf != v.madeOf {
		if err := s.readDropped(ctx, v); err != nil {
			return nil, err
		}
	}
	if err := s.readRuns(ctx, v); err != nil {
		return nil, err
	}
	s.view = v
	return v, nil
}

// readRuns reads the newest run of each rollout that there is something to do about.
func (s *Strategist) readRuns(ctx context.Context, v *view) error {
	open, err := s.Store.Rollouts(ctx, s.Partition, store.RolloutFilter{Open: true})
	if err != nil {
		return err
	}
	v.runs, v.orders = map[string]intent.Rollout{}, map[string][]intent.RolloutOrder{}
	names := map[string]bool{}
	for _, run := range open {
		v.runs[run.Name], names[run.Name] = run, true
	}
	for name := range v.courses {
		names[name] = true
	}
	for name := range v.pins {
		names[name] = true
	}
	for _, name := range v.dropped {
		names[name] = true
	}
	v.names = slices.Sorted(maps.Keys(names))
	for _, name := range v.names {
		if _, open := v.runs[name]; !open {
			last, err := s.Store.Rollouts(ctx, s.Partition, store.RolloutFilter{Name: name, Limit: 1})
			if err != nil {
				return err
			}
			if len(last) > 0 {
				v.runs[name] = last[0]
			}
		}
		orders, err := s.Store.RolloutOrders(ctx, s.Partition, v.runs[name].Orders)
		if err != nil {
			return err
		}
		v.orders[name] = slices.DeleteFunc(orders, func(o intent.RolloutOrder) bool { return o.Name != name })
	}
	return nil
}

// readDropped finds the rollouts that head has dropped while something was still to be done at a
// git host. It is read when the policy changed.
func (s *Strategist) readDropped(ctx context.Context, v *view) error {
	newest, err := s.Store.Rollouts(ctx, s.Partition, store.RolloutFilter{Newest: true})
	if err != nil {
		return err
	}
	v.dropped = nil
	for i := range newest {
		if run := &newest[i]; v.courses[run.Name] == nil && run.HasPendingProposals() {
			v.dropped = append(v.dropped, run.Name)
		}
	}
	return nil
}

// readPins reads who keeps assets where.
func (s *Strategist) readPins(ctx context.Context, v *view) error {
	pins, err := s.Store.Pins(ctx, s.Partition)
	if err != nil {
		return err
	}
	v.pins, v.people, v.holds = map[string][]intent.Pin{}, map[intent.AssetID]intent.Pin{}, map[intent.AssetID]intent.Hold{}
	for _, pin := range pins {
		if name := pin.Rollout(); name != "" {
			v.pins[name] = append(v.pins[name], pin)
		} else {
			v.people[pin.Asset] = pin
		}
	}
	holds, err := s.Store.Holds(ctx, s.Partition)
	for _, hold := range holds {
		v.holds[hold.Asset] = hold
	}
	return err
}

// readPolicy reads what head says of rollouts.
func (s *Strategist) readPolicy(ctx context.Context, v *view) error {
	if v.Head.Sequence == 0 {
		v.policy, v.courses = &intentpb.Policy{}, map[string]*course.Course{}
		return nil
	}
	incarnation, err := s.Store.Incarnation(ctx, v.Head)
	if err != nil {
		return err
	}
	if digests := [2]intent.Digest{incarnation.Policy, incarnation.Schema}; v.courses != nil && digests == v.madeOf {
		return nil
	} else {
		v.madeOf = digests
	}
	if v.policy, err = s.policyAt(ctx, v.Head); err != nil {
		return err
	}
	v.courses, v.targets = map[string]*course.Course{}, map[targetOf]target{}
	if len(v.policy.Rollouts) == 0 {
		return nil
	}
	schemaSet, err := s.Schemas.Schema(ctx, s.Partition, incarnation.Schema)
	if err != nil {
		return err
	}
	courses, err := course.All(rule.New(schemaSet), v.policy)
	if err != nil {
		return err
	}
	for _, c := range courses {
		v.courses[c.Name()] = c
	}
	return nil
}

// facts of one rollout. An error that came up while they were decided by is kept.
type facts struct {
	conduct.Facts
	err error
	// unread: the next visit to a repository finds out what it rests on; unreadable says why the
	// last one could not.
	unread     bool
	unreadable string
}

// facts gathers what a decision rests on.
func (s *Strategist) facts(ctx context.Context, v *view, name string, st *state) (*facts, error) {
	f := &facts{Facts: conduct.Facts{
		Now: s.Runtime.Now(), Partition: s.Partition, Name: name, Head: v.Head, Revision: v.Revision, Stop: v.Stop, Gap: s.Gap,
	}}
	c := v.courses[name]
	if c != nil {
		f.Spec, f.Course, f.Back = c.Spec(), c.Policy, c.Back
	}
	lastOrder := uint64(0)
	if run, ok := v.runs[name]; ok {
		f.Run, lastOrder = &run, run.Orders
		f.Verdicts, f.Retries, f.Picked = st.verdictsOf(run), st.retriesOf(run.Run), st.picked(run.Run)
	}
	for _, o := range v.orders[name] {
		if o.Number > lastOrder {
			f.Orders = append(f.Orders, o)
		}
	}
	s.visits.Forget(name) // What is to land is decided anew.
	if f.Run != nil {
		f.Proposed = s.proposed(f.Run)
	}
	assets := map[intent.AssetID]*conduct.Asset{}
	for _, pin := range v.pins[name] {
		a := assets[pin.Asset]
		if a == nil {
			a = &conduct.Asset{ID: pin.Asset}
			assets[pin.Asset] = a
		}
		if pin.Rank == intent.RankRollback {
			a.Back = &pin
		} else {
			a.Pin = pin
		}
	}
	for _, id := range slices.Sorted(maps.Keys(assets)) {
		a := assets[id]
		if err := s.fill(ctx, v, c, f, st, a); err != nil {
			return f, err
		}
		f.Assets = append(f.Assets, *a)
	}
	f.Content = func(at intent.IncarnationID, asset intent.AssetID) intent.Digest {
		digest, err := s.contentAt(ctx, v, at, asset)
		if err != nil {
			f.err = err
		}
		return digest
	}
	if c != nil && !c.ByPins() {
		if err := s.field(ctx, v, c, f, st); err != nil {
			return f, err
		}
	}
	if c != nil {
		s.follows(ctx, v, c, f, st)
	}
	f.Loosened = func(incarnation intent.IncarnationID, assets []intent.AssetID) []string {
		included := map[intent.AssetID]bool{}
		for _, id := range assets {
			included[id] = true
		}
		outdated := slices.DeleteFunc(slices.Clone(f.Assets), func(a conduct.Asset) bool { return !included[a.ID] })
		less, err := s.loosened(ctx, v, name, incarnation, outdated)
		if err != nil {
			f.err = err
		}
		return less
	}
	f.Older = func() []intent.IncarnationID {
		list, err := s.older(ctx, f.Run)
		if err != nil {
			f.err = err
		}
		return list
	}
	f.Unreadable = func(at intent.IncarnationID, asset intent.AssetID) string {
		reason, err := s.unreadable(ctx, v, at, asset)
		if err != nil {
			f.err = err
		}
		return reason
	}
	return f, nil
}

// unreadable says why the types of head cannot read what an asset is in an incarnation.
func (s *Strategist) unreadable(ctx context.Context, v *view, at intent.IncarnationID, asset intent.AssetID) (string, error) {
	head, err := s.Store.Incarnation(ctx, v.Head)
	if err != nil {
		return "", err
	}
	incarnation, err := s.Store.Incarnation(ctx, at)
	if err != nil || incarnation.Schema == head.Schema {
		return "", err
	}
	schemaSet, err := s.Schemas.Schema(ctx, s.Partition, head.Schema)
	if err != nil {
		return "", err
	}
	_, body, err := s.Store.Content(ctx, at, asset)
	if err != nil {
		return "", err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return "", err
	}
	for _, m := range append([]intent.Message{content.Payload}, content.Addons...) {
		if _, err := schemaSet.Unpack(m); err != nil {
			return err.Error(), nil
		}
	}
	return "", nil
}

// follows fills in which rollouts it comes after, and, where others come after it, what it
// was done with.
func (s *Strategist) follows(ctx context.Context, v *view, c *course.Course, f *facts, st *state) {
	for _, name := range c.Spec().GetAfter() {
		predecessor := conduct.Before{Name: name}
		if predecessorState := s.states[name]; predecessorState != nil {
			predecessor.Through = predecessorState.completed
		}
		if run, ok := v.runs[name]; ok {
			predecessor.Run = &run
		}
		f.Before = append(f.Before, predecessor)
	}
	if !slices.ContainsFunc(v.policy.Rollouts, func(r *intentpb.Rollout) bool { return slices.Contains(r.After, c.Name()) }) {
		return
	}
	f.Done = func() (done intent.IncarnationID) {
		if f.Run == nil {
			return done
		}
		if st.doneBefore != f.Run.Run {
			runs, err := s.Store.Rollouts(ctx, s.Partition, store.RolloutFilter{Name: c.Name(), Before: f.Run.Run, Limit: mostOlder})
			if err != nil {
				f.err = err
				return done
			}
			st.doneBefore, st.lastDone = f.Run.Run, done
			if at := slices.IndexFunc(runs, func(r intent.Rollout) bool { return r.State == intent.RolloutDone }); at >= 0 {
				st.lastDone = runs[at].To
			}
		}
		return st.lastDone
	}
}

// mostOlder incarnations, and runs, are looked at for one that is good.
const mostOlder = 100

// older lists what a run may go back to, the newest first.
func (s *Strategist) older(ctx context.Context, run *intent.Rollout) (list []intent.IncarnationID, err error) {
	incarnations, err := s.Store.Incarnations(ctx, s.Partition, run.To.Sequence, mostOlder)
	for _, i := range incarnations {
		list = append(list, i.ID)
	}
	return list, err
}

// fill says what is known of an asset.
func (s *Strategist) fill(ctx context.Context, v *view, c *course.Course, f *facts, st *state, a *conduct.Asset) (err error) {
	if a.Pinned, err = s.contentAt(ctx, v, a.Pin.Incarnation, a.ID); err != nil {
		return err
	}
	if a.Back != nil {
		if a.BackAt, err = s.contentAt(ctx, v, a.Back.Incarnation, a.ID); err != nil {
			return err
		}
	}
	if a.Head, err = s.contentAt(ctx, v, v.Head, a.ID); err != nil {
		return err
	}
	if f.Run != nil {
		if a.Goal, err = s.contentAt(ctx, v, f.Run.To, a.ID); err != nil {
			return err
		}
	}
	if c != nil && !a.Head.IsZero() {
		t, err := s.targetOf(ctx, v, c, a)
		if err != nil {
			return err
		}
		a.Selected, a.Target, a.Pointer = t.selected, t.Target, t.pointer
	}
	a.Stored, a.Seen = st.stored[a.ID], st.observations[a.ID]
	if a.Seen.Asset == "" {
		a.Seen = a.Stored // Nothing was looked at since the run by a field before this one.
	}
	a.Look, a.Known = s.Sight.Of(a.ID), s.judgements[a.ID]
	switch hold, pin := v.holds[a.ID], v.people[a.ID]; {
	case hold.Asset != "" && !intent.Expired(hold.Until, f.Now):
		a.Blocked = fmt.Sprintf("it is held by %s: %s", hold.Owner.Name, hold.Reason)
	case pin.Asset != "" && !intent.Expired(pin.Until, f.Now):
		a.Blocked = fmt.Sprintf("it is pinned to %s by %s: %s", pin.Incarnation, pin.Holder.Name, pin.Reason)
	}
	if f.Run == nil || !f.Run.State.Open() || !troubled(a) {
		return nil
	}
	a.Report, err = s.Store.Report(ctx, s.Partition, a.ID)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return err
}

// troubled: what is reported of it may say why it is not there, or not well. Of what is
// in sync, and whose plugin says nothing of its health, nothing does.
func troubled(a *conduct.Asset) bool {
	return a.Look == (sight.Look{}) || a.Look.State != intent.StateInSync || a.Look.Health == intent.Unhealthy || !a.Seen.Ill.IsZero()
}

// contentAt is what an asset is in an incarnation; zero: it is not in it, or it is
// not retained. Incarnations never change, so it is read once.
func (s *Strategist) contentAt(ctx context.Context, v *view, at intent.IncarnationID, asset intent.AssetID) (intent.Digest, error) {
	if at.Sequence == 0 {
		return intent.Digest{}, nil
	}
	key := contentAt{at.Sequence, asset}
	if digest, ok := v.contents[key]; ok {
		return digest, nil
	}
	member, err := s.Store.Member(ctx, at, asset)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return intent.Digest{}, err
	}
	if len(v.contents) >= mostContents {
		clear(v.contents)
	}
	v.contents[key] = member.Effective
	return member.Effective, nil
}

// mostContents bounds what is remembered.
const mostContents = 1 << 20

// targetOf is what the rollout says of the asset as head has it.
func (s *Strategist) targetOf(ctx context.Context, v *view, c *course.Course, a *conduct.Asset) (t target, err error) {
	key := targetOf{c.Name(), a.ID, a.Head}
	if cached, ok := v.targets[key]; ok {
		return cached, nil
	}
	_, body, err := s.Store.Content(ctx, v.Head, a.ID)
	if err != nil {
		return t, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return t, err
	}
	if t.selected, err = c.Selects(asset); err != nil {
		return t, err
	}
	if t.Target, err = c.Target(asset); err != nil {
		return t, err
	}
	if t.selected && !c.ByPins() {
		if t.pointer, err = c.Pointer(asset); err != nil {
			return t, err
		}
	}
	if len(v.targets) >= mostContents {
		clear(v.targets)
	}
	v.targets[key] = t
	return t, nil
}
