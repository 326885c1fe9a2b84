package kubeapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// leastBusyPause counts where a server that is too busy does not say for how long.
	leastBusyPause = time.Second
	// maxBusyWords of the server's answer are told.
	maxBusyWords = 300
)

// busyError is an answer 429: the server refused the request before it did anything.
type busyError struct {
	pause time.Duration
	words string
}

func (b *busyError) Error() string {
	return fmt.Sprintf("the API server is too busy, and asks to be left alone for %s: %s", b.pause, b.words)
}

// obeying hands an answer 429 to the caller. client-go would wait and ask again by itself,
// for longer than a look may take, and the caller would learn of a time-out alone.
type obeying struct{ next http.RoundTripper }

func (o obeying) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	defer response.Body.Close()
	words, _ := io.ReadAll(io.LimitReader(response.Body, maxBusyWords))
	busy := &busyError{leastBusyPause, strings.ToValidUTF8(strings.TrimSpace(string(words)), "")}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		busy.pause = time.Duration(seconds) * time.Second
	}
	return nil, busy
}

// BusyFor is how long the server asks to be left alone; ok is false where it does not.
func BusyFor(err error) (pause time.Duration, ok bool) {
	if busy, ok := errors.AsType[*busyError](err); ok {
		return busy.pause, true
	}
	seconds, suggested := apierrors.SuggestsClientDelay(err)
	if !suggested || !apierrors.IsTooManyRequests(err) {
		return 0, false
	}
	return time.Duration(max(seconds, 1)) * time.Second, true
}
