package subprocess

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Result is how a program ended.
type Result struct {
	// Exit is its exit status; -1 when it did not end by itself.
	Exit int
	// Signal that ended it; 0: none did, or it is not known.
	Signal syscall.Signal
	// CPU is the processor time of the program and of all that it waited for. 0: not known.
	CPU time.Duration
	// MaxRSS is the most memory that one of them had at a time, in bytes. It is at least
	// what the guard had that started it, some 10 MB. 0: not known.
	MaxRSS int64
	// Took is its time by the clock.
	Took           time.Duration
	Stdout, Stderr Output
}

// String tells how it ended, and the end of what it wrote to standard error.
func (r Result) String() string {
	ending := fmt.Sprintf("exit code %d", r.Exit)
	switch {
	case r.Signal == syscall.SIGXCPU:
		ending = "no processor time left (ended by SIGXCPU)"
	case r.Signal != 0:
		ending = fmt.Sprintf("ended by %v", r.Signal)
	case r.Exit < 0:
		ending = "no exit code"
	}
	if text := r.Stderr.Text(); text != "" {
		return ending + ", and said: " + text
	}
	return ending + " and said nothing on standard error"
}

// Output is what was kept of a stream.
type Output struct {
	// Head and Tail are the first and the last bytes, as they were written: they may hold
	// secrets, and are for the plugin alone. Tail is what follows Head, where all was kept.
	Head, Tail []byte
	// Written is how many bytes there were.
	Written int64
	redact  func(string) string
}

// Truncated reports whether some of it was not kept.
func (o Output) Truncated() bool { return o.Written > int64(len(o.Head)+len(o.Tail)) }

// Bytes is the whole stream; ok is false when it was truncated.
func (o Output) Bytes() (all []byte, ok bool) {
	return append(bytes.Clone(o.Head), o.Tail...), !o.Truncated()
}

// Text is what was kept, for people: secrets are hidden, if the Runner knows of any, bytes
// that are no text are "?", and what is missing is told. A line that was cut in two is left
// out where secrets are hidden, as a half of one is not recognised.
func (o Output) Text() string {
	if !o.Truncated() {
		return o.shown(append(bytes.Clone(o.Head), o.Tail...))
	}
	head, tail := o.Head, o.Tail
	if o.redact != nil {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
		// Without a line's end in it, all of it is of a line that was cut.
		if end := bytes.IndexByte(tail, '\n'); end >= 0 {
			tail = tail[end+1:]
		} else {
			tail = nil
		}
	}
	missing := fmt.Sprintf("[… %d bytes left out]", o.Written-int64(len(head)+len(tail)))
	return strings.TrimSpace(o.shown(head) + "\n" + missing + "\n" + o.shown(tail))
}

func (o Output) shown(text []byte) string {
	shown := string(text)
	if o.redact != nil {
		shown = o.redact(shown)
	}
	return strings.TrimSpace(strings.ToValidUTF8(shown, "?"))
}

// stream keeps the beginning and the end of what is written to it.
type stream struct {
	kept       Kept
	head, tail []byte
	written    int64
}

func (s *stream) Write(p []byte) (int, error) {
	s.written += int64(len(p))
	first := p[:min(len(p), s.kept.Head-len(s.head))]
	s.head = append(s.head, first...)
	rest := p[len(first):]
	if excess := len(rest) - s.kept.Tail; excess > 0 {
		rest, s.tail = rest[excess:], s.tail[:0]
	}
	s.tail = append(s.tail, rest...)
	// Twice the size is let grow, so that small writes do not move all of it.
	if len(s.tail) > 2*s.kept.Tail {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-s.kept.Tail:]...)
	}
	return len(p), nil
}

func (s *stream) output(redact func(string) string) Output {
	tail := s.tail[max(0, len(s.tail)-s.kept.Tail):]
	return Output{Head: s.head, Tail: tail, Written: s.written, redact: redact}
}
