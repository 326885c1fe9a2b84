package web_test

import (
	"bufio"
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
	programs, err := filepath.Abs("../../bin")
	r.must(err)
	r.programs = programs
	demo := exec.Command(filepath.Join(programs, "lehr"), "demo", "--dir", r.folder)
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
	r.lehr("hold", "schema/searches", "--reason", "the disks of the database are exchanged", "--for", "2h")
	r.changes("version: v1\nneeds_schema: \"1\"", "version: v3\nneeds_schema: \"2\"")
	r.untilSaid("waits", "why", "frontend/a")
	group := strings.Fields(r.lehr("get", "groups"))[4]
	for name, path := range map[string]string{
		"home": "/", "partition": "/partition/shakespeare", "asset": "/partition/shakespeare/asset/frontend/a", "graph": "/partition/shakespeare/graph/" + group,
		"incarnation": "/partition/shakespeare/incarnation/2", "audit": "/audit?partition=shakespeare",
	} {
		r.visit(base + path)
		r.until(`document.readyState === "complete"`)
		time.Sleep(2 * time.Second) // It shows what is so now.
		shot, err := chromedp.Call(r.browser, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp})
		r.must(err)
		r.must(os.WriteFile(filepath.Join(folder, name+".webp"), shot.Data, 0o644))
	}
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
