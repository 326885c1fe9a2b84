package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
	"lehr.dev/internal/web"
)

// deliver has the partition deliver web to test, and by a judgement to production; changes are made to its policy.
func (w *world) deliver(changes ...func(*intentpb.Policy)) {
	w.Helper()
	ctx := w.Context()
	_, err := w.store.CreateDocument(ctx, "shop", "knobs", []byte(`{"test":"1.0.0","production":"1.0.0"}`), "a try", ann)
	w.must(err)
	set := schema.Builtin()
	entry := func(id intent.AssetID, payload proto.Message) store.Entry {
		packed, err := set.Pack(payload)
		w.must(err)
		body, digest, err := set.Encode(intent.Asset{ID: id, Payload: packed})
		w.must(err)
		return store.Entry{Asset: id, Body: body, Member: intent.Member{Asset: id, Type: packed.Type, Digest: digest, Effective: digest, Since: 1}}
	}
	environment := func(name string, constraints ...*intentpb.DeliveryConstraint) *intentpb.DeliveryEnvironment {
		return &intentpb.DeliveryEnvironment{Name: name, Document: "knobs", Pointer: "/" + name, Assets: `id == "web/` + name + `"`, Constraints: constraints, Attempts: 3}
	}
	written := &intentpb.Policy{Deliveries: []*intentpb.Delivery{{
		Name: "web", Versions: "images", Order: &intentpb.VersionOrder{By: intentpb.VersionOrder_BY_SEMVER},
		Environments: []*intentpb.DeliveryEnvironment{
			environment("test"),
			environment("production", &intentpb.DeliveryConstraint{Name: "people", Kind: &intentpb.DeliveryConstraint_Judgement{Judgement: &intentpb.Judgement{Quorum: 1}}}),
		},
	}}}
	for _, change := range changes {
		change(written)
	}
	policy := entry(intent.PolicyAsset, written)
	delta := []store.Entry{policy}
	for _, name := range []intent.AssetID{"web/production", "web/test", "deployment/shop/cart"} {
		delta = append(delta, entry(name, &commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}, Input: "1.0.0"}))
	}
	w.must(w.store.Unstage(ctx, w.lease))
	w.must(w.store.Stage(ctx, w.lease, intent.IncarnationID{Partition: "shop"}, delta))
	_, err = w.store.Publish(ctx, w.lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: "shop", Sequence: 1}, Parent: intent.IncarnationID{Partition: "shop"}, Schema: set.Digest(), Created: time.Now(), Author: ann,
		Added: len(delta), Count: len(delta), Policy: policy.Member.Digest,
	})
	w.must(err)
	w.must(w.store.SaveVersions(ctx, w.lease, "images", []intent.Version{
		{VersionName: intent.VersionName{Name: "1.0.0", Digest: "sha256:a"}}, {VersionName: intent.VersionName{Name: "1.1.0", Digest: "sha256:b"}},
	}))
}

