// Package calendar says when a calendar of a policy is open: within its
// windows, not on a holiday and not in a freeze. It counts in the calendar's
// time zone, over the edges of daylight-saving time, and is pure: it reads no
// clock. The check of that kind, whoever reads definitions, and whoever lists
// windows use it.
package calendar

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // A machine may have no zones, or others.

	"github.com/rickar/cal/v2"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
)

// Search is how far ahead a window is looked for.
const Search = 2 * 366 * 24 * time.Hour

const (
	maxWindows = 20
	maxFreezes = 200
	// maxOpen is how long a window may be open.
	maxOpen = 7 * 24 * time.Hour
)

// Calendar is one that can be asked. It is safe for concurrent use.
type Calendar struct {
	zone     *time.Location
	windows  []window
	freezes  []freeze
	holidays []*cal.Holiday

	lock sync.Mutex
	// named are the holidays of years, by day.
	named map[int]map[day]string
	// last is the answer given last, which holds from since on.
	last  Answer
	since time.Time
}

// window gives when it opens and closes, for the local days from one to
// another. Wall times are of UTC.
type window interface {
	walls(first, last time.Time) []Span
	// exact: the end is so long after the start, not a wall time.
	exact() time.Duration
}

type freeze struct {
	Span
	reason string
}

type day struct {
	year  int
	month time.Month
	day   int
}

// Span is a time, without its end.
type Span struct{ Start, End time.Time }

// Answer says how it is at a moment.
type Answer struct {
	Open bool
	// Until is when that changes; zero: not within Search.
	Until time.Time
	// Why it is closed.
	Why string
}

// New reads a calendar. Invalid says what is wrong with it.
func New(definition *intentpb.Calendar) (*Calendar, error) {
	zone, err := Zone(definition.GetZone())
	if err != nil {
		return nil, err
	}
	c := &Calendar{zone: zone, named: map[int]map[day]string{}}
	if len(definition.GetOpen()) > maxWindows || len(definition.GetFreezes()) > maxFreezes {
		return nil, fault.New(fault.Invalid, "a calendar has at most %d windows and %d freezes", maxWindows, maxFreezes)
	}
	for _, w := range definition.GetOpen() {
		opening, err := windowOf(w)
		if err != nil {
			return nil, err
		}
		c.windows = append(c.windows, opening)
	}
	for _, f := range definition.GetFreezes() {
		span := Span{f.GetFrom().AsTime(), f.GetUntil().AsTime()}
		if !span.Start.Before(span.End) {
			return nil, fault.New(fault.Invalid, "a freeze ends before it begins, at %s", c.Time(span.Start)).WithHint("write {from: 2026-12-20, until: 2027-01-02, reason: …}; until is the moment at which it ends")
		}
		c.freezes = append(c.freezes, freeze{span, f.GetReason()})
	}
	if country := definition.GetHolidays(); country != "" {
		if c.holidays = countries[country]; c.holidays == nil {
			return nil, fault.New(fault.Invalid, "the holidays of %q are not known", country).WithHint("known are %s", strings.Join(Countries(), ", "))
		}
	}
	return c, nil
}

// Zone finds a time zone by its name.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fault.New(fault.Invalid, "there is no time zone %q", name).WithHint("write a name of the zone database, as Europe/London or UTC")
	}
	return zone, nil
}

// Time writes a moment for people, in the calendar's zone.
func (c *Calendar) Time(at time.Time) string {
	return at.In(c.zone).Format("Mon 2006-01-02 15:04:05 MST")
}

// At says how it is at a moment.
func (c *Calendar) At(now time.Time) Answer {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.since.IsZero() || now.Before(c.since) || !now.Before(c.last.Until) {
		c.since, c.last = now, c.at(now)
	}
	answer := c.last
	if !answer.Open {
		answer.Why = c.closureReason(now)
	}
	return answer
}

func (c *Calendar) at(now time.Time) Answer {
	spans := c.next(now, 1)
	switch {
	case len(spans) == 0:
		return Answer{}
	case spans[0].Start.After(now):
		return Answer{Until: spans[0].Start}
	case spans[0].End.Before(now.Add(Search)):
		return Answer{Open: true, Until: spans[0].End}
	}
	return Answer{Open: true}
}

// closureReason it is closed now.
func (c *Calendar) closureReason(now time.Time) string {
	for _, f := range c.freezes {
		if !now.Before(f.Start) && now.Before(f.End) {
			return fmt.Sprintf("frozen until %s: %s", c.Time(f.End), f.reason)
		}
	}
	if name := c.holiday(dayOf(now.In(c.zone))); name != "" {
		return "closed for " + name
	}
	return "outside its windows"
}

// Next lists the next windows from a moment on, the one that is open at it
// included, at most so many and no further than Search ahead.
func (c *Calendar) Next(start time.Time, most int) []Span {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.next(start, most)
}

func (c *Calendar) next(start time.Time, most int) []Span {
	limit := start.Add(Search)
	var all []Span
	for at, step := start, 48*time.Hour; at.Before(limit) && len(all) <= most; step *= 2 {
		end := at.Add(step)
		if end.After(limit) {
			end = limit
		}
		for _, s := range c.open(at, end) {
			if last := len(all) - 1; last >= 0 && all[last].End.Equal(s.Start) {
				all[last].End = s.End
			} else {
				all = append(all, s)
			}
		}
		at = end
	}
	return all[:min(most, len(all))]
}

