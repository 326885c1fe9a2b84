package web_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/server"
)

// TestAudit: who did what is shown the newest first, by pages and by choice; a chain is verified, and all are downloaded in a
// form that can be verified anywhere.
func TestAudit(t *testing.T) {
	w := newWorld(t)
	bob := intent.Actor{Name: "<i>bob</i>", Origin: "page"}
	for i := range 120 {
		by := ann
		if i == 7 {
			by = bob
		}
		w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: intent.AssetID(fmt.Sprint("web/", i)), Owner: by, Reason: fmt.Sprint("racks ", i)}))
	}
	text := w.shows("/audit?partition=shop", "racks 119", "racks 60", `rel="next"`, "lehr get audit --partition shop", `href="audit.jsonl"`)
	if strings.Contains(text, "racks 7<") || strings.Index(text, "racks 119") > strings.Index(text, "racks 118") {
		t.Errorf("the newest do not come first:\n%s", words(text))
	}
	next := text[:strings.Index(text, `" rel="next"`)]
	next = next[strings.LastIndexByte(next, '"')+1:]
	w.shows("/"+strings.ReplaceAll(next, "&amp;", "&"), "racks 7<", "racks 0<")
	text = w.shows("/audit?partition=shop&actor=%3Ci%3Ebob%3C%2Fi%3E", "racks 7<", "&lt;i&gt;bob")
	if strings.Contains(text, "<i>bob") || strings.Contains(text, "racks 8<") {
		t.Errorf("of bob alone it shows\n%s", words(text))
	}
	w.shows("/audit?partition=shop&subject=web/9&verb=hold", "racks 9<")
	w.shows("/audit?partition=shop&verb=approve", "There is no record of that choice.")
	w.shows("/audit?partition=shop&since="+time.Now().UTC().AddDate(0, 0, 2).Format("2006-01-02"), "There is no record of that choice.")
	w.must(w.store.SetStop(t.Context(), intent.Stop{Owner: ann, Reason: "a fire", Since: time.Now()}))
	w.shows("/audit", "a fire", "lehr get audit --global", `href="audit?partition=shop">shop</a> <span class="faint">122`)
	w.shows("/audit?partition=shop&verify=yes", "The chain is as it was written.")
	if status, _ := w.get("/audit?since=soon"); status != http.StatusBadRequest {
		t.Errorf("a day that is none is answered %d", status)
	}
	if status, _ := w.get("/audit?before=now"); status != http.StatusBadRequest {
		t.Errorf("a record that is none is answered %d", status)
	}
	answer, err := w.browser.Get(w.base + "/audit.jsonl")
	w.must(err)
	defer answer.Body.Close()
	if name := answer.Header.Get("Content-Disposition"); !strings.Contains(name, `"audit.jsonl"`) {
		t.Errorf("the file is saved as %q", name)
	}
	file, err := io.ReadAll(answer.Body)
	w.must(err)
	report, err := audit.VerifyFile(t.Context(), strings.NewReader(string(file)), nil)
	w.must(err)
	if !report.OK() || len(report.Chains) < 2 || strings.Count(string(file), "racks ") != 120 {
		t.Errorf("what is downloaded is %+v", report)
	}
}

// TestAccessPage: a reader sees who they are, what they may do, and which grant lets anybody do something.
func TestAccessPage(t *testing.T) {
	w := newWorld(t)
	w.shows("/access", "may do everything", "There are none.", `<option value="operator">`)
	said := words(w.shows("/access?role=operator&partition=shop", "lehr auth can operator --partition shop"))
	if !strings.Contains(said, "Yes: the local user may do everything") {
		t.Errorf("of the local user it says %s", said)
	}
	said = words(w.shows("/access?role=approver&partition=shop&name=eve&groups=sre,leads", "--as eve --groups sre,leads"))
	if !strings.Contains(said, "No: ") || !strings.Contains(said, "eve") {
		t.Errorf("of somebody without a grant it says %s", said)
	}
	if status, _ := w.get("/access?role=king"); status != http.StatusBadRequest {
		t.Errorf("a role that is none is answered %d", status)
	}
	w.shows("/access?role=viewer&partition=No%20Partition", "Who may do what") // The problem, with the form.
}

// TestServerPage: the server, its problems, and who acts for which partitions.
func TestServerPage(t *testing.T) {
	w := newWorld(t)
	w.problems = []string{"checkpoints <do> not arrive"}
	w.shows("/server", "/srv/lehr store.db", "checkpoints &lt;do&gt; not arrive", "One server has the store for itself", "lehr audit verify")
}

// TestPluginsPage: what a partition's plugins are, promise, and how they answer; and which replica knows where this one does not.
func TestPluginsPage(t *testing.T) {
	w := newWorld(t)
	w.shows("/partition/shop/plugins", "binds no plugin")
	payload, err := schema.Builtin().Pack(&intentpb.Policy{Plugins: []*intentpb.PluginBinding{
		{Type: "lehr.process.v1.Job", Run: []string{"/opt/lehr-process", "--secret=x"}}, {Type: "lehr.command.v1.Command", Dial: "plugins.example.com:7000"},
		{Type: "lehr.task.v1.Task", Run: []string{"/opt/lehr-process", "--secret=x"}},
	}})
	w.must(err)
	w.publish(0, intent.Asset{ID: intent.PolicyAsset, Payload: payload})
	text := w.shows("/partition/shop/plugins", "No server acts for this partition now", "lehr-process", "plugins.example.com:7000")
	if strings.Contains(text, "secret") || strings.Count(text, "<th scope=\"row\">") != 2 {
		t.Errorf("a program is shown with its arguments, or not once:\n%s", words(text))
	}
	measured := &measure.Plugin{}
	for range 99 {
		measured.Diffs.Took(20 * time.Millisecond)
	}
	measured.Diffs.Took(4 * time.Second)
	measured.Failed.Add(3)
	w.asked = func(binding *intentpb.PluginBinding) server.AskedPlugin {
		if binding.Dial != "" {
			return server.AskedPlugin{Problem: errors.New("nobody <listens>")}
		}
		return server.AskedPlugin{Name: "processes", Version: "1.2", Measure: measured, Types: []server.ServedType{
			{Type: "lehr.process.v1.Job", Guarantee: "N", LongestEffect: 10 * time.Second}, {Type: "lehr.task.v1.Task", Guarantee: "C", LongestEffect: time.Second, Cadence: 10 * time.Minute},
		}}
	}
	said := words(w.shows("/partition/shop/plugins", "nobody &lt;listens&gt;"))
	for _, want := range []string{"processes version 1.2", "well", "Job N no guard of its own, longest effect 10s", "Task C compares and sets, longest effect 1s, looked at each 10m0s", "100 3 failed", "25ms, 25ms", "down nobody"} {
		if !strings.Contains(said, want) {
			t.Errorf("the plugins do not say %q: %s", want, said)
		}
	}
	reason := "plugin lehr-process fails (12 in a row)"
	measured.Open.Store(true)
	measured.InARow.Store(12)
	measured.Reason.Store(&reason)
	if said = words(w.shows("/partition/shop/plugins")); !strings.Contains(said, "not asked 12 failed in a row. plugin lehr-process fails (12 in a row)") {
		t.Errorf("with an open breaker it says %s", said)
	}
}

// TestNotificationsPage: a partition that tells nobody says so, and how to change that.
func TestNotificationsPage(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/partition/shop/notifications", "Nobody is told of this partition", "lehr notify --dry-run")
}
