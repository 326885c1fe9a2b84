package subprocess

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

const (
	// tellPause is between two tellings. They have at most mostTold lines, of which no more than mostLine
	// bytes count.
	tellPause = 200 * time.Millisecond
	mostTold  = 200
	mostLine  = 8 << 10
)

// teller tells of lines as they are written, together with those that come soon after.
type teller struct {
	mutex   sync.Mutex
	tell    func(lines string)
	streams []*lineStream
	lines   []string
	// isDue: a telling is to come. Ended: nothing is told any more.
	isDue, ended bool
}

func newTeller(tell func(lines string)) *teller { return &teller{tell: tell} }

// lineStream is one of the streams that the lines are written on.
type lineStream struct {
	teller *teller
	// partial is a line whose end has not come.
	partial []byte
}

func (t *teller) stream() *lineStream {
	s := &lineStream{teller: t}
	t.streams = append(t.streams, s)
	return s
}

// Write never fails, and waits for a telling at most.
func (s *lineStream) Write(p []byte) (int, error) {
	s.teller.mutex.Lock()
	defer s.teller.mutex.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ends := bytes.Cut(rest, []byte("\n"))
		s.partial = append(s.partial, line[:min(len(line), mostLine-len(s.partial))]...)
		if rest = after; ends {
			s.finishLine()
		}
	}
	return len(p), nil
}

// finishLine has a line told soon.
func (s *lineStream) finishLine() {
	t := s.teller
	t.lines = append(t.lines, string(s.partial))
	s.partial = s.partial[:0]
	if len(t.lines) >= 2*mostTold { // Moved seldom, so that many lines cost little.
		t.lines = append(t.lines[:0], t.lines[len(t.lines)-mostTold:]...)
	}
	if !t.isDue {
		t.isDue = true
		time.AfterFunc(tellPause, func() {
			t.mutex.Lock()
			defer t.mutex.Unlock()
			t.flush()
		})
	}
}

// flush tells of the lines that were not told of.
func (t *teller) flush() {
	t.isDue = false
	if len(t.lines) > 0 && !t.ended {
		t.tell(strings.ToValidUTF8(strings.Join(t.lines[max(0, len(t.lines)-mostTold):], "\n"), "?"))
	}
	t.lines = nil
}

// end tells of what was not told of, also of lines without an end, and of nothing from then on.
func (t *teller) end() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, s := range t.streams {
		if len(s.partial) > 0 {
			s.finishLine()
		}
	}
	t.flush()
	t.ended = true
}
