package delivery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// us is the partition of the second region.
const us intent.PartitionID = "us"

const (
	monthStep      = 30 * time.Minute
	approvalCounts = 48 * time.Hour
	soaks          = 4 * time.Hour
)

// monthStart is a Monday; within the month London and New York put their clocks back, a week apart.
var monthStart = time.Date(2026, 10, 12, 6, 0, 0, 0, time.UTC)

// storedMonth is what happens to an application in a month: test and staging in one partition, a
// region in each of two others. All that anybody knows between two passes is in the store.
type storedMonth struct {
	*world
	random   *rand.Rand
	versions []intent.Version
	// harms says how a version is bad, and converges when the assets of an environment are in sync.
	harms     map[string]string
	converges map[string]time.Time
	// due are things that happen at a time.
	due []monthEvent
	// votes are when people approved versions, and results when what was good in staging was found
	// good: what was really said, beside the rows.
	votes, results map[intent.VersionName]time.Time
	hotfixes       map[string]bool
	asked, judged  map[string]bool
	// good is when an environment was first in sync with a version.
	good map[string]time.Time
	// reported is what was reported last of each partition.
	reported map[intent.PartitionID]string
	passes   int
}

type monthEvent struct {
	at time.Time
	do func()
}

func monthOfDelivery() *intentpb.Delivery {
	freeze := &intentpb.Freeze{From: timestamppb.New(monthStart.AddDate(0, 0, 10)), Until: timestamppb.New(monthStart.AddDate(0, 0, 12)), Reason: "audit"}
	office := func(zone, open string, most uint32) *intentpb.DeliveryConstraint {
		calendar := &intentpb.Calendar{Zone: zone, Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: open}}}, Freezes: []*intentpb.Freeze{freeze}}
		return &intentpb.DeliveryConstraint{Name: "office", Kind: &intentpb.DeliveryConstraint_Times{Times: &intentpb.AllowedTimes{Calendar: calendar, AtMost: most}}}
	}
	after := func(stable time.Duration, on string) *intentpb.DeliveryConstraint {
		spec := &intentpb.DependsOn{Environments: []string{on}}
		if stable > 0 {
			spec.Stable = durationpb.New(stable)
		}
		return &intentpb.DeliveryConstraint{Name: "after", Kind: &intentpb.DeliveryConstraint_DependsOn{DependsOn: spec}}
	}
	soak := func(in string) *intentpb.DeliveryConstraint {
		spec := &intentpb.DeliverySoak{Environments: []string{in}, Time: durationpb.New(soaks)}
		return &intentpb.DeliveryConstraint{Name: "soak", PassedByHotfix: true, Kind: &intentpb.DeliveryConstraint_Soak{Soak: spec}}
	}
	environment := func(name string, partition intent.PartitionID, constraints ...*intentpb.DeliveryConstraint) *intentpb.DeliveryEnvironment {
		e := &intentpb.DeliveryEnvironment{
			Name: name, Partition: string(partition), Document: "knobs", Pointer: "/" + name + "/version", Assets: fmt.Sprintf("id == %q", "web/"+name), Constraints: constraints,
		}
		if partition == "" {
			e.Source = "knobs"
		}
		return e
	}
	staging := environment("staging", "", after(time.Hour, "test"))
	staging.Verify = []string{"smoke"}
	people := &intentpb.DeliveryConstraint{Name: "people", PassedByHotfix: true, Kind: &intentpb.DeliveryConstraint_Judgement{
		Judgement: &intentpb.Judgement{Expires: durationpb.New(approvalCounts)},
	}}
	return &intentpb.Delivery{Name: "web", Versions: "images", Order: &intentpb.VersionOrder{}, Environments: []*intentpb.DeliveryEnvironment{
		environment("test", ""), staging,
		environment("london", eu, after(0, "staging"), soak("staging"), people, office("Europe/London", "Mon-Thu 09:00-17:00", 2)),
		environment("york", us, after(0, "london"), soak("london"), office("America/New_York", "Mon-Fri 10:00-16:00", 1)),
	}}
}

