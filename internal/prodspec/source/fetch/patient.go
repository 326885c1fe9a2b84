package fetch

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"lehr.dev/internal/ground/fault"
)

// answered is the cause of an answer that is not the content that was asked for.
type answered struct {
	status int
	// after is when to ask again; zero: it does not say.
	after time.Duration
}

func (a *answered) Error() string { return "the answer is " + strconv.Itoa(a.status) }

// mostPause bounds how long whoever is asked can have nobody ask.
const mostPause = time.Hour

// pauseOf is how long nobody is to ask again after an error; zero: as usual.
func pauseOf(err error) time.Duration {
	if a, ok := errors.AsType[*answered](err); ok {
		return a.after
	}
	return 0
}

// notThere reports whether an answer was that there is nothing.
func notThere(err error) bool {
	a, ok := errors.AsType[*answered](err)
	return ok && a.status == http.StatusNotFound
}

// refusal is the error of an answer that is not the content that was asked for.
func refusal(url string, response *http.Response) error {
	code := response.StatusCode
	cause := &answered{status: code}
	hint := "mend its address, or give a token: {env: VARIABLE}; what was read last stays in use"
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		cause.after = min(retryAfter(response.Header), mostPause)
		hint = "it is asked again when it allows that; with token: {env: VARIABLE} it may allow more, and every: 10m asks less often"
	}
	return fault.New(fault.Unavailable, "%s cannot be read: the answer is %d %s", url, code, http.StatusText(code)).WithHint("%s", hint).WithCause(cause)
}

// retryAfter is how long to wait by the headers of an answer: seconds, or a date by
// the clock of whoever answered (RFC 9110, 10.2.3); zero: they do not say.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(mostPause/time.Second))) * time.Second
	}
	end, err := http.ParseTime(text)
	now, err2 := http.ParseTime(header.Get("Date"))
	if err != nil || err2 != nil {
		return 0
	}
	return max(end.Sub(now), 0)
}