// TestDelivery: the board says which version is where and what it waits for, and each act on it
// says first what it would change.
func TestDelivery(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/partition/shop/delivery", "delivers no application")
	w = newWorld(t)
	w.deliver()
	board := words(w.shows("/partition/shop/delivery", `href="partition/shop/version/1.1.0?application=web&amp;digest=sha256%3Ab"`))
	for _, want := range []string{"environment has since good", "0 of 1 assets", "version test production seen", "1.1.0 approved"} {
		if !strings.Contains(board, want) {
			t.Errorf("the board does not say %q: %s", want, board)
		}
	}
	version := words(w.shows("/partition/shop/version/1.1.0?application=web&digest=sha256:b", "act/delivery-approve?", "act/delivery-force?"))
	if !strings.Contains(version, "people waits") || !strings.Contains(version, "0 of 1") {
		t.Errorf("the version's page says %s", version)
	}
	w.shows("/partition/shop/environment/production?application=web", "1.1.0", "people")

	approve := "/partition/shop/act/delivery-approve?application=web&environment=production&version=1.1.0&digest=sha256:b&constraint=people"
	if text := words(w.shows(approve)); !strings.Contains(text, "Approve 1.1.0 of web in production (people)") || !strings.Contains(text, "would get production") {
		t.Errorf("the form of an approval says %s", text)
	}
	// A link of a notification opens this form, for that version alone; to open it changes nothing.
	links := &web.Links{Base: &url.URL{Scheme: "https", Host: "lehr.example.com"}}
	linked := links.Delivery("shop", deliveryhistory.Event{
		Kind: deliveryhistory.Waiting, Application: "web", Environment: "production", Version: intent.VersionName{Name: "1.1.0", Digest: "sha256:b"}, Constraint: "people",
	})
	form := w.shows(strings.TrimPrefix(linked, "https://lehr.example.com"), `method="post"`)
	if !strings.Contains(words(form), "Approve 1.1.0 of web in production (people)") {
		t.Errorf("the link of a notification shows %s", words(form))
	}
	if rows, err := w.store.DeliveryRecords(t.Context(), "shop", store.DeliveryFilter{}); err != nil || len(rows) != 0 {
		t.Errorf("opening a link left %d rows, %v", len(rows), err)
	}
	w.shows(strings.TrimPrefix(links.Delivery("shop", deliveryhistory.Event{Kind: deliveryhistory.Promoted, Application: "web", Environment: "production"}), "https://lehr.example.com"), "people")
	w.shows(strings.TrimPrefix(links.Asset("shop", "web/test"), "https://lehr.example.com"), "web/test")
	w.shows(strings.TrimPrefix(links.Partition("shop"), "https://lehr.example.com"), "shop")
	w.acts(approve, "reason", "tried it")
	pause := "/partition/shop/act/delivery-pause?application=web&environment=test"
	w.acts(pause, "reason", "the fair")
	w.shows("/partition/shop/delivery", "paused")
	rows, err := w.store.DeliveryRecords(t.Context(), "shop", store.DeliveryFilter{Application: "web", Limit: 100})
	w.must(err)
	var said []string
	for _, row := range rows {
		said = append(said, string(row.Kind)+" "+row.Act+" "+row.Environment+" "+row.Version.Digest+" "+row.Reason+" "+row.By.Origin)
	}
	if got := strings.Join(said, "\n"); got != "vote  production sha256:b tried it page\nact pause test  the fair page" {
		t.Errorf("what was said is\n%s", got)
	}
	// What makes no sense is refused in place of the form, and when it is sent.
	back := "/partition/shop/act/delivery-roll-back?application=web&environment=test&version=1.1.0&digest=sha256:b"
	if text := w.shows(back); strings.Contains(text, `method="post"`) || !strings.Contains(text, `class="notice bad"`) {
		t.Errorf("a roll back to what never was there shows %s", words(text))
	}
	values := w.form(pause)
	values.Set("reason", "x")
	if status, text := w.send(back, values); status == http.StatusOK {
		t.Errorf("it was taken: %s", words(text))
	}
}