// TestAMonthIsExplainedByItsRows: releases twice a day, approvals that come late or never, a
// freeze, clocks that are put back, bad versions each week, a pin, a pause and a hotfix, answers
// that are lost, and restarts at random; the actor remembers nothing between two passes. In the end each promotion
// has stored verdicts that were true, nothing that was known to be bad was promoted, no approval
// was used for another version, and rows alone explain where each version is.
func TestAMonthIsExplainedByItsRows(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a quarter of a minute")
	}
	m := newStoredMonth(t)
	for end := monthStart.AddDate(0, 1, 0); m.clock.Before(end); {
		m.happen()
		m.goOnNow()
		m.verify()
		m.ask()
		m.tick(monthStep - m.clock.Sub(monthStart)%monthStep)
	}
	m.judgePromotions()
	m.judgeStates()
	t.Logf("%d passes, %d versions, %d rows", m.passes, len(m.versions), len(m.rows()))
}

func newStoredMonth(t *testing.T) *storedMonth {
	m := &storedMonth{
		world: newWorld(t, monthOfDelivery()), random: rand.New(rand.NewPCG(7, 1)), harms: map[string]string{}, converges: map[string]time.Time{}, votes: map[intent.VersionName]time.Time{},
		results: map[intent.VersionName]time.Time{}, hotfixes: map[string]bool{}, asked: map[string]bool{}, judged: map[string]bool{}, good: map[string]time.Time{}, reported: map[intent.PartitionID]string{},
	}
	m.clock = monthStart
	for id, environment := range map[intent.PartitionID]string{eu: "london", us: "york"} {
		m.open(id, &intentpb.Policy{PromotionGrants: []*intentpb.PromotionGrant{{
			Partition: string(shop), Application: "web", Document: "knobs", Source: "knobs", Pointers: []string{"/" + environment + "/version"},
		}}})
		m.rename(id, "production", environment)
		m.rename(id, "test", "")
	}
	m.rename(shop, "production", "staging")
	m.release("1.0.0")
	return m
}

// rename an environment of a partition's document; empty: it is taken out.
func (m *storedMonth) rename(id intent.PartitionID, from, to string) {
	doc, err := m.store.Document(m.t.Context(), id, "knobs", "")
	m.must(err)
	operations := []document.Operation{{Path: "/" + from}}
	if to != "" {
		operations = append(operations, document.Operation{Path: "/" + to, Value: []byte(`{"version":"1.0.0"}`)})
	}
	_, err = m.store.EditDocument(m.t.Context(), id, "knobs", document.Edit{Base: doc.Revision.ID, Reason: "its environments", Operations: operations}, ann)
	m.must(err)
}

func (m *storedMonth) schedule(d time.Duration, do func()) {
	m.due = append(m.due, monthEvent{m.clock.Add(d), do})
}

func (m *storedMonth) release(name string) {
	m.versions = append(m.versions, intent.Version{VersionName: intent.VersionName{Name: name, Digest: "sha256:" + name}, Created: m.clock})
	m.must(m.store.SaveVersions(m.t.Context(), m.leases[shop], "images", m.versions))
}

// happen is what the time brings.
func (m *storedMonth) happen() {
	since := m.clock.Sub(monthStart)
	if hour := m.clock.Hour(); m.clock.Minute() == 0 && (hour == 10 || hour == 16) {
		n := len(m.versions)
		name := fmt.Sprintf("1.%d.0", n)
		if n%14 == 6 { // One of each week's fourteen is bad.
			m.harms[name] = []string{"smoke", "stuck"}[n/14%2]
		}
		m.release(name)
	}
	if day := int(since / (24 * time.Hour)); since%(24*time.Hour) == 0 {
		switch day {
		case 4:
			m.act(intent.ActPin, "york", m.fieldOf(us, "york"))
		case 6:
			m.act(intent.ActUnpin, "york", "")
		case 14:
			m.act(intent.ActPause, "", "")
		case 15:
			m.act(intent.ActResume, "", "")
		case 18:
			hotfix := m.versions[len(m.versions)-1].Name
			m.hotfixes[hotfix] = true
			m.act(intent.ActHotfix, "", hotfix)
		case 23:
			bad := m.fieldOf(eu, "london")
			m.harms[bad] = "person"
			m.act(intent.ActMarkBad, "", bad)
		}
	}
	due := m.due
	m.due = nil
	for _, e := range due {
		if e.at.After(m.clock) {
			m.due = append(m.due, e)
			continue
		}
		e.do()
	}
	m.lost = m.random.IntN(20) == 0
	if m.reader == nil || m.random.IntN(40) == 0 {
		m.reader = &Reader{Store: m.store, Schemas: schemas{}} // Lehr is started again.
	}
}

