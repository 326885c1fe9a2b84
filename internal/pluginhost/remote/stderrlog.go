package remote

import (
	"bufio"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine is how much of a line is logged, tailLines how many lines are
	// kept for error messages, linesPerSecond how many are logged.
	maxLine        = 4096
	tailLines      = 8
	linesPerSecond = 100
)

// stderrLog logs what a child writes to stderr, line by line, and keeps the
// last lines.
type stderrLog struct {
	file *os.File
	log  *slog.Logger
	done chan struct{}

	mutex sync.Mutex
	tail  []string
}

func followStderr(file *os.File, log *slog.Logger) *stderrLog {
	l := &stderrLog{file: file, log: log, done: make(chan struct{})}
	go l.follow()
	return l
}

func (l *stderrLog) follow() {
	defer close(l.done)
	reader := bufio.NewReaderSize(l.file, maxLine)
	second, count, dropped := time.Time{}, 0, 0
	for {
		// A line too long is logged up to the limit; the rest is skipped.
		line, more, err := reader.ReadLine()
		words := redactedWords(string(line), maxLine)
		for more && err == nil {
			_, more, err = reader.ReadLine()
		}
		if words != "" {
			l.keep(words)
			if now := time.Now(); now.Sub(second) > time.Second {
				if dropped > 0 {
					l.log.Warn("plugin wrote too much to stderr", "lines_dropped", dropped)
				}
				second, count, dropped = now, 0, 0
			}
			if count++; count <= linesPerSecond {
				l.log.Info("plugin says", "line", words)
			} else {
				dropped++
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *stderrLog) keep(line string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.tail) == tailLines {
		l.tail = l.tail[1:]
	}
	l.tail = append(l.tail, line)
}

// close reads what is left. Programs that the child started may still hold
// the other end, so it does not wait for the end of file for long.
func (l *stderrLog) close() {
	if l.file.SetReadDeadline(time.Now().Add(100*time.Millisecond)) == nil {
		<-l.done
	}
	l.file.Close()
}

// last returns what the child wrote last, for an error message.
func (l *stderrLog) last() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.tail) == 0 {
		return "it wrote nothing to stderr"
	}
	return "it wrote last: " + strings.Join(l.tail, " | ")
}
