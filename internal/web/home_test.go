package web_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/web"
)

// TestHome: the first page says what needs its reader, what is wrong, what moves, what happened.
func TestHome(t *testing.T) {
	w := newWorld(t)
	text := words(w.shows("/"))
	for _, want := range []string{"Nothing waits for you.", "Nothing is in the way of anything.", "Nothing moves.", "Nothing was published or pushed."} {
		if !strings.Contains(text, want) {
			t.Errorf("a quiet home does not say %q: %s", want, text)
		}
	}
	w.three()
	waiting := waits("web/b", intent.WaitApproval, "needs approval")
	waiting.PlanDigest, waiting.Plan, waiting.Effective = intent.Digest{1, 2, 3, 4, 5}, intent.Plan{Action: intent.ActionReplace}, w.effective("web/b")
	w.report(waiting, intent.Report{Asset: "api", Type: "lehr.command.v1.Command", State: intent.StatePushing, Target: w.head()})
	now := time.Now()
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "db", Owner: intent.Actor{Name: "local user", Origin: "page"}, Reason: "racks", Created: now, Until: now.Add(time.Hour)}))
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "api", Owner: ann, Reason: "hers", Created: now, Until: now.Add(time.Hour)}))
	page := w.shows("/", `href="partition/shop/act/approve?asset=web%2Fb"`, `href="partition/shop?state=pushing"`, `data-at="`)
	text = words(page)
	for _, want := range []string{"What needs you 3", "yours ends soon db", "1 asset being pushed", "published shop@1", "hold ann holds it: moving racks"} {
		if !strings.Contains(text, want) {
			t.Errorf("home does not say %q: %s", want, text)
		}
	}
}

// unreadable answers nothing about one partition.
type unreadable struct {
	apipbconnect.ReportServiceClient
	apipbconnect.PartitionServiceClient
	partition string
}

var errDisk = errors.New("its disk is broken")

func (u unreadable) Why(ctx context.Context, request *apipb.WhyRequest) (*apipb.WhyResponse, error) {
	if request.Partition == u.partition {
		return nil, errDisk
	}
	return u.ReportServiceClient.Why(ctx, request)
}

func (u unreadable) GetOverview(ctx context.Context, request *apipb.GetOverviewRequest) (*apipb.GetOverviewResponse, error) {
	response, err := u.PartitionServiceClient.GetOverview(ctx, request)
	if err == nil {
		response.Partitions = append(response.Partitions, &apipb.PartitionOverview{Partition: u.partition, Problem: errDisk.Error()})
	}
	return response, err
}

// TestHomeBesideWhatCannotBeRead: one partition that cannot be read hides no other, and home does not
// say that all is well.
func TestHomeBesideWhatCannotBeRead(t *testing.T) {
	w := newWorld(t, func(options *web.Options) {
		c := *options.Client
		u := unreadable{c.Reports, c.Partitions, "bank"}
		c.Reports, c.Partitions = u, u
		options.Client = &c
	})
	w.three()
	w.report(waits("web/b", intent.WaitApproval, "needs approval"))
	w.must(w.store.AddPartition(t.Context(), "bank", "/bank/lehr.yaml", "a try", ann))
	w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: "bank", Owner: ann, Reason: "a fire", Since: time.Now()}))
	text := words(w.shows("/"))
	for _, want := range []string{"bank: its disk is broken", "published shop@1", "2 root causes"} {
		if !strings.Contains(text, want) {
			t.Errorf("home does not say %q: %s", want, text)
		}
	}
	if strings.Count(text, "bank: its disk is broken") != 2 {
		t.Errorf("each of two parts is to say it once: %s", text)
	}
}

// TestHomeOfOneOwner: the address chooses the partitions of one owner.
func TestHomeOfOneOwner(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/", `id="row:shop"`, "shop@1")
	text := w.shows("/?owner="+url.QueryEscape("nobody <b>"), "Only what is of", "No partition has all of that")
	if strings.Contains(text, `id="row:shop"`) || strings.Contains(text, "shop@1") || strings.Contains(text, "nobody <b>") {
		t.Errorf("what is of others is shown: %s", words(text))
	}
}

