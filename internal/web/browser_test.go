package web_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"lehr.dev/test/building"
	"lehr.dev/test/chromium"
)

// patience bounds every wait; no test waits for it when all is well.
const patience = 4 * time.Minute

// real is a real server over a real partition, and a real browser.
type real struct {
	*testing.T
	folder, programs, store string
	server                  *exec.Cmd
	browser                 context.Context

	mutex sync.Mutex
	// asked are the hosts that the browser sent requests to.
	asked map[string]bool
	// said is what it wrote to its console.
	said []string
}

const program = `
DIFF = 'test "$(cat "$1" 2>/dev/null)" = "$(cat)" || { printf "not as it should be <script>document.title=1</script> \\033[31m"; exit 2; }'
PUSH = 'cat > "$1"; n=0; while test -e "$1.wait"; do n=$((n+1)); printf "step $n <script>document.title=1</script> \\033[31m\\n"; sleep 0.2; done'

def generate(ctx):
    service = yaml("source/service.yaml")
    return [item(service, name, value) for name, value in service["items"].items()]

def item(service, name, value):
    addons = [lehr.intent.v1.Group(service = "site", instance = "front" if name == "web" else "back")]
    if value.get("after"):
        addons = addons + [lehr.intent.v1.Dependencies(dependencies = [lehr.intent.v1.Dependency(on = value["after"], rule = "RULE_ORDER")])]
    path = service["folder"] + "/" + name
    return asset(name, lehr.command.v1.Command(diff = ["/bin/sh", "-c", DIFF, "sh", path], push = ["/bin/sh", "-c", PUSH, "sh", path], input = value["text"]), addons = addons)
`

const definition = `lehr: v1
partition: shop
owner: "<b>shop</b>@example.com"
mode: enforce
sources:
  service: {dir: source, files: [service.yaml]}
generate:
  web: {starlark: web.star, from: [service]}
plugins:
  Command: {run: lehr-command}
workflows:
  promote: {file: promote.yaml}
`

// newReal starts a server whose assets are files in a folder.
func newReal(t *testing.T) *real {
	t.Helper()
	return startReal(t, func(r *real) {
		r.write("lehr.yaml", definition)
		r.write("promote.yaml", promoteWorkflow)
		r.write("web.star", program)
		r.want("v1")
	})
}

// startReal starts a server over the files that fill writes, and a browser.
func startReal(t *testing.T, fill func(r *real)) *real {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the real programs and a browser")
	}
	chromium.Require(t, "the status page")
	folder := t.TempDir()
	r := &real{T: t, folder: folder, programs: t.TempDir(), store: filepath.Join(folder, ".lehr", "lehr.db"), asked: map[string]bool{}}
	for name, from := range map[string]string{"lehr": "../../cmd/lehr", "lehr-command": "../../plugins/command"} {
		r.must((building.Program{Of: from}).At(filepath.Join(r.programs, name)))
	}
	for _, name := range []string{"source", "production"} {
		r.must(os.Mkdir(filepath.Join(folder, name), 0o755))
	}
	fill(r)
	r.serve()
	r.open()
	return r
}

func (r *real) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// write replaces a file at once, as editors do.
func (r *real) write(name, content string) {
	r.Helper()
	path := filepath.Join(r.folder, name)
	r.must(os.WriteFile(path+".new", []byte(content), 0o644))
	r.must(os.Rename(path+".new", path))
}

// want writes a manifest of a chain of three, and of a text that is hostile.
func (r *real) want(version string) {
	r.Helper()
	r.write("source/service.yaml", fmt.Sprintf(`folder: %s
items:
  db: {text: "db %[2]s"}
  api: {text: "api %[2]s", after: db}
  web: {text: "web %[2]s", after: api}
  evil: {text: %[3]q}
`, filepath.Join(r.folder, "production"), version, strings.Join(hostile[:5], " ")+` \u202e \u0007`))
}

func (r *real) serve(arguments ...string) {
	r.Helper()
	log, err := os.CreateTemp(r.folder, "server-*.log")
	r.must(err)
	arguments = append([]string{"serve", "--store", r.store, "--partition", filepath.Join(r.folder, "lehr.yaml"), "--sweep", "1s"}, arguments...)
	r.server = exec.Command(filepath.Join(r.programs, "lehr"), arguments...)
	r.server.Stdout, r.server.Stderr = log, log
	r.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	r.must(r.server.Start())
	r.Cleanup(func() {
		r.end()
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && r.Failed() {
			r.Logf("the server said:\n%s", text)
		}
	})
}

