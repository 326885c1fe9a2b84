package notify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

const (
	// gather is how long a group waits for more assets of its cause before it is told of,
	// and how long an asset that left may take to come back, as between two tries.
	gather = 30 * time.Second
	// grows is how long after it was told of a group is told of again that grew.
	grows = 5 * time.Minute
	// mostNamed assets are in a message.
	mostNamed = 20
	// mostSaid of each of them is kept, and told, in bytes.
	mostSaid = 300
	// mostWaiting messages wait for one target; of more, the oldest are dropped.
	mostWaiting = 500
)

// engine decides what is told, from reports, the partition, and the time alone.
type engine struct {
	partition intent.PartitionID
	rules     []*compiled
	*State
	// reportOf is the last report of an asset; nil: there is none.
	reportOf func(intent.AssetID) *intent.Report
	// problem is told of an expression that has no value.
	problem func(name string, err error)
	// links lead to pages; nil: there are none.
	links Links
	// view of the partition, as it was seen last; nil: it was not.
	view *intentpb.NotedPartition
	// changed: what is so of which assets is not as it was.
	changed bool
}

// adopt takes up the notifications of a policy, and returns those of assets that begin
// anew: all reports are to be shown to them.
func (e *engine) adopt(rules []*compiled) (anew []*compiled) {
	e.rules = rules
	for _, name := range slices.Sorted(maps.Keys(e.Known)) {
		if !slices.ContainsFunc(rules, func(c *compiled) bool { return c.Name == name && c.digest == e.Known[name] }) {
			delete(e.Known, name)
			delete(e.Active, name)
			e.touch(name)
		}
	}
	// Those of one that was edited go on, or their end is told.
	maps.DeleteFunc(e.Groups, func(_ string, g *Group) bool {
		return !slices.ContainsFunc(rules, func(c *compiled) bool { return c.Name == g.Rule })
	})
	for _, c := range rules {
		if e.Known[c.Name] == "" {
			e.Known[c.Name], e.Active[c.Name] = c.digest, map[intent.AssetID]Active{}
			e.touch(c.Name)
			if c.ofAssets() {
				anew = append(anew, c)
			}
		}
	}
	return anew
}

// report is shown to notifications of assets.
func (e *engine) report(rules []*compiled, r intent.Report, previous *intent.Report, now time.Time) {
	for _, c := range rules {
		if c.ofAssets() {
			e.observe(c, r.Asset, rule.Noted{Report: rule.NotedReportOf(&r), Before: rule.NotedReportOf(previous), Now: now}, r.At, func() (string, root) { return cause(r, e.reportOf) })
		}
	}
}

// look shows the partition to the notifications of it.
func (e *engine) look(partition *intentpb.NotedPartition, now time.Time) {
	e.view = partition
	for _, c := range e.rules {
		if c.OfPartition {
			e.observe(c, "", rule.Noted{Partition: partition, Now: now}, now, func() (string, root) { return "partition", "partition" })
		}
	}
}

// ownGroup is the root of what a notification groups by an expression of its own.
const ownGroup root = "group"

// observe asks one notification. A condition without a value is not so.
func (e *engine) observe(c *compiled, asset intent.AssetID, input rule.Noted, at time.Time, cause func() (string, root)) {
	holds, err := c.condition.Holds(input)
	if err != nil {
		e.problem(c.Name, err)
	}
	active, wasActive := e.Active[c.Name][asset]
	if !holds {
		if wasActive && active.Left.IsZero() {
			e.changed, active.Left = true, at
			e.set(c.Name, asset, active)
		}
		return
	}
	e.changed, active.Left = e.changed || !wasActive || !active.Left.IsZero(), time.Time{}
	if !wasActive {
		active.Since = at
	}
	active.Text = "it is so: " + intent.Shown(c.When)
	if input.Report != nil {
		active.Text = oneLine(summary(input.Report), mostSaid)
	}
	if c.text != nil {
		if active.Text, err = c.text.Text(input); err != nil {
			e.problem(c.Name, err)
			active.Text = "its text has no value"
		}
	}
	now, root := cause()
	if c.group != nil {
		if now, err = c.group.Text(input); err != nil {
			e.problem(c.Name, err)
			now = "its group has no value"
		}
		root = ownGroup
	}
	if wasActive && root == active.Root && root != ownGroup {
		now = active.Cause
	}
	if now != active.Cause {
		active.Cause, active.Group = now, ""
	}
	active.Root = root
	e.set(c.Name, asset, active)
}

