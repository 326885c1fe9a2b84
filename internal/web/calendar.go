package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

const (
	// calendarKind is the page of all calendars, and its link.
	calendarKind = "calendar"
	// windowsRead of each check are enough for the days of a month with three windows each.
	windowsRead = 100
	// windowsAtOnce partitions are read at a time.
	windowsAtOnce = 8
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
}

type calendarDay struct {
	Weekday, Date string
	IsToday       bool
}

// calendarRow is a check, and how it stands on each day, counted in its zone.
type calendarRow struct {
	Partition, Check, Where, Zone string
	Days                          []dayState
}

// dayState is how a check stands on a day.
type dayState struct{ Class, Text string }

type calendarNext struct {
	Partition, Check, Reason string
	From                     *timestamppb.Timestamp
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
	problems, err := r.fillCalendar(ctx, &view, first, days, now)
	if err != nil {
		return page{}, err
	}
	pageData := page{Title: title, Back: crumb{"home", home}, Fixed: true, Form: true}
	pageData.Parts = append(problems, makePart("calendar", "calendar", view))
	return pageData, nil
}

// fillCalendar reads the windows of each partition. What cannot be read is told.
func (r *reader) fillCalendar(ctx context.Context, view *calendarView, first time.Time, days int, now time.Time) (problems []part, err error) {
	response, err := r.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return nil, err
	}
	partitions := slices.DeleteFunc(response.Partitions, func(p *apipb.Partition) bool { return p.Head == "" })
	view.Partitions = len(partitions)
	windows := make([][]*apipb.CheckWindow, len(partitions))
	failed := make([]error, len(partitions))
	var group errgroup.Group
	group.SetLimit(windowsAtOnce)
	for i, p := range partitions {
		group.Go(func() error {
			listed, err := r.Partitions.ListWindows(ctx, &apipb.ListWindowsRequest{Partition: p.Id, Limit: windowsRead})
			windows[i], failed[i] = listed.GetWindows(), err
			return nil
		})
	}
	_ = group.Wait()
	for i, p := range partitions {
		if failed[i] != nil {
			problems = append(problems, problem("unread:"+p.Id, failed[i]))
			continue
		}
		for _, check := range byCheck(windows[i]) {
			row := calendarRow{Partition: p.Id, Check: check[0].Check, Where: check[0].Where, Zone: check[0].Zone}
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
			if check[0].State == "closed" {
				view.Next = append(view.Next, calendarNext{p.Id, check[0].Check, check[0].Reason, check[0].From})
			}
		}
	}
	slices.SortStableFunc(view.Next, func(a, b calendarNext) int { return a.From.AsTime().Compare(b.From.AsTime()) })
	view.Next = view.Next[:min(len(view.Next), opensNext)]
	return problems, nil
}

// byCheck puts the windows of each check together, in their order.
func byCheck(windows []*apipb.CheckWindow) (checks [][]*apipb.CheckWindow) {
	place := map[[2]string]int{}
	for _, window := range windows {
		key := [2]string{window.Check, window.Where}
		at, ok := place[key]
		if !ok {
			at = len(checks)
			place[key] = at
			checks = append(checks, nil)
		}
		checks[at] = append(checks[at], window)
	}
	return checks
}

// stateOfDay is how a check stands between two moments, of which now may be one: nothing is
// known of what is past, nor of what is beyond the windows that were read.
func stateOfDay(windows []*apipb.CheckWindow, begin, end, now time.Time) dayState {
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
			return dayState{"closed", "closed"}
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
	default:
		return dayState{"closed", "closed"}
	}
}

func calendarLink(view string, first time.Time) string {
	at := address{kind: calendarKind, query: url.Values{"from": {first.Format(dayLayout)}}}
	return at.withValue("view", view)
}
