package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
)

// Stories are several things that happen to one version or two, as they must for a slip in what
// decides on versions to show: what takes minutes would rarely meet what single disturbances bring.

// DeliveryStory is a disturbance of runs that deliver.
const DeliveryStory Kind = "a version has a story"

// newRelease is a version that nobody has built yet.
func (l *Lab) newRelease(bad bool) monitor.Release {
	d := &l.delivering
	d.next++
	made := monitor.Release{Name: fmt.Sprintf("1.%d.0", d.next), Digest: fmt.Sprintf("sha256:%d", d.next)}
	d.bad[made] = bad
	return made
}

// builds a version of which it is known how it is.
func (p person) builds(r monitor.Release) error {
	p.delivering.built = append(p.delivering.built, r)
	p.tell("%s: %s, %s, bad: %v", p.d, r.Name, r.Digest, p.delivering.bad[r])
	return p.setDocument(buildsDocument, "/"+r.Name, fmt.Sprintf("{\"digest\": %q}", r.Digest))
}

// votes has people say something of a version for production.
func (p person) votes(r monitor.Release, approve bool, names ...string) error {
	for _, name := range names {
		if err := p.as(name).votesOn(r, approve); err != nil {
			return err
		}
	}
	return nil
}

// deliveryStory begins one; what it does comes at its time, whatever else happens.
func (l *Lab) deliveryStory(d Disturbance, r *rand.Rand) {
	if l.delivering.storyUntil.After(l.Now()) {
		return // One at a time, or none would go as it must.
	}
	l.delivering.storyUntil = l.Now().Add(12 * time.Minute)
	l.note(d.Kind, "API")
	first, second := l.newRelease(false), l.newRelease(false)
	at := func(delay time.Duration, do func(p person) error) {
		l.after(delay, func() {
			if replica := l.anyone(); replica != nil && replica.Client != nil {
				if err := do(l.named(replica, somebody, d, r)); err != nil {
					l.tell("%s: %v", d, err)
				}
			}
		})
	}
	act := func(delay time.Duration, kind, environment string, release monitor.Release, constraint string) {
		at(delay, func(p person) error { return p.actOnDelivery(kind, environment, release, constraint) })
	}
	built := func(delay time.Duration, release monitor.Release) {
		at(delay, func(p person) error { return p.builds(release) })
	}
	// Whatever holds an environment from before is let go.
	for _, environment := range deliveredEnvironments {
		act(0, intent.ActUnpin, environment, monitor.Release{}, "")
		act(time.Second, intent.ActResume, environment, monitor.Release{}, "")
	}
	act(time.Second, intent.ActResume, "", monitor.Release{}, "")
	tales := deliveryTales
	if l.asksAdviser() {
		tales = slices.Concat(deliveryTales, advisedTales)
	}
	tale := tales[r.IntN(len(tales))]
	l.tell("%s: %s", d, tale)
	l.mark("delivery: " + tale)
	const begin, soon, staged, late = 3 * time.Second, 40 * time.Second, 4 * time.Minute, 9 * time.Minute
	built(begin, first)
	switch tale {
	case "two are approved":
		at(staged, func(p person) error { return p.votes(first, true, "ann", "bob") })
		built(staged+20*time.Second, second)
		at(late, func(p person) error { return p.votes(second, true, "ann", "bob", "carol") })
	case "one person approves twice":
		at(soon, func(p person) error { return p.votes(first, true, "ann", "ann") })
	case "one rejects":
		at(soon, func(p person) error { return p.votes(first, false, "carol") })
		at(soon+time.Second, func(p person) error { return p.votes(first, true, "ann", "bob") })
	case "approvals are old":
		act(begin, intent.ActPause, "production", monitor.Release{}, "")
		at(soon, func(p person) error { return p.votes(first, true, "ann", "bob") })
		act(34*time.Minute, intent.ActResume, "production", monitor.Release{}, "")
	case "a tag is moved after it was approved":
		at(soon, func(p person) error { return p.votes(first, true, "ann", "bob") })
		moved := monitor.Release{Name: first.Name, Digest: second.Digest}
		l.delivering.bad[moved] = false
		built(soon+2*time.Second, moved)
		// A vote that comes late is of what it names.
		at(soon+30*time.Second, func(p person) error { return p.votes(first, true, "ann", "bob") })
	case "what was approved is judged anew":
		at(soon, func(p person) error { return p.votes(first, true, "ann", "bob") })
		act(soon+5*time.Second, intent.ActRestart, "production", first, "people")
	case "a hotfix":
		act(soon, intent.ActHotfix, "", first, "")
		at(late, func(p person) error { return p.votes(first, true, "ann", "bob") })
	case "one constraint is forced":
		act(soon, intent.ActForce, "production", first, []string{"people", "office", "soaked"}[r.IntN(3)])
		at(late, func(p person) error { return p.votes(first, true, "ann", "bob") })
	case "what is newer than a pin":
		act(staged, intent.ActPin, "test", first, "")
		built(staged+soon, second)
		act(late, intent.ActUnpin, "test", monitor.Release{}, "")
	case "what comes while all is paused":
		act(begin, intent.ActPause, []string{"", "test", "staging"}[r.IntN(3)], monitor.Release{}, "")
		act(soon/2, intent.ActResume, "production", monitor.Release{}, "") // Which ends its own pause alone.
		built(soon, second)
		act(staged, intent.ActResume, "", monitor.Release{}, "")
	case "bad before it comes to staging":
		act(20*time.Second, intent.ActMarkBad, []string{"", "staging"}[r.IntN(2)], first, "")
	case "a program finds it bad":
		l.delivering.bad[first] = true
	case "what was good goes bad behind another":
		l.delivering.bad[second] = true
		act(staged, intent.ActPin, "staging", first, "")
		act(staged+20*time.Second, intent.ActMarkBad, "test", first, "")
		built(staged+10*time.Second, second)
		act(late, intent.ActUnpin, "staging", monitor.Release{}, "")
	case "a person sets the field":
		at(staged, func(p person) error { return p.setVersion("test", firstRelease) })
		act(staged+soon/2, intent.ActMarkGood, "test", first, "") // Which says nothing of the field.
		built(staged+soon, second)
		act(late, intent.ActResume, "test", monitor.Release{}, "")
	case "it is withdrawn after it was approved":
		at(soon, func(p person) error { return p.votes(first, true, "ann", "bob") })
		at(soon+10*time.Second, func(p person) error { return p.setDocument(buildsDocument, "/"+first.Name, "") })
	case "a person has an environment go back":
		built(staged, second)
		act(late, intent.ActRollBack, "test", first, "")
	case "one after another is approved":
		for n, release := range []monitor.Release{first, second, l.newRelease(false)} {
			comes := begin + time.Duration(n)*staged
			if n > 0 {
				built(comes, release)
			}
			at(comes+soon, func(p person) error { return p.votes(release, true, "ann", "bob") })
		}
	case "a version comes while all is stopped":
		at(20*time.Second, func(p person) error {
			p.d.Length = staged
			return p.stop()
		})
	case "its content changes after it was verified":
		act(begin, intent.ActPause, "staging", monitor.Release{}, "")
		l.delivering.troubles = nil
		at(2*time.Minute, func(p person) error {
			return p.setDocument(fieldsDocument, "/test/knob", fmt.Sprintf("%q", first.Name))
		})
		// The next program takes its time, and staging is let go before it has ended.
		at(2*time.Minute, func(person) error { l.delivering.troubles = []string{"is slow", "is slow"}; return nil })
		act(2*time.Minute+25*time.Second, intent.ActResume, "staging", monitor.Release{}, "")
	case "another comes while it is verified":
		at(begin, func(person) error { l.delivering.troubles = []string{"is slow", "is slow"}; return nil })
		for n := range 5 {
			next := l.newRelease(false)
			built(begin+time.Duration(12+9*n)*time.Second, next)
		}
	case "what was passed is asked anew":
		act(begin, intent.ActPause, "staging", monitor.Release{}, "")
		act(staged, intent.ActRestart, "staging", first, monitor.AdviceConstraint)
		act(staged+time.Second, intent.ActResume, "staging", monitor.Release{}, "")
	case "what was passed is not wanted for long":
		act(begin, intent.ActPause, "staging", monitor.Release{}, "")
		act(late, intent.ActResume, "staging", monitor.Release{}, "")
	case "a person marks good what a program found bad":
		l.delivering.bad[first] = true
		act(staged, intent.ActMarkGood, "test", first, "")
		at(late, func(p person) error { return p.votes(first, true, "ann", "bob") })
	case "who verifies dies":
		at(begin, func(person) error { l.delivering.troubles = []string{"is slow", "is slow"}; return nil })
		l.whenVerified(time.Minute*3, func() {
			if replica := l.replica(); replica != nil {
				replica.Kill("it verifies")
			}
			_ = l.people.Wait(l.ctx, 12*time.Second, nil)
			at(0, func(p person) error { return p.builds(second) })
			at(0, func(p person) error {
				return p.setDocument(fieldsDocument, "/test/knob", fmt.Sprintf("%q", second.Name))
			})
		})
	}
}

