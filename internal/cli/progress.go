package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/measure"
)

const (
	// linePause is how long a command works in silence where stderr is no terminal, and
	// between two lines.
	linePause = 5 * time.Second
	// redrawPause is the same for the line on a terminal.
	redrawPause = time.Second
)

// showProgress has a command that takes long tell on stderr what it does: on a terminal
// in one line that is written anew, else in a line now and then. Until end is called,
// whatever else writes to stderr does so between two lines.
func (s *session) showProgress() (progress *measure.Progress, end func()) {
	progress = &measure.Progress{}
	if !s.ShowsProgress {
		return progress, func() {}
	}
	line := &progressLine{out: s.Err, redraws: terminal(s.Err)}
	before := s.Err
	s.Err = line
	pause := linePause
	if line.redraws {
		pause = redrawPause
	}
	start, over, exit := s.now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(exit)
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				line.clear()
				return
			case <-ticker.C:
			}
			line.show(progressText(progress.Read(), s.now().Sub(start)))
		}
	}()
	return progress, func() {
		close(over)
		<-exit
		s.Err = before
	}
}

// progressText says what is done, how much of it, and for how long the command has run.
func progressText(d measure.Doing, duration time.Duration) string {
	var parts []string
	if d.Pass != "" {
		parts = append(parts, d.Pass)
	}
	if d.Step != "" {
		parts = append(parts, d.Step)
	}
	if d.All > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d", d.Done, d.All))
	}
	return plain(strings.Join(append(parts, duration.Round(time.Second).String()), ": "))
}

// progressLine is stderr with a line of progress in it.
type progressLine struct {
	mutex sync.Mutex
	out   io.Writer
	// redraws: the line is written anew in its place; drawn: it is there now.
	redraws, drawn bool
}

func (l *progressLine) show(text string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.redraws {
		fmt.Fprintln(l.out, text)
		return
	}
	l.drawn = true
	fmt.Fprint(l.out, clearLine+shorten(text, columns-1)) // A full line would wrap.
}

// clearLine goes to the begin of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

func (l *progressLine) clear() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.clearDrawn()
}

func (l *progressLine) clearDrawn() {
	if l.drawn {
		fmt.Fprint(l.out, clearLine)
	}
	l.drawn = false
}

// Write takes the line away before something else is said.
func (l *progressLine) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.clearDrawn()
	return l.out.Write(text)
}
