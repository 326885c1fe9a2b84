package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/server"
)

// three are a chain: the web waits for the api, which waits for the held db.
func (w *world) three() {
	w.Helper()
	w.publish(0, w.command("db", "schema"), w.command("api", "v2", "db"), w.command("web/a", "v2", "api"), w.command("web/b", "v1"))
	hold := waits("db", intent.WaitHold, "ann holds it: moving racks")
	hold.Waiting[0].Owner = "ann"
	hold.Plan = intent.Plan{Action: intent.ActionReplace, Changes: []intent.FieldChange{
		{Path: "size", Current: "3", Target: "2", Reason: "it shrinks", Destructive: true}, {Path: "name", Target: "x"},
	}}
	hold.Unmanaged = []intent.FieldChange{{Path: "replicas", Current: "7", Reason: "the autoscaler's"}}
	w.report(hold, waits("api", intent.WaitOrder, "must come after db", "db"), waits("web/a", intent.WaitOrder, "must come after api", "api"),
		intent.Report{Asset: "web/b", Type: "lehr.command.v1.Command", State: intent.StateInSync, Target: w.head(), Health: intent.Health{State: intent.Healthy, ObservedVersion: "v1"}})
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	w.shows("/", "partition/shop", "none yet", "lehr stop --reason WHY --store &#39;/srv/lehr store.db&#39;")
	w.shows("/partition/shop", "Nothing is served yet")
	w.three()
	w.shows("/", "partition/shop?state=waiting", "3 assets")
	w.shows("/partition/shop", "partition/shop/asset/web/a", "must come after api", "in sync", "healthy", "runs", "shop@1", "destructive")
	w.shows("/partition/shop/asset/web/a", "web/a waits for db", "ann holds it", "partition/shop/asset/db", "&#34;v2&#34;", "refers to")
	w.shows("/partition/shop/asset/db", "destructive", "it shrinks", "replace", "autoscaler", "lehr unhold db --reason WHY --partition shop", "It was never pushed",
		`partition/shop/asset/api">api</a> <span class="faint">lehr.intent.v1.Dependencies`)
	w.shows("/partition/shop/incarnations", "partition/shop/incarnation/1")
	w.shows("/partition/shop/incarnation/1", "ann")
	w.shows("/partition/shop/candidates", "There are no candidates")
	w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: "shop", Owner: ann, Reason: "a fire", Since: time.Now()}))
	w.shows("/partition/shop", "This partition is stopped", "a fire", "lehr resume shop --reason WHY")
	w.problems = []string{"checkpoints of the audit do not arrive"}
	w.shows("/", "Not all of it works", "checkpoints of the audit do not arrive")
}

