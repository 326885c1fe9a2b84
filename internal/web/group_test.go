package web_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/notify"
)

// grouped is an asset of an instance of a service.
func (w *world) grouped(id intent.AssetID, service, instance string, after ...string) intent.Asset {
	w.Helper()
	return w.ofGroup(w.command(id, "x", after...), service, instance)
}

// two services: all of shop's instance a waits for the held db, pay is in sync.
func (w *world) two() {
	w.Helper()
	w.publish(0, w.grouped("db", "shop", ""), w.grouped("a/api", "shop", "a", "db"), w.grouped("a/web", "shop", "a", "a/api"),
		w.grouped("b/web", "shop", "b"), w.grouped("pay/1", "pay", "eu"))
	hold := waits("db", intent.WaitHold, "ann holds it: moving racks")
	hold.Waiting[0].Owner, hold.Passed = "ann", []string{"stop", "budget"}
	w.report(hold, waits("a/api", intent.WaitOrder, "must come after db", "db"), waits("a/web", intent.WaitOrder, "must come after a/api", "a/api"),
		inSync("b/web"), inSync("pay/1"))
}

func inSync(asset intent.AssetID) intent.Report {
	return intent.Report{Asset: asset, Type: "lehr.command.v1.Command", State: intent.StateInSync}
}

// words are a page's, without its markup.
func words(text string) string {
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, " "))), " ")
}

// TestGroups: services with their instances, and each with its members by state; a
// group's page begins with the root cause, and its subject.
func TestGroups(t *testing.T) {
	w := newWorld(t)
	w.shows("/partition/shop/groups", "No asset is in a group")
	w.two()
	list := words(w.shows("/partition/shop/groups", `href="partition/shop/group/shop/a"`, `href="partition/shop/group/shop?state=waiting"`))
	for _, want := range []string{"pay in sync 1 in sync 1 instance eu in sync", "shop waiting 1 in sync 3 waiting 2 instances a waiting 2 waiting b in sync 1 in sync"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list does not say %q: %s", want, list)
		}
	}
	service := words(w.shows("/partition/shop/group/shop", `href="partition/shop/asset/db"`, `href="partition/shop/group/shop/b"`))
	for _, want := range []string{"3 assets db : ann holds it: moving racks", "by ann", "looked at again within", "holds up a/api, a/web"} {
		if !strings.Contains(service, want) {
			t.Errorf("the service does not say %q: %s", want, service)
		}
	}
	if cause, instances := strings.Index(service, "ann holds it"), strings.Index(service, "Instances"); cause > instances {
		t.Errorf("the root cause is not told first: %s", service)
	}
	instance := words(w.shows("/partition/shop/group/shop/a", `id="row:a/api"`, `id="row:a/web"`))
	if !strings.Contains(instance, "group shop") || strings.Contains(instance, "b/web") {
		t.Errorf("of the instance it says %s", instance)
	}
	if text := w.shows("/partition/shop/group/shop?state=in-sync", `id="row:b/web"`, "show all"); strings.Contains(text, `id="row:db"`) {
		t.Error("what waits is listed as in sync")
	}
	w.shows("/partition/shop/group/pay", "its one asset is in sync", `id="row:pay/1"`)
	if status, text := w.get("/partition/shop/group/none"); status != 404 || !strings.Contains(text, "lehr get groups") {
		t.Errorf("a group that there is not: %d %s", status, text)
	}
	w.shows("/partition/shop/asset/a/web", `href="partition/shop/group/shop/a"`)
}

// TestAPartitionBeginsWithWhatIsWrong: its causes, each with its subject, how many
// assets it explains, whose it is and when it is looked at next.
func TestAPartitionBeginsWithWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.two()
	failing := waits("pay/1", intent.WaitBackoff, "the last push failed: exit 3")
	w.report(failing)
	text := w.shows("/partition/shop", `href="partition/shop/asset/pay/1"`, `<li class="failing">`)
	told := words(text)
	failed, held, listed := strings.Index(told, "failing 1 asset pay/1 : the last push failed: exit 3"), strings.Index(told, "waiting 3 assets db : ann holds it"), strings.Index(told, "id begins with")
	if failed < 0 || held < failed || listed < held {
		t.Errorf("the causes are at %d and %d, the list at %d: %s", failed, held, listed, told)
	}
	// Who searches has seen them.
	if text := w.shows("/partition/shop?prefix=a/"); strings.Contains(text, "What is in the way") {
		t.Error("a search tells the causes again")
	}
	// What has a notice is told once.
	w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: "shop", Owner: ann, Reason: "a fire", Since: time.Now()}))
	if n := strings.Count(w.shows("/partition/shop"), "a fire"); n != 1 {
		t.Errorf("the stop is told %d times, want once, in its notice", n)
	}
}