// TestTasksOfDelivery: a task says when it runs, and has a form that has it run again, which shows that first.
func TestTasksOfDelivery(t *testing.T) {
	w := newWorld(t)
	w.deliver(func(p *intentpb.Policy) {
		d := p.Deliveries[0]
		d.Environments[1].Constraints = append(d.Environments[1].Constraints, &intentpb.DeliveryConstraint{
			Name: "migrated", Kind: &intentpb.DeliveryConstraint_Completed{Completed: &intentpb.CompletedTask{Task: "migrate"}},
		})
		d.Environments = append(d.Environments, &intentpb.DeliveryEnvironment{
			Name: "migrate", Document: "knobs", Pointer: "/migrate", Assets: `id == "web/migrate"`, Task: &intentpb.DeliveryTask{ParametersPointer: "/parameters"},
			OnBad: intentpb.DeliveryEnvironment_ON_BAD_STAY,
		})
	})
	board := words(w.shows("/partition/shop/delivery"))
	if !strings.Contains(board, "migrate task nothing") || !strings.Contains(board, "task before production") || strings.Contains(board, "version test production migrate") {
		t.Errorf("the board: %s", board)
	}
	_, err := w.store.RecordDelivery(w.Context(), intent.DeliveryRecord{
		Partition: "shop", Application: "web", Kind: intent.DeliveryAct, Act: intent.ActForce, Environment: "migrate", Constraint: "run",
		Version: intent.VersionName{Name: "1.1.0", Digest: "sha256:b"}, Reason: "a drill", By: ann,
	}, store.DeliveryAuthority{Partition: "shop", AnyOf: []intent.Role{intent.Operator}})
	w.must(err)
	partition, err := w.store.Partition(w.Context(), "shop")
	w.must(err)
	w.must(w.store.Promote(w.Context(), w.lease, store.PromotionStep{Home: "shop", Application: "web", HomeRevision: partition.Revision, Revision: partition.Revision, Said: 1, Records: []intent.DeliveryRecord{
		{Kind: intent.DeliveryFound, Environment: "migrate", Version: intent.VersionName{Name: "1.1.0"}, By: ann},
	}}))
	board = words(w.shows("/partition/shop/delivery", "act/delivery-restart?application=web&amp;constraint=run&amp;digest=sha256%3Ab&amp;environment=migrate&amp;version=1.1.0"))
	if !strings.Contains(board, "Run it again") {
		t.Errorf("the board: %s", board)
	}
	form := words(w.shows("/partition/shop/act/delivery-restart?application=web&constraint=run&digest=sha256:b&environment=migrate&version=1.1.0"))
	if !strings.Contains(form, "a run for 1.1.0") {
		t.Errorf("the form: %s", form)
	}
}

// TestAVerdictIsHandedIn for a constraint that is decided outside. It is no approval, so none is offered.
func TestAVerdictIsHandedIn(t *testing.T) {
	w := newWorld(t)
	w.deliver(func(policy *intentpb.Policy) {
		production := policy.Deliveries[0].Environments[1]
		production.Constraints = append(production.Constraints, &intentpb.DeliveryConstraint{Name: "outside", Kind: &intentpb.DeliveryConstraint_Outside{Outside: &intentpb.OutsideVerdict{}}})
	})
	good := "act/delivery-verdict-good?application=web&amp;constraint=outside&amp;digest=sha256%3Ab&amp;environment=production&amp;version=1.1.0"
	page := w.shows("/partition/shop/version/1.1.0?application=web&digest=sha256:b", "outside: it is good", "outside: it is bad", good, "act/delivery-approve?application=web&amp;constraint=people")
	if strings.Contains(page, "act/delivery-approve?application=web&amp;constraint=outside") {
		t.Error("it offers to approve what is decided outside")
	}
	path := "/partition/shop/" + strings.ReplaceAll(good, "&amp;", "&")
	w.shows(path, "What waits for it goes on")
	w.acts(path, "reason", "112 of 112 passed")
	rows, err := w.store.DeliveryRecords(t.Context(), "shop", store.DeliveryFilter{Application: "web"})
	w.must(err)
	if len(rows) != 1 || rows[0].Kind != intent.DeliveryResult || !rows[0].Good || rows[0].Constraint != "outside" || rows[0].Version.Name != "1.1.0" || rows[0].Reason != "112 of 112 passed" {
		t.Errorf("stored are %+v", rows)
	}
	if page := w.shows("/partition/shop/version/1.1.0?application=web&digest=sha256:b"); strings.Contains(page, "outside: it is good") {
		t.Error("it asks for a result that it has")
	}
	values := w.form(strings.Replace(path, "constraint=outside", "constraint=none", 1))
	values.Set("reason", "x")
	if status, _ := w.send(strings.Replace(path, "constraint=outside", "constraint=none", 1), values); status == http.StatusOK {
		t.Error("a result of nothing is taken")
	}
}

