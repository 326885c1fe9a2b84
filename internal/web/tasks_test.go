package web_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// mostClicks that a task takes.
const mostClicks = 4

// tasksDefinition has what the ten tasks are about: versions, a freeze, and a guard. tasksRollouts, which people must
// let go on after their canaries, come when what they go back to is in production.
const tasksDefinition = `lehr: v1
partition: shop
owner: shop@example.com
mode: enforce
sources:
  service: {git: repository, branch: main, files: [service.yaml], every: 1s}
  builds: {pushed: builds, file: builds.json}
  knobs: {document: knobs}
generate:
  web: {starlark: web.star, from: [service, knobs]}
plugins:
  Command: {run: lehr-command}
validate: {shrink: {floor: 0, max: 1%%}}
checks:
  sale: {zone: UTC, freezes: [{from: %s, until: %s, reason: the spring sale}]}
delivery:
  web:
    versions: builds
    environments:
      test: {set: {document: knobs, field: /test/version}, assets: id == "web/test"}
      production: {set: {document: knobs, field: /production/version}, assets: id == "web/production", constraints: {people: {judgement: 1}}}
`

const tasksRollouts = `rollouts:
  roll-1: {select: id.startsWith("roll-1"), stages: [{name: canary, where: id == "roll-1", soak: 1s}, {name: rest, rest: true, soak: 1s, approval: {quorum: 1}}]}
  roll-2: {select: id.startsWith("roll-2"), stages: [{name: canary, where: id == "roll-2", soak: 1s}, {name: rest, rest: true, soak: 1s, approval: {quorum: 1}}]}
`

const tasksProgram = `
DIFF = 'test "$(cat "$1" 2>/dev/null)" = "$(cat)" || { echo "it has $(cat "$1" 2>/dev/null)"; exit 2; }'

def generate(ctx):
    service = yaml("service/service.yaml")
    made = [command(service, name, text) for name, text in service["items"].items()]
    made += [command(service, "web/" + stage, e["version"]) for stage, e in json("knobs/knobs.json").items()]
    cart = lehr.kubernetes.v1.Object(api_version = "apps/v1", kind = "Deployment", namespace = "shop", name = "cart", cluster = "eu",
        json = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"cart","namespace":"shop"}}')
    return made + [asset("front-door", cart)]

def command(service, name, text):
    path = service["folder"] + "/" + name.replace("/", "-")
    return asset(name, lehr.command.v1.Command(
        diff = ["/bin/sh", "-c", DIFF, "sh", path], push = ["/bin/sh", "-c", 'cat > "$1"', "sh", path], input = text, destructive = name.startswith("old-") and text != "v1"))
`

// taskItems are what the repository has at first.
func taskItems() map[string]string {
	items := map[string]string{}
	for _, name := range []string{"database", "old-1", "old-2", "roll-1", "roll-1-rest", "roll-2", "roll-2-rest", "gone-1", "gone-2"} {
		items[name] = "v1"
	}
	return items
}

// commit has the repository hold items, as a commit of a person.
func (r *real) commit(items map[string]string, author, subject string) {
	r.Helper()
	text := "folder: " + filepath.Join(r.folder, "production") + "\nitems:\n"
	for name, value := range items {
		text += fmt.Sprintf("  %s: %s\n", name, value)
	}
	r.write("repository/service.yaml", text)
	r.git("add", "service.yaml")
	r.git("-c", "user.name="+author, "-c", "user.email="+author+"@example.com", "commit", "--quiet", "-m", subject)
}

func (r *real) git(arguments ...string) {
	r.Helper()
	command := exec.Command("git", append([]string{"-C", filepath.Join(r.folder, "repository")}, arguments...)...)
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := command.CombinedOutput(); err != nil {
		r.Fatalf("git %v: %v: %s", arguments, err, out)
	}
}

// untilSaid runs the program until it prints a text.
func (r *real) untilSaid(want string, arguments ...string) {
	r.Helper()
	text := ""
	for deadline := time.Now().Add(patience); !strings.Contains(text, want); time.Sleep(100 * time.Millisecond) {
		if text = r.lehr(arguments...); time.Now().After(deadline) {
			r.Fatalf("lehr %v does not come to say %q:\n%s", arguments, want, text)
		}
	}
}

// taskStep is one thing that a person does or sees. One field of it is set.
type taskStep struct {
	// search for a text, from any page.
	search string
	// open a link or a button by its text, in the row that has the text of in, if that is set.
	open, in string
	// choose an option of a form, and write the reason and send the form.
	choose, reason string
	// see all of these on the page.
	see []string
}

