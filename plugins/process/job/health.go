package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// settled is how long a task without a port runs until it counts as healthy.
const settled = 500 * time.Millisecond

// ticksPerSecond of start times in /proc: USER_HZ, 100 on every Linux that Go
// runs on.
const ticksPerSecond = 100

var prober = &http.Client{
	// A connection kept open would delay a task that drains.
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// probe says why the task is not healthy, or nothing, and which version it
// reports.
func probe(ctx context.Context, job *processpb.Job, t *task, ports ports) (trouble, reported string) {
	listensOn := port(job, t.number)
	switch {
	case listensOn == 0 && age(t.main()) < settled:
		return "has just been started", ""
	case listensOn == 0:
		return "", ""
	case len(ports[listensOn]) == 0:
		return fmt.Sprintf("does not listen on its port %d", listensOn), ""
	case !ports.heldBy(listensOn, t.main()):
		return fmt.Sprintf("does not have its port %d: %s does", listensOn, ports.describeHolder(listensOn)), ""
	case job.Health == nil:
		return "", ""
	}
	return ask(ctx, job.Health, listensOn, t.main().version)
}

func ask(ctx context.Context, check *processpb.HealthCheck, port uint32, version string) (trouble, reported string) {
	limit := defaultHealthTimeout
	if check.Timeout != nil {
		limit = check.Timeout.AsDuration()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, check.Path), nil)
	if err != nil {
		return fmt.Sprintf("cannot be asked for its health at %q: %v", check.Path, err), ""
	}
	response, err := prober.Do(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("did not answer GET %s on port %d within %v", check.Path, port, limit), ""
	case err != nil:
		return fmt.Sprintf("does not answer GET %s on port %d: %v", check.Path, port, err), ""
	}
	defer response.Body.Close()
	reported = response.Header.Get("Lehr-Version")
	switch {
	case response.StatusCode != http.StatusOK:
		body, _ := io.ReadAll(io.LimitReader(response.Body, 80))
		line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return fmt.Sprintf("answers GET %s on port %d with %s: %q", check.Path, port, response.Status, line), reported
	case reported != "" && reported != version:
		return fmt.Sprintf("says that it is version %q, but was started as %q", reported, version), reported
	}
	return "", reported
}

// age of a process.
func age(p process) time.Duration {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(uptime), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return time.Duration((seconds - float64(p.started)/ticksPerSecond) * float64(time.Second))
}
