package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

const (
	// calendarKind is the page of all calendars, and its link.
	calendarKind = "calendar"
	// windowsRead of each check are enough for the days of a month with three windows each.
	windowsRead = 100
	// partitionsNamed stand beside a check that more partitions share.
	partitionsNamed = 3
	// opensNext are told of what opens next.
	opensNext = 20
	dayLayout = "2006-01-02"
)

// calendarView shows when the checks of all partitions let pushes begin.
type calendarView struct {
	IsMonth                     bool
	Week, Month, Earlier, Later string
	Days                        []calendarDay
	Rows                        []calendarRow
	Partitions                  int
	Next                        []calendarNext
	// Freezes of the days that are shown.
	Freezes []calendarFreeze
}

type calendarDay struct {
	Weekday, Date string
	IsToday       bool
}

// calendarRow is a check, and how it stands on each day, counted in its zone.
type calendarRow struct {
	Check, Where, Zone string
	Partitions         partitionNames
	Days               []dayState
	// Problem is why the calendar cannot be read; empty: it can.
	Problem string
}

// partitionNames are the first partitions that have a check, and the names of all others.
type partitionNames struct{ First, Others []string }

func newPartitionNames(names []string) partitionNames {
	named := min(len(names), partitionsNamed)
	return partitionNames{names[:named], names[named:]}
}

// dayState is how a check stands on a day.
type dayState struct{ Class, Text string }

type calendarNext struct {
	Partitions    partitionNames
	Check, Reason string
	From          *timestamppb.Timestamp
}

type calendarFreeze struct {
	Partitions partitionNames
	Check      string
	*apipb.CheckFreeze
}

// showCalendar is the windows, freezes and holidays of all checks, by week or by month.
func showCalendar(ctx context.Context, r *reader, at address) (page, error) {
	now := time.Now().UTC()
	first := now
	if text := at.query.Get("from"); text != "" {
		parsed, err := time.Parse(dayLayout, text)
		if err != nil {
			return page{}, fault.New(fault.Invalid, "%.40q is no day", text).WithHint("write a day such as %s", now.Format(dayLayout))
		}
		first = parsed
	}
	view := calendarView{IsMonth: at.query.Get("view") == "month"}
	days := 7
	first = time.Date(first.Year(), first.Month(), first.Day(), 0, 0, 0, 0, time.UTC)
	switch {
	case view.IsMonth:
		first = time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC)
		days = first.AddDate(0, 1, -1).Day()
	default:
		first = first.AddDate(0, 0, -(int(first.Weekday())+6)%7) // Monday.
	}
	view.Week, view.Month = calendarLink("", first), calendarLink("month", first)
	view.Earlier, view.Later = calendarLink("", first.AddDate(0, 0, -7)), calendarLink("", first.AddDate(0, 0, 7))
	if view.IsMonth {
		view.Earlier, view.Later = calendarLink("month", first.AddDate(0, -1, 0)), calendarLink("month", first.AddDate(0, 1, 0))
	}
	for i := range days {
		day := first.AddDate(0, 0, i)
		view.Days = append(view.Days, calendarDay{day.Format("Mon"), day.Format("2 Jan"), day.Format(dayLayout) == now.Format(dayLayout)})
	}
	title := "Calendar from " + first.Format("2 January 2006")
	if view.IsMonth {
		title = "Calendar of " + first.Format("January 2006")
	}
	if err := r.fillCalendar(ctx, &view, first, days, now); err != nil {
		return page{}, err
	}
	pageData := page{Title: title, Back: crumb{"home", home}, Fixed: true, Form: true}
	pageData.Parts = []part{makePart("calendar", "calendar", view)}
	return pageData, nil
}

