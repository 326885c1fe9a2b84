package validation

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/judge"
)

// Time of which there are no samples does not count: while a source is gone nothing is
// seen of a change, and what it does then is neither good nor bad (S11). So the last
// look takes in more time, in steps of Every, until as much was seen as it is to look
// at. It is the earliest such time, whenever it is asked.

// room is by how many steps the last look may grow.
func (l *look) room() int {
	most := (time.Duration(l.MostOfSide()-1)*l.Step - l.lasts()) / l.Every
	return int(max(0, min(MostGrowth, most)))
}

// mostGrown is by how many steps it can have grown now.
func (l *look) mostGrown() int {
	return min(l.room(), int(max(0, l.now.Sub(l.grownBy(0))/l.Every)))
}

// grownBy some steps, the last look ends then.
func (l *look) grownBy(steps int) time.Time {
	return l.start.Add(l.lasts() + time.Duration(steps)*l.Every)
}

// grow the last look to the first end by which enough was seen, or as far as it can be.
func (l *look) grow(readings []Reading) error {
	most := l.mostGrown()
	l.until = l.grownBy(most)
	all, err := l.sides(readings)
	if err != nil {
		return err
	}
	for {
		l.until = l.grownBy(l.grown)
		l.missing = max(0, l.lasts()-l.seenOf(all))
		if l.missing == 0 || l.grown == most {
			return nil
		}
		// Nothing is seen faster than it passes.
		l.grown = min(most, l.grown+max(1, int(l.missing/l.Every)))
	}
}

// short of samples, a look waits for more; one that cannot grow any more gives up.
func (l *look) short() bool   { return l.missing > 0 && l.grown < l.room() }
func (l *look) givesUp() bool { return l.missing > 0 && l.grown == l.room() }

// seenOf the time until the end of the look: that of which each metric that decides,
// and gives an answer, has samples.
func (l *look) seenOf(all []sides) time.Duration {
	silence := time.Duration(0)
	for _, s := range all {
		if s.metric.Judge.Shadow {
			continue
		}
		silence = max(silence, s.sampleTimes[0].silence(l.start, l.until, s.metric.Fresh))
		if s.metric.Compare == Control {
			silence = max(silence, s.sampleTimes[1].silence(l.start, l.until, s.metric.Fresh))
		}
	}
	return l.until.Sub(l.start) - silence
}

// heardAt is how many looks so far heard what those before had not: alpha is shared among
// these, and one in an outage, at the same samples again, takes none of it.
func (l *look) heardAt(all []sides) int {
	count, start := 0, l.start
	for i := 1; i <= l.number+l.grown; i++ {
		end := l.start.Add(min(l.lasts(), time.Duration(i)*l.Every))
		if i > l.number {
			end = l.grownBy(i - l.number)
		}
		if slices.ContainsFunc(all, func(s sides) bool {
			return s.sampleTimes[0].hasWithin(start, end) || s.sampleTimes[1].hasWithin(start, end)
		}) {
			count++
		}
		start = end
	}
	return max(1, count)
}

// hasWithin reports whether there are any after one time, and not after another.
func (h sampleTimes) hasWithin(start, end time.Time) bool {
	return slices.ContainsFunc(h, func(at time.Time) bool { return at.After(start) && !at.After(end) })
}

// sampleTimes are the times of samples, in order; nil: there was no answer.
type sampleTimes []time.Time

func sampleTimesOf(samples []judge.Sample) sampleTimes {
	times := make(sampleTimes, len(samples))
	for i, s := range samples {
		times[i] = s.At
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// silence within a time: all pauses that are longer than what is fresh.
func (h sampleTimes) silence(start, end time.Time, fresh time.Duration) (silence time.Duration) {
	switch {
	case h == nil:
		return 0 // It is broken, and so is what it is a part of.
	case len(h) == 0 || h[0].After(end):
		return end.Sub(start)
	}
	last := start
	pause := func(at time.Time) {
		if p := at.Sub(last); p > fresh {
			silence += p
		}
		last = at
	}
	for _, at := range h {
		if at.After(end) {
			break
		}
		pause(at)
	}
	pause(end)
	return silence
}