// task is done by the same steps with a mouse, and then by keys alone; % in them is 1 and then 2.
type task struct {
	name string
	// prepare makes what the task is about, and check that it was done.
	prepare, check func(r *real, n string)
	steps          []taskStep
}

func tenTasks(items map[string]string) []task {
	return []task{
		{
			name:  "find why a version is not in production",
			steps: []taskStep{{search: "1.1.0"}, {open: "web 1.1.0"}, {see: []string{"production", "people", "waits", "0 of 1"}}},
		},
		{
			name: "approve a destructive change after seeing what it destroys",
			steps: []taskStep{
				{open: "Approve this plan, once", in: "old-%"}, {see: []string{"old-%", "destructive", "it has v1"}}, {reason: "it is copied"}, {see: []string{"is approved, once"}},
			},
			check: func(r *real, n string) {
				r.lehr("wait", "old-"+n, "--timeout", "60s")
				r.untilSaid("it is copied", "get", "audit")
			},
		},
		{
			name:  "stop a partition",
			steps: []taskStep{{open: "shop", in: "enforce"}, {open: "Stop it"}, {see: []string{"No push of this partition begins"}}, {reason: "a fire"}, {see: []string{"Partition shop is stopped"}}},
			check: func(r *real, _ string) {
				r.untilSaid("a fire", "get", "stops")
				r.lehr("resume", "shop", "--reason", "it is out")
			},
		},
		{
			name:  "roll back a rollout",
			steps: []taskStep{{open: "stage rest of rollout roll-%"}, {open: "Roll it back"}, {see: []string{"go back to what was good", "roll-%"}}, {reason: "carts are slow"}, {see: []string{"is asked to rollback"}}},
			check: func(r *real, n string) {
				r.untilSaid("carts are slow", "rollout", "status", "roll-"+n)
				r.produces("roll-"+n, "v1")
			},
		},
		{
			name: "find who changed a field and when",
			steps: []taskStep{
				{search: "database"}, {open: "database"}, {open: "files, lines and commits"}, {open: "payload.input"}, {see: []string{"v2", "v1", "service.yaml", "Bo", "Carts are quicker", "ago"}},
			},
		},
		{
			name:    "see what a held candidate would do and let it through",
			prepare: func(r *real, n string) { r.holdCandidate(items, n) },
			steps: []taskStep{
				{open: "Let it through", in: "candidate"}, {see: []string{"gone-%", "leave intent", "0 assets would be pushed"}}, {reason: "it moved"}, {see: []string{"may be served now"}},
			},
			check: func(r *real, n string) {
				for deadline := time.Now().Add(patience); strings.Contains(r.lehr("get", "assets"), "gone-"+n); time.Sleep(100 * time.Millisecond) {
					if time.Now().After(deadline) {
						r.Fatalf("gone-%s is still intended", n)
					}
				}
			},
		},
		{
			name:  "find everything one commit touched",
			steps: []taskStep{{search: "Carts are quicker"}, {open: "service "}, {see: []string{"database", "old-1", "old-2", "roll-1", "roll-2", "1 field", "Bo"}}},
		},
		{
			name:  "pin an asset for two hours",
			steps: []taskStep{{search: "web/test"}, {open: "web/test"}, {open: "Pin it"}, {choose: "2 hours"}, {reason: "a trial %"}, {see: []string{"is pinned to shop@", " until "}}},
			check: func(r *real, n string) {
				r.untilSaid("a trial "+n, "get", "pins")
				r.lehr("unpin", "web/test", "--reason", "over")
			},
		},
		{
			name:  "see next week's freezes",
			steps: []taskStep{{open: "calendar"}, {open: "next week"}, {see: []string{"the spring sale", "sale", "shop", "freeze"}}},
		},
		{
			name:  "find the asset behind a live Kubernetes object",
			steps: []taskStep{{search: "deploy/cart -n shop"}, {open: "front-door"}, {see: []string{"front-door", "Deployment"}}},
		},
	}
}

// produces waits until production has a text.
func (r *real) produces(name, want string) {
	r.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(r.folder, "production", name))
		if err == nil && strings.TrimSpace(string(text)) == want {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("production has %s as %q, want %q: %v", name, text, want, err)
		}
	}
}

// holdCandidate takes an item out of the repository, which a guard holds.
func (r *real) holdCandidate(items map[string]string, n string) {
	r.Helper()
	delete(items, "gone-"+n)
	r.commit(items, "Bo", "gone-"+n+" moves")
	r.untilSaid("held", "get", "candidates")
	r.until(`document.body.innerText.includes("Let it through")`)
}

