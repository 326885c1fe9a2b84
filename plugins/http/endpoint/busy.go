package endpoint

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"lehr.dev/sdk/pace"
	"lehr.dev/sdk/serve"
)

// busy is serve.Busy when the answer says that the API has too much to do. No request
// is sent to the endpoint until it said that it has time.
func (e *Endpoint) busy(answer Answer) error {
	delay, ok := pace.RetryAfter(answer.Header, time.Now())
	limited := e.Profile.Busy.Remaining != "" && answer.Header.Get(e.Profile.Busy.Remaining) == "0"
	switch {
	case answer.Status == http.StatusTooManyRequests, answer.Status == http.StatusForbidden && limited:
	case answer.Status == http.StatusServiceUnavailable && ok:
	default:
		return nil
	}
	if !ok {
		delay = answer.resetAfter(e.Profile.Busy.Reset)
	}
	e.pacer.Pause(e.URL.Host, delay)
	return serve.Busy(fmt.Errorf("%s answers %d: it is too busy for %v", e.URL.Host, answer.Status, delay.Round(time.Second)), delay)
}

// resetAfter is a header with the Unix time, by the API's clock, when it has time again:
// from 1 s to pace.MaxPause from now.
func (a Answer) resetAfter(header string) time.Duration {
	reset, err := strconv.ParseInt(a.Header.Get(header), 10, 64)
	date, wrong := http.ParseTime(a.Header.Get("Date"))
	if header == "" || err != nil || wrong != nil {
		return pace.DefaultPause
	}
	return min(max(time.Unix(reset, 0).Sub(date), time.Second), pace.MaxPause)
}
