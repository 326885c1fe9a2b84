package argocd

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	minutesOfDay  = 24 * 60
	minutesOfWeek = 7 * minutesOfDay
	mostWindows   = 20
	mostFreezes   = 200
)

// cronTime is a schedule of cron: which minutes, hours, days of a month, months and days of a
// week (0: Sunday).
type cronTime struct {
	minutes, hours, days, months, weekdays []bool
	// isWeekly: it is the same each week.
	isWeekly, anyDay, anyWeekday bool
}

var cronNames = map[string]int{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
	"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6,
}

var cronWords = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}

func parseCron(text string) (c cronTime, err error) {
	if whole, ok := cronWords[strings.TrimSpace(text)]; ok {
		text = whole
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return c, fmt.Errorf("the schedule %q has %d fields, and cron has 5", text, len(fields))
	}
	for i, field := range []struct {
		to          *[]bool
		first, last int
	}{{&c.minutes, 0, 59}, {&c.hours, 0, 23}, {&c.days, 1, 31}, {&c.months, 1, 12}, {&c.weekdays, 0, 7}} {
		if *field.to, err = parseCronField(strings.ToLower(fields[i]), field.first, field.last); err != nil {
			return c, fmt.Errorf("the schedule %q: %w", text, err)
		}
	}
	c.weekdays[0] = c.weekdays[0] || c.weekdays[7]
	isAny := func(field string) bool { return field == "*" || field == "?" }
	c.anyDay, c.anyWeekday = isAny(fields[2]), isAny(fields[4])
	c.isWeekly = c.anyDay && isAny(fields[3])
	return c, nil
}

func parseCronField(text string, first, last int) ([]bool, error) {
	made := make([]bool, last+1)
	for _, part := range strings.Split(text, ",") {
		span, every, hasEvery := strings.Cut(part, "/")
		step := 1
		if hasEvery {
			var err error
			if step, err = strconv.Atoi(every); err != nil || step < 1 {
				return nil, fmt.Errorf("%q is no step", every)
			}
		}
		from, to := first, last
		if span != "*" && span != "?" {
			low, high, isSpan := strings.Cut(span, "-")
			var err error
			if from, err = cronNumber(low); err != nil {
				return nil, err
			}
			if to = from; isSpan {
				if to, err = cronNumber(high); err != nil {
					return nil, err
				}
			} else if hasEvery {
				to = last
			}
		}
		if from < first || to > last || from > to {
			return nil, fmt.Errorf("%q is not between %d and %d", part, first, last)
		}
		for at := from; at <= to; at += step {
			made[at] = true
		}
	}
	return made, nil
}