// TestTenTasks: what people come to the pages for takes at most four clicks, and can be done by keys alone.
func TestTenTasks(t *testing.T) {
	items := taskItems()
	// Next week by the calendar, whatever the day is, also if a week ends while the test runs.
	soon, later := time.Now().UTC().AddDate(0, 0, 7), time.Now().UTC().AddDate(0, 0, 9)
	written := fmt.Sprintf(tasksDefinition, soon.Format("2006-01-02"), later.Format("2006-01-02"))
	r := startReal(t, func(r *real) {
		r.must(os.Mkdir(filepath.Join(r.folder, "repository"), 0o755))
		r.write("lehr.yaml", written)
		r.write("web.star", tasksProgram)
		r.write("builds.yaml", "1.0.0: {}\n")
		r.write("knobs.yaml", "test: {version: 1.0.0}\nproduction: {version: 1.0.0}\n")
		r.git("init", "--quiet", "--initial-branch", "main")
		r.commit(items, "Ann", "The first carts")
	})
	r.lehr("document", "create", "builds", "--file", filepath.Join(r.folder, "builds.yaml"), "--reason", "the first build")
	r.lehr("document", "create", "knobs", "--file", filepath.Join(r.folder, "knobs.yaml"), "--reason", "as it is")
	for _, name := range []string{"database", "old-2", "roll-1", "roll-2", "gone-2"} {
		r.produces(name, "v1")
	}
	// Before the change that is rolled back: else what is good may be an incarnation that has the change already.
	r.lehr("document", "set", "builds", "/1.1.0={}", "--reason", "build 2")
	r.produces("web-test", "1.1.0")
	r.write("lehr.yaml", written+tasksRollouts)
	r.untilSaid("rollout/roll-1", "get", "pins")
	r.untilSaid("rollout/roll-2", "get", "pins")
	for _, name := range []string{"database", "old-1", "old-2", "roll-1", "roll-1-rest", "roll-2", "roll-2-rest"} {
		items[name] = "v2"
	}
	r.commit(items, "Bo", "Carts are quicker")
	for _, name := range []string{"database", "roll-1", "roll-2"} {
		r.produces(name, "v2")
	}
	base := r.in(r.lehr("page"))
	r.width(1280)
	r.until(`document.body.innerText.includes("old-2") && document.body.innerText.includes("stage rest of rollout roll-2")`)
	for _, task := range tenTasks(items) {
		for n, p := range []*person{{real: r}, {real: r, byKeys: true}} {
			number := strconv.Itoa(n + 1)
			r.visit(base + "/")
			r.until(isLive)
			if task.prepare != nil {
				task.prepare(r, number)
			}
			began := time.Now()
			for _, step := range task.steps {
				p.does(step, number)
			}
			if p.clicks > mostClicks || p.byKeys != (p.clicks == 0) {
				t.Errorf("%s: %d clicks, at most %d are enough", task.name, p.clicks, mostClicks)
			}
			t.Logf("%s: %d clicks, %d keys beside texts, %s", task.name, p.clicks, p.keys, time.Since(began).Round(time.Millisecond))
			if task.check != nil {
				task.check(r, number)
			}
		}
	}
	axe, next := r.axe(), time.Now().UTC().AddDate(0, 0, 7).Format("2006-01-02")
	head := exec.Command("git", "-C", filepath.Join(r.folder, "repository"), "rev-parse", "HEAD~2")
	revision, err := head.Output()
	r.must(err)
	ids := []string{strings.TrimSpace(string(revision)), next, r.readFirst("candidates", "digest"), r.readFirst("pushes", "push")}
	for _, path := range taskPaths {
		if strings.Contains(path, "%s") {
			path, ids = fmt.Sprintf(path, ids[0]), ids[1:]
		}
		r.examines(base, path, axe)
	}
	for _, path := range []string{
		"/", "/inbox", "/search?q=o", "/partition/shop", "/partition/shop/asset/database", "/partition/shop/delivery", "/partition/shop/version/1.1.0?application=web",
		"/partition/shop/environment/production?application=web", "/partition/shop/candidates", "/partition/shop/incarnations",
	} {
		r.visit(base + path)
		r.reflows(path)
	}
	r.quiet()
}

// readFirst returns a field of the first thing that lehr get lists of a kind.
func (r *real) readFirst(kind, field string) string {
	r.Helper()
	var listed []map[string]any
	r.must(json.Unmarshal([]byte(r.lehr("get", kind, "-o", "json", "--limit", "1")), &listed))
	if len(listed) == 0 {
		r.Fatalf("there are no %s", kind)
	}
	return fmt.Sprint(listed[0][field])
}

// person does tasks, by a mouse and a keyboard for texts, or by keys alone.
type person struct {
	*real
	byKeys       bool
	clicks, keys int
}

