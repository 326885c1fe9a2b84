package web_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestPictures makes the pictures of the README and the docs, from the demo, in the folder of LEHR_PICTURES: make pictures.
func TestPictures(t *testing.T) {
	folder := os.Getenv("LEHR_PICTURES")
	if folder == "" {
		t.Skip("makes pictures where LEHR_PICTURES names a folder")
	}
	r := &real{T: t, folder: t.TempDir(), asked: map[string]bool{}}
	r.store = filepath.Join(r.folder, ".lehr", "lehr.db")
	// Paths are seen in pictures, so the programs lie where they tell nothing of who made these.
	r.programs = filepath.Join(t.TempDir(), "bin")
	r.must(os.Mkdir(r.programs, 0o755))
	for _, name := range []string{"lehr", "lehr-process", "lehr-caddy", "lehr-sqlschema", "releases"} {
		r.must(exec.Command("cp", "-r", filepath.Join("..", "..", "bin", name), r.programs).Run())
	}
	demo := exec.Command(filepath.Join(r.programs, "lehr"), "demo", "--dir", r.folder)
	out, err := demo.StdoutPipe()
	r.must(err)
	r.must(demo.Start())
	t.Cleanup(func() {
		r.must(demo.Process.Signal(syscall.SIGINT))
		r.must(demo.Wait())
	})
	lines := bufio.NewScanner(out)
	link := ""
	for lines.Scan() && !strings.Contains(lines.Text(), "Both clusters serve") {
		for word := range strings.FieldsSeq(lines.Text()) {
			if link == "" && strings.HasPrefix(word, "http://") {
				link = word
			}
		}
	}
	go func() {
		for lines.Scan() { // It writes on.
		}
	}()
	r.open()
	base := r.in(link)
	r.width(1280)
	// v2 of the reader comes, and v4 is found bad by its canary.
	r.untilSaid("in-sync", "get", "assets", "--filter", `id == "reader/production/others"`)
	r.delivers("v2", "Ann")
	r.untilSaid("v2 is in production", "why", "production")
	r.untilSaid("done", "get", "rollouts")
	r.delivers("v4", "Bo")
	r.untilSaid("vetoed", "get", "versions")
	r.untilSaid("production of reader gets v2: a rollout went back to it", "get", "incarnations", "-o", "json")
	r.lehr("hold", "schema/searches", "--reason", "the disks of the database are exchanged", "--for", "2h")
	r.changes("version: v1\nneeds_schema: \"1\"", "version: v3\nneeds_schema: \"2\"")
	r.untilSaid("waits", "why", "frontend/a")
	group, head := r.firstWord("shakespeare", "get", "groups"), r.firstWord("shakespeare@", "get", "incarnations")
	for name, path := range map[string]string{
		"home": "/", "asset": "/partition/shakespeare/asset/frontend/a", "graph": "/partition/shakespeare/graph/" + group,
		"incarnation": "/partition/shakespeare/incarnation/" + strings.TrimPrefix(head, "shakespeare@"),
		"delivery":    "/partition/shakespeare/delivery", "rollout": "/partition/shakespeare/rollout/reader",
	} {
		r.visit(base + path)
		r.until(`document.readyState === "complete"`)
		time.Sleep(2 * time.Second) // It shows what is so now.
		shot, err := chromedp.Call(r.browser, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp})
		r.must(err)
		r.must(os.WriteFile(filepath.Join(folder, name+".webp"), shot.Data, 0o644))
	}
}

// delivers has a version of the reader built, and lets it into production.
func (r *real) delivers(version, author string) {
	r.Helper()
	r.lehr("document", "set", "builds", fmt.Sprintf(`/%s={"author": %q}`, version, author), "--reason", "a new build")
	r.untilSaid(version+" is not in production: people waits", "why", "production")
	r.lehr("delivery", "approve", "production", version, "--reason", "it works in staging")
}

// firstWord is the first word of what a command prints that begins so.
func (r *real) firstWord(prefix string, arguments ...string) string {
	r.Helper()
	for word := range strings.FieldsSeq(r.lehr(arguments...)) {
		if strings.HasPrefix(word, prefix) {
			return word
		}
	}
	r.Fatalf("lehr %v says nothing that begins with %s", arguments, prefix)
	return ""
}

// changes edits the demo's manifest.
func (r *real) changes(old, text string) {
	r.Helper()
	file := filepath.Join(r.folder, "service.yaml")
	manifest, err := os.ReadFile(file)
	r.must(err)
	if !strings.Contains(string(manifest), old) {
		r.Fatalf("the manifest has no %q:\n%s", old, manifest)
	}
	r.must(os.WriteFile(file, []byte(strings.Replace(string(manifest), old, text, 1)), 0o644))
}