// whenVerified does something once a program runs, if one soon does.
func (l *Lab) whenVerified(within time.Duration, do func()) {
	l.people.Go("while a program runs", func() {
		for end := l.Now().Add(within); l.Now().Before(end) && !l.healing; {
			if l.people.Wait(l.ctx, time.Second, nil) != nil {
				return
			}
			if l.Monitor.ProgramRuns() {
				do()
				return
			}
		}
	})
}

// advisedTales are those of runs in which a constraint asks. They are few beside the others, so each comes
// more often.
var advisedTales = slices.Repeat([]string{
	"what was passed is asked anew", "what was passed is not wanted for long", "a person marks good what a program found bad",
}, 4)

// deliveryTales are the stories.
var deliveryTales = []string{
	"two are approved", "two are approved", "one person approves twice", "one rejects", "approvals are old", "a tag is moved after it was approved",
	"what was approved is judged anew", "a hotfix", "one constraint is forced", "what is newer than a pin", "what comes while all is paused",
	"bad before it comes to staging", "a program finds it bad", "what was good goes bad behind another", "a person sets the field",
	"it is withdrawn after it was approved", "a person has an environment go back", "one after another is approved", "one after another is approved",
	"a version comes while all is stopped",
	"its content changes after it was verified", "another comes while it is verified", "who verifies dies",
}