func (p *person) does(step taskStep, n string) {
	p.Helper()
	fill := func(text string) string { return strings.ReplaceAll(text, "%", n) }
	switch {
	case step.search != "":
		// Who writes a text has the hands at the keys.
		p.press("/")
		p.until(`document.activeElement.id === "find"`)
		// The protocol sends the character of a key apart from the key, into what has the focus by then.
		p.ask(`document.activeElement.value = ""`)
		p.leaves(func() { p.key(fill(step.search) + "\r") })
	case step.open != "":
		p.opens(finds(fill(step.open), fill(step.in)))
	case step.choose != "":
		p.chooses(fill(step.choose))
	case step.reason != "":
		if p.byKeys {
			p.reach(`document.querySelector("input[name=reason]")`)
		} else if p.ask(`document.activeElement.name || ""`) != "reason" {
			p.click(`document.querySelector("input[name=reason]")`)
		}
		p.leaves(func() { p.key(fill(step.reason) + "\r") })
	}
	for _, want := range step.see {
		p.until(fmt.Sprintf(`document.querySelector("main").innerText.toLowerCase().includes(%q)`, strings.ToLower(fill(want))))
	}
}

// finds is the first link or button that begins with a text, in a row that has another.
func finds(text, row string) string {
	if row == "" {
		return fmt.Sprintf(`[...document.querySelectorAll("a, button")].find(e => e.checkVisibility() && e.innerText.trim().startsWith(%q))`, strings.TrimSpace(text))
	}
	return fmt.Sprintf(`[...document.querySelectorAll("tr")].filter(e => e.innerText.includes(%q)).flatMap(e => [...e.querySelectorAll("a, button")]).find(e => e.innerText.trim() === %q)`, row, text)
}

// opens a page by what leads to it.
func (p *person) opens(target string) {
	p.Helper()
	p.until(target)
	if p.byKeys {
		p.leaves(func() { p.reach(target); p.press("\r") })
		return
	}
	p.leaves(func() { p.click(target) })
}

// leaves waits until what is done has led to another page. What is shown may be replaced by newer content in the very
// moment in which it is clicked; then it is done again, and counts once.
func (p *person) leaves(do func()) {
	p.Helper()
	p.ask(`window.left = true, ""`)
	do()
	clicks, keys := p.clicks, p.keys
	for deadline, again := time.Now().Add(patience), time.Now().Add(10*time.Second); ; time.Sleep(20 * time.Millisecond) {
		is, err := chromedp.Run(p.browser, chromedp.Evaluate[bool](`window.left !== true && document.readyState === "complete"`))
		if err == nil && is {
			return
		}
		if time.Now().After(again) {
			again = time.Now().Add(10 * time.Second)
			do()
			p.clicks, p.keys = clicks, keys
		}
		if time.Now().After(deadline) {
			p.Fatalf("it leads nowhere: %v: %s", err, p.ask(`location.href + " " + document.activeElement.outerHTML.slice(0, 300)`))
		}
	}
}

// click clicks into the middle of an element.
func (p *person) click(element string) {
	p.Helper()
	const middle = `(e) => { e.scrollIntoView({block: "center", behavior: "instant"}); const r = [...e.getClientRects()].reduce((a, b) => b.width > a.width ? b : a); return [r.left + r.width / 2, r.top + r.height / 2]; }`
	p.until(`((e) => { const [x, y] = (` + middle + `)(e); const hit = document.elementFromPoint(x, y); return hit && (e.contains(hit) || hit.contains(e) && hit.closest("a, button, input") === e); })(` + element + `)`)
	place := p.ask(`(` + middle + `)(` + element + `).join(" ")`)
	var x, y float64
	if _, err := fmt.Sscan(place, &x, &y); err != nil {
		p.Fatalf("the place of %s is %q: %v", element, place, err)
	}
	p.must(chromedp.Do(p.browser, chromedp.MouseClickXY(x, y)))
	p.clicks++
}

// press presses a key that writes nothing.
func (p *person) press(key string) {
	p.Helper()
	p.key(key)
	p.keys++
}

// reach goes to an element by Tab, and back to the beginning of the page after its end.
func (p *person) reach(element string) {
	p.Helper()
	for range 600 {
		if p.ask(`String(document.activeElement === (`+element+`))`) == "true" {
			return
		}
		p.press("\t")
	}
	p.Fatalf("Tab does not lead to %s", element)
}

// chooses an option of the list in a form, by the first letters of its text.
func (p *person) chooses(option string) {
	p.Helper()
	const list = `document.querySelector("select[name=for]")`
	if p.byKeys {
		p.reach(list)
	} else {
		// A list that a click opens is drawn outside of the page.
		p.ask(list + `.focus(), ""`)
		p.clicks++
	}
	p.key(option)
	p.until(list + `.selectedOptions[0].text === "` + option + `"`)
}
