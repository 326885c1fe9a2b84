package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testDeliveries(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Versions", func(t *testing.T) { versionsComeAndGo(newWorld(t, open)) })
	t.Run("Said", func(t *testing.T) { saidIsKept(newWorld(t, open)) })
	t.Run("Roles", func(t *testing.T) { votesHaveRoles(newWorld(t, open)) })
	t.Run("Promotion", func(t *testing.T) { promotionsAreWhole(newWorld(t, open)) })
	t.Run("Verification", func(t *testing.T) { verificationsHoldPushes(newWorld(t, open)) })
	t.Run("Releases", func(t *testing.T) { releasesAreNumbered(newWorld(t, open)) })
	t.Run("Collected", func(t *testing.T) { deliveriesAreCollected(newWorld(t, open)) })
}

func version(name, digest string) intent.Version {
	return intent.Version{VersionName: intent.VersionName{Name: name, Digest: digest}}
}

// lists fails the test unless the versions of a source are these, as "name@digest", those that
// are gone with a "-" before.
func (w *world) lists(source string, want ...string) {
	w.t.Helper()
	versions, err := w.Versions(w.t.Context(), shop, source)
	w.must(err)
	var have []string
	for _, v := range versions {
		text := v.Name + "@" + v.Digest
		if !v.Gone.IsZero() {
			text = "-" + text
		}
		if v.Seen.IsZero() {
			w.t.Errorf("%s: nobody knows since when it is listed", text)
		}
		have = append(have, text)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		w.t.Errorf("versions of %s:\n%s", source, diff)
	}
}

// versionsRevision fails the test where the revision of a source's versions changed, or did not, since
// another one, and returns it.
func (w *world) versionsRevision(source, since string, want bool) string {
	w.t.Helper()
	revision, err := w.VersionsRevision(w.t.Context(), shop, source)
	w.must(err)
	if (revision != since) != want {
		w.t.Errorf("the revision of %s was %q and is %q; changed: want %t", source, since, revision, want)
	}
	return revision
}

func versionsComeAndGo(w *world) {
	ctx := w.t.Context()
	w.lists("images")
	w.versionsRevision("images", "", false)
	one := version("1.0", "a")
	one.Commit, one.Build, one.Created = "0123abc", 7, noon.Add(time.Hour)
	w.must(w.SaveVersions(ctx, w.lease, "images", []intent.Version{one, version("1.1", "b")}))
	w.must(w.SaveVersions(ctx, w.lease, "debs", []intent.Version{version("1.1", "x")}))
	w.lists("images", "1.0@a", "1.1@b")
	first, err := w.Versions(ctx, shop, "images")
	w.must(err)
	images := w.versionsRevision("images", "", true)
	debs := w.versionsRevision("debs", "", true)
	w.must(w.SaveVersions(ctx, w.lease, "images", []intent.Version{one, version("1.1", "b")}))
	w.versionsRevision("images", images, false)
	one.Seen = first[0].Seen
	if diff := cmp.Diff(one, first[0]); diff != "" {
		w.t.Errorf("the version came back as another:\n%s", diff)
	}
	// A tag that moved is another version; the first one's row stays.
	w.must(w.SaveVersions(ctx, w.lease, "images", []intent.Version{one, version("1.1", "c")}))
	w.lists("images", "1.0@a", "-1.1@b", "1.1@c")
	images = w.versionsRevision("images", images, true)
	w.must(w.SaveVersions(ctx, w.lease, "images", nil))
	images = w.versionsRevision("images", images, true)
	w.lists("images", "-1.0@a", "-1.1@b", "-1.1@c")
	w.must(w.SaveVersions(ctx, w.lease, "images", []intent.Version{one}))
	w.lists("images", "1.0@a", "-1.1@b", "-1.1@c")
	images = w.versionsRevision("images", images, true)
	one.Message = "a message that somebody wrote later"
	w.must(w.SaveVersions(ctx, w.lease, "images", []intent.Version{one}))
	w.versionsRevision("images", images, true)
	w.lists("debs", "1.1@x")
	w.versionsRevision("debs", debs, false)
	again, err := w.Versions(ctx, shop, "images")
	w.must(err)
	if !again[0].Seen.Equal(first[0].Seen) {
		w.t.Errorf("what came back is seen since %s, want %s", again[0].Seen, first[0].Seen)
	}
	stale := w.lease
	w.lease, err = w.Acquire(ctx, shop, "server-2")
	w.must(err)
	w.refused(w.SaveVersions(ctx, stale, "images", nil), fault.Conflict)
}