// restrain takes back what lies further ahead than was meant, by a clock that was
// wrong: nobody would be told of it until that time.
func (s *State) restrain(now time.Time) {
	limitTo := func(at *time.Time, limit time.Time) {
		if at.After(limit) {
			*at = now
		}
	}
	for rule, assets := range s.Active {
		for asset, active := range assets {
			if active.Since.After(now) || active.Left.After(now) {
				limitTo(&active.Since, now)
				limitTo(&active.Left, now)
				s.set(rule, asset, active)
			}
		}
	}
	for _, g := range s.Groups {
		limitTo(&g.Opened, now)
		limitTo(&g.Told, now)
	}
	for _, d := range s.Outbox {
		limitTo(&d.Next, now.Add(again.Most))
	}
}

// tick tells of what is due, and returns when to be called again at the latest.
func (e *engine) tick(now time.Time) (next time.Time) {
	due := func(at time.Time) bool {
		if at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			return false
		}
		return true
	}
	for _, g := range e.Groups {
		g.Members, g.lingers = nil, false
	}
	for _, c := range e.rules {
		for _, asset := range slices.Sorted(maps.Keys(e.Active[c.Name])) {
			active := e.Active[c.Name][asset]
			if !active.Left.IsZero() {
				if g := e.Groups[active.Group]; due(active.Left.Add(gather)) {
					e.unset(c.Name, asset)
				} else if g != nil {
					g.lingers = true
				}
				continue
			}
			if active.Group == "" {
				if !due(active.Since.Add(c.For.AsDuration())) {
					continue
				}
				active.Group = e.join(c, active.Cause, now)
				e.set(c.Name, asset, active)
			}
			if g := e.Groups[active.Group]; g != nil {
				g.Members = append(g.Members, asset)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.Groups)) {
		at := slices.IndexFunc(e.rules, func(c *compiled) bool { return c.Name == e.Groups[key].Rule })
		if at >= 0 {
			e.tell(e.rules[at], key, now, due)
		}
	}
	return next
}

// join opens the group of a cause, or finds it.
func (e *engine) join(c *compiled, cause string, now time.Time) string {
	key := c.Name + "\x00" + cause
	g := e.Groups[key]
	if g == nil {
		opened := now.UTC().Format(time.RFC3339Nano)
		e.Groups[key] = &Group{ID: intent.Sum("lehr.notice.v1", []byte(e.partition), []byte(key), []byte(opened)).Short(), Rule: c.Name, Cause: cause, Opened: now}
		return key
	}
	g.Grown = true
	return key
}

// tell tells of one group what is due.
func (e *engine) tell(c *compiled, key string, now time.Time, due func(time.Time) bool) {
	g := e.Groups[key]
	if len(g.Members) == 0 {
		if g.lingers {
			return
		}
		if g.Times > 0 && !c.SilentEnd {
			e.send(c, g, "resolved", now)
		}
		delete(e.Groups, key)
		return
	}
	if wait, ok := g.due(c); ok && due(wait) {
		e.send(c, g, "firing", now)
		if wait, ok := g.due(c); ok {
			due(wait)
		}
	}
}

// due is when a group is told of next, if it is.
func (g *Group) due(c *compiled) (at time.Time, ok bool) {
	switch repeat := c.Repeat.AsDuration(); {
	case g.Times == 0 && c.OfPartition:
		return g.Opened, true // There is nothing to gather.
	case g.Times == 0:
		return g.Opened.Add(gather), true
	case g.Grown:
		return g.Told.Add(grows), true
	default:
		return g.Told.Add(repeat), repeat > 0
	}
}

