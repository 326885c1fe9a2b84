package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// Checkpoints says where checkpoints of the audit are sent, and how often.
type Checkpoints struct {
	// To is a file that lines are added to, or an http(s) URL that they are
	// posted to; empty: nowhere.
	To    string
	Every time.Duration
}

const (
	// leastCheckpointPause bounds how often the ends of all chains are read.
	leastCheckpointPause = time.Second
	checkpointPatience   = 10 * time.Second
	// lastCheckpointPatience is what sending is given at the end.
	lastCheckpointPatience = 3 * time.Second
)

func (c Checkpoints) validate() error {
	if c.To == "" {
		return nil
	}
	if c.Every < leastCheckpointPause {
		return fault.New(fault.Invalid, "checkpoints every %s are too many: at least %s must lie between them", c.Every, leastCheckpointPause)
	}
	if at, err := url.Parse(c.To); c.posts() && (err != nil || at.Host == "") {
		return fault.New(fault.Invalid, "checkpoints cannot be sent to %s: it is no URL", c.name()).WithHint("write https://HOST/PATH, or the path of a file")
	}
	return nil
}

func (c Checkpoints) posts() bool {
	return strings.HasPrefix(c.To, "http://") || strings.HasPrefix(c.To, "https://")
}

// name is what people may see: a URL may hold a secret.
func (c Checkpoints) name() string {
	if !c.posts() {
		return c.To
	}
	at, err := url.Parse(c.To)
	if err != nil {
		return "the URL"
	}
	return at.Scheme + "://" + at.Host + at.Path
}

// sender sends what was written to the audit since it last did. It is no part
// of the audit: when it fails nothing waits, and the server says so.
type sender struct {
	Checkpoints
	app *App
	// sent are the numbers that arrived; one goroutine at a time sends.
	sent map[intent.PartitionID]uint64

	mutex   sync.Mutex
	failure string
}

func newSender(a *App) *sender {
	return &sender{Checkpoints: a.options.Checkpoints, app: a, sent: map[intent.PartitionID]uint64{}}
}

// run sends until the context ends.
func (s *sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.send(ctx, checkpointPatience)
		_ = s.app.runtime.Wait(ctx, s.Every, nil)
	}
}

func (s *sender) send(ctx context.Context, patience time.Duration) {
	timeoutCtx, cancel := loop.WithTimeout(ctx, s.app.runtime, patience)
	defer cancel()
	err := s.try(timeoutCtx)
	if ctx.Err() != nil {
		return // It is sent at the end.
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case err != nil:
		if s.failure == "" {
			s.app.log.Warn("checkpoints of the audit do not arrive", "to", s.name(), "error", err)
		}
		s.failure = "checkpoints of the audit do not arrive at " + s.name() + ": " + err.Error()
	case s.failure != "":
		s.failure = ""
		s.app.log.Info("checkpoints of the audit arrive again", "to", s.name())
	}
}

// problem says why the last ones did not arrive; empty: they did.
func (s *sender) problem() string {
	if s == nil {
		return ""
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.failure
}

func (s *sender) try(ctx context.Context) (err error) {
	identity, err := s.app.store.Identity(ctx)
	if err != nil {
		return err
	}
	ends, err := s.app.store.AuditEnds(ctx)
	if err != nil {
		return err
	}
	var news []audit.Checkpoint
	for _, c := range audit.Checkpoints(identity, ends, s.app.runtime.Now().UTC()) {
		if c.Number != s.sent[c.Partition] {
			news = append(news, c)
		}
	}
	if len(news) == 0 {
		return nil
	}
	defer func() {
		if err == nil {
			s.app.measures.Checkpoint.Set(s.app.runtime.Now())
		}
	}()
	var lines bytes.Buffer
	if err := audit.WriteCheckpoints(&lines, news); err != nil {
		return err
	}
	if s.posts() {
		err = s.post(ctx, lines.Bytes())
	} else {
		err = appendLines(s.To, lines.Bytes())
	}
	if err != nil {
		return err
	}
	for _, c := range news {
		s.sent[c.Partition] = c.Number
	}
	return nil
}

func (s *sender) post(ctx context.Context, lines []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.To, bytes.NewReader(lines))
	if err != nil {
		return errors.New("its URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/jsonl")
	client := &http.Client{
		// A connection a minute is not worth keeping.
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		// The error names the URL, which may hold a secret.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return errors.New("it answers " + response.Status)
	}
	return nil
}

// appendLines adds lines to a file, durably. A line that was cut off is left as
// it is, and the next begins after it.
func appendLines(path string, lines []byte) (err error) {
	if err := files.CheckPlace(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if size, err := file.Seek(0, io.SeekEnd); err == nil && size > 0 {
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			lines = append([]byte("\n"), lines...)
		}
	}
	if _, err := file.Write(lines); err != nil {
		return err
	}
	return file.Sync()
}
