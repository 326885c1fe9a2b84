package runplan

import "time"

const (
	clockForm = "15:04"
	dayForm   = time.DateOnly
	// mostDays is how far back days are caught up.
	mostDays = 366
)

// day is a date in the calendar, in no time zone: noon UTC, so that days can be added.
type day time.Time

func parseDay(text string) (day, bool) {
	t, err := time.Parse(dayForm, text)
	return day(t.Add(12 * time.Hour)), err == nil
}

func (d day) String() string          { return time.Time(d).Format(dayForm) }
func (d day) add(days int) day        { return day(time.Time(d).AddDate(0, 0, days)) }
func (d day) isAfter(other day) bool  { return time.Time(d).After(time.Time(other)) }
func (d day) daysSince(other day) int { return int(time.Time(d).Sub(time.Time(other)).Hours()) / 24 }
func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day(time.Date(y, m, d, 12, 0, 0, 0, time.UTC))
}
func (w Want) dayAt(now time.Time) day { return dayOf(now.In(w.zone)) }

// dueAt is when the run of a day may begin. A time that the clocks skip is when they have
// changed; of one that they repeat, it is the first.
func (w Want) dueAt(of day) time.Time {
	clock, _ := time.Parse(clockForm, w.Task.GetDaily().At)
	year, month, date := time.Time(of).Date()
	asUTC := time.Date(year, month, date, clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	// Of the two offsets around the time, the greater gives the earlier moment.
	_, before := asUTC.Add(-24 * time.Hour).In(w.zone).Zone()
	_, after := asUTC.Add(24 * time.Hour).In(w.zone).Zone()
	var latest time.Time
	for _, offset := range []int{max(before, after), min(before, after)} {
		latest = asUTC.Add(-time.Duration(offset) * time.Second).In(w.zone)
		if latest.Format(dayForm+clockForm) == asUTC.Format(dayForm+clockForm) {
			return latest
		}
	}
	// No moment has it: latest, by the offset of before, is after the change.
	changed, _ := latest.ZoneBounds()
	return changed
}

// lastDue is the last day whose time has come.
func (w Want) lastDue(now time.Time) day {
	last := w.dayAt(now).add(1)
	for w.dueAt(last).After(now) {
		last = last.add(-1)
	}
	return last
}