func saying(kind intent.DeliveryKind, environment, name string) intent.DeliveryRecord {
	return intent.DeliveryRecord{
		Partition: shop, Application: "web", Kind: kind, Environment: environment, Version: intent.VersionName{Name: name, Digest: "d"}, By: alice, Reason: "seen", Act: intent.ActPin,
	}
}

var operates = store.DeliveryAuthority{Partition: shop, AnyOf: []intent.Role{intent.Operator}}

func (w *world) rows(application string, cursor uint64) []intent.DeliveryRecord {
	w.t.Helper()
	list, err := w.DeliveryRecords(w.t.Context(), shop, store.DeliveryFilter{Application: application, After: cursor})
	w.must(err)
	return list
}

func saidIsKept(w *world) {
	ctx := w.t.Context()
	changed := w.Changed(shop)
	act := saying(intent.DeliveryAct, "test", "1.0")
	act.Had, act.Newest, act.Constraint = intent.VersionName{Name: "0.9"}, intent.VersionName{Name: "1.1", Digest: "e"}, "people"
	first, err := w.RecordDelivery(ctx, act, operates)
	w.must(err)
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		w.t.Error("nobody was told that somebody said something")
	}
	if first.Number == 0 || first.At.IsZero() {
		w.t.Errorf("it has the number %d and the time %s", first.Number, first.At)
	}
	second, err := w.RecordDelivery(ctx, saying(intent.DeliveryResult, "test", "1.0"), operates)
	w.must(err)
	other := saying(intent.DeliveryAct, "", "1.0")
	other.Application = "other"
	_, err = w.RecordDelivery(ctx, other, operates)
	w.must(err)
	if diff := cmp.Diff([]intent.DeliveryRecord{first, second}, w.rows("web", 0)); diff != "" {
		w.t.Errorf("rows of web:\n%s", diff)
	}
	if diff := cmp.Diff([]intent.DeliveryRecord{second}, w.rows("web", first.Number)); diff != "" {
		w.t.Errorf("rows after the first:\n%s", diff)
	}
	everything, err := w.DeliveryRecords(ctx, shop, store.DeliveryFilter{After: first.Number, Newest: true, Limit: 1})
	w.must(err)
	if len(everything) != 1 || everything[0].Application != "other" {
		w.t.Errorf("the newest row of all applications is %+v", everything)
	}
	// What rests on less than was said is refused.
	resting := operates
	resting.Said = &first.Number
	_, err = w.RecordDelivery(ctx, act, resting)
	w.refused(err, fault.Conflict)
	resting.Said = &second.Number
	_, err = w.RecordDelivery(ctx, act, resting)
	w.must(err)
	for _, kind := range []intent.DeliveryKind{intent.DeliveryAdmission, intent.DeliveryPromotion, intent.DeliveryStanding, "dance"} {
		_, err := w.RecordDelivery(ctx, saying(kind, "test", "1.0"), operates)
		w.refused(err, fault.Invalid)
	}
	elsewhere := saying(intent.DeliveryAct, "test", "1.0")
	elsewhere.Partition = "nowhere"
	_, err = w.RecordDelivery(ctx, elsewhere, operates)
	w.refused(err, fault.NotFound)
	w.must(w.VerifyAudit(ctx, shop))
}