// fillCalendar reads the calendars of all partitions in one call.
func (r *reader) fillCalendar(ctx context.Context, view *calendarView, first time.Time, days int, now time.Time) error {
	response, err := r.Partitions.ListCalendars(ctx, &apipb.ListCalendarsRequest{Limit: windowsRead})
	if err != nil {
		return err
	}
	view.Partitions = int(response.Partitions)
	for _, check := range response.Calendars {
		row := calendarRow{Partitions: newPartitionNames(check.Partitions), Check: check.Check, Where: check.Where, Zone: check.Zone, Problem: check.Problem}
		zone, err := time.LoadLocation(cmp.Or(row.Zone, "UTC"))
		if err != nil {
			zone, row.Zone = time.UTC, "UTC"
		}
		for day := range days {
			date := first.AddDate(0, 0, day)
			begin := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, zone)
			row.Days = append(row.Days, stateOfDay(check, begin, begin.AddDate(0, 0, 1), now))
		}
		view.Rows = append(view.Rows, row)
		if len(check.Windows) > 0 && check.Windows[0].State == "closed" {
			view.Next = append(view.Next, calendarNext{row.Partitions, check.Check, check.Windows[0].Reason, check.Windows[0].From})
		}
		begin, end := first.AddDate(0, 0, -1), first.AddDate(0, 0, days+1) // In any zone.
		for _, freeze := range check.Freezes {
			if freeze.From.AsTime().Before(end) && freeze.Until.AsTime().After(begin) {
				view.Freezes = append(view.Freezes, calendarFreeze{row.Partitions, check.Check, freeze})
			}
		}
	}
	slices.SortStableFunc(view.Next, func(a, b calendarNext) int { return a.From.AsTime().Compare(b.From.AsTime()) })
	view.Next = view.Next[:min(len(view.Next), opensNext)]
	slices.SortStableFunc(view.Freezes, func(a, b calendarFreeze) int { return a.From.AsTime().Compare(b.From.AsTime()) })
	return nil
}

// stateOfDay is how a check stands between two moments, of which now may be one: nothing is
// known of what is past, nor of what is beyond the windows that were read.
func stateOfDay(check *apipb.CheckCalendar, begin, end, now time.Time) dayState {
	windows := check.Windows
	if check.Problem != "" {
		return dayState{"unknown", "not read"}
	}
	if !end.After(now) {
		return dayState{"past", "past"}
	}
	if begin.Before(now) {
		begin = now
	}
	known := begin
	var open []string
	for _, window := range windows {
		if window.State == "never" {
			break
		}
		start, until := window.From.AsTime(), end
		if window.From == nil {
			start = now
		}
		if window.Until != nil {
			until = window.Until.AsTime()
		}
		known = until
		if !start.Before(end) {
			known = end
			break
		}
		if !until.After(begin) {
			continue
		}
		if !start.After(begin) && !until.Before(end) {
			return dayState{"open", "open"}
		}
		text := ""
		if start.After(begin) {
			text = start.In(begin.Location()).Format("15:04")
		}
		text += "–"
		if until.Before(end) {
			text += until.In(begin.Location()).Format("15:04")
		}
		open = append(open, text)
	}
	switch {
	case len(open) > 0:
		text := "open " + open[0]
		for _, more := range open[1:] {
			text += ", " + more
		}
		return dayState{"part", text}
	case known.Before(end) && len(windows) >= windowsRead:
		return dayState{"unknown", "not read"}
	case isFrozen(check.Freezes, begin, end):
		return dayState{"freeze", "freeze"}
	default:
		return dayState{"closed", "closed"}
	}
}

// isFrozen reports whether a freeze covers any of a time.
func isFrozen(freezes []*apipb.CheckFreeze, begin, end time.Time) bool {
	return slices.ContainsFunc(freezes, func(f *apipb.CheckFreeze) bool { return f.From.AsTime().Before(end) && f.Until.AsTime().After(begin) })
}

func calendarLink(view string, first time.Time) string {
	at := address{kind: calendarKind, query: url.Values{"from": {first.Format(dayLayout)}}}
	return at.withValue("view", view)
}