// open lists when it is open between two moments, in order.
func (c *Calendar) open(start, end time.Time) []Span {
	return subtract(c.openWindows(start, end), c.closed(start, end))
}

// lookback is how far back the beginning of a window is looked for: windows that meet are one.
const lookback = 2 * maxOpen

// Window is the window that a moment lies in, whole: from where it opened to where it shuts,
// freezes and holidays not taken out, so that what interrupts a window makes no second one of
// it. ok: the moment lies in one. One that began more than two weeks ago begins two weeks ago,
// one that ends later than in two weeks ends then.
func (c *Calendar) Window(at time.Time) (window Span, ok bool) {
	for _, span := range c.openWindows(at.Add(-lookback), at.Add(lookback)) {
		if !at.Before(span.Start) && at.Before(span.End) {
			return span, true
		}
	}
	return Span{}, false
}

// Shuts reports whether its windows end: a calendar without windows, or of windows that follow
// each other without a break, does not.
func (c *Calendar) Shuts(at time.Time) bool {
	window, ok := c.Window(at)
	return !ok || window.Start.After(at.Add(-lookback)) && window.End.Before(at.Add(lookback))
}

// openWindows the windows, joined and cut to the two moments.
func (c *Calendar) openWindows(start, end time.Time) []Span {
	if len(c.windows) == 0 {
		return []Span{{start, end}}
	}
	first, last := floor(start.In(c.zone).Add(-maxOpen)), floor(end.In(c.zone)).AddDate(0, 0, 1)
	var spans []Span
	for _, w := range c.windows {
		for _, wall := range w.walls(first, last) {
			s := Span{c.instant(wall.Start), c.instant(wall.End)}
			if length := w.exact(); length > 0 {
				s.End = s.Start.Add(length)
			}
			if s.Start.Before(start) {
				s.Start = start
			}
			if s.End.After(end) {
				s.End = end
			}
			if s.Start.Before(s.End) {
				spans = append(spans, s)
			}
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) })
	var joined []Span
	for _, s := range spans {
		if last := len(joined) - 1; last >= 0 && !s.Start.After(joined[last].End) {
			if s.End.After(joined[last].End) {
				joined[last].End = s.End
			}
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// closed lists freezes and holidays.
func (c *Calendar) closed(start, end time.Time) []Span {
	var spans []Span
	for _, f := range c.freezes {
		spans = append(spans, f.Span)
	}
	if len(c.holidays) == 0 {
		return spans
	}
	for d := floor(start.In(c.zone)).AddDate(0, 0, -1); d.Before(floor(end.In(c.zone)).AddDate(0, 0, 2)); d = d.AddDate(0, 0, 1) {
		if c.holiday(dayOf(d)) != "" {
			spans = append(spans, Span{c.instant(d), c.instant(d.AddDate(0, 0, 1))})
		}
	}
	return spans
}

// subtract takes the closed times out of open ones.
func subtract(open, closed []Span) []Span {
	for _, c := range closed {
		var rest []Span
		for _, o := range open {
			if !c.Start.Before(o.End) || !o.Start.Before(c.End) {
				rest = append(rest, o)
				continue
			}
			if o.Start.Before(c.Start) {
				rest = append(rest, Span{o.Start, c.Start})
			}
			if c.End.Before(o.End) {
				rest = append(rest, Span{c.End, o.End})
			}
		}
		open = rest
	}
	return open
}

// holiday is the name of the one that a day is; empty: it is none.
func (c *Calendar) holiday(date day) string {
	if len(c.holidays) == 0 {
		return ""
	}
	if c.named[date.year] == nil {
		names := map[day]string{}
		// One may be kept in another year than it falls in.
		for year := date.year - 1; year <= date.year+1; year++ {
			for _, h := range c.holidays {
				actual, observed := h.Calc(year)
				for _, at := range []time.Time{observed, actual} {
					if !at.IsZero() {
						names[dayOf(at)] = h.Name
					}
				}
			}
		}
		c.named[date.year] = names
	}
	return c.named[date.year][date]
}

func dayOf(at time.Time) day {
	year, month, d := at.Date()
	return day{year, month, d}
}

// floor is the local day of a moment, as a wall time.
func floor(local time.Time) time.Time {
	year, month, day := local.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// instant is Instant in the calendar's zone.
func (c *Calendar) instant(wall time.Time) time.Time { return Instant(wall, c.zone) }

// Instant returns when clocks of a zone show a wall time, which is given in UTC: the first
// time, where they show it twice; where they never do, when they are put forward past it.
// All local times that people write are read by it.
func Instant(wall time.Time, zone *time.Location) time.Time {
	var moved time.Time
	for _, shift := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(shift).In(zone).Zone()
		at := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if _, actual := at.Zone(); actual == offset {
			return at
		}
		if moved.IsZero() {
			moved = at
		}
	}
	if start, _ := moved.ZoneBounds(); !start.IsZero() {
		return start
	}
	return moved
}
