package app

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
)

// mostKept bounds the log that is kept in memory, in bytes.
const mostKept = 1 << 20

// tail keeps the newest lines of the log, for a bundle.
type tail struct {
	mutex sync.Mutex
	lines [][]byte
	bytes int
}

func (r *tail) Write(line []byte) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.lines, r.bytes = append(r.lines, bytes.Clone(line)), r.bytes+len(line)
	for r.bytes > mostKept {
		r.bytes -= len(r.lines[0])
		r.lines = r.lines[1:]
	}
	return len(line), nil
}

func (r *tail) read() []byte {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Concat(r.lines...)
}

// twice tells a log's records to two handlers, to each what it asks for.
type twice struct{ shown, kept slog.Handler }

// keeping is a log that also remembers what it is told from info on, though less
// may be shown.
func (r *tail) keeping(log *slog.Logger) *slog.Logger {
	return slog.New(twice{log.Handler(), slog.NewTextHandler(r, nil)})
}

func (t twice) Enabled(ctx context.Context, level slog.Level) bool {
	return t.shown.Enabled(ctx, level) || t.kept.Enabled(ctx, level)
}

func (t twice) Handle(ctx context.Context, record slog.Record) error {
	if t.kept.Enabled(ctx, record.Level) {
		_ = t.kept.Handle(ctx, record.Clone())
	}
	if t.shown.Enabled(ctx, record.Level) {
		return t.shown.Handle(ctx, record)
	}
	return nil
}

func (t twice) WithAttrs(attributes []slog.Attr) slog.Handler {
	return twice{t.shown.WithAttrs(attributes), t.kept.WithAttrs(attributes)}
}

func (t twice) WithGroup(name string) slog.Handler {
	return twice{t.shown.WithGroup(name), t.kept.WithGroup(name)}
}
