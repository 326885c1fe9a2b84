package web

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
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

func (r *reader) readTimeline(ctx context.Context, at address, before time.Time, limit int32) (timelineView, error) {
	request := &apipb.GetTimelineRequest{Partition: at.partition, Asset: at.name, Limit: limit}
	if !before.IsZero() {
		request.Before = timestamppb.New(before)
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
	shown, err := below(ctx, r, at, "Timeline of "+at.name)
	if err != nil {
		return page{}, err
	}
	shown.Back = crumb{at.name, link(at.partition, "asset", at.name)}
	var before time.Time
	if given := at.query.Get("before"); given != "" {
		if before, err = readMoment(given, time.Now()); err != nil {
			return page{}, err
		}
	}
	view, err := r.readTimeline(ctx, at, before, eventsShown)
	if err != nil {
		return page{}, err
	}
	shown.Fixed = !before.IsZero()
	shown.Parts = []part{makePart("timeline", "timeline", view)}
	return shown, nil
}

// pastView is an asset as it was, by what was kept.
type pastView struct {
	whyView
	At  *timestamppb.Timestamp
	Now string
}

// showPast is why an asset was as it was at an earlier time.
func showPast(ctx context.Context, r *reader, at address) (page, error) {
	then, err := readMoment(at.query.Get("at"), time.Now())
	if err != nil {
		return page{}, err
	}
	shown, err := below(ctx, r, at, at.name+" as it was")
	if err != nil {
		return page{}, err
	}
	shown.Fixed = true
	shown.Back = crumb{at.name + " now", link(at.partition, "asset", at.name)}
	why, err := r.Reports.Why(ctx, &apipb.WhyRequest{Partition: at.partition, Asset: at.name, Subject: aboutAsset, At: timestamppb.New(then)})
	if err != nil {
		return page{}, err
	}
	ageless(why)
	view := pastView{whyView{WhyResponse: why, Partition: at.partition, About: at.name}, timestamppb.New(then), shown.Back.Link}
	shown.Parts = []part{makePart("past", "past", view), makePart("moment", "moment-form", momentView{at, at.query.Get("at")})}
	if why.Report != nil {
		p, err := r.readPartition(ctx, at.partition)
		if err != nil {
			return page{}, err
		}
		shown.Parts = append(shown.Parts, makePart("checks", "checks", why.Report), makePart("report", "report", reportView{Report: why.Report, Partition: p, Standing: why.Standing}))
	}
	around, err := r.readTimeline(ctx, at, then, eventsFirst)
	if err != nil {
		shown.Parts = append(shown.Parts, problem("timeline", err))
		return shown, nil
	}
	around.pager = pager{}
	around.All = link(at.partition, "timeline", at.name)
	shown.Parts = append(shown.Parts, makePart("timeline", "timeline", around))
	return shown, nil
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
	if found := ago.FindStringSubmatch(text); found != nil {
		n, err := strconv.ParseUint(found[1], 10, 20)
		if err == nil {
			return now.Add(-time.Duration(n) * units[found[2]]), nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "%.100q is no time", text).
		WithHint("write 2026-11-21 08:00, which is in UTC, 2026-11-21T08:00:00+02:00, or how long ago: 90m, 2h, 3d")
}

var (
	ago   = regexp.MustCompile(`^([0-9]{1,6}) ?([smhd])(?:in)?$`)
	units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
)
