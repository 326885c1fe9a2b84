package monitor

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// hours are the first minutes at which clocks of a zone show a time, by zone and time.
type hours map[string]time.Time

// inHours: a push is admitted while the calendars of head and of its target are open (S1),
// by the clock of who admits it; and while those are that the asset was enforced under,
// unless somebody approved it (S23).
func (m *Monitor) inHours(p *push) {
	if moved := m.paces.moved; !moved.IsZero() && m.options.Now().Sub(moved) < time.Minute {
		return // It was decided by another time.
	}
	over := m.passesOver(p)
	calendars := func(policy *intentpb.Policy) []*intentpb.Calendar { return calendarsOf(policy, over) }
	asked := calendars(m.policyAt(m.head))
	others := func(policy *intentpb.Policy) []*intentpb.Calendar {
		return slices.DeleteFunc(calendars(policy), func(c *intentpb.Calendar) bool {
			return slices.ContainsFunc(asked, func(known *intentpb.Calendar) bool { return proto.Equal(c, known) })
		})
	}
	asked = append(asked, others(m.policyAt(p.target))...)
	for _, c := range asked {
		m.hold(m.open(c, p.admitted), "S1", "push %s of %s was admitted at %s, outside the hours of its calendar in %s", p.id, p.asset, p.admitted.UTC().Format(time.TimeOnly), c.GetZone())
	}
	if previous, counts := m.enforcedBefore(p); counts && len(p.approvers) == 0 {
		for _, c := range others(previous.under) {
			m.hold(m.open(c, p.admitted), "S23", "push %s of %s was admitted at %s, outside the hours in %s that it was enforced under", p.id, p.asset, p.admitted.UTC().Format(time.TimeOnly), c.GetZone())
		}
	}
}

// disarmed: a protection that an asset was enforced under is asked of its next push, also
// where head has dropped it, unless somebody approved that (S23).
func (m *Monitor) disarmed(p *push, overridden []string) {
	previous, counts := m.enforcedBefore(p)
	if !counts || len(p.approvers) > 0 {
		return
	}
	for _, c := range protectionsOf(previous.under, previous.content) {
		if !c.GetProtection().GetBefore() || m.passesOver(p) && !c.GetRollbacks() || slices.Contains(overridden, c.GetName()) {
			continue
		}
		judgements := m.judgements(c, "before", p, "", p.seen)
		m.hold(slices.ContainsFunc(judgements, func(j Judgement) bool { return j.Passes }), "S23",
			"push %s of %s was admitted, and %s, which it was enforced under, never said yes to it", p.id, p.asset, c.GetName())
	}
}

// calendars of a policy.
func calendars(policy *intentpb.Policy) []*intentpb.Calendar { return calendarsOf(policy, false) }

// calendarsOf a policy, or those of it that hold what goes back.
func calendarsOf(policy *intentpb.Policy, rollback bool) (list []*intentpb.Calendar) {
	for _, c := range policy.GetChecks() {
		if c.GetCalendar() != nil && (!rollback || c.GetRollbacks()) {
			list = append(list, c.GetCalendar())
		}
	}
	return list
}

// Open reports whether all calendars of head are open then.
func (m *Monitor) Open(at time.Time) bool {
	for _, c := range calendars(m.policyAt(m.head)) {
		if !m.open(c, at) {
			return false
		}
	}
	return true
}

// ClocksShift reports whether those of the zone of a calendar are put forward or back
// within an hour and a half.
func (m *Monitor) ClocksShift(at time.Time) bool {
	const around = 90 * time.Minute
	return slices.ContainsFunc(calendars(m.policyAt(m.head)), func(c *intentpb.Calendar) bool {
		zone, err := time.LoadLocation(c.GetZone())
		m.unread("the zone of a calendar", err)
		_, before := at.Add(-around).In(zone).Zone()
		_, after := at.Add(around).In(zone).Zone()
		return before != after
	})
}

// HoursChange is when they open or close next, if that is within the period.
func (m *Monitor) HoursChange(now time.Time, within time.Duration) (at time.Time, ok bool) {
	is := m.Open(now)
	for at := now.Truncate(time.Minute).Add(time.Minute); at.Before(now.Add(within)); at = at.Add(time.Minute) {
		if m.Open(at) != is {
			return at, true
		}
	}
	return at, false
}

// open by windows of a day, "HH:MM-HH:MM", as the simulator writes them.
func (m *Monitor) open(c *intentpb.Calendar, at time.Time) bool {
	zone, err := time.LoadLocation(c.GetZone())
	m.unread("the zone of a calendar", err)
	today := at.In(zone)
	for _, begins := range []time.Time{today.AddDate(0, 0, -1), today} {
		for _, w := range c.GetOpen() {
			var from, to string
			if _, err := fmt.Sscanf(w.GetHours(), "%5s-%5s", &from, &to); err != nil {
				m.unread("a calendar", err)
				continue
			}
			ends := begins
			if to <= from {
				ends = begins.AddDate(0, 0, 1)
			}
			if !at.Before(m.hours.shows(zone, begins.Format(time.DateOnly)+" "+from)) && at.Before(m.hours.shows(zone, ends.Format(time.DateOnly)+" "+to)) {
				return true
			}
		}
	}
	return false
}

// shows is the first minute at which clocks show that time, or a later one: what they
// show twice is the first, and what they skip when they are put forward.
func (h hours) shows(zone *time.Location, local string) time.Time {
	const format = "2006-01-02 15:04"
	key := zone.String() + " " + local
	at, ok := h[key]
	if ok {
		return at
	}
	wall, _ := time.Parse(format, local) // It is made of dates and what was read.
	for at = wall.Add(-15 * time.Hour); at.In(zone).Format(format) < local; at = at.Add(time.Minute) {
	}
	h[key] = at
	return at
}
