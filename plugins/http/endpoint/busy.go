package endpoint

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// pauseUnsaid is how long an API is left alone that is busy and does not say until when.
const pauseUnsaid = 10 * time.Second

// busy is an error when the answer says that the API has too much to do. No request
// is sent to the endpoint until it said that it has time.
func (e *Endpoint) busy(answer Answer, now time.Time) error {
	after, ok := answer.retryAfter()
	limited := e.Profile.Busy.Remaining != "" && answer.Header.Get(e.Profile.Busy.Remaining) == "0"
	switch {
	case answer.Status == http.StatusTooManyRequests, answer.Status == http.StatusForbidden && limited:
	case answer.Status == http.StatusServiceUnavailable && ok:
	default:
		return nil
	}
	if !ok {
		after = answer.resetAfter(e.Profile.Busy.Reset)
	}
	after = min(max(after, time.Second), maxPause)
	e.limit.pause(now, after)
	return &Busy{fmt.Errorf("%s answers %d: it is too busy for %v", e.URL.Host, answer.Status, after.Round(time.Second)), after}
}

// retryAfter is the header Retry-After. A date counts from the API's own Date, for its
// clock may be wrong.
func (a Answer) retryAfter() (time.Duration, bool) {
	text := a.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	deadline, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	date, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		return pauseUnsaid, true
	}
	return deadline.Sub(date), true
}

// resetAfter is a header with the Unix time, by the API's clock, when it has time again.
func (a Answer) resetAfter(header string) time.Duration {
	reset, err := strconv.ParseInt(a.Header.Get(header), 10, 64)
	date, wrong := http.ParseTime(a.Header.Get("Date"))
	if header == "" || err != nil || wrong != nil {
		return pauseUnsaid
	}
	return time.Unix(reset, 0).Sub(date)
}