// releasesAreNumbered, by line; what rests on a line's rows, or on those of another application, is refused when
// there are newer ones.
func releasesAreNumbered(w *world) {
	ctx := w.t.Context()
	made := func(line string, may store.DeliveryAuthority) (intent.DeliveryRecord, error) {
		return w.RecordDelivery(ctx, intent.DeliveryRecord{
			Partition: shop, Application: line, Kind: intent.DeliveryRelease, By: alice, Reason: "the week", Immediate: true,
			Versions: map[string]intent.VersionName{"shop/web": {Name: "1.0", Digest: "d"}, "theatre/seats": {Name: "2.0"}},
		}, may)
	}
	elsewhere := w.Changed(theatre)
	first, err := made("main", operates)
	w.must(err)
	select {
	case <-elsewhere:
	case <-time.After(30 * time.Second):
		w.t.Error("the partition of another application of the release was told nothing")
	}
	second, err := made("main", operates)
	w.must(err)
	other, err := made("other", operates)
	w.must(err)
	if first.Release != 1 || second.Release != 2 || other.Release != 1 {
		w.t.Errorf("releases have the numbers %d, %d and %d, want 1, 2 and 1", first.Release, second.Release, other.Release)
	}
	if diff := cmp.Diff([]intent.DeliveryRecord{first, second}, w.rows("main", 0)); diff != "" {
		w.t.Errorf("rows of the line:\n%s", diff)
	}
	records := w.audited(shop)
	if last := records[len(records)-1]; last.Verb != "delivery-release" || last.Detail != "release 1, shop/web 1.0, theatre/seats 2.0" {
		w.t.Errorf("the audit says %+v", last)
	}
	// Two people at once: the second does not know what the first did.
	stale := operates
	stale.Said = &first.Number
	_, err = made("main", stale)
	w.refused(err, fault.Conflict)
	w.created(`{"test":{"version":"0.9"}}`)
	step := w.promotes("1", "1.0", 0)
	step.Rests = []store.DeliveryRest{{Partition: shop, Application: "main", Number: first.Number}}
	w.refused(w.Promote(ctx, w.lease, step), fault.Conflict)
	step = w.promotes("1", "1.0", 0)
	step.Rests = []store.DeliveryRest{{Partition: shop, Application: "main", Number: second.Number}, {Partition: theatre, Application: "seats", Number: 0}}
	w.must(w.Promote(ctx, w.lease, step))
}

func votesHaveRoles(w *world) {
	w.policy(
		intent.Grant{Subject: "user:ann", Role: intent.Approver, Partition: shop}, intent.Grant{Subject: "user:ann", Role: intent.Editor, Partition: shop},
		intent.Grant{Subject: "user:bob", Role: intent.Editor, Partition: shop}, intent.Grant{Subject: "user:eve", Role: intent.Approver, Partition: theatre},
	)
	vote := func(who string) (intent.DeliveryRecord, error) {
		record := saying(intent.DeliveryVote, "test", "1.0")
		record.By, record.Roles = intent.Actor{Name: who}, []intent.Role{intent.Admin} // That somebody says so is no role.
		return w.RecordDelivery(w.contextOf(w.token(who, who, nil)), record, store.DeliveryAuthority{Partition: shop, AnyOf: []intent.Role{intent.Approver, intent.Operator}})
	}
	record, err := vote("ann")
	w.must(err)
	if diff := cmp.Diff([]intent.Role{intent.Viewer, intent.Editor, intent.Approver}, record.Roles); diff != "" {
		w.t.Errorf("roles of a vote:\n%s", diff)
	}
	for _, who := range []string{"bob", "eve"} {
		_, err := vote(who)
		w.refused(err, fault.Denied)
	}
}

// promotes is a step that sets /test/version of the document knobs.
func (w *world) promotes(base, name string, said uint64) store.PromotionStep {
	w.t.Helper()
	revision := w.partition(shop).Revision
	return store.PromotionStep{
		Home: shop, Application: "web", Revision: revision, HomeRevision: revision, Said: said, Document: knobs,
		Edit: &document.Edit{Base: base, Operations: []document.Operation{{Path: "/test/version", Value: fmt.Appendf(nil, "%q", name)}}, Reason: "let in"},
		Records: []intent.DeliveryRecord{
			{Kind: intent.DeliveryAdmission, Environment: "test", Version: intent.VersionName{Name: name}, Verdicts: []intent.DeliveryVerdict{{Constraint: "people", Status: "passes", Text: "people let it in"}}},
			{Kind: intent.DeliveryPromotion, Environment: "test", Version: intent.VersionName{Name: name}, Why: "let-in"},
		},
	}
}