func TestFilters(t *testing.T) {
	w := newWorld(t)
	w.three()
	tests := map[string][]string{
		"":                           {"api", "db", "web/a", "web/b"},
		"?prefix=web/":               {"web/a", "web/b"},
		"?state=in-sync":             {"web/b"},
		"?state=waiting&prefix=web/": {"web/a"},
		"?state=off":                 nil,
		"?after=db":                  {"web/a", "web/b"},
	}
	row := regexp.MustCompile(`<tr id="row:([^"]*)"`)
	for query, want := range tests {
		var got []string
		for _, match := range row.FindAllStringSubmatch(w.shows("/partition/shop"+query), -1) {
			got = append(got, match[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q shows %v, want %v", query, got, want)
		}
	}
}

func TestFilteringByExpression(t *testing.T) {
	w := newWorld(t)
	w.three()
	const filter = "/partition/shop?filter=" + `id.startsWith%28%22web%2F%22%29`
	for query, want := range map[string]int{"": 2, "&state=waiting": 1, "&state=off": 0} {
		if rows := strings.Count(w.shows(filter+query), "<tr id="); rows != want {
			t.Errorf("%s shows %d rows, want %d", query, rows, want)
		}
	}
	// What is wrong is said beside the field, and the rest of the page is there.
	w.shows("/partition/shop?filter=nonsense%28", "notice bad", "nonsense(", "3 assets")
}

// What an incarnation changed is shown field by field.
func TestWhatAnIncarnationChanged(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.publish(1, w.command("db", "schema 2"))
	w.shows("/partition/shop/incarnation/2", "changed", "partition/shop/asset/db", "schema 2", "1 field<", "does not change", "shop@1")
	// Compared with any other, by the names that people write, also with a later one.
	w.publish(2, w.command("db", "schema 3"))
	for _, from := range []string{"1", "@1", "shop@1"} {
		text := w.shows("/partition/shop/incarnation/3?from="+url.QueryEscape(from), "What differs from", "schema 3", "lehr diff shop@1 shop@3 --partition shop")
		if strings.Contains(text, "schema 2") {
			t.Errorf("compared with %s it shows what was between:\n%s", from, words(text))
		}
	}
	w.shows("/partition/shop/incarnation/2?from=3", "schema 2", "schema 3")
	w.shows("/partition/shop/incarnation/3?from=nine", "notice bad", `value="nine"`)
	w.shows("/partition/shop/incarnation/3?from=9", "notice bad")
}

func TestOrphans(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/partition/shop/orphans", "There are none", "lehr disown ASSET --reason WHY --partition shop")
}

// A page of a large partition has a page of rows, and leads on.
func TestPaging(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 230 {
		assets = append(assets, w.command(intent.AssetID("a/"+string(rune('a'+i/26))+string(rune('a'+i%26))), "x"))
	}
	w.publish(0, assets...)
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	seen, path := 0, "/partition/shop?prefix=a/"
	for pages := 1; ; pages++ {
		text := w.shows(path)
		rows := strings.Count(text, "<tr id=")
		if seen += rows; rows > 100 {
			t.Fatalf("%s shows %d rows", path, rows)
		}
		match := next.FindStringSubmatch(text)
		if match == nil {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		if path = html.UnescapeString(match[1]); !strings.Contains(path, "prefix=a") {
			t.Fatalf("%s forgets the filter", path)
		}
	}
	if seen != len(assets) {
		t.Errorf("%d rows on all pages, want %d", seen, len(assets))
	}
}

// What an incarnation changed is shown by pages, however much it is.
func TestAnIncarnationOfManyChanges(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 230 {
		assets = append(assets, w.command(intent.AssetID(fmt.Sprintf("a/%03d", i)), "x"))
	}
	w.publish(0, assets...)
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	var pages []int
	for path := "/partition/shop/incarnation/1"; path != ""; {
		text := w.shows(path, "+230", "shop@1")
		pages = append(pages, strings.Count(text, `href="partition/shop/asset/a/`))
		path = ""
		if match := next.FindStringSubmatch(text); match != nil {
			path = html.UnescapeString(match[1])
		}
	}
	if !slices.Equal(pages, []int{100, 100, 30}) {
		t.Errorf("the pages show %v", pages)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.three()
	for path, want := range map[string]int{
		"/nothing":                              404,
		"/partition/":                           404,
		"/partition/none":                       404,
		"/partition/shop/asset/none":            404,
		"/partition/shop/asset":                 404,
		"/partition/shop/asset/NO":              400,
		"/partition/shop/other/thing":           404,
		"/partition/shop/incarnations/more":     404,
		"/partition/shop/incarnation/9":         404,
		"/partition/shop/incarnation/x":         400,
		"/partition/shop/candidate/abcdefgh":    400,
		"/partition/shop/incarnations?before=x": 400,
		"/partition/%3Cscript%3E":               400,
		"/static/none.js":                       404,
	} {
		if status, text := w.get(path); status != want || strings.Contains(text, "<script>") {
			t.Errorf("%s answered %d, want %d:\n%s", path, status, want, text)
		}
	}
	// What is no page follows no other: it would load itself for ever.
	for _, path := range []string{"/nothing", "/partition/shop/other/thing"} {
		if _, text := w.get(path); strings.Contains(text, "data-self") {
			t.Errorf("%s follows %s", path, text)
		}
	}
	answer, err := w.browser.Post(w.base+"/", "text/plain", nil)
	w.must(err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a POST answered %s", answer.Status)
	}
}

// hostile are what a tenant, a plugin or a passer-by may write.
var hostile = []string{
	`<script>document.title='taken'</script>`,
	`</pre></td></script><img src=x onerror="document.title='taken'">`,
	`"' onmouseover=document.title='taken' x="`,
	`{{.}}${document.title='taken'}`,
	`javascript:document.title='taken'`,
	"\x1b[31m\x07\x00 right-to-left \u202egpj.exe zero\u200bwidth \u2028 line",
}

func (w *world) hostile() {
	w.Helper()
	text := strings.Join(hostile, " ")
	payload, err := schema.Builtin().Pack(&intentpb.Policy{Plugins: []*intentpb.PluginBinding{{Type: "lehr.command.v1.Command", Run: []string{text}}}})
	w.must(err)
	w.publish(0, w.command("evil", text), w.command("other", text, "evil"), intent.Asset{ID: intent.PolicyAsset, Payload: payload})
	report := waits("evil", intent.WaitHold, text)
	report.Waiting[0].Owner = text
	report.Plan = intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: text, Current: text, Target: text, Reason: text}}}
	report.Unmanaged = report.Plan.Changes
	report.Health = intent.Health{State: intent.Unhealthy, Reason: text, ObservedVersion: text}
	report.ResourceKey, report.PushNote, report.Pinned, report.Guarantee = intent.ResourceKey(text), text, text, text
	w.report(report, waits("other", intent.WaitOrder, text, "evil"))
	w.must(w.store.SetStop(w.Context(), intent.Stop{Partition: "shop", Owner: intent.Actor{Name: text}, Reason: text, Since: time.Now()}))
	content, err := json.Marshal(map[string]string{"text": text})
	w.must(err)
	_, err = w.store.CreateDocument(w.Context(), "shop", "evil", content, text, intent.Actor{Name: text})
	w.must(err)
	w.problems = []string{text}
	w.asked = func(*intentpb.PluginBinding) server.AskedPlugin {
		return server.AskedPlugin{Name: text, Version: text, Problem: errors.New(text)}
	}
}

func TestHostileTextsAreShownAsText(t *testing.T) {
	w := newWorld(t)
	w.hostile()
	for _, path := range []string{"/", "/partition/shop", "/partition/shop/asset/evil", "/partition/shop/asset/other", "/partition/shop/causes", "/partition/shop/timeline/evil", "/partition/shop/asset/evil?diff=unified", "/partition/shop/provenance/evil?field=payload.input",
		"/server", "/audit?partition=shop", "/audit?actor=%3Cscript%3E&verb=%22%3E%3Cimg%20src=x%3E&subject=%3Cscript%3E", "/access?role=viewer&name=%3Cscript%3E&groups=%22%3E%3Cimg%3E&partition=%3Cimg%3E",
		"/partition/shop/plugins", "/partition/shop/documents", "/partition/shop/document/evil", "/partition/shop/act/document-set?document=evil", "/partition/shop/incarnation/1?from=%3Cscript%3E",
		"/partition/shop?prefix=%3Cscript%3E&filter=%22%3E%3Cimg%20src=x%3E"} {
		text := w.shows(path)
		for _, live := range []string{"<script>", "<img", "</pre></td></script>", `"' on`, `href="javascript`} {
			if strings.Contains(text, live) {
				t.Errorf("%s holds %q", path, live)
			}
		}
		for _, hidden := range []string{"\x1b", "\x07", "\x00", "\u202e", "\u200b", "\u2028"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s holds the character %q", path, hidden)
			}
		}
		if path != "/" && !strings.Contains(path, "?") && !strings.Contains(text, `\u202egpj.exe`) {
			t.Errorf("%s does not show what was hidden", path)
		}
	}
}

