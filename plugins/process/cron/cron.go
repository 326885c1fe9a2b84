// Package cron reads schedules in the five fields of cron, and says when they
// come next in a time zone. No time is skipped and none comes twice when the
// clocks change: one that a change skips comes when they have changed, and one
// that it repeats comes the first time; but where the hour is "*" every hour of
// real time counts. It is pure.
package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Times are those that a text names, in a zone.
type Times struct {
	zone                             *time.Location
	minutes, hours, days, months, at uint64 // Bit n: n is one of them. At: days of the week.
	// Of days that are both given, either will do.
	either, hourly bool
}

var fields = []struct {
	name        string
	least, most int
	words       []string
}{
	{name: "minute", most: 59}, {name: "hour", most: 23}, {name: "day of the month", least: 1, most: 31},
	{name: "month", least: 1, most: 12, words: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of the week", most: 7, words: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}, // 7 is Sunday too.
}

// Parse reads a text such as "*/15 8-18 * * mon-fri". The error names the field.
func Parse(text string, zone *time.Location) (*Times, error) {
	given := strings.Fields(text)
	if len(given) != len(fields) {
		return nil, fmt.Errorf("%q has %d fields, not the 5 of cron: minute, hour, day of the month, month and day of the week, such as 30 2 * * mon-fri", text, len(given))
	}
	var sets [5]uint64
	for i, field := range given {
		for part := range strings.SplitSeq(strings.ToLower(field), ",") {
			set, err := parsePart(i, part)
			if err != nil {
				return nil, fmt.Errorf("%q: the %s: %w", text, fields[i].name, err)
			}
			sets[i] |= set
		}
	}
	sets[4] |= sets[4] >> 7 & 1
	t := &Times{zone: zone, minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], at: sets[4]}
	t.either = given[2][0] != '*' && given[4][0] != '*'
	t.hourly = given[1] == "*"
	if t.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%q names a day that no month has", text)
	}
	return t, nil
}

// parsePart reads "*", "3", "mon" or "1-5", each with a step after "/".
func parsePart(field int, part string) (set uint64, err error) {
	f := fields[field]
	span, stepText, stepped := strings.Cut(part, "/")
	first, last, ranged := strings.Cut(span, "-")
	low, high, step := f.least, f.most, 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.most {
			return 0, fmt.Errorf("%q is no step from 1 to %d", stepText, f.most)
		}
	}
	number := func(text string) int {
		if at := slices.Index(f.words, text); at >= 0 {
			return at + f.least
		}
		n, wrong := strconv.Atoi(text)
		if wrong != nil || n < f.least || n > f.most || text[0] == '+' {
			err = fmt.Errorf("%q is not from %d to %d", text, f.least, f.most)
		}
		return n
	}
	switch {
	case span == "*":
	case ranged:
		if low, high = number(first), number(last); err == nil && high < low {
			err = fmt.Errorf("%q ends before it begins", span)
		}
	default:
		if low = number(first); !stepped {
			high = low
		}
	}
	for n := low; err == nil && n <= high; n += step {
		set |= 1 << n
	}
	return set, err
}

// horizon is how many days Next looks ahead: a 29th of February may be eight
// years away, and a day of the week it falls on forty.
const horizon = 41 * 366

// Next is the first of the times after one; zero: there is none.
func (t *Times) Next(after time.Time) time.Time {
	year, month, day := after.In(t.zone).Date()
	for i := -1; i < horizon; i++ {
		date := time.Date(year, month, day+i, 0, 0, 0, 0, time.UTC)
		if !t.onDay(date) {
			continue
		}
		if next := t.onDate(date, after); !next.IsZero() {
			return next
		}
	}
	return time.Time{}
}

// onDate is the first after a time of those that the clocks show on a date.
func (t *Times) onDate(date, after time.Time) (next time.Time) {
	// Most days have one offset, before and after them too.
	from, until := t.offset(date.Add(-24*time.Hour)), t.offset(date.Add(48*time.Hour))
	plain := from == until && from == t.offset(date.Add(12*time.Hour))
	for hour := range 24 {
		for minute := range 60 {
			if t.hours>>hour&1 == 0 || t.minutes>>minute&1 == 0 {
				continue
			}
			shown := date.Add(time.Duration(hour*60+minute) * time.Minute)
			if plain {
				if instant := shown.Add(-from); instant.After(after) {
					return instant
				}
				continue
			}
			for _, instant := range t.instants(shown) {
				if instant.After(after) && (next.IsZero() || instant.Before(next)) {
					next = instant
				}
			}
		}
	}
	return next
}

// offset of the zone's clocks at an instant.
func (t *Times) offset(at time.Time) time.Duration {
	_, seconds := at.In(t.zone).Zone()
	return time.Duration(seconds) * time.Second
}

func (t *Times) onDay(date time.Time) bool {
	of, at := t.days>>date.Day()&1 == 1, t.at>>int(date.Weekday())&1 == 1
	if t.months>>int(date.Month())&1 == 0 {
		return false
	}
	return of && at || t.either && (of || at)
}

// instants at which the clocks of the zone show a time, which is given as if it
// were one of UTC.
func (t *Times) instants(shown time.Time) (found []time.Time) {
	before, delay := t.offset(shown.Add(-24*time.Hour)), t.offset(shown.Add(24*time.Hour))
	for _, off := range []time.Duration{before, delay} {
		instant := shown.Add(-off)
		if t.offset(instant) == off && !slices.ContainsFunc(found, instant.Equal) {
			found = append(found, instant)
		}
	}
	switch {
	case len(found) == 0: // Skipped: when the clocks change.
		changed, _ := shown.Add(-before).In(t.zone).ZoneBounds()
		return []time.Time{changed}
	case len(found) == 2 && !t.hourly: // Repeated. The offset before is that of the first.
		return found[:1]
	}
	return found
}
