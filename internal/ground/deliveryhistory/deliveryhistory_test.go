package deliveryhistory

import (
	"reflect"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// monday is when the history of these tests begins.
var monday = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// after is so many hours after monday.
func after(hours float64) time.Time {
	return monday.Add(time.Duration(hours * float64(time.Hour)))
}

func version(name string) intent.VersionName {
	return intent.VersionName{Name: name, Digest: "sha256:" + name}
}

// history is kept by hand: two weeks of an application in test and production.
//
//	hour  what
//	   0  1.0 is made, and comes to production; good at 1
//	  10  1.1 is made; 12 it waits for tested, 20 for people; 44 it comes to production; good at 45
//	  50  1.2 is made; waits for tested at 50, for people at 51; 52 it comes; good at 53;
//	  54  a rollout finds 1.2 bad; at 55 production goes back to 1.1, good at 56
//	  60  1.3 is made; 61 it comes; an attempt fails at 62; good at 64 with it
//	  70  1.4 is made; it waits for tested from 70 on, and at the end still does
//	  80  1.3 is pinned back to 1.1 (for a comparison): that is no failure; good at 81
//	  90  somebody sets 1.2 by hand: that is no promotion; good at 91
//	 100  1.1 comes back by people: no promotion; good at 101
//	 110  1.5 is made, 111 it comes, 112 good, 113 marked bad everywhere, nothing is restored
func history() (rows []intent.DeliveryRecord, made map[intent.VersionName]time.Time) {
	add := func(at float64, kind intent.DeliveryKind, name string, change func(r *intent.DeliveryRecord)) {
		r := intent.DeliveryRecord{Application: "web", Number: uint64(len(rows) + 1), At: after(at), Kind: kind, Environment: "production", Version: version(name)}
		if change != nil {
			change(&r)
		}
		rows = append(rows, r)
	}
	good := func(r *intent.DeliveryRecord) { r.Good = true }
	back := func(why string) func(r *intent.DeliveryRecord) {
		return func(r *intent.DeliveryRecord) { r.Back, r.Why = true, why }
	}
	waits := func(constraint string) func(r *intent.DeliveryRecord) {
		return func(r *intent.DeliveryRecord) { r.Constraint = constraint }
	}
	add(0, intent.DeliveryPromotion, "1.0", nil)
	add(1, intent.DeliveryStanding, "1.0", good)
	add(12, intent.DeliveryWait, "1.1", waits("tested"))
	add(20, intent.DeliveryWait, "1.1", waits("people"))
	add(44, intent.DeliveryWait, "1.1", nil)
	add(44, intent.DeliveryPromotion, "1.1", nil)
	add(45, intent.DeliveryStanding, "1.1", good)
	add(50, intent.DeliveryWait, "1.2", waits("tested"))
	add(51, intent.DeliveryWait, "1.2", waits("people"))
	add(52, intent.DeliveryWait, "1.2", nil)
	add(52, intent.DeliveryPromotion, "1.2", nil)
	add(53, intent.DeliveryStanding, "1.2", good)
	add(54, intent.DeliveryVeto, "1.2", nil)
	add(55, intent.DeliveryPromotion, "1.1", back("went-back"))
	add(56, intent.DeliveryStanding, "1.1", good)
	add(61, intent.DeliveryPromotion, "1.3", nil)
	add(62, intent.DeliveryAttempt, "1.3", nil)
	add(64, intent.DeliveryStanding, "1.3", good)
	add(70, intent.DeliveryWait, "1.4", waits("tested"))
	add(80, intent.DeliveryPromotion, "1.1", back(intent.WhyPinned))
	add(81, intent.DeliveryStanding, "1.1", good)
	add(90, intent.DeliveryFound, "1.2", nil)
	add(91, intent.DeliveryStanding, "1.2", good)
	add(100, intent.DeliveryPromotion, "1.1", back("asked-back"))
	add(101, intent.DeliveryStanding, "1.1", good)
	add(111, intent.DeliveryPromotion, "1.5", nil)
	add(112, intent.DeliveryStanding, "1.5", good)
	add(113, intent.DeliveryAct, "1.5", func(r *intent.DeliveryRecord) { r.Environment, r.Act = "", intent.ActMarkBad })
	made = map[intent.VersionName]time.Time{}
	for name, at := range map[string]float64{"1.0": 0, "1.1": 10, "1.2": 50, "1.3": 60, "1.4": 70, "1.5": 110} {
		made[version(name)] = after(at)
	}
	return rows, made
}

func hours(count int, median, longest float64) Times {
	return Times{Count: count, Median: time.Duration(median * float64(time.Hour)), Longest: time.Duration(longest * float64(time.Hour))}
}

func TestFiguresAreThoseOfTheHistory(t *testing.T) {
	rows, made := history()
	for name, test := range map[string]struct {
		since, until float64
		want         Figures
	}{
		"all of it": {0, 120, Figures{
			// 1.0, 1.1, 1.2, 1.3 and 1.5; of these 1.2, 1.3 and 1.5 failed.
			Promotions: 5, Failed: 3,
			Lead:    hours(5, 3, 35), // 1, 35, 3, 4 and 2 hours
			Restore: hours(2, 2, 2),  // 1.2 from 54 to 56, 1.3 from 62 to 64; 1.5 is not restored
			Queues: []Queue{
				{"people", hours(2, 12.5, 24)}, // 24 and 1
				{"tested", hours(3, 8, 50)},    // 8, 1, and 50 until now
			},
		}},
		"the middle": {30, 60, Figures{
			Promotions: 2, Failed: 1, Lead: hours(2, 19, 35), Restore: hours(1, 2, 2),
			Queues: []Queue{{"people", hours(2, 7.5, 14)}, {"tested", hours(1, 1, 1)}}, // 1.1 waited for people from before on
		}},
		"not restored yet": {50, 55.5, Figures{
			Promotions: 1, Failed: 1, Lead: hours(1, 3, 3), Queues: []Queue{{"people", hours(1, 1, 1)}, {"tested", hours(1, 1, 1)}},
		}},
		"nothing happened": {200, 201, Figures{Queues: []Queue{{"tested", hours(1, 1, 1)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.Environment = "production"
			got := FiguresOf(rows, made, []string{"production", "test"}, after(test.since), after(test.until))
			if want := []Figures{test.want, {Environment: "test"}}; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// A version of which nobody knows when it was made has no lead time, and one that was taken for bad by
// mistake is restored when that is taken back.
func TestFiguresOfWhatIsNotKnown(t *testing.T) {
	rows, _ := history()
	rows = append(rows, intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: intent.ActMarkGood, Version: version("1.5"), At: after(116)})
	f := FiguresOf(rows, nil, []string{"production"}, after(105), after(120))[0]
	if f.Lead.Count != 0 || f.Restore != hours(1, 3, 3) || f.Promotions != 1 || f.Failed != 1 {
		t.Errorf("figures %+v", f)
	}
}

func TestEventsOfRows(t *testing.T) {
	at := intent.DeliveryRecord{Application: "web", Environment: "production", Version: version("1.1"), By: intent.Actor{Name: "ann"}, Reason: "so it is", Number: 7}
	row := func(change func(r *intent.DeliveryRecord)) intent.DeliveryRecord {
		r := at
		change(&r)
		return r
	}
	for _, test := range []struct {
		row   intent.DeliveryRecord
		kind  Kind
		words string
	}{
		{row(func(r *intent.DeliveryRecord) { r.Kind = intent.DeliveryPromotion }), Promoted, "so it is"},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Back = intent.DeliveryPromotion, true }), RolledBack, "so it is"},
		{row(func(r *intent.DeliveryRecord) {
			r.Kind, r.Constraint, r.Cause = intent.DeliveryWait, "people", intent.CauseNeedsPeople
		}), Waiting, "1.1 of web waits for people in production: so it is"},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Constraint, r.Cause = intent.DeliveryWait, "hours", "closed" }), "", ""},
		{row(func(r *intent.DeliveryRecord) { r.Kind = intent.DeliveryWait }), "", ""},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Rollout = intent.DeliveryVeto, "slow, run 2" }), Vetoed, "1.1 of web is found bad in production by rollout slow, run 2: so it is"},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Constraint = intent.DeliveryResult, "smoke" }), Vetoed, "1.1 of web is found bad in production by ann (smoke): so it is"},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Good = intent.DeliveryResult, true }), "", ""},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Constraint = intent.DeliveryAnswer, "ticket" }), "", ""},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Constraint = intent.DeliveryVote, "people" }), Vetoed, "1.1 of web is found bad in production by ann (people): so it is"},
		{row(func(r *intent.DeliveryRecord) {
			r.Kind, r.Act, r.Environment = intent.DeliveryAct, intent.ActMarkBad, ""
		}), Vetoed, "1.1 of web is found bad everywhere by ann: so it is"},
		{row(func(r *intent.DeliveryRecord) { r.Kind, r.Act = intent.DeliveryAct, intent.ActPin }), "", ""},
		{row(func(r *intent.DeliveryRecord) { r.Kind = intent.DeliveryAttempt }), Failed, "1.1 of web did not converge in production: so it is"},
		{row(func(r *intent.DeliveryRecord) { r.Kind = intent.DeliveryFound }), "", ""},
		{row(func(r *intent.DeliveryRecord) { r.Kind = intent.DeliveryStanding }), "", ""},
		{row(func(r *intent.DeliveryRecord) { r.Kind = intent.DeliveryAdmission }), "", ""},
	} {
		e, ok := EventOf(&test.row)
		if ok != (test.kind != "") || ok && (e.Kind != test.kind || e.Words() != test.words || e.Number != 7) {
			t.Errorf("%s %s: %v %s %q", test.row.Kind, test.row.Act, ok, e.Kind, e.Words())
		}
	}
}