// TestHomeOfOneService: needs, causes, moves and events are those of the assets of the service, in the partitions that have it.
func TestHomeOfOneService(t *testing.T) {
	w := newWorld(t)
	w.two()
	w.must(w.store.AddPartition(t.Context(), "theatre", "/theatre/lehr.yaml", "a try", ann))
	destroys := waits("pay/1", intent.WaitApproval, "it destroys a ledger")
	destroys.PlanDigest, destroys.Effective = intent.Digest{1}, intent.Digest{2}
	w.report(destroys, intent.Report{Asset: "a/web", State: intent.StatePushing, Target: w.head()})
	text := words(w.shows("/", `id="row:theatre"`, `name="service"`))
	for _, want := range []string{"approval pay/1", "moving racks", "1 asset being pushed"} {
		if !strings.Contains(text, want) {
			t.Errorf("home does not say %q: %s", want, text)
		}
	}
	for service, c := range map[string]struct{ has, lacks []string }{
		"pay":   {[]string{"service pay : 1 partition.", "approval pay/1"}, []string{"moving racks", "being pushed"}},
		"shop":  {[]string{"service shop : 1 partition.", "moving racks", "1 asset being pushed"}, []string{"approval pay/1"}},
		"stage": {[]string{"service stage : 0 partitions.", "No partition has all of that", "Nothing is in the way of anything"}, []string{"pay/1", "moving racks", "shop@"}},
	} {
		page := w.shows("/?service=" + service)
		text := words(page)
		if strings.Contains(page, `id="row:theatre"`) {
			t.Errorf("%s is not in theatre", service)
		}
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("home of %s does not say %q: %s", service, want, text)
			}
		}
		for _, lack := range c.lacks {
			if strings.Contains(text, lack) {
				t.Errorf("home of %s says %q: %s", service, lack, text)
			}
		}
	}
	w.shows("/?service=shop", `href="partition/shop/group/shop"`)
	w.shows("/?partition=theatre", `id="row:theatre"`, "Nothing waits for you")
}

// TestHomeOfOneEnvironment: needs and events are those of the environment and of its assets, in the partitions that have it.
func TestHomeOfOneEnvironment(t *testing.T) {
	w := newWorld(t)
	w.deliver()
	w.must(w.store.AddPartition(t.Context(), "theatre", "/theatre/lehr.yaml", "a try", ann))
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "web/test", Owner: ann, Reason: "racks", Created: time.Now(), Until: time.Now().Add(time.Hour)}))
	text := words(w.shows("/", `<option value="production">`, `id="row:theatre"`))
	for _, want := range []string{"1.1.0 of web in production", "held by ann: racks"} {
		if !strings.Contains(text, want) {
			t.Errorf("home does not say %q: %s", want, text)
		}
	}
	page := w.shows("/?environment=production", `<option value="production" selected>`, "1.1.0 of web in production", "environment <strong>")
	if strings.Contains(page, "racks") || strings.Contains(page, `id="row:theatre"`) {
		t.Errorf("home of production has what is of test: %s", words(page))
	}
	page = w.shows("/?environment=test", "held by ann: racks")
	if strings.Contains(page, "1.1.0 of web in production") {
		t.Errorf("home of test has what is of production: %s", words(page))
	}
	w.shows("/?environment=moon", "No partition has all of that")
}

// TestInboxHasDeliveries: a version that waits for a person's word is in the inbox and on the
// first page, with the form to give it.
func TestInboxHasDeliveries(t *testing.T) {
	w := newWorld(t)
	w.deliver()
	for _, path := range []string{"/inbox", "/"} {
		w.shows(path, "1.1.0 of web in production", `href="partition/shop/act/delivery-approve?application=web&amp;constraint=people&amp;digest=sha256%3Ab&amp;environment=production&amp;version=1.1.0"`)
	}
}

// TestHomeCountsAStopOfAllOnce: what holds up several partitions is one root cause on the first page.
func TestHomeCountsAStopOfAllOnce(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.must(w.store.AddPartition(t.Context(), "bank", "/bank/lehr.yaml", "a try", ann))
	w.must(w.store.SetStop(t.Context(), intent.Stop{Owner: ann, Reason: "a fire <b>", Since: time.Now()}))
	text := words(w.shows("/", "a fire &lt;b&gt;"))
	for _, want := range []string{"2 root causes; ", "in 2 partitions", "all of bank", "all of shop"} {
		if !strings.Contains(text, want) {
			t.Errorf("home does not say %q: %s", want, text)
		}
	}
	if strings.Contains(text, "which waits for") {
		t.Errorf("home tells of a symptom: %s", text)
	}
}