// Nothing of a page comes from elsewhere, and nothing is written into it that
// its policy would have to allow.
func TestPagesNeedNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.three()
	for _, path := range []string{"/", "/partition/shop", "/partition/shop/asset/db", "/partition/shop/incarnations", "/partition/shop/groups", "/partition/shop/causes", "/partition/shop/timeline/db", "/partition/shop/references/db", "/partition/shop/provenance/db", "/search?q=db", "/calendar", "/inbox", "/nothing", "/audit", "/access", "/server", "/act/stop-all", "/partition/shop/plugins", "/partition/shop/notifications", "/partition/shop/documents", "/static/script.js", "/static/style.css"} {
		answer, err := w.browser.Get(w.base + path)
		w.must(err)
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		for _, bad := range []string{"http://", "https://", "style=", "<style", "@import", "url(", " onclick", "eval("} {
			if strings.Contains(string(body), bad) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
		policy := answer.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if got := answer.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s may be kept: %q", path, got)
		}
	}
}

// Every command that a page offers is one that the program understands.
func TestCommandsParse(t *testing.T) {
	w := newWorld(t)
	w.three()
	approval := waits("web/b", intent.WaitApproval, "needs approval")
	approval.PlanDigest, approval.Pinned = intent.Digest{1, 2, 3}, "ann"
	w.report(approval)
	w.must(w.store.SetStop(t.Context(), intent.Stop{Owner: ann, Reason: "a fire", Since: time.Now()}))
	offered := regexp.MustCompile(`<span class="command"><code>([^<]*)</code>`)
	commands := map[string]bool{}
	for _, path := range []string{
		"/", "/partition/shop", "/partition/shop/asset/db", "/partition/shop/asset/web/b", "/partition/shop/orphans", "/audit", "/audit?partition=shop&actor=ann&subject=db&verify=yes", "/access?role=viewer&name=eve&groups=a,b&partition=shop",
		"/server", "/partition/shop/plugins", "/partition/shop/notifications", "/partition/shop/documents", "/partition/shop/incarnation/1?from=1",
	} {
		for _, match := range offered.FindAllStringSubmatch(w.shows(path), -1) {
			commands[html.UnescapeString(match[1])] = true
		}
	}
	if len(commands) < 6 {
		t.Fatalf("only these were found: %v", commands)
	}
	for line := range commands {
		words := strings.Fields(strings.ReplaceAll(line, "'/srv/lehr store.db'", "/srv/store.db"))
		command, rest, err := cli.Command(cli.Local{}).Find(words[1:])
		if err == nil {
			err = parse(command, rest)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func parse(command *cobra.Command, words []string) error {
	if err := command.ParseFlags(words); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}