func (m *storedMonth) fieldOf(id intent.PartitionID, environment string) string {
	doc, err := m.store.Document(m.t.Context(), id, "knobs", "")
	m.must(err)
	have, _, err := fieldOf(doc.Content, "/"+environment+"/version")
	m.must(err)
	return have
}

// goOnNow builds, enforces and delivers until nothing is left to do at this time.
func (m *storedMonth) goOnNow() {
	for range 50 {
		rests := true
		for _, id := range []intent.PartitionID{shop, eu, us} {
			m.build(id)
			m.enforceNow(id)
			m.passes++
			pause, err := m.pass(id)
			if err != nil && !fault.Is(err, fault.Conflict) && err != errLost {
				m.t.Fatal(err)
			}
			rests = rests && err == nil && pause != 0
		}
		if m.tick(time.Second); rests {
			return
		}
	}
	m.t.Fatalf("delivery does not come to rest at %s", m.clock)
}

// enforceNow has assets converge some time after they changed, and those with what is stuck never.
func (m *storedMonth) enforceNow(id intent.PartitionID) {
	var failing []intent.AssetID
	reported := ""
	for _, e := range monthOfDelivery().GetEnvironments() {
		if PartitionOf(shop, e) != id {
			continue
		}
		has := m.fieldOf(id, e.GetName())
		key := e.GetName() + " " + has + " " + m.entries[id][intent.AssetID("web/"+e.GetName())].Member.Digest.String()
		if _, ok := m.converges[key]; !ok {
			takes := time.Duration(20+m.random.IntN(30)) * time.Minute
			if id != shop {
				takes = 2 * time.Hour // As a rollout does.
			}
			m.converges[key] = m.clock.Add(takes)
		}
		if m.clock.Before(m.converges[key]) || m.harms[has] == "stuck" {
			failing = append(failing, intent.AssetID("web/"+e.GetName()))
			key += " not yet"
		} else if at := e.GetName() + " " + has; m.good[at].IsZero() {
			m.good[at] = m.clock
		}
		reported += key + ";"
	}
	if m.reported[id] == reported {
		return
	}
	m.reported[id] = reported
	m.enforceBut(id, failing)
}

// enforceBut reports assets in sync, but those that are pushed or fail.
func (m *storedMonth) enforceBut(id intent.PartitionID, failing []intent.AssetID) {
	var reports []intent.Report
	for asset, e := range m.entries[id] {
		report := intent.Report{Partition: id, Asset: asset, Type: e.Member.Type, At: m.clock, State: intent.StateInSync, Effective: e.Member.Effective}
		if slices.Contains(failing, asset) {
			report.State = intent.StatePushing
			if m.harms[m.fieldOf(id, strings.TrimPrefix(string(asset), "web/"))] == "stuck" {
				report.State, report.Waiting = intent.StateWaiting, []intent.WaitingOn{{Kind: intent.WaitBackoff}}
			}
		}
		reports = append(reports, report)
	}
	m.must(m.store.SaveReports(m.t.Context(), m.leases[id], reports))
}

// verify has a program find out, in half an hour, how what staging is good with does.
func (m *storedMonth) verify() {
	moment := m.moment()
	decision := moment.Application.Decide(moment.Catalogue, moment.Facts)
	place, outcome := &moment.Places[1], decision.Outcomes[1]
	content := place.Assets.Content
	if len(outcome.Verify) == 0 || m.judged[content.String()] {
		return
	}
	m.judged[content.String()] = true
	version := outcome.Has
	m.schedule(30*time.Minute, func() {
		good := m.harms[version.Name] != "smoke"
		_, err := m.store.RecordDelivery(m.t.Context(), intent.DeliveryRecord{
			Partition: shop, Application: "web", Kind: intent.DeliveryResult, Environment: "staging", Constraint: "smoke", Version: version, Content: content, Good: good, By: ann, Reason: "it ran",
		}, store.DeliveryAuthority{Partition: shop, AnyOf: []intent.Role{intent.Operator}})
		m.must(err)
		if good {
			m.results[version] = m.clock
		}
	})
}

