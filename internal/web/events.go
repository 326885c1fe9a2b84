package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// events streams what changes on the page that "of" names, as server-sent
// events. A browser says what it has, by "have" at first and by the id of the
// last event when it comes again, and is sent the difference to what is so
// now. Nothing waits in a queue for it: one that reads slowly skips what was
// in between, and one that does not read is dropped.
//
//	parts    {"ids": all parts of the page, "fragments": those that differ}
//	problem  why the page cannot be read now; empty: it can again
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	target, err := url.Parse(values.Get("of"))
	var at address
	if err == nil {
		at, err = parseAddress(target)
	}
	if err != nil || values.Get("of") == "" {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	followed, leave, err := s.live.join(r.Context(), s.viewer(r.Context()).Key, at)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	version := r.Header.Get("Last-Event-ID")
	if version == "" {
		version = values.Get("have")
	}
	stream := stream{writer: w, control: http.NewResponseController(w), patience: s.options.Patience, sent: &snapshot{version: version}}
	err = stream.write("retry: 1000\n\n")
	heartbeat := time.NewTicker(s.options.Heartbeat)
	defer heartbeat.Stop()
	for err == nil {
		now := s.live.moment(followed)
		if err = stream.tell(now); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-now.superseded:
		case <-heartbeat.C:
			err = stream.write(": still here\n\n")
		}
	}
}

// stream is one browser.
type stream struct {
	writer   http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	// sent is what the browser has, and problem what it was told last.
	sent    *snapshot
	problem string
}

// message is the content of an event "parts".
type message struct {
	IDs       []string   `json:"ids"`
	Fragments []fragment `json:"fragments"`
}

// tell sends what the browser does not have.
func (s *stream) tell(now moment) error {
	if problem := text(now.problem); problem != s.problem {
		s.problem = problem
		if err := s.send("problem", "", plain(problem)); err != nil {
			return err
		}
	}
	if now.snapshot == nil || now.snapshot == s.sent {
		return nil
	}
	previous := s.sent
	s.sent = now.snapshot
	if previous.version == now.snapshot.version {
		return nil
	}
	update := message{Fragments: now.snapshot.changesSince(previous)}
	for _, p := range now.snapshot.parts {
		update.IDs = append(update.IDs, p.ID)
	}
	return s.send("parts", now.snapshot.version, update)
}

func (s *stream) send(event, id string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.write(fmt.Sprintf("event: %s\n%sdata: %s\n\n", event, id, data))
}

func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	if _, err := s.writer.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
