package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// alerts waits while an alert is active.
func (c *Configured) alerts(config *intentpb.Alerts, typeName intent.TypeName, types *rule.Environment) error {
	if err := c.labelled(config.GetLabels(), typeName, types); err != nil {
		return err
	}
	q := Question{
		Source: Alertmanager, Place: config.GetAlertmanager(), Text: strings.Join(config.GetMatchers(), "\n"),
		Silenced: config.GetSilenced(), Inhibited: config.GetInhibited(), Keep: keepOf(config.GetKeep()),
	}
	c.judge = c.judgeByAnswer(q, func(f Facts, a Answer) intent.Verdict {
		own, err := c.pick(f, a)
		if err != nil {
			return c.broken(err)
		}
		active := own.Alerts
		if len(active) == 0 {
			return c.passes(c.holdsUntil(a)).Rests("no such alert is active; %s old", aged(f.Now, a.At))
		}
		first := slices.MinFunc(active, func(a, b Alert) int { return a.Since.Compare(b.Since) })
		return c.waits(intent.WaitAlert, time.Time{}, "%s; asked at %s", alertWords(first, len(active)-1), instant(a.At))
	})
	return nil
}

// alertWords tell of an alert, and of how many more there are.
func alertWords(alert Alert, more int) string {
	const most = 300
	text := fmt.Sprintf("alert %s is active since %s", excerpt(alert.Labels["alertname"], most), instant(alert.Since))
	labels := map[string]string{}
	for name, value := range alert.Labels {
		if name != "alertname" {
			labels[name] = value
		}
	}
	if len(labels) > 0 {
		text += " " + series(labels)
	}
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if alert.Link != "" {
		text += ": " + excerpt(alert.Link, most)
	}
	return text
}
