package definition

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/calendar"
)

// calendar reads when pushes may begin.
func (p *parser) calendar(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	c.Kind = &intentpb.Check_Calendar{Calendar: p.opens(fields, at)}
}

// opens reads a calendar that names its zone. Each window and freeze is tried by
// itself, so that what is wrong has its place; after one that is wrong no more
// are, for to look for a time that never comes takes a while.
func (p *parser) opens(fields map[string]*yaml.Node, at string) *intentpb.Calendar {
	cal := &intentpb.Calendar{Zone: p.text(fields["zone"], at+".zone")}
	zone, err := calendar.Zone(cal.Zone)
	if cal.Zone != "" {
		p.check(fields["zone"], at+".zone", err)
	}
	if err != nil {
		return cal
	}
	try := func(node *yaml.Node, field string, part *intentpb.Calendar) {
		if findingsBefore := len(p.findings); findingsBefore == 0 {
			part.Zone = cal.Zone
			_, err := calendar.New(part)
			p.check(node, field, err)
		}
	}
	if country := fields["holidays"]; country != nil {
		cal.Holidays = p.text(country, at+".holidays")
		try(country, at+".holidays", &intentpb.Calendar{Holidays: cal.Holidays})
	}
	windows := fields["open"]
	if windows != nil && windows.Kind != yaml.SequenceNode {
		cal.Open = []*intentpb.Window{p.window(windows, at+".open")}
		try(windows, at+".open", &intentpb.Calendar{Open: cal.Open})
	} else if windows != nil {
		p.elements(windows, at+".open", `open: "Mon-Fri 09:00-17:00"`, func(node *yaml.Node, field string) {
			w := p.window(node, field)
			cal.Open = append(cal.Open, w)
			try(node, field, &intentpb.Calendar{Open: []*intentpb.Window{w}})
		})
	}
	if freezes := fields["freezes"]; freezes != nil {
		p.elements(freezes, at+".freezes", "freezes: [{from: 2026-12-20, until: 2027-01-02, reason: …}]", func(node *yaml.Node, field string) {
			f := p.freeze(node, field, zone)
			cal.Freezes = append(cal.Freezes, f)
			try(node, field, &intentpb.Calendar{Freezes: []*intentpb.Freeze{f}})
		})
	}
	try(fields["zone"], at, &intentpb.Calendar{Open: cal.Open, Freezes: cal.Freezes, Holidays: cal.Holidays})
	return cal
}

// elements of a list that is not empty.
func (p *parser) elements(node *yaml.Node, at, example string, read func(node *yaml.Node, field string)) {
	if node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		p.at(node, at, "%s must be a list that is not empty, is %s", at, describe(node)).hint("write %s", example)
		return
	}
	for i, element := range node.Content {
		read(resolve(element), fmt.Sprintf("%s[%d]", at, i))
	}
}

func (p *parser) window(node *yaml.Node, at string) *intentpb.Window {
	if node.Kind == yaml.ScalarNode {
		return &intentpb.Window{When: &intentpb.Window_Hours{Hours: p.text(node, at)}}
	}
	fields := p.fields(node, at, []string{"rrule", "start", "for"})
	for _, name := range []string{"rrule", "start", "for"} {
		if fields[name] == nil {
			p.at(node, at+"."+name, "%s.%s is missing", at, name).hint(`write {rrule: "FREQ=WEEKLY;BYDAY=SA", start: 2026-01-03 22:00, for: 2h}; start is the first time that it opens`)
			return &intentpb.Window{}
		}
	}
	start, _ := p.moment(fields["start"], at+".start", time.UTC)
	return &intentpb.Window{
		When:     &intentpb.Window_Rrule{Rrule: p.text(fields["rrule"], at+".rrule")},
		Start:    start.Format("2006-01-02T15:04:05"),
		Duration: durationpb.New(p.duration(fields["for"], at+".for")),
	}
}

func (p *parser) freeze(node *yaml.Node, at string, zone *time.Location) *intentpb.Freeze {
	fields := p.fields(node, at, []string{"from", "until", "reason"})
	for _, name := range []string{"from", "until", "reason"} {
		if fields[name] == nil {
			p.at(node, at+"."+name, "%s.%s is missing", at, name).hint("write {from: 2026-12-20, until: 2027-01-02, reason: …}; until is the moment at which it ends")
			return &intentpb.Freeze{}
		}
	}
	start, _ := p.moment(fields["from"], at+".from", zone)
	end, _ := p.moment(fields["until"], at+".until", zone)
	return &intentpb.Freeze{From: timestamppb.New(start), Until: timestamppb.New(end), Reason: p.text(fields["reason"], at+".reason")}
}

// moment is a day's beginning or a time, where a zone is.
func (p *parser) moment(node *yaml.Node, at string, zone *time.Location) (time.Time, bool) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if wall, err := time.Parse(layout, node.Value); err == nil && node.Kind == yaml.ScalarNode {
			return calendar.Instant(wall, zone), true
		}
	}
	p.at(node, at, "%s: %s is no time", at, describe(node)).hint("write 2026-12-20 or 2026-12-20 18:00, in the calendar's zone")
	return time.Time{}, false
}