func promotionsAreWhole(w *world) {
	ctx := w.t.Context()
	w.created(`{"test":{"version":"0.9"}}`)
	step := w.promotes("1", "1.0", 0)
	w.must(w.Promote(ctx, w.lease, step))
	// The answer was lost, and it is asked again: it is done once.
	w.must(w.Promote(ctx, w.lease, step))
	rows := w.rows("web", 0)
	want := []intent.DeliveryRecord{step.Records[0], step.Records[1]}
	want[1].Revision = "2"
	if diff := cmp.Diff(want, rows, cmpopts.IgnoreFields(intent.DeliveryRecord{}, "Partition", "Application", "Number", "At")); diff != "" {
		w.t.Errorf("rows:\n%s", diff)
	}
	doc, err := w.Document(ctx, shop, knobs, "")
	w.must(err)
	if string(doc.Content) != `{"test":{"version":"1.0"}}` || doc.Revision.By.Name != "delivery/shop/web" {
		w.t.Errorf("the document is %s, by %s", doc.Content, doc.Revision.By.Name)
	}
	refused := func(what string, step store.PromotionStep) {
		w.t.Helper()
		w.refused(w.Promote(ctx, w.lease, step), fault.Conflict)
		if now := w.rows("web", 0); len(now) != len(rows) {
			w.t.Errorf("%s: refused, and left %d rows", what, len(now)-len(rows))
		}
	}
	refused("on a revision that is not the newest", w.promotes("1", "1.1", 0))
	moved := w.promotes("2", "1.1", 0)
	w.must(w.SetHold(ctx, shop, intent.Hold{Asset: "a", Owner: bob}))
	refused("after the partition moved", moved)
	record, err := w.RecordDelivery(ctx, saying(intent.DeliveryAct, "test", "1.0"), operates)
	w.must(err)
	rows = w.rows("web", 0)
	refused("after a person said something", w.promotes("2", "1.1", 0))
	home := w.promotes("2", "1.1", record.Number)
	home.HomeRevision--
	refused("after the home moved", home)
	home.Home = "nowhere"
	refused("from no partition", home)
	stale := w.lease
	w.lease, err = w.Acquire(ctx, shop, "server-2")
	w.must(err)
	late := w.promotes("2", "1.1", record.Number)
	w.refused(w.Promote(ctx, stale, late), fault.Conflict)
	late.Edit, late.Document = nil, ""
	w.refused(w.Promote(ctx, stale, late), fault.Conflict)
	w.must(w.Promote(ctx, w.lease, late))
	if now := w.rows("web", record.Number); len(now) != 2 {
		w.t.Errorf("rows without an edit: %v", now)
	}
	w.must(w.VerifyAudit(ctx, shop))
}

func deliveriesAreCollected(w *world) {
	ctx := w.t.Context()
	w.created(`{"test":{"version":"0.9"}}`)
	w.must(w.SaveVersions(ctx, w.lease, "images", []intent.Version{version("1.0", ""), version("1.1", ""), version("2.0", "")}))
	w.must(w.Promote(ctx, w.lease, w.promotes("1", "1.0", 0)))
	pin := saying(intent.DeliveryAct, "test", "1.0")
	pin.Version.Digest = ""
	record, err := w.RecordDelivery(ctx, pin, operates)
	w.must(err)
	w.must(w.SaveVersions(ctx, w.lease, "images", []intent.Version{version("2.0", "")}))
	collect := func(now time.Time) {
		w.t.Helper()
		_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, History: 24 * time.Hour}, now)
		w.must(err)
	}
	later := time.Now().Add(100 * 24 * time.Hour) // The store's own clock says when rows came.
	revision := w.versionsRevision("images", "", true)
	collect(later)
	w.versionsRevision("images", revision, true)
	w.lists("images", "-1.0@", "2.0@")
	if rows := w.rows("web", 0); len(rows) != 2 { // The promotion that put it there is the newest, and the pin stays.
		w.t.Errorf("rows while the environment has the version: %v", rows)
	}
	w.must(w.Promote(ctx, w.lease, w.promotes("2", "2.0", record.Number)))
	collect(time.Now())
	if rows := w.rows("web", 0); len(rows) != 4 {
		w.t.Errorf("rows that are young: %v", rows)
	}
	collect(later)
	rows := w.rows("web", 0)
	if len(rows) != 3 || rows[0].Kind != intent.DeliveryAct || rows[1].Version.Name != "2.0" {
		w.t.Errorf("rows once something else came: %v", rows)
	}
	w.lists("images", "-1.0@", "2.0@") // The pin names it.
}

