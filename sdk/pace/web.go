package pace

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lehr.dev/sdk/serve"
)

// Answer of an HTTP API, whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Fetch sends a request as Do makes a call, and reads its answer, of at most so many bytes.
// GET and HEAD are idempotent; others as the call says, if their body can be had again, as
// that of http.NewRequest. An answer of any other status than CheckStatus takes for an error
// is no error.
func (p *Pacer) Fetch(client *http.Client, request *http.Request, call Call, most int64) (Answer, error) {
	if request.Method == http.MethodGet || request.Method == http.MethodHead || request.Method == "" {
		call.Idempotent = true
	}
	if request.Body != nil && request.Body != http.NoBody && request.GetBody == nil {
		call.Idempotent = false
	}
	var answer Answer
	err := p.Do(request.Context(), call, func(ctx context.Context) (err error) {
		attempt := request.Clone(ctx)
		if request.GetBody != nil {
			if attempt.Body, err = request.GetBody(); err != nil {
				return fmt.Errorf("reading the body of a request to %s again: %w", call.Target, err)
			}
		}
		answer, err = fetch(client, attempt, call.Target, most)
		return err
	})
	return answer, err
}

func fetch(client *http.Client, request *http.Request, target string, most int64) (Answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("reading the answer of %s: %w", target, err)
	case int64(len(body)) > most:
		return Answer{}, fmt.Errorf("%s answers more than %d bytes: ask for less at a time", target, most)
	}
	answer := Answer{Status: response.StatusCode, Header: response.Header, Body: body}
	return answer, CheckStatus(target, answer.Status, answer.Header)
}

// CheckStatus is an error when an answer is none to what was asked: serve.Busy for 429, and
// for 503 that says until when; a transient one for 502, 503 and 504.
func CheckStatus(target string, status int, header http.Header) error {
	delay, ok := RetryAfter(header, time.Now())
	said := fmt.Errorf("%s answers %d %s", target, status, http.StatusText(status))
	switch {
	case status == http.StatusTooManyRequests && !ok:
		return serve.Busy(said, DefaultPause)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && ok:
		return serve.Busy(said, delay)
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return Transient(said)
	}
	return nil
}

// RetryAfter is what a header says of when to ask again (RFC 9110, 10.2.3): from 1 s to
// MaxPause. A date counts from the answer's own Date, as the target's clock may be wrong;
// from now where it has none. Not ok: it says nothing that can be read.
func RetryAfter(header http.Header, now time.Time) (pause time.Duration, ok bool) {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(max(1, min(seconds, uint64(MaxPause/time.Second)))) * time.Second, true
	}
	deadline, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	start, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		start = now
	}
	return max(time.Second, min(deadline.Sub(start), MaxPause)), true
}