// end ends the server, once.
func (r *real) end() {
	if r.server != nil {
		_ = r.server.Process.Signal(syscall.SIGTERM)
		_ = r.server.Wait()
		r.server = nil
	}
}

// lehr runs the program until it succeeds, and returns what it printed.
func (r *real) lehr(arguments ...string) string {
	r.Helper()
	var out, errs bytes.Buffer
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out.Reset()
		errs.Reset()
		command := exec.Command(filepath.Join(r.programs, "lehr"), append(arguments, "--store", r.store)...)
		command.Stdout, command.Stderr = &out, &errs
		err := command.Run()
		if err == nil {
			return strings.TrimSpace(out.String())
		}
		if time.Now().After(deadline) {
			r.Fatalf("lehr %v: %v: %s", arguments, err, errs.String())
		}
	}
}

// open starts a browser, and notes what it asks for and what it complains of.
func (r *real) open() {
	r.Helper()
	browser := chromium.Start(r, 5*patience)
	r.browser = browser
	r.must(chromedp.Listen(browser, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			if to, err := url.Parse(sent.Request.URL); err == nil && to.Host != "" {
				r.mutex.Lock()
				r.asked[to.Host] = true
				r.mutex.Unlock()
			}
		}
	}))
	messages := chromedp.Console(browser)
	go func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			r.mutex.Lock()
			r.said = append(r.said, message.String())
			r.mutex.Unlock()
		}
	}()
}

// visit loads a page.
func (r *real) visit(address string) {
	r.Helper()
	r.must(chromedp.Do(r.browser, chromedp.Navigate(address)))
}