// delivered is an act of anybody who operates the shop.
func delivered(ctx context.Context, w *world) error {
	_, err := w.RecordDelivery(ctx, saying(intent.DeliveryAct, "test", "1.0"), operates)
	return err
}

// verificationsHoldPushes: a verification is one row of its environment, raises the revision as it
// begins, goes on and ends, and does not begin beside a push of its assets.
func verificationsHoldPushes(w *world) {
	ctx := w.t.Context()
	w.publish(entry("a", "x"), entry("b", "x"))
	v := intent.Verification{
		Partition: shop, Home: shop, Application: "web", Environment: "test", Name: "smoke", Version: intent.VersionName{Name: "1.0"}, Content: intent.Sum("c"),
		Head: at(1), Assets: []intent.AssetID{"a"}, Epoch: w.lease.Epoch, Began: noon, Until: noon.Add(time.Minute),
	}
	step := func() store.PromotionStep {
		return store.PromotionStep{Home: shop, Application: "web", Revision: w.revision(), HomeRevision: w.revision()}
	}
	begins := step()
	begins.Verify = &v
	before := w.revision()
	w.must(w.Promote(ctx, w.lease, begins))
	if w.revision() == before {
		w.t.Error("a verification that begins does not raise the revision")
	}
	w.refused(w.Promote(ctx, w.lease, begins), fault.Conflict)
	list, err := w.Verifications(ctx, shop)
	w.must(err)
	if diff := cmp.Diff([]intent.Verification{v}, list); diff != "" {
		w.t.Errorf("verifications under way:\n%s", diff)
	}
	another := v
	another.Name = "load"
	second := step()
	second.Verify = &another
	w.refused(w.Promote(ctx, w.lease, second), fault.Conflict)
	newer := v
	newer.Head.Sequence++
	goesOn := step()
	goesOn.Verify = &newer
	before = w.revision()
	w.must(w.Promote(ctx, w.lease, goesOn))
	if list, err = w.Verifications(ctx, shop); err != nil || len(list) != 1 || list[0].Head != newer.Head || w.revision() == before {
		w.t.Errorf("with a newer head: %+v, %v", list, err)
	}
	wrong := step()
	wrong.Verified = &another
	w.refused(w.Promote(ctx, w.lease, wrong), fault.Conflict)
	ends := step()
	ends.Verified = &newer
	before = w.revision()
	w.must(w.Promote(ctx, w.lease, ends))
	if list, err = w.Verifications(ctx, shop); err != nil || len(list) != 0 || w.revision() == before {
		w.t.Errorf("after its end: %+v, %v", list, err)
	}
	w.refused(w.EndVerification(ctx, w.lease, v), fault.Conflict)
	w.admitted(w.admission("p1", "a", at(1)))
	beside := step()
	beside.Verify = &v
	w.refused(w.Promote(ctx, w.lease, beside), fault.Conflict)
	other := v
	other.Environment, other.Assets = "production", []intent.AssetID{"b"}
	apart := step()
	apart.Verify = &other
	w.must(w.Promote(ctx, w.lease, apart))
	stale := w.lease
	w.lease, err = w.Acquire(ctx, shop, "server-2")
	w.must(err)
	w.refused(w.EndVerification(ctx, stale, other), fault.Conflict)
	w.must(w.EndVerification(ctx, w.lease, other))
	last := step()
	last.Verify = &other
	w.must(w.Promote(ctx, w.lease, last))
	w.must(w.RemovePartition(ctx, shop, "a try", bob))
	if list, err = w.Verifications(ctx, shop); err != nil || len(list) != 0 {
		w.t.Errorf("of a partition that was removed: %+v, %v", list, err)
	}
}
