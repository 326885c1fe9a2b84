package delivery

import (
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// VerificationStanding is how a verification that Lehr runs stands, of what an environment has.
type VerificationStanding struct {
	Name string
	// Began and Until are set of one that is under way: it has ended by then.
	Began, Until time.Time
	// Trouble is why it came to no result, and Again when it is run again.
	Trouble string
	Again   time.Time
}

// Words says it for people.
func (v *VerificationStanding) Words() string {
	at := func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }
	if v.Trouble == "" {
		return fmt.Sprintf("the verification %s is under way since %s, until %s at the latest", v.Name, at(v.Began), at(v.Until))
	}
	return fmt.Sprintf("the verification %s came to no result: %s. It is run again at %s", v.Name, v.Trouble, at(v.Again))
}

// Verification says how the verification stands that the environment of a place is to have next, of
// those that are awaited; ok: Lehr runs it now, or tried to.
func (m *Moment) Verification(at int, awaited []string) (v VerificationStanding, ok bool) {
	place := &m.Places[at]
	if under := place.Verification; under != nil {
		return VerificationStanding{Name: under.Name, Began: under.Began, Until: under.Until}, true
	}
	for _, spec := range place.Spec.GetRuns() {
		if !slices.Contains(awaited, spec.GetName()) {
			continue
		}
		if again, trouble := m.nextTry(place, spec.GetName()); trouble != "" {
			return VerificationStanding{Name: spec.GetName(), Trouble: trouble, Again: again}, true
		}
	}
	return v, false
}

// nextTry is when a verification that came to no result is run again, and why it came to none;
// zero: it may be run now.
func (m *Moment) nextTry(place *Place, name string) (again time.Time, trouble string) {
	rest := firstRest / 2
	for i := range m.Records {
		r := &m.Records[i]
		if r.Environment != place.Spec.GetName() {
			continue
		}
		switch r.Kind {
		case intent.DeliveryPromotion, intent.DeliveryFound:
			rest, again, trouble = firstRest/2, time.Time{}, ""
		case intent.DeliveryVoid:
			if r.Constraint == name && r.Content == place.Assets.Content {
				rest = min(2*rest, mostRest)
				again, trouble = r.At.Add(rest), r.Reason
			}
		case intent.DeliveryAct:
			if r.Act == intent.ActRestart && r.Constraint == name {
				rest, again, trouble = firstRest/2, time.Time{}, "" // A person wants it now.
			}
		}
	}
	return again, trouble
}