func cronNumber(text string) (int, error) {
	if number, ok := cronNames[text]; ok {
		return number, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return number, nil
}

// isOn says whether it is a day of the schedule. As in cron, either day will do where both are named.
func (c cronTime) isOn(day time.Time) bool {
	isDay, isWeekday := c.days[day.Day()], c.weekdays[day.Weekday()]
	switch {
	case !c.months[day.Month()]:
		return false
	case c.anyDay || c.anyWeekday:
		return isDay && isWeekday
	}
	return isDay || isWeekday
}

// startsOf are the minutes of a day at which it begins.
func (c cronTime) starts() (list []int) {
	for hour := range c.hours {
		for minute := range c.minutes {
			if c.hours[hour] && c.minutes[minute] {
				list = append(list, hour*60+minute)
			}
		}
	}
	return list
}

// week says for each minute of a week whether a window covers it. Minute 0 is Monday, 00:00.
func (c cronTime) week(length int) []bool {
	covered := make([]bool, minutesOfWeek)
	for weekday := range 7 {
		if !c.weekdays[weekday] {
			continue
		}
		for _, start := range c.starts() {
			first := (weekday+6)%7*minutesOfDay + start
			for at := range min(length, minutesOfWeek) {
				covered[(first+at)%minutesOfWeek] = true
			}
		}
	}
	return covered
}

var dayNames = []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// openWindows writes the minutes that are open as windows of a calendar; days that are alike are one.
func openWindows(open []bool) []string {
	var spans []string
	days := map[string][]string{}
	for day, name := range dayNames {
		for at := 0; at < minutesOfDay; {
			if !open[day*minutesOfDay+at] {
				at++
				continue
			}
			end := at
			for end < minutesOfDay && open[day*minutesOfDay+end] {
				end++
			}
			span := fmt.Sprintf("%02d:%02d-%02d:%02d", at/60, at%60, end/60, end%60)
			if !slices.Contains(spans, span) {
				spans = append(spans, span)
			}
			days[span] = append(days[span], name)
			at = end
		}
	}
	var list []string
	for _, span := range spans {
		names := strings.Join(days[span], ",")
		if len(days[span]) == 7 {
			names = "Mon-Sun"
		}
		list = append(list, strings.TrimSpace(names+" "+span))
	}
	return list
}

// calendarOf makes a check of windows of one zone that are about the same Applications.
func calendarOf(zone string, windows []syncWindow, now time.Time) (check map[string]any, problem string) {
	open := make([]bool, minutesOfWeek)
	closed := make([]bool, minutesOfWeek)
	hasAllow, rules := false, []any{}
	var freezes []any
	for _, w := range windows {
		c, err := parseCron(w.Schedule)
		if err != nil {
			return nil, err.Error()
		}
		length, err := time.ParseDuration(w.Duration)
		if err != nil || length < time.Minute {
			return nil, fmt.Sprintf("its duration %q is none", w.Duration)
		}
		isAllow := w.Kind == "allow"
		hasAllow = hasAllow || isAllow
		switch {
		case c.isWeekly:
			for at, isCovered := range c.week(int(length.Minutes())) {
				open[at] = open[at] || isCovered && isAllow
				closed[at] = closed[at] || isCovered && !isAllow
			}
		case isAllow:
			made, problem := c.rules(length, now)
			if problem != "" {
				return nil, problem
			}
			rules = append(rules, made...)
		default:
			freezes = append(freezes, c.freezes(length, now)...)
		}
	}
	hasWeekly := slices.Contains(open, true)
	if len(rules) > 0 && slices.Contains(closed, true) {
		return nil, "windows by the day of the month, and others that close by the day of the week, have no calendar together: write two checks"
	}
	check = map[string]any{"zone": zone}
	if !hasAllow && slices.Contains(closed, true) {
		hasWeekly = true
		for at := range open {
			open[at] = true
		}
	}
	if hasWeekly {
		for at := range open {
			open[at] = open[at] && !closed[at]
		}
		for _, text := range openWindows(open) {
			rules = append(rules, text)
		}
	}
	if hasAllow && len(rules) == 0 || hasWeekly && len(rules) == 0 {
		return nil, "no moment is open by its windows: write mode: observe"
	}
	if len(rules) > mostWindows {
		return nil, fmt.Sprintf("they make %d windows, and a calendar has at most %d", len(rules), mostWindows)
	}
	if len(rules) > 0 {
		check["open"] = rules
	}
	if len(freezes) > 0 {
		check["freezes"] = freezes[:min(len(freezes), mostFreezes)]
	}
	return check, ""
}

var weekdayCodes = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// rules are windows that recur by days of months, as RRULE.
func (c cronTime) rules(length time.Duration, now time.Time) (list []any, problem string) {
	if length > 7*24*time.Hour {
		return nil, "a window by the day of the month is open for more than a week"
	}
	number := func(is []bool) string {
		var parts []string
		for at, ok := range is {
			if ok {
				parts = append(parts, strconv.Itoa(at))
			}
		}
		return strings.Join(parts, ",")
	}
	text := "FREQ=DAILY"
	if slices.Contains(c.months[1:], false) {
		text += ";BYMONTH=" + number(c.months)
	}
	if !c.anyDay && !c.anyWeekday {
		return nil, "its schedule names days of the month and of the week, of which either will do: write two windows"
	}
	if !c.anyDay {
		text += ";BYMONTHDAY=" + number(c.days)
	}
	if !c.anyWeekday {
		var codes []string
		for weekday := range 7 {
			if c.weekdays[weekday] {
				codes = append(codes, weekdayCodes[weekday])
			}
		}
		text += ";BYDAY=" + strings.Join(codes, ",")
	}
	first := now
	for range 366 * 4 {
		if c.isOn(first) {
			break
		}
		first = first.AddDate(0, 0, 1)
	}
	for _, start := range c.starts() {
		list = append(list, map[string]any{"rrule": text, "start": first.Format("2006-01-02") + fmt.Sprintf(" %02d:%02d", start/60, start%60), "for": length.String()})
	}
	return list, ""
}

// freezes are the times of the next two years in which a window closes by days of months.
func (c cronTime) freezes(length time.Duration, now time.Time) (list []any) {
	for day := range 731 {
		date := now.AddDate(0, 0, day)
		if !c.isOn(date) {
			continue
		}
		for _, start := range c.starts() {
			from := time.Date(date.Year(), date.Month(), date.Day(), start/60, start%60, 0, 0, time.UTC)
			list = append(list, map[string]any{"from": from.Format("2006-01-02 15:04"), "until": from.Add(length).Format("2006-01-02 15:04"), "reason": "a sync window of Argo CD denies"})
		}
	}
	return list
}

// addWindows makes checks of the windows of a project, for the Applications of a partition.
func (l *importing) addWindows(p *partition, pr project, place string) {
	type about struct{ where, zone string }
	groups := map[about][]syncWindow{}
	var order []about
	for _, w := range pr.Spec.SyncWindows {
		zone := w.TimeZone
		if zone == "" {
			zone = "UTC"
		}
		key := about{l.windowCondition(pr.Metadata.Name, w), zone}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], w)
	}
	for i, key := range order {
		check, problem := calendarOf(key.zone, groups[key], l.now)
		if problem != "" {
			l.leave("AppProject "+pr.Metadata.Name, place+": sync windows: "+problem, true)
			continue
		}
		check["where"], check["kind"] = key.where, "calendar"
		name := strings.Trim(notInSpecName.ReplaceAllString(strings.ToLower(pr.Metadata.Name), "-"), "-_") + "-windows"
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		delete(check, "kind")
		p.checks[name] = check
	}
}

