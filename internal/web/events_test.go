package web_test

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/web"
)

// stream is a page that is followed.
type stream struct {
	*testing.T
	lines  *bufio.Scanner
	cancel context.CancelFunc
	// id of the last event.
	id string
}

func (w *world) follow(t *testing.T, page, have, lastID string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	query := url.Values{"of": {page}, "have": {have}}
	request, err := http.NewRequestWithContext(ctx, "GET", w.base+"/events?"+query.Encode(), nil)
	w.must(err)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	answer, err := w.browser.Do(request)
	w.must(err)
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %s, %s", page, answer.Status, answer.Header.Get("Content-Type"))
	}
	s := &stream{T: t, lines: bufio.NewScanner(answer.Body), cancel: cancel}
	s.lines.Buffer(nil, 10<<20)
	return s
}

// next is the next event of a kind; "" is a heartbeat.
func (s *stream) next(kind string) string {
	s.Helper()
	event := ""
	for s.lines.Scan() {
		switch line := s.lines.Text(); {
		case line == ": still here":
			if kind == "" {
				return ""
			}
		case strings.HasPrefix(line, "event: "):
			event = line[len("event: "):]
		case strings.HasPrefix(line, "id: "):
			s.id = line[len("id: "):]
		case strings.HasPrefix(line, "data: ") && event == kind:
			return line[len("data: "):]
		}
	}
	s.Fatalf("the stream ended before %q: %v", kind, s.lines.Err())
	return ""
}

var state = regexp.MustCompile(`data-state="([^"]*)"`)

func TestARowThatChangesIsSent(t *testing.T) {
	w := newWorld(t, func(o *web.Options) { o.Heartbeat = 5 * time.Millisecond })
	w.three()
	const page = "/partition/shop?prefix=web/"
	have := state.FindStringSubmatch(w.shows(page))[1]
	w.follow(t, page, "", "").next("parts") // It was looked at.
	s := w.follow(t, page, have, "")
	s.next("") // It was compared with what this one has.
	w.report(waits("web/b", intent.WaitBudget, "it waits now"))
	told := s.next("parts")
	if !strings.Contains(told, `"id":"row:web/b"`) || !strings.Contains(told, "it waits now") {
		t.Errorf("told %s", told)
	}
	if strings.Contains(told, `"id":"row:web/a"`) || strings.Contains(told, `"id":"assets"`) {
		t.Errorf("also told what did not change: %s", told)
	}
	if strings.Contains(told, "<script") {
		t.Error("markup is not escaped in JSON")
	}
}

// A browser that comes again is sent what it missed, and nothing when it
// missed nothing.
func TestComingAgain(t *testing.T) {
	w := newWorld(t, func(o *web.Options) { o.Heartbeat = 5 * time.Millisecond })
	w.three()
	const page = "/partition/shop"
	s := w.follow(t, page, "", "")
	s.next("parts")
	id := s.id
	s.cancel()
	w.report(waits("web/b", intent.WaitBudget, "missed it"))
	s = w.follow(t, page, "", id)
	if told := s.next("parts"); !strings.Contains(told, "missed it") {
		t.Errorf("told %s", told)
	}
	id = s.id
	s.cancel()
	w.follow(t, page, "", "").next("parts")
	s = w.follow(t, page, "", id)
	s.next("")
	w.report(waits("web/b", intent.WaitBudget, "later"))
	if told := s.next("parts"); !strings.Contains(told, "later") || strings.Contains(told, `"id":"row:web/a"`) {
		t.Errorf("told %s", told)
	}
}

// A page of something that goes away says so, and goes on when it is back.
func TestWhatCannotBeReadIsTold(t *testing.T) {
	w := newWorld(t)
	w.three()
	s := w.follow(t, "/partition/shop/asset/later", "", "")
	if told := s.next("problem"); !strings.Contains(told, "later is not in shop@1") {
		t.Errorf("told %s", told)
	}
	w.publish(1, w.command("later", "it is there"))
	if told := s.next("problem"); told != `""` {
		t.Errorf("told %s, want that it can be read again", told)
	}
	for !strings.Contains(s.next("parts"), "it is there") {
	}
}

func TestQuietStreamsLive(t *testing.T) {
	w := newWorld(t, func(o *web.Options) { o.Heartbeat = time.Millisecond })
	w.three()
	s := w.follow(t, "/partition/shop", "", "")
	s.next("")
	s.next("")
}

func TestStreamsEndWithTheServer(t *testing.T) {
	w := newWorld(t)
	w.three()
	s := w.follow(t, "/", "", "")
	s.next("parts")
	w.pages.CloseClientConnections()
	for s.lines.Scan() {
	}
}

func TestStreamsAreOfPages(t *testing.T) {
	w := newWorld(t, func(o *web.Options) { o.MaxStreams = 1 })
	for _, query := range []string{"", "?of=/nothing", "?of=%zz", "?of=https://evil.example/nothing"} {
		if status, _ := w.get("/events" + query); status != http.StatusNotFound && status != http.StatusBadRequest {
			t.Errorf("%q answered %d", query, status)
		}
	}
	w.follow(t, "/", "", "").next("parts")
	if status, text := w.get("/events?of=/"); status != http.StatusServiceUnavailable {
		t.Errorf("one too many answered %d: %s", status, text)
	}
}
