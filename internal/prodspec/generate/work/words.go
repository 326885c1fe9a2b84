package work

import (
	"bytes"
	"strings"
	"sync"
)

// LastWords keeps the first 8 kB that a child writes to its stderr.
type LastWords struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

const maxWords = 8 << 10

func (w *LastWords) Write(p []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if room := maxWords - w.buffer.Len(); room > 0 {
		w.buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// First is the first line: of a Go program that died, what it died of.
func (w *LastWords) First() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	line, _, _ := strings.Cut(strings.TrimSpace(w.buffer.String()), "\n")
	return line
}