// windowCondition is the selection of a window in CEL.
func (l *importing) windowCondition(projectName string, w syncWindow) string {
	var parts []string
	match := func(value string, globs []string) {
		var any []string
		for _, glob := range globs {
			if glob == "*" || glob == "**" {
				any = []string{"true"}
				break
			}
			any = append(any, fmt.Sprintf("%s.matches(%q)", value, globRegexp(glob)))
		}
		if len(any) > 0 {
			parts = append(parts, "("+strings.Join(any, " || ")+")")
		}
	}
	match(fmt.Sprintf("labels[%q]", applicationLabel), w.Applications)
	match("payload.namespace", w.Namespaces)
	var clusters []string
	for _, glob := range w.Clusters {
		for server, name := range l.clusterNames {
			if ok := regexp.MustCompile(globRegexp(glob)); ok.MatchString(server) || ok.MatchString(name) {
				clusters = append(clusters, name)
			}
		}
		if glob == "*" {
			clusters = []string{"*"}
			break
		}
		if len(clusters) == 0 {
			clusters = append(clusters, glob)
		}
	}
	slices.Sort(clusters)
	match("payload.cluster", slices.Compact(clusters))
	operator := " || "
	if w.UseAndOperator {
		operator = " && "
	}
	selection := strings.Join(parts, operator)
	if slices.Contains(parts, "(true)") && !w.UseAndOperator || selection == "" {
		selection = "true"
	}
	where := fmt.Sprintf(`type == "Object" && %q in labels && labels[%q] == %q`, projectLabel, projectLabel, projectName)
	if selection != "true" && selection != "(true)" {
		where += " && (" + selection + ")"
	}
	return where
}

func globRegexp(glob string) string {
	return "^" + strings.ReplaceAll(strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*"), `\?`, ".") + "$"
}