// TestAwaitedVerificationsAreOffered in the row of the environment that has the version.
func TestAwaitedVerificationsAreOffered(t *testing.T) {
	view := web.ViewEnvironment("shop", &apipb.DeliveredEnvironment{
		Application: "web", Name: "staging", Has: &apipb.VersionName{Name: "1.1.0", Digest: "sha256:b"}, Verify: []string{"smoke"},
	})
	var texts []string
	for _, act := range view.Acts {
		texts = append(texts, act.Text)
	}
	if !slices.Contains(texts, "smoke: it is good") || !slices.Contains(texts, "smoke: it is bad") {
		t.Errorf("it offers %v", texts)
	}
}

// TestBoard: the applications of all partitions stand with what each environment has, and who is asked.
func TestBoard(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/board", "No partition delivers an application")
	w = newWorld(t)
	w.deliver()
	board := words(w.shows("/board", `href="partition/shop/delivery?application=web"`, `href="partition/shop/environment/production?application=web"`))
	for _, want := range []string{"web shop", "test nothing gets 1.1.0", "production nothing 1.1.0 asks people"} {
		if !strings.Contains(board, want) {
			t.Errorf("it does not say %q: %s", want, board)
		}
	}
	if board := words(w.shows("/board?environment=production", "production")); strings.Contains(board, "gets 1.1.0") {
		t.Errorf("of production alone it says %s", board)
	}
	w.shows("/board?environment=none", "No application is delivered there")
	w.shows("/board?owner=nobody", "No application is delivered there")
	for i := range 100 {
		w.delivering(intent.PartitionID(fmt.Sprintf("part-%03d", i)))
	}
	w.shows("/board", "part-099", `href="board?from=100"`)
	if last := w.shows("/board?from=100", "shop", "first page"); strings.Contains(last, "part-099") {
		t.Error("an application is on two pages")
	}
}

// TestChangelog: what lies between two versions, or what environments have, with what the source says of them.
func TestChangelog(t *testing.T) {
	w := newWorld(t)
	w.deliver()
	w.must(w.store.SaveVersions(t.Context(), w.lease, "images", []intent.Version{
		{VersionName: intent.VersionName{Name: "1.0.0", Digest: "sha256:a"}},
		{VersionName: intent.VersionName{Name: "1.1.0", Digest: "sha256:b"}, Author: "Ann", Message: "cart " + hostile[0]},
		{VersionName: intent.VersionName{Name: "1.2.0", Digest: "sha256:c"}, Author: "Bo", Message: "form"},
	}))
	w.shows("/partition/shop/delivery", `href="partition/shop/changelog?application=web&amp;from=production&amp;to=test"`)
	w.shows("/partition/shop/changelog?application=web", "Compare", `<option value="production">`, `<option value="1.1.0">`)
	text := w.shows("/partition/shop/changelog?application=web&from=1.0.0&to=1.2.0", "Bo", "form", "lehr delivery changes 1.0.0 1.2.0")
	if said := words(text); !strings.Contains(said, "Ann cart "+hostile[0]) || strings.Contains(said, "goes away") {
		t.Errorf("it says %s", said)
	}
	if said := words(w.shows("/partition/shop/changelog?application=web&from=1.2.0&to=1.1.0")); !strings.Contains(said, "which is older: what is listed goes away") {
		t.Errorf("back it says %s", said)
	}
	w.shows("/partition/shop/changelog?application=web&from=1.0.0&to=9.9.9", "9.9.9", `class="notice bad"`)
	if status, _ := w.get("/partition/shop/changelog?application=none&from=1.0.0&to=1.1.0"); status != http.StatusNotFound {
		t.Errorf("an application that there is not is answered %d", status)
	}
}