// ask evaluates an expression in the page.
func (r *real) ask(expression string) string {
	r.Helper()
	answer, err := chromedp.Run(r.browser, chromedp.Evaluate[string](expression))
	if err != nil {
		r.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// until waits for an expression to be true in the page, also across loading
// another.
func (r *real) until(expression string) {
	r.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		is, err := chromedp.Run(r.browser, chromedp.Evaluate[bool](`Boolean(`+expression+`)`))
		if err == nil && is {
			return
		}
		if time.Now().After(deadline) || r.browser.Err() != nil {
			text, _ := chromedp.Run(r.browser, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
			r.Fatalf("it does not become so that %s: %v; the page:\n%s\nthe reports:\n%s", expression, err, text, r.lehr("get", "reports"))
		}
	}
}

// key presses a key.
func (r *real) key(keys string) {
	r.Helper()
	r.must(chromedp.Do(r.browser, chromedp.KeyEvent(keys)))
}

func (r *real) base() string {
	r.Helper()
	link := r.lehr("page")
	at, err := url.Parse(link)
	r.must(err)
	return "http://" + at.Host
}

// in lets the browser in by a link, and returns where it is led to: a path of this launch's
// own, at the server's port.
func (r *real) in(link string) string {
	r.Helper()
	at, err := url.Parse(link)
	r.must(err)
	r.visit(link)
	base := strings.TrimSuffix(r.ask(`location.href`), "/")
	if !regexp.MustCompile(`^http://127\.0\.0\.1:` + at.Port() + `/page-[0-9a-f]{32}$`).MatchString(base) {
		r.Errorf("the browser is led to %s", base)
	}
	return base
}

// quiet checks that the browser spoke to this server alone and complained of
// nothing.
func (r *real) quiet() {
	r.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for host := range r.asked {
		if !strings.HasPrefix(host, "127.0.0.1:") {
			r.Errorf("the browser asked %s", host)
		}
	}
	if len(r.asked) != 1 {
		r.Errorf("the browser asked %v, want this server alone", r.asked)
	}
	for _, said := range r.said {
		r.Errorf("the console says: %s", said)
	}
}

// The script runs, and the page follows what it shows.
const isLive = `document.getElementById("status").textContent === "live"`

const row = `document.getElementById("row:web").innerText`

func TestInABrowser(t *testing.T) {
	r := newReal(t)
	r.lehr("wait", "web", "--timeout", "30s")
	r.lehr("hold", "db", "--reason", "moving racks "+hostile[0]+hostile[1])
	r.want("v2")
	// A link lets the browser in and leaves nothing in its address.
	link := r.lehr("page")
	base := r.in(link)
	if at := r.ask(`location.href`); at != base+"/" {
		t.Errorf("the browser is at %s", at)
	}
	if cookies := r.ask(`document.cookie`); cookies != "" {
		t.Errorf("scripts see the cookie %s", cookies)
	}
	r.until(isLive)

	// By keys to the partition, and down to the cause two steps away.
	r.until(`document.getElementById("wrong").innerText.includes("moving racks")`)
	r.key("k")
	if focused := r.ask(`document.activeElement.textContent`); focused != "shop" {
		t.Errorf("k leads to %q", focused)
	}
	r.key("\r")
	r.until(`location.pathname.endsWith("/partition/shop") && ` + isLive)
	r.until(row + `.includes("must come after api")`)
	r.key("/")
	if focused := r.ask(`document.activeElement.id`); focused != "find" {
		t.Errorf("/ leads to %q", focused)
	}
	r.ask(`document.activeElement.blur(), ""`)
	r.key("f")
	if focused := r.ask(`document.activeElement.name`); focused != "prefix" {
		t.Errorf("f leads to %q", focused)
	}
	r.ask(`document.activeElement.blur(), document.getElementById("row:web").querySelector("a").focus(), ""`)
	r.key("\r")
	r.until(`location.pathname.endsWith("/partition/shop/asset/web") && ` + isLive)
	r.until(`document.querySelectorAll(".why .why .why li").length === 1`)
	cause := r.ask(`document.querySelector(".why .why .why li").innerText`)
	for _, want := range []string{"db", "hold", "moving racks", hostile[0], "owner", "lehr unhold db"} {
		if !strings.Contains(cause, want) {
			t.Errorf("the root cause does not say %q: %s", want, cause)
		}
	}
	r.key("?")
	r.until(`document.getElementById("help").open`)
	r.quiet()

	r.acts(base)
	r.groups(base)
	r.live(base)
	r.missed(base)
	r.inert(base)
	r.withoutScript(base)
	r.quiet()
	r.lost(base)
}

// groups goes down from the services to the root cause, by keys, and follows them.
func (r *real) groups(base string) {
	r.Helper()
	r.visit(base + "/partition/shop/groups")
	r.until(isLive)
	r.ask(`window.same = true, document.querySelector("details").open = true, ""`)
	r.lehr("hold", "web", "--reason", "looking at it")
	r.until(`document.querySelector(".tree").innerText.includes("4 waiting") || document.querySelector(".tree").innerText.includes("3 waiting")`)
	r.until(`document.querySelector(".tree details").open && window.same`)
	r.key("j")
	if focused := r.ask(`document.activeElement.textContent`); focused != "site" {
		r.Errorf("j leads to %q", focused)
	}
	r.key("\r")
	r.until(`location.pathname.endsWith("/partition/shop/group/site") && ` + isLive)
	r.until(`document.querySelector(".causes").innerText.includes("moving racks") && document.querySelector(".causes").innerText.includes("lehr unhold db")`)
	r.visit(base + "/partition/shop")
	r.until(isLive)
	r.until(`document.querySelector("main > section > h2").innerText === "What is in the way" && document.querySelector(".causes").innerText.includes("moving racks")`)
	r.lehr("unhold", "web", "--reason", "over")
}

// live sees an asset become in sync without loading the page again.
func (r *real) live(base string) {
	r.Helper()
	r.visit(base + "/partition/shop")
	r.until(row + `.includes("waiting")`)
	r.ask(`window.same = true, document.getElementById("row:web").querySelector("a").focus(), ""`)
	r.until(isLive)
	r.lehr("unhold", "db", "--reason", "over")
	r.until(row + `.includes("in sync") && window.same`)
	r.until(`document.querySelector(".counts").innerText.includes("4 assets") && window.same`)
	if focused := r.ask(`document.activeElement.textContent`); focused != "web" {
		r.Errorf("the focus went to %q", focused)
	}
}

// missed sees a row that changed after the page was read and before it was
// followed.
func (r *real) missed(base string) {
	r.Helper()
	added, err := chromedp.Call(r.browser, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		document.addEventListener("readystatechange", () => {
			const row = document.getElementById("row:web");
			if (document.readyState !== "interactive" || !row) return;
			row.dataset.version = document.body.dataset.state = "older";
			row.lastElementChild.textContent = "as it was before";
		});`})
	r.must(err)
	r.visit(base + "/partition/shop")
	r.until(isLive)
	r.until("!" + row + `.includes("as it was before")`)
	_, err = chromedp.Call(r.browser, page.RemoveScriptToEvaluateOnNewDocument, page.RemoveScriptToEvaluateOnNewDocumentParams{Identifier: added.Identifier})
	r.must(err)
}

// inert looks at pages full of hostile texts.
func (r *real) inert(base string) {
	r.Helper()
	r.lehr("stop", "shop", "--reason", strings.Join(hostile[:5], " "))
	for _, path := range []string{"/", "/partition/shop", "/partition/shop/asset/evil", "/partition/shop/asset/db", "/partition/shop/group/site", "/partition/shop/causes", "/partition/shop/timeline/evil"} {
		r.visit(base + path)
		r.until(isLive)
		text := r.ask(`document.body.innerText`)
		if !strings.Contains(text, hostile[0]) {
			r.Errorf("%s does not show what was written: %s", path, text)
		}
		if title := r.ask(`document.title`); !strings.HasSuffix(title, " · Lehr") {
			r.Errorf("%s was taken: its title is %q", path, title)
		}
		if found := r.ask(`String(document.querySelectorAll("img, iframe, main script, main [onerror], main [onmouseover], main style").length)`); found != "0" {
			r.Errorf("%s has %s elements that a text brought", path, found)
		}
	}
	r.lehr("resume", "shop", "--reason", "over")
}

// withoutScript reads the same pages in a browser that runs none.
func (r *real) withoutScript(base string) {
	r.Helper()
	set := func(off bool) {
		_, err := chromedp.Call(r.browser, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
		r.must(err)
	}
	set(true)
	defer set(false)
	r.visit(base + "/partition/shop?prefix=w")
	text, err := chromedp.Run(r.browser, chromedp.Text(chromedp.CSS("body")))
	r.must(err)
	if !strings.Contains(text, "in sync") || !strings.Contains(text, "not live") || strings.Contains(text, "evil") {
		r.Errorf("without script it says %s", text)
	}
	r.must(chromedp.Do(r.browser, chromedp.Click(chromedp.CSS(`a[href="partition/shop/asset/web"]`)), chromedp.WaitVisible(chromedp.CSS("#why"))))
	text, err = chromedp.Run(r.browser, chromedp.Text(chromedp.CSS("#report")))
	r.must(err)
	if !strings.Contains(text, "UTC") {
		r.Errorf("without script times are not told: %s", text)
	}
}

// acts holds an asset by keys alone, and lets it go again without script; production shows
// both.
func (r *real) acts(base string) {
	r.Helper()
	r.visit(base + "/partition/shop/asset/evil")
	r.until(isLive)
	r.ask(`Array.from(document.querySelectorAll("a.button")).find(a => a.textContent === "Hold it").focus(), ""`)
	r.key("\r")
	r.until(`document.activeElement.name === "reason"`)
	r.key("a test of keys\r")
	r.until(`document.getElementById("done") !== null`)
	if done := r.ask(`document.getElementById("done").innerText`); !strings.Contains(done, "evil is held.") {
		r.Errorf("after a hold the page says %q", done)
	}
	if holds := r.lehr("get", "holds"); !strings.Contains(holds, "a test of keys") {
		r.Errorf("held are %s", holds)
	}
	r.key("\r") // Back to the asset, which has the focus.
	r.until(`location.pathname.endsWith("/partition/shop/asset/evil") && ` + isLive)
	r.until(`Array.from(document.querySelectorAll("a.button")).some(a => a.textContent === "End the hold")`)
	r.lehr("unhold", "evil", "--reason", "done")
	r.until(`Array.from(document.querySelectorAll("a.button")).some(a => a.textContent === "Hold it")`)
}

// lost sees the server end and another take its place.
func (r *real) lost(base string) {
	r.Helper()
	listened := r.base()
	r.visit(base + "/partition/shop")
	r.until(isLive)
	r.end()
	r.until(`document.getElementById("status").className === "lost"`)
	if text := r.ask(`document.getElementById("status").textContent`); !strings.Contains(text, "trying again") {
		r.Errorf("it says %q", text)
	}
	if text := r.ask(row); !strings.Contains(text, "in sync") {
		r.Errorf("what was shown is gone: %s", text)
	}
	r.serve("--listen", strings.TrimPrefix(listened, "http://"))
	r.until(`document.getElementById("status").textContent.includes("lehr page prints a new link")`)
	r.visit(r.lehr("page"))
	r.until(isLive)
}
