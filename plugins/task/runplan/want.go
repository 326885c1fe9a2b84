// Package runplan decides whether a task must run: from its intent, what ran, and the time.
// It is pure: it starts nothing, reads nothing and has no clock. The plugin lehr-task calls it.
package runplan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	taskpb "lehr.dev/gen/lehr/task/v1"
)

const (
	defaultTimeout     = time.Hour
	defaultGrace       = 10 * time.Second
	defaultStartWithin = time.Hour
	mostEvery          = 366 * 24 * time.Hour
)

// Want is what a task's intent asks for, with the digests by which it is found again.
type Want struct {
	Task *taskpb.Task
	// Purpose, Plain, Batch and Grant are those of runrecord.Run. Batch is empty without items.
	Purpose, Plain, Batch, Grant string
	zone                         *time.Location
}

// Read checks a task and reads what it asks for. Errors say what to mend.
func Read(task *taskpb.Task) (Want, error) {
	w := Want{Task: task}
	if len(task.Command) == 0 || !filepath.IsAbs(task.Command[0]) {
		return w, fmt.Errorf("command %q does not begin with the absolute path of a program: write the whole path", task.Command)
	}
	if task.Directory != "" && !filepath.IsAbs(task.Directory) {
		return w, fmt.Errorf("directory %q is not an absolute path: write the whole path", task.Directory)
	}
	if len(task.Items) > 0 && (task.GetEvery() != nil || task.GetDaily() != nil) {
		return w, fmt.Errorf("it has items, which are worked off once, and every or daily: make two tasks of it")
	}
	if every := task.GetEvery(); every != nil && (every.AsDuration() < time.Second || every.AsDuration() > mostEvery) {
		return w, fmt.Errorf("every is %v: write from 1s to 366 days", every.AsDuration())
	}
	if daily := task.GetDaily(); daily != nil {
		var err error
		if w.zone, err = time.LoadLocation(daily.Zone); err != nil || daily.Zone == "Local" {
			return w, fmt.Errorf("daily.zone %q is not a time zone: write one such as Europe/London, or leave it empty for UTC", daily.Zone)
		}
		if _, err := time.Parse(clockForm, daily.At); err != nil {
			return w, fmt.Errorf("daily.at %q is not a time of the day: write one such as 02:30", daily.At)
		}
	}
	content, rerun := contentOf(task), ""
	switch again := task.Rerun; {
	case again == nil:
	case again.OnlyUnfinished:
		w.Grant = again.Id
	default:
		rerun = again.Id
	}
	w.Purpose = digest("purpose", append([]string{content, rerun}, task.Items...)...)
	w.Plain = digest("purpose", append([]string{content, ""}, task.Items...)...)
	if len(task.Items) > 0 {
		w.Batch = digest("batch", content, rerun)
	}
	return w, nil
}

// contentOf is a digest of the version, or else of all that decides what the program does.
func contentOf(task *taskpb.Task) string {
	if task.Version != "" {
		return digest("version", task.Version)
	}
	parts := []string{task.Input, task.Directory, fmt.Sprint(len(task.Command))}
	parts = append(parts, task.Command...)
	for _, name := range slices.Sorted(maps.Keys(task.Env)) {
		parts = append(parts, name, task.Env[name])
	}
	return digest("content", parts...)
}

// digest of parts, each with its length, so that no two lists have one.
func digest(kind string, parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{kind}, parts...) {
		_ = binary.Write(h, binary.LittleEndian, uint64(len(part)))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Timeout of the program, or of each of its items.
func (w Want) Timeout() time.Duration {
	if w.Task.Timeout == nil {
		return defaultTimeout
	}
	return w.Task.Timeout.AsDuration()
}

// Grace is from SIGTERM to SIGKILL.
func (w Want) Grace() time.Duration {
	if w.Task.GracePeriod == nil {
		return defaultGrace
	}
	return w.Task.GracePeriod.AsDuration()
}

// IsRecurring reports whether the task must run again and again.
func (w Want) IsRecurring() bool { return w.Task.GetEvery() != nil || w.Task.GetDaily() != nil }

// staleAfter is how long ago the last run may have begun; 0: it does not grow stale.
func (w Want) staleAfter() time.Duration {
	switch every := w.Task.GetEvery(); {
	case !w.IsRecurring():
		return 0
	case w.Task.StaleAfter != nil:
		return w.Task.StaleAfter.AsDuration()
	case every != nil:
		return every.AsDuration()*11/10 + w.Timeout()
	default:
		return 25*time.Hour + w.Timeout()
	}
}
