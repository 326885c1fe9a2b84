package web

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

const (
	// eventsFirst of a timeline stand on an asset's page, and eventsShown are a page.
	eventsFirst, eventsShown = 8, 100
)

// timelineView is what became of an asset, the newest first.
type timelineView struct {
	Partition, Asset string
	Events           []*apipb.TimelineEvent
	Unknown          []string
	// All leads to the whole, where only the newest are shown.
	All string
	pager
}

// Lasted is how long something went on; empty: it goes on, or lasted no time.
func (timelineView) Lasted(e *apipb.TimelineEvent) string {
	if e.Until == nil {
		return ""
	}
	return spell(e.Until.AsTime().Sub(e.At.AsTime()))
}

// spell is a duration as the script spells it.
func spell(d time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}} {
		if d >= unit.size {
			return strconv.Itoa(int(d/unit.size)) + " " + unit.name
		}
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

func (r *reader) readTimeline(ctx context.Context, at address, cursor time.Time, limit int32) (timelineView, error) {
	request := &apipb.GetTimelineRequest{Partition: at.partition, Asset: at.name, Limit: limit}
	if !cursor.IsZero() {
		request.Before = timestamppb.New(cursor)
	}
	response, err := r.Reports.GetTimeline(ctx, request)
	if err != nil {
		return timelineView{}, err
	}
	view := timelineView{Partition: at.partition, Asset: at.name, Unknown: response.Unknown}
	for i := len(response.Events) - 1; i >= 0; i-- {
		view.Events = append(view.Events, response.Events[i])
	}
	next := ""
	if response.Older != nil {
		next = response.Older.AsTime().UTC().Format(time.RFC3339Nano)
	}
	view.pager = at.pager("before", len(view.Events), next)
	return view, nil
}

// showTimeline is what became of one asset, page by page.
func showTimeline(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Timeline of "+at.name)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{at.name, link(at.partition, "asset", at.name)}
	var cursor time.Time
	if text := at.query.Get("before"); text != "" {
		if cursor, err = readMoment(text, time.Now()); err != nil {
			return page{}, err
		}
	}
	view, err := r.readTimeline(ctx, at, cursor, eventsShown)
	if err != nil {
		return page{}, err
	}
	pageData.Fixed = !cursor.IsZero()
	pageData.Parts = []part{makePart("timeline", "timeline", view)}
	return pageData, nil
}

// pastView is an asset as it was, by what was kept.
type pastView struct {
	whyView
	At  *timestamppb.Timestamp
	Now string
}

// showPast is why an asset was as it was at an earlier time.
func showPast(ctx context.Context, r *reader, at address) (page, error) {
	asOf, err := readMoment(at.query.Get("at"), time.Now())
	if err != nil {
		return page{}, err
	}
	pageData, err := partitionPage(ctx, r, at, at.name+" as it was")
	if err != nil {
		return page{}, err
	}
	pageData.Fixed = true
	pageData.Back = crumb{at.name + " now", link(at.partition, "asset", at.name)}
	explanation, err := r.Reports.Why(ctx, &apipb.WhyRequest{Partition: at.partition, Asset: at.name, Subject: aboutAsset, At: timestamppb.New(asOf)})
	if err != nil {
		return page{}, err
	}
	ageless(explanation)
	view := pastView{whyView{WhyResponse: explanation, Partition: at.partition, About: at.name}, timestamppb.New(asOf), pageData.Back.Link}
	pageData.Parts = []part{makePart("past", "past", view), makePart("moment", "moment-form", momentView{at, at.query.Get("at")})}
	if explanation.Report != nil {
		p, err := r.readPartition(ctx, at.partition)
		if err != nil {
			return page{}, err
		}
		pageData.Parts = append(pageData.Parts, makePart("checks", "checks", explanation.Report), makePart("report", "report", reportView{Report: explanation.Report, Partition: p, Standing: explanation.Standing}))
	}
	timeline, err := r.readTimeline(ctx, at, asOf, eventsFirst)
	if err != nil {
		pageData.Parts = append(pageData.Parts, problem("timeline", err))
		return pageData, nil
	}
	timeline.pager = pager{}
	timeline.All = link(at.partition, "timeline", at.name)
	pageData.Parts = append(pageData.Parts, makePart("timeline", "timeline", timeline))
	return pageData, nil
}

// momentView is where a person asks for another time.
type momentView struct {
	at    address
	Given string
}

// Action is the page that answers.
func (m momentView) Action() string { return link(m.at.partition, "asset", m.at.name) }

// readMoment reads a time as people write it, in UTC where it names no zone; or how long
// before now.
func readMoment(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, strings.TrimSuffix(text, " UTC"), time.UTC); err == nil {
			return at, nil
		}
	}
	if match := ago.FindStringSubmatch(text); match != nil {
		n, err := strconv.ParseUint(match[1], 10, 20)
		if err == nil {
			return now.Add(-time.Duration(n) * units[match[2]]), nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "%.100q is no time", text).
		WithHint("write 2026-11-21 08:00, which is in UTC, 2026-11-21T08:00:00+02:00, or how long ago: 90m, 2h, 3d")
}

var (
	ago   = regexp.MustCompile(`^([0-9]{1,6}) ?([smhd])(?:in)?$`)
	units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
)
