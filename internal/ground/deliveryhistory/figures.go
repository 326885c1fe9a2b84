package deliveryhistory

import (
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Window is over which figures are usually taken.
const Window = 30 * 24 * time.Hour

// Figures of an environment over a time. Promotions are fields set to a version that does not go
// back; what came back, or what somebody else set, is none.
type Figures struct {
	Environment string
	// Promotions in that time, and Failed those of them whose version was found bad, did not
	// converge in an attempt, or went back (unless by a pin) while the environment had it.
	Promotions, Failed int
	// Lead is from when a version was made until the environment was good with it, of those
	// promotions that brought a version there for the first time.
	Lead Times
	// Restore is from the first sign that a promotion failed until the environment was good with
	// another version, or after an attempt that failed with the same one.
	Restore Times
	// Queues are the constraints that versions waited for in that time, by name.
	Queues []Queue
}

// Queue is how long versions waited for a constraint, each all its waits in that time added up.
type Queue struct {
	Constraint string
	Times
}

// Times are durations whose median and maximum are reported.
type Times struct {
	Count           int
	Median, Longest time.Duration
}

// timesOf durations. Of an even count the median is the mean of the two in the middle.
func timesOf(durations []time.Duration) (t Times) {
	if t.Count = len(durations); t.Count == 0 {
		return t
	}
	slices.Sort(durations)
	t.Longest = durations[t.Count-1]
	t.Median = durations[t.Count/2]
	if t.Count%2 == 0 {
		t.Median = durations[t.Count/2-1] + (t.Median-durations[t.Count/2-1])/2
	}
	return t
}

// stay is what an environment had for a time.
type stay struct {
	version  intent.VersionName
	at       time.Time
	promoted bool
	// first: the environment never had the version before.
	first bool
	// good, failed and restored are when it was so for the first time; zero: it was not.
	good, failed, restored time.Time
	// attempt: what failed was an attempt only, so that the same version may restore it.
	attempt bool
}

func (s *stay) fail(at time.Time, attempt bool) {
	if s.failed.IsZero() {
		s.failed = at
		s.attempt = attempt
	}
	s.attempt = s.attempt && attempt
}

func (s *stay) restore(at time.Time) {
	if !s.failed.IsZero() && s.restored.IsZero() {
		s.restored = at
	}
}

// account is what rows say of an environment.
type account struct {
	since, until time.Time
	stays        []stay
	// restored: nothing is to be restored of the stays before this one.
	restored int
	had      map[intent.VersionName]bool
	// open are versions that wait, and waited how long each did, by constraint and version.
	open   map[intent.VersionName]wait
	waited map[string]map[intent.VersionName]time.Duration
}

type wait struct {
	constraint string
	since      time.Time
}

// FiguresOf some environments from one time until another, by the rows of their application in
// their order. Made says when versions were made, or else seen first; those that it does not
// know count for no lead time. Rows from before that time say how it began, and what is after
// until counts for nothing.
func FiguresOf(rows []intent.DeliveryRecord, made map[intent.VersionName]time.Time, environments []string, start, end time.Time) []Figures {
	accounts := make(map[string]*account, len(environments))
	for _, name := range environments {
		accounts[name] = &account{
			since: start, until: end, had: map[intent.VersionName]bool{}, open: map[intent.VersionName]wait{}, waited: map[string]map[intent.VersionName]time.Duration{},
		}
	}
	for i := range rows {
		row := &rows[i]
		if !row.At.Before(end) {
			break
		}
		if row.Environment == "" {
			for _, a := range accounts {
				a.add(row)
			}
		} else if a := accounts[row.Environment]; a != nil {
			a.add(row)
		}
	}
	figures := make([]Figures, len(environments))
	for i, name := range environments {
		figures[i] = accounts[name].figures(made)
		figures[i].Environment = name
	}
	return figures
}

// add a row.
func (a *account) add(row *intent.DeliveryRecord) {
	current := &stay{} // It has no version yet.
	if len(a.stays) > 0 {
		current = &a.stays[len(a.stays)-1]
	}
	same := current.version == row.Version
	switch row.Kind {
	case intent.DeliveryPromotion, intent.DeliveryFound:
		if row.Back && row.Why != intent.WhyPinned {
			current.fail(row.At, false)
		}
		promoted := row.Kind == intent.DeliveryPromotion && !row.Back
		a.stays = append(a.stays, stay{version: row.Version, at: row.At, promoted: promoted, first: !a.had[row.Version]})
		a.had[row.Version] = true
	case intent.DeliveryStanding:
		if row.Good {
			a.becomeGood(row.At)
		}
	case intent.DeliveryAttempt:
		if same {
			current.fail(row.At, true)
		}
	case intent.DeliveryVeto:
		if same {
			current.fail(row.At, false)
		}
	case intent.DeliveryResult:
		if same && !row.Good {
			current.fail(row.At, false)
		}
	case intent.DeliveryAct:
		switch {
		case same && row.Act == intent.ActMarkBad:
			current.fail(row.At, false)
		case same && row.Act == intent.ActMarkGood && !current.good.IsZero():
			current.restore(row.At)
		}
	case intent.DeliveryWait:
		a.wait(row)
	}
}

// becomeGood with what the environment has.
func (a *account) becomeGood(at time.Time) {
	for i := a.restored; i < len(a.stays); i++ {
		s := &a.stays[i]
		if i < len(a.stays)-1 || s.attempt {
			s.restore(at)
		}
		if i == len(a.stays)-1 && s.good.IsZero() {
			s.good = at
		}
	}
	a.restored = max(0, len(a.stays)-1)
}

// wait ends one of a version, and begins another.
func (a *account) wait(row *intent.DeliveryRecord) {
	a.endWait(row.Version, row.At)
	if row.Constraint != "" {
		a.open[row.Version] = wait{row.Constraint, row.At}
	}
}

func (a *account) endWait(version intent.VersionName, at time.Time) {
	open, ok := a.open[version]
	delete(a.open, version)
	begin := open.since
	if begin.Before(a.since) {
		begin = a.since
	}
	if !ok || !at.After(begin) {
		return
	}
	if a.waited[open.constraint] == nil {
		a.waited[open.constraint] = map[intent.VersionName]time.Duration{}
	}
	a.waited[open.constraint][version] += at.Sub(begin)
}

func (a *account) figures(made map[intent.VersionName]time.Time) (f Figures) {
	var leads, restores []time.Duration
	for _, s := range a.stays {
		if !s.promoted || s.at.Before(a.since) {
			continue
		}
		f.Promotions++
		if begin, ok := made[s.version]; ok && s.first && !s.good.IsZero() {
			leads = append(leads, max(0, s.good.Sub(begin)))
		}
		if s.failed.IsZero() {
			continue
		}
		f.Failed++
		if !s.restored.IsZero() {
			restores = append(restores, s.restored.Sub(s.failed))
		}
	}
	f.Lead, f.Restore = timesOf(leads), timesOf(restores)
	for version := range maps.Clone(a.open) {
		a.endWait(version, a.until)
	}
	for _, constraint := range slices.Sorted(maps.Keys(a.waited)) {
		f.Queues = append(f.Queues, Queue{constraint, timesOf(slices.Collect(maps.Values(a.waited[constraint])))})
	}
	return f
}