// TestPeopleMayNotKnow: a partition's pages tell which targets notifications do not reach.
func TestPeopleMayNotKnow(t *testing.T) {
	w := newWorld(t)
	w.two()
	pages := []string{"/partition/shop", "/partition/shop/causes"}
	for _, page := range pages {
		if text := w.shows(page); strings.Contains(text, "People may not know") {
			t.Errorf("%s: nobody is to be told of anything", page)
		}
	}
	state := notify.NewState()
	state.Targets["chat"] = &notify.Target{Problem: "it answered <500>", Since: time.Now()}
	state.Targets["mail"] = &notify.Target{Sent: 3}
	rows, err := state.Rows()
	w.must(err)
	w.must(w.store.PutBlobs(t.Context(), w.lease, notify.BlobKind, rows))
	for _, page := range pages {
		told := words(w.shows(page, "it answered &lt;500&gt;"))
		if !strings.Contains(told, "People may not know: notifications do not reach chat since") || strings.Contains(told, "reach mail") {
			t.Errorf("%s: %s", page, told)
		}
	}
}

// TestManyCauses: a page has the first, and leads to all.
func TestManyCauses(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	var reports []intent.Report
	for i := range 120 {
		id := intent.AssetID(fmt.Sprintf("a/%03d", i))
		assets = append(assets, w.grouped(id, "shop", fmt.Sprint(i)))
		report := waits(id, intent.WaitHold, "held")
		report.Waiting[0].Owner = fmt.Sprintf("person%03d", i)
		reports = append(reports, report)
	}
	w.publish(0, assets...)
	w.report(reports...)
	for page, all := range map[string]string{"/partition/shop": "partition/shop/causes", "/partition/shop/group/shop": "partition/shop/causes?group=shop"} {
		text := w.shows(page, "115 more causes", `href="`+html.EscapeString(all)+`"`)
		if n := strings.Count(text, `<li class="waiting">`); n != 5 {
			t.Errorf("%s has %d causes", page, n)
		}
		seen := 0
		for next := all; next != ""; {
			text := w.shows(next)
			seen += strings.Count(text, `<li class="waiting">`)
			next = ""
			if match := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(text); match != nil {
				next = html.UnescapeString(match[1])
			}
		}
		if seen != 120 {
			t.Errorf("%s has %d causes on all pages", all, seen)
		}
	}
	if text := w.shows("/partition/shop/groups", "120 instances", "110 more instances"); strings.Count(text, `class="group"`) != 11 {
		t.Error("the list of groups shows all instances")
	}
	if text := w.shows("/partition/shop/group/shop?from=100"); strings.Count(text, `<li class="group"`) != 20 {
		t.Error("the second page of instances is not 20")
	}
	for _, bad := range []string{"/partition/shop/causes?from=x", "/partition/shop/group/shop?from=-1", "/partition/shop/causes?from=99999999999"} {
		if status, _ := w.get(bad); status != 400 {
			t.Errorf("%s answered %d", bad, status)
		}
	}
}

// TestAnAssetsPage: checks that pass and wait, its timeline, its past, its pushes.
func TestAnAssetsPage(t *testing.T) {
	w := newWorld(t)
	w.two()
	text := words(w.shows("/partition/shop/asset/db", `href="partition/shop/timeline/db"`))
	for _, want := range []string{"wait hold ann holds it: moving racks", "pass stop, budget", "Timeline", "as it was at"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q: %s", want, text)
		}
	}
	w.shows("/partition/shop/timeline/db", "waiting", "ann holds it")
	before := time.Now().UTC().Format(time.RFC3339Nano)
	w.report(inSync("db"))
	w.shows("/partition/shop/asset/db", "in sync")
	w.shows("/partition/shop/asset/db?at="+before, "As of", "ann holds it", "not known of then", "does not change")
	for query, want := range map[string]int{"?at=nonsense": 400, "?at=2h": 404, "?at=2999-01-01": 400} {
		if status, text := w.get("/partition/shop/asset/db" + query); status != want {
			t.Errorf("%s answered %d, want %d: %s", query, status, want, words(text))
		}
	}
	if status, _ := w.get("/partition/shop/push/none"); status != 404 {
		t.Errorf("a push that there is not answered %d", status)
	}
}
