package delivery

import (
	"time"

	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/intent"
)

// measureEvery is between two times at which figures of an application are taken.
const measureEvery = 30 * time.Second

// Figures of the environments of an application from one time until another, by its rows.
func (m *Moment) Figures(since, until time.Time) []deliveryhistory.Figures {
	made := make(map[intent.VersionName]time.Time, len(m.Versions))
	for _, v := range m.Versions {
		if made[v.VersionName] = v.Created; v.Created.IsZero() {
			made[v.VersionName] = v.Seen
		}
	}
	return deliveryhistory.FiguresOf(m.Records, made, m.Application.Environments(), since, until)
}

// measure tells the figures of an application of the partition, now and then.
func (d *Deliverer) measure(m *Moment) {
	now, name := m.Facts.Now, m.Spec.GetName()
	age := now.Sub(d.measured[name])
	if d.Measure == nil || m.Home.ID != d.Partition || age >= 0 && age < measureEvery {
		return
	}
	d.measured[name] = now
	d.Measure.Applications.Of(name).Set(m.Figures(now.Add(-deliveryhistory.Window), now.Add(time.Nanosecond)))
}