// ask people about versions that wait for them: most approve some time, some never do.
func (m *storedMonth) ask() {
	moment := m.moment()
	decision := moment.Application.Decide(moment.Catalogue, moment.Facts)
	for _, v := range m.versions[max(0, len(m.versions)-12):] {
		x, err := decision.Explain("london", intent.VersionName{Name: v.Name, Digest: v.Digest})
		m.must(err)
		waits := slices.ContainsFunc(x.Verdicts, func(v promotion.Verdict) bool { return v.Cause == promotion.NeedsPeople })
		if x.State != promotion.Pending || !waits || m.asked[v.Name] {
			continue
		}
		if m.asked[v.Name] = true; m.random.IntN(4) == 0 {
			continue
		}
		m.schedule(time.Duration(1+m.random.IntN(30))*time.Hour, func() {
			_, err := m.store.RecordDelivery(m.t.Context(), intent.DeliveryRecord{
				Partition: shop, Application: "web", Kind: intent.DeliveryVote, Environment: "london", Constraint: "people", Version: v.VersionName, Good: true, By: ann, Reason: "I have looked",
			}, store.DeliveryAuthority{Partition: eu, AnyOf: []intent.Role{intent.Approver}})
			m.must(err)
			m.votes[v.VersionName] = m.clock
		})
	}
}

// rows are all that are stored of the application.
func (m *storedMonth) rows() (list []intent.DeliveryRecord) {
	filter := store.DeliveryFilter{Application: "web", Limit: rowPage}
	for {
		page, err := m.store.DeliveryRecords(m.t.Context(), shop, filter)
		m.must(err)
		list = append(list, page...)
		if len(page) < rowPage {
			return list
		}
		filter.After = page[len(page)-1].Number
	}
}

// judgePromotions: each has a row that says why; those that were let in have the verdict of every
// constraint of the environment, all of which pass, and by clocks on walls and what people and
// programs really said they do.
func (m *storedMonth) judgePromotions() {
	admitted := map[string][]intent.DeliveryVerdict{}
	counts, days := map[string]int{}, map[string]int{}
	constraints := map[string][]string{}
	for _, e := range monthOfDelivery().GetEnvironments() {
		for _, c := range e.GetConstraints() {
			constraints[e.GetName()] = append(constraints[e.GetName()], c.GetName())
		}
	}
	for _, row := range m.rows() {
		key := row.Environment + " " + row.Version.Name + " " + row.Version.Digest
		switch row.Kind {
		case intent.DeliveryAdmission:
			admitted[key] = row.Verdicts
		case intent.DeliveryPromotion:
			if counts[row.Environment+" "+row.Why]++; row.Why == "" || row.Reason == "" {
				m.t.Errorf("nothing says why %s came at %s", key, row.At)
			}
			if row.Back || row.Why != "let-in" {
				continue
			}
			var passed []string
			for _, v := range admitted[key] {
				if passed = append(passed, v.Constraint); v.Status != "passes" || v.Text == "" {
					m.t.Errorf("%s was let in with %+v", key, v)
				}
			}
			if !slices.Equal(passed, constraints[row.Environment]) {
				m.t.Errorf("%s has stored verdicts of %v, and the constraints are %v", key, passed, constraints[row.Environment])
			}
			m.wasAllowed(row, days)
		}
	}
	for what, least := range map[string]int{
		"test let-in": 40, "staging let-in": 20, "london let-in": 5, "york let-in": 3, "test went-back": 1, "staging went-back": 1, "london went-back": 1, "york went-back": 0,
	} {
		if counts[what] < least {
			m.t.Errorf("too little happened: %q %d times, want %d: %v", what, counts[what], least, counts)
		}
	}
}