// send puts a message into the outbox, one for each target.
func (e *engine) send(c *compiled, g *Group, status string, now time.Time) {
	m := Message{
		ID: fmt.Sprintf("%s-%d", g.ID, g.Times), Partition: e.partition, Name: c.Name, Status: status, Cause: g.Cause,
		Since: g.Opened, At: now, Times: g.Times, Count: len(g.Members),
	}
	for _, asset := range g.Members[:min(mostNamed, len(g.Members))] {
		active := e.Active[c.Name][asset]
		m.Assets = append(m.Assets, Mentioned{Asset: asset, Text: active.Text, Since: active.Since, Link: e.linkOf(asset)})
	}
	if c.OfPartition && status == "firing" {
		if waiting := e.waitingLinks(); len(waiting) > 0 {
			m.Assets[0].Link, m.Links = waiting[0], waiting[1:]
		}
	}
	m.Title = title(m, c.OfPartition)
	g.Told, g.Grown = now, false
	g.Times++
	e.post(c, m, now)
}

// post a message to all that a notification tells.
func (e *engine) post(c *compiled, m Message, now time.Time) {
	for _, target := range c.To {
		e.Outbox = append(e.Outbox, &Delivery{Target: target, Message: m, Next: now})
		e.bound(target)
	}
}

func title(m Message, ofPartition bool) string {
	head := fmt.Sprintf("[%s] %s", m.Partition, m.Name)
	switch {
	case m.Status != "firing":
		return head + ": over (" + m.Cause + ")"
	case ofPartition:
		return head + ": " + m.Assets[0].Text
	case m.Count == 1:
		return fmt.Sprintf("%s: %s: %s", head, m.Assets[0].Asset, m.Assets[0].Text)
	}
	return fmt.Sprintf("%s: %d assets (%s), as %s: %s", head, m.Count, m.Cause, m.Assets[0].Asset, m.Assets[0].Text)
}

// target's record, made when there is none.
func (s *State) target(name string) *Target {
	t := s.Targets[name]
	if t == nil {
		t = &Target{}
		s.Targets[name] = t
	}
	return t
}

// bound drops a target's oldest message when there are too many.
func (e *engine) bound(target string) {
	count := 0
	for _, d := range e.Outbox {
		if d.Target == target {
			count++
		}
	}
	for ; count > mostWaiting; count-- {
		oldest := slices.IndexFunc(e.Outbox, func(d *Delivery) bool { return d.Target == target })
		e.Outbox = slices.Delete(e.Outbox, oldest, oldest+1)
		e.target(target).Dropped++
	}
}

// upTo are the deliveries that may be tried, the oldest of each target, and when the
// next of the others may be.
func (s *State) upTo(now time.Time) (ready []*Delivery, next time.Time) {
	visited := map[string]bool{}
	for _, d := range s.Outbox {
		if visited[d.Target] {
			continue // Each waits for the one before it.
		}
		visited[d.Target] = true
		if d.Next.After(now) {
			if next.IsZero() || d.Next.Before(next) {
				next = d.Next
			}
			continue
		}
		ready = append(ready, d)
	}
	slices.SortStableFunc(ready, func(a, b *Delivery) int { return cmp.Compare(a.Target, b.Target) })
	return ready, next
}

// delivered takes up how a delivery ended.
func (s *State) delivered(d *Delivery, err error, now time.Time) {
	t := s.target(d.Target)
	if err == nil {
		s.Outbox = slices.DeleteFunc(s.Outbox, func(other *Delivery) bool { return other == d })
		t.Dropped = max(0, t.Dropped-d.Message.Dropped)
		t.Problem, t.Since, t.Last = "", time.Time{}, now
		t.Sent++
		return
	}
	d.Tries++
	d.Next = now.Add(again.After(d.Tries))
	if t.Problem == "" {
		t.Since = now
	}
	t.Problem = err.Error()
}
