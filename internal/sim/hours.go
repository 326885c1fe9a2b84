package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// In runs by hours a calendar says when a push may begin, in a zone of which clocks are
// put forward or back. It closes every few hours, for minutes: also within the hour that
// a clock skips or shows twice.

// Disturbances of runs by hours.
const (
	HoursEnd    Kind = "something is new as the hours end, or begin"
	HoursEdited Kind = "the hours are edited"
)

var hoursKinds = []weighed{{HoursEnd, 60}, {HoursEdited, 8}}

// ByHours reports whether runs of a seed have hours.
func ByHours(seed uint64) bool { return seed%27 == 6 || seed%27 == 13 }

// byHours reports whether this run has them.
func (l *Lab) byHours() bool { return l.options.Definition == "" && ByHours(l.options.Seed) }

// openings are windows of a day, each with a pause of minutes after it.
var openings = []string{
	`"00:00-01:10", "01:30-02:20", "02:40-05:00", "05:15-09:10", "09:30-13:00", "13:20-18:00", "18:20-23:50"`,
	`"00:10-00:50", "01:05-01:45", "01:50-03:00", "03:20-06:00", "06:15-10:10", "10:30-15:00", "15:20-00:00"`,
	`"22:00-01:20", "01:40-02:05", "02:25-02:50", "03:10-07:00", "07:20-12:00", "12:15-17:00", "17:20-21:40"`,
}

// someHours are a calendar.
func someHours(r *rand.Rand) string {
	zone := []string{"Europe/London", "Europe/London", "Europe/London", "America/St_Johns", "Australia/Lord_Howe"}[r.IntN(5)]
	return fmt.Sprintf("  hours: {zone: %s, open: [%s]}\n", zone, openings[r.IntN(len(openings))])
}

// hoursEnd changes things some seconds before or after the hours end or begin, as they
// are by the true time.
func (l *Lab) hoursEnd(d Disturbance, r *rand.Rand) {
	next, ok := l.Monitor.HoursChange(l.Now(), 6*time.Hour)
	if !ok {
		return
	}
	l.note(d.Kind, "sources")
	l.people.Go("somebody waits for the hours", func() {
		const around = 12 * time.Second
		if l.people.Wait(l.ctx, next.Sub(l.Now())-around/2+time.Duration(r.Int64N(int64(around))), nil) != nil || l.healing {
			return
		}
		l.mark("hours: something is new as they " + map[bool]string{true: "end", false: "begin"}[l.Monitor.Open(next.Add(-time.Second))])
		if l.Monitor.ClocksShift(next) {
			l.mark("hours: something is new as they change, on a day on which clocks are put forward or back")
		}
		wanted := l.good.clone()
		var actions []string
		for range 1 + r.IntN(3) {
			if t := wanted.wanting(r, "job", "balancer", "command"); t != nil {
				actions = append(actions, t.alter(r))
			}
		}
		l.save(d.Number, wanted, strings.Join(actions, "; "))
		l.soonApproved(d)
	})
}

// hoursEdited has other hours from now on.
func (l *Lab) hoursEdited(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	next.Hours = someHours(r)
	l.note(d.Kind, "sources")
	l.save(d.Number, next, "other hours:"+strings.TrimRight(next.Hours, "\n"))
}