// wasAllowed looks at what was let into a region by other means than rows.
func (m *storedMonth) wasAllowed(row intent.DeliveryRecord, days map[string]int) {
	office := map[string]struct {
		zone        string
		first, last int
		days        time.Weekday
		most        int
	}{"london": {"Europe/London", 9, 17, time.Thursday, 2}, "york": {"America/New_York", 10, 16, time.Friday, 1}}
	fail := func(format string, arguments ...any) {
		m.t.Helper()
		m.t.Errorf("%s at %s: %s: %s", row.Environment, row.At, row.Version.Name, fmt.Sprintf(format, arguments...))
	}
	before := map[string]string{"staging": "test", "london": "staging", "york": "london"}[row.Environment]
	needs := map[string]time.Duration{"staging": time.Hour, "london": soaks, "york": soaks}[row.Environment]
	if m.hotfixes[row.Version.Name] && row.Environment != "staging" {
		needs = 0
	}
	if since, ok := m.good[before+" "+row.Version.Name]; before != "" && (!ok || row.At.Sub(since) < needs) {
		fail("%s was first good with it at %s", before, since)
	}
	hours, ok := office[row.Environment]
	if !ok {
		return
	}
	if harm := m.harms[row.Version.Name]; harm != "" && harm != "person" {
		fail("it is bad: %s", harm)
	}
	if found, ok := m.results[row.Version]; !ok || found.After(row.At) {
		fail("no program had found it good")
	}
	if voted, ok := m.votes[row.Version]; row.Environment == "london" && !m.hotfixes[row.Version.Name] && (!ok || voted.After(row.At) || row.At.Sub(voted) > approvalCounts) {
		fail("nobody had approved it")
	}
	zone, err := time.LoadLocation(hours.zone)
	m.must(err)
	local := row.At.In(zone)
	if local.Hour() < hours.first || local.Hour() >= hours.last || local.Weekday() < time.Monday || local.Weekday() > hours.days {
		fail("it is %s there", local)
	}
	if !row.At.Before(monthStart.AddDate(0, 0, 10)) && row.At.Before(monthStart.AddDate(0, 0, 12)) {
		fail("it is frozen")
	}
	day := row.Environment + local.Format(time.DateOnly)
	if days[day]++; days[day] > hours.most {
		fail("it is number %d of the day", days[day])
	}
}

// judgeStates: what is decided from rows alone explains where each version is.
func (m *storedMonth) judgeStates() {
	moment := m.moment()
	decision := moment.Application.Decide(moment.Catalogue, moment.Facts)
	promoted := map[string]bool{}
	for _, row := range m.rows() {
		if row.Kind == intent.DeliveryPromotion || row.Kind == intent.DeliveryFound {
			promoted[row.Environment+" "+row.Version.Name] = true
		}
	}
	seen := map[promotion.State]int{}
	for _, name := range moment.Application.Environments() {
		for _, v := range m.versions {
			x, err := decision.Explain(name, intent.VersionName{Name: v.Name, Digest: v.Digest})
			m.must(err)
			seen[x.State]++
			explained, wasThere := false, promoted[name+" "+v.Name]
			switch x.State {
			case promotion.Vetoed:
				explained = x.Mark.Cause != 0 && x.Mark.By != ""
			case promotion.Failed:
				explained = x.Failure.Attempts >= x.Attempts && wasThere
			case promotion.Previous, promotion.Current, promotion.Deploying:
				explained = wasThere
			case promotion.Skipped, promotion.Superseded:
				explained = !wasThere
			case promotion.Pending, promotion.Approved:
				explained = !wasThere && (x.Outcome.Hold != promotion.NoHold || slices.ContainsFunc(x.Verdicts, func(v promotion.Verdict) bool { return v.Status != promotion.Passes }))
			}
			if !explained {
				m.t.Errorf("%s in %s is %d, which nothing explains: %s", v.Name, name, x.State, x.Words(v.Name, name))
			}
		}
	}
	for _, state := range []promotion.State{promotion.Current, promotion.Previous, promotion.Skipped, promotion.Vetoed, promotion.Failed} {
		if seen[state] == 0 {
			m.t.Errorf("no version is %d at the end: %v", state, seen)
		}
	}
}
