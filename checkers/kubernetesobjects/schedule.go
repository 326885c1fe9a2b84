package main

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// schedule judges when a CronJob runs, by the library that Kubernetes reads it with.
func (c *checker) schedule(o *object) {
	if groupKind(o.key) != "batch/CronJob" {
		return
	}
	if zone := text(o.value, "spec", "timeZone"); zone != "" {
		if _, err := time.LoadLocation(zone); err != nil || strings.EqualFold(zone, "Local") {
			c.wrong([]string{"spec", "timeZone"}, "write a name such as Europe/London", "%.63q is no time zone", zone)
		}
	}
	at, written := []string{"spec", "schedule"}, text(o.value, "spec", "schedule")
	if written == "" {
		return
	}
	if strings.Contains(written, "TZ") {
		c.wrong(at, "write timeZone", "names a time zone within the schedule, which Kubernetes refuses")
		return
	}
	schedule, err := cron.ParseStandard(written)
	if err != nil {
		c.wrong(at, "write MINUTE HOUR DAY MONTH WEEKDAY, such as 30 2 * * 1-5", "%.63q is no schedule: %s", written, plainReason(err))
		return
	}
	if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		c.warn(at, "write a day that there is", "%.63q never comes", written)
	}
}

// plainReason is what the library says, without the schedule, which is quoted before.
func plainReason(err error) string {
	reason, _, _ := strings.Cut(err.Error(), ":")
	return reason
}
