// Package pushlog keeps the last lines that plugins tell of pushes under way, in memory
// alone: with the process they are lost. The enforcer opens and closes the logs, the
// plugins' side adds lines, and the API reads them. What it holds is bounded whatever a
// plugin tells, and is printable and without what looks like a secret (S13).
package pushlog

import (
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/secrecy"
)

const (
	// MostLines and MostBytes are what is kept of one push, and MostLine are the bytes of one line.
	MostLines = 200
	MostBytes = 64_000
	MostLine  = 4096
	// mostAll are the bytes kept of all pushes of a book. Beyond it a push keeps only its newest line.
	mostAll = 4_000_000
	// margin of a line is looked at beyond what is kept of it, so that a secret which is cut off is known
	// to be one. It is more than any form of secret needs to be known.
	margin = 512
)

// Line is one line that a plugin told.
type Line struct {
	At   time.Time
	Text string
}

// Log is what is kept of one push, the oldest line first.
type Log struct {
	Lines []Line
	// Dropped is how many lines before these were told.
	Dropped int64
}

// Book has the logs of the open pushes of a partition. The zero value is empty. Its methods may be called
// from many goroutines, and never wait.
type Book struct {
	mutex sync.Mutex
	logs  map[intent.PushID]*log
	bytes int
}

// log is a Log that grows.
type log struct {
	Log
	bytes int
	// keyLines is how many lines are hidden yet, for they are those of a private key.
	keyLines int
}

// Open begins the log of a push.
func (b *Book) Open(push intent.PushID) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.logs == nil {
		b.logs = map[intent.PushID]*log{}
	}
	if b.logs[push] == nil {
		b.logs[push] = &log{}
	}
}

// Close forgets the log of a push.
func (b *Book) Close(push intent.PushID) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if pushLog := b.logs[push]; pushLog != nil {
		b.bytes -= pushLog.bytes
		delete(b.logs, push)
	}
}

// Clear forgets all logs.
func (b *Book) Clear() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.logs, b.bytes = nil, 0
}

// Read returns a copy of the log of a push; not ok: that is not open here.
func (b *Book) Read(push intent.PushID) (_ Log, ok bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	pushLog := b.logs[push]
	if pushLog == nil {
		return Log{}, false
	}
	return Log{Lines: append([]Line(nil), pushLog.Lines...), Dropped: pushLog.Dropped}, true
}

// Last returns the newest line of a push; not ok: there is none.
func (b *Book) Last(push intent.PushID) (_ string, ok bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	pushLog := b.logs[push]
	if pushLog == nil || len(pushLog.Lines) == 0 {
		return "", false
	}
	return pushLog.Lines[len(pushLog.Lines)-1].Text, true
}

// Add adds what a plugin told of a push, by its lines. Of a push that is not open nothing is kept.
func (b *Book) Add(push intent.PushID, text string, now time.Time) {
	lines, dropped := splitLines(text)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	pushLog := b.logs[push]
	if pushLog == nil {
		return
	}
	pushLog.skip(dropped)
	before := pushLog.bytes
	for _, line := range lines {
		text := pushLog.clean(line)
		pushLog.Lines = append(pushLog.Lines, Line{now, text})
		pushLog.bytes += len(text)
	}
	most := MostBytes
	if b.bytes-before+pushLog.bytes > mostAll {
		most = 0
	}
	pushLog.trim(most)
	b.bytes += pushLog.bytes - before
}

// trim drops the oldest lines beyond what is kept; the newest stays.
func (l *log) trim(mostBytes int) {
	drop, bytes := 0, l.bytes
	for len(l.Lines)-drop > 1 && (len(l.Lines)-drop > MostLines || bytes > mostBytes) {
		bytes -= len(l.Lines[drop].Text)
		drop++
	}
	if drop > 0 {
		l.Lines = append(l.Lines[:0:0], l.Lines[drop:]...) // So that the old texts are let go.
		l.bytes = bytes
		l.Dropped += int64(drop)
	}
}

// splitLines returns the last lines of a text, and those before them as they are. An end of the last
// line, and a carriage return at the end of one, are no part of it.
func splitLines(text string) (lines []string, dropped string) {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return nil, ""
	}
	start := len(text)
	for n := 0; n < MostLines && start >= 0; n++ {
		start = strings.LastIndexByte(text[:start], '\n')
	}
	if start >= 0 {
		dropped = text[:start+1]
	}
	for line := range strings.SplitSeq(text[start+1:], "\n") {
		lines = append(lines, strings.TrimRight(line, "\r"))
	}
	return lines, dropped
}

// skip counts lines that are not kept. A private key may begin or end in them.
func (l *log) skip(dropped string) {
	count := strings.Count(dropped, "\n")
	l.Dropped += int64(count)
	last := max(0, strings.LastIndex(dropped, keyBegin))
	switch after := dropped[last:]; {
	case strings.Contains(after, keyEnd):
		l.keyLines = 0
	case beginsKey(after):
		l.keyLines = max(0, keyLines+1-strings.Count(after, "\n"))
	default:
		l.keyLines = max(0, l.keyLines-count)
	}
}

const (
	keyBegin, keyEnd = "-----BEGIN ", "-----END "
	// keyLines is how many lines of a private key are hidden whose end does not come: more than keys have.
	keyLines = 400
)

func beginsKey(text string) bool {
	return strings.Contains(text, keyBegin) && strings.Contains(text, "PRIVATE KEY") && !strings.Contains(text, keyEnd)
}

// clean makes a line printable and short, and takes out of it what looks like a secret.
func (l *log) clean(line string) string {
	isCut := len(line) > MostLine
	line = strings.ToValidUTF8(line[:min(len(line), MostLine+margin)], "\ufffd")
	switch hasEnd := strings.Contains(line, keyEnd); {
	case l.keyLines > 0 && hasEnd:
		l.keyLines, line = 0, secrecy.Redacted
	case l.keyLines > 0:
		l.keyLines, line = l.keyLines-1, secrecy.Redacted
	default:
		if beginsKey(line) {
			l.keyLines = keyLines
		}
		line = secrecy.Redact(line)
	}
	if isCut {
		// At the end of what was looked at may be the beginning of a secret.
		line = strings.ToValidUTF8(line[:max(0, len(line)-margin)], "") + "…"
	}
	text, _ := intent.Cut(intent.Shown(line), MostLine)
	return text
}
