package calendar

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
)

func windowOf(definition *intentpb.Window) (window, error) {
	if text := definition.GetRrule(); text != "" {
		return newRecurring(text, definition.GetStart(), definition.GetDuration().AsDuration())
	}
	return newHours(definition.GetHours())
}

// hours of days, in minutes after midnight.
type hours struct {
	days       [7]bool
	open, shut int
}

var (
	hoursText = regexp.MustCompile(`^(?:([A-Za-z, -]+) +)?([0-9]{2}):([0-9]{2}) *- *([0-9]{2}):([0-9]{2})$`)
	dayNames  = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// newHours reads "Mon-Fri 09:00-17:00".
func newHours(text string) (window, error) {
	wrong := func(reason string) error {
		return fault.New(fault.Invalid, "%q is no window: %s", text, reason).
			WithHint(`write "Mon-Fri 09:00-17:00", "Sat,Sun 22:00-02:00", or without days for all of them; 24:00 ends a day`)
	}
	parts := hoursText.FindStringSubmatch(text)
	if parts == nil {
		return nil, wrong("it is not days and times")
	}
	h := hours{days: [7]bool{true, true, true, true, true, true, true}}
	if parts[1] != "" {
		h.days = [7]bool{}
		for span := range strings.SplitSeq(parts[1], ",") {
			start, end, several := strings.Cut(span, "-")
			if !several {
				end = start
			}
			first, last := slices.Index(dayNames, strings.ToLower(strings.TrimSpace(start))), slices.Index(dayNames, strings.ToLower(strings.TrimSpace(end)))
			if first < 0 || last < 0 {
				return nil, wrong("days are Mon, Tue, Wed, Thu, Fri, Sat and Sun")
			}
			for d := first; ; d = (d + 1) % 7 {
				if h.days[d] = true; d == last {
					break
				}
			}
		}
	}
	var numbers [4]int
	for i := range numbers {
		numbers[i], _ = strconv.Atoi(parts[i+2])
	}
	h.open, h.shut = numbers[0]*60+numbers[1], numbers[2]*60+numbers[3]
	const midnight = 24 * 60
	if numbers[1] > 59 || numbers[3] > 59 || h.open >= midnight || h.shut > midnight || h.shut == h.open {
		return nil, wrong("times are from 00:00 to 24:00, and two of them differ")
	}
	if h.shut < h.open {
		h.shut += midnight
	}
	return h, nil
}

func (h hours) walls(first, last time.Time) (spans []Span) {
	for d := first; !d.After(last); d = d.AddDate(0, 0, 1) {
		if h.days[d.Weekday()] {
			spans = append(spans, Span{d.Add(time.Duration(h.open) * time.Minute), d.Add(time.Duration(h.shut) * time.Minute)})
		}
	}
	return spans
}

func (h hours) exact() time.Duration { return 0 }

// recurring opens as an RRULE says, in wall time, and stays open so long.
type recurring struct {
	rule *rrule.RRule
	long time.Duration
}

// startText is how a DTSTART is written.
const startText = "2006-01-02T15:04:05"

// newRecurring reads an RRULE. It recurs by days at the most often, and begins
// soon, so that what it costs is bounded.
func newRecurring(text, start string, long time.Duration) (window, error) {
	wrong := func(reason, hint string) error {
		return fault.New(fault.Invalid, "%.300q is no window: %s", text, reason).WithHint("%s", hint)
	}
	if long <= 0 || long > maxOpen {
		return nil, wrong("it does not say how long it is open, or more than a week", "write for: 2h")
	}
	at, err := time.Parse(startText, start)
	if err != nil || at.Year() < 2000 || at.Year() > 2100 {
		return nil, wrong("its start is no local time from 2000 on", `write start: "2026-01-05T09:00:00", the first time that it opens`)
	}
	const most = 500
	if len(text) > most || strings.Contains(text, "\n") || strings.Contains(strings.ToUpper(text), "DTSTART") {
		return nil, wrong("it is no single RRULE", `write rrule: "FREQ=WEEKLY;BYDAY=MO,TU"; its start is a key of its own`)
	}
	options, err := rrule.StrToROption(strings.TrimPrefix(text, "RRULE:"))
	if err != nil {
		return nil, wrong(err.Error(), `write rrule: "FREQ=WEEKLY;BYDAY=MO,TU"`)
	}
	if options.Freq > rrule.DAILY || len(options.Byhour)+len(options.Byminute)+len(options.Bysecond) > 10 {
		return nil, wrong("it recurs more often than by days", "write FREQ=DAILY, WEEKLY, MONTHLY or YEARLY, and several windows for several times of a day")
	}
	options.Dtstart = at
	rule, err := rrule.NewRRule(*options)
	if err != nil {
		return nil, wrong(err.Error(), "see RFC 5545")
	}
	if first := rule.After(at, true); first.IsZero() || first.After(at.AddDate(5, 0, 0)) {
		return nil, wrong("it does not open within five years of its start", "look whether its parts go together")
	}
	return recurring{rule, long}, nil
}

func (r recurring) walls(first, last time.Time) (spans []Span) {
	for _, at := range r.rule.Between(first, last.AddDate(0, 0, 1), true) {
		spans = append(spans, Span{at, at})
	}
	return spans
}

func (r recurring) exact() time.Duration { return r.long }
