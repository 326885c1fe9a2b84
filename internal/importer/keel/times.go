package keel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// zone is the one of windows that name none.
const zone = "America/Los_Angeles"

// mostWindows are those that a calendar of Lehr takes.
const mostWindows = 20

var weekdays = []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// readTimes makes a calendar of allowed-times.
func (r *reading) readTimes(node *yaml.Node) map[string]any {
	var kind, name, most string
	var open []string
	r.eachKey(node, "allowed-times", map[string]func(*yaml.Node){
		"type": r.text(&kind), "tz": r.text(&name), "maxDeploysPerWindow": r.text(&most),
		"windows": func(value *yaml.Node) {
			r.eachItem(value, "windows", func(window *yaml.Node) { open = append(open, r.readWindow(window)...) })
		},
	})
	value := map[string]any{"zone": name, "open": open}
	if name == "" {
		value["zone"] = zone
		r.Hints = append(r.Hints, fmt.Sprintf("%s:%d: allowed-times names no tz: the windows are in %s, the default of Keel; say another if yours had one", r.file, node.Line, zone))
	}
	if _, err := time.LoadLocation(name); err != nil {
		r.refuse(node, "there is no time zone %q", name)
	}
	if most != "" {
		count, err := strconv.Atoi(most)
		if err != nil || count < 1 {
			r.refuse(node, "maxDeploysPerWindow %q is no number above 0", most)
		}
		if slices.Contains(open, "Mon-Sun 00:00-24:00") {
			r.refuse(node, "maxDeploysPerWindow counts in a window, and this one never ends; give it hours")
		}
		value["at_most"] = count
	}
	if len(open) == 0 || len(open) > mostWindows {
		r.refuse(node, "allowed-times comes to %d windows, and a calendar has 1 to %d", len(open), mostWindows)
	}
	return value
}

func (r *reading) readWindow(node *yaml.Node) []string {
	var days, hours string
	r.eachKey(node, "the window", map[string]func(*yaml.Node){"days": r.text(&days), "hours": r.text(&hours)})
	named, err := readDays(days)
	if err != nil {
		r.refuse(node, "%v", err)
		return nil
	}
	spans, err := readHours(hours)
	if err != nil {
		r.refuse(node, "%v", err)
		return nil
	}
	var open []string
	for _, span := range spans {
		open = append(open, named+" "+span)
	}
	return open
}

// readDays reads names, ranges and lists of days; nothing is every day.
func readDays(text string) (string, error) {
	if text == "" {
		return "Mon-Sun", nil
	}
	var isOpen [7]bool
	for _, part := range strings.Split(strings.ToLower(text), ",") {
		switch part = strings.TrimSpace(part); part {
		case "weekdays":
			part = "mon-fri"
		case "weekends":
			part = "sat-sun"
		}
		begin, end, isRange := strings.Cut(part, "-")
		if !isRange {
			end = begin
		}
		first, last := dayNumber(begin), dayNumber(end)
		if first < 0 || last < 0 {
			return "", fmt.Errorf("%q names no days", text)
		}
		for day := first; ; day = (day + 1) % 7 {
			isOpen[day] = true
			if day == last {
				break
			}
		}
	}
	var names []string
	for day, open := range isOpen {
		if open {
			names = append(names, weekdays[day])
		}
	}
	return strings.Join(names, ","), nil
}

// dayNumber is the place of a day in the week, by its name or its first three letters; -1: none.
func dayNumber(text string) int {
	text = strings.TrimSpace(text)
	return slices.IndexFunc([]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}, func(day string) bool {
		return text == day || text == day[:3]
	})
}

// readHours reads hours, ranges and lists of them. A range ends before its last hour; one that
// wraps is of the named days alone, so it is two spans. Nothing is the whole day.
func readHours(text string) ([]string, error) {
	if text == "" {
		return []string{"00:00-24:00"}, nil
	}
	var spans []string
	for _, part := range strings.Split(text, ",") {
		begin, end, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.Atoi(strings.TrimSpace(begin))
		last, lastErr := first+1, error(nil)
		if isRange {
			last, lastErr = strconv.Atoi(strings.TrimSpace(end))
		}
		if err != nil || lastErr != nil || first < 0 || first > 23 || last < 0 || last > 24 || first == last {
			return nil, fmt.Errorf("%q names no hours from 0 to 23", text)
		}
		if first < last {
			spans = append(spans, fmt.Sprintf("%02d:00-%02d:00", first, last))
			continue
		}
		spans = append(spans, fmt.Sprintf("%02d:00-24:00", first))
		if last > 0 {
			spans = append(spans, fmt.Sprintf("00:00-%02d:00", last))
		}
	}
	return spans, nil
}
