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

// teeHandler tells a log's records to two handlers, to each what it asks for.
type teeHandler struct{ visible, retained slog.Handler }

// keeping is a log that also remembers what it is told from info on, though less
// may be shown.
func (r *tail) keeping(log *slog.Logger) *slog.Logger {
	return slog.New(teeHandler{log.Handler(), discreet{Handler: slog.NewTextHandler(r, nil)}})
}

// discreet leaves out what plugins said in their own words, which may hold a secret:
// a bundle is for strangers (S13).
type discreet struct {
	slog.Handler
	// plugin: the records are about one.
	plugin bool
}

// ours are attributes of records about plugins that hold none of their words.
var ours = map[string]bool{
	"plugin": true, "partition": true, "version": true, "pid": true, "failures": true, "again": true, "again_in": true, "lines_dropped": true,
}

func (d discreet) Handle(ctx context.Context, record slog.Record) error {
	redacted := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	fromPlugin := d.plugin
	record.Attrs(func(a slog.Attr) bool { fromPlugin = fromPlugin || a.Key == "plugin"; return true })
	record.Attrs(func(a slog.Attr) bool {
		if fromPlugin && !ours[a.Key] {
			a.Value = slog.StringValue("left out")
		}
		redacted.AddAttrs(a)
		return true
	})
	return d.Handler.Handle(ctx, redacted)
}

func (d discreet) WithAttrs(attributes []slog.Attr) slog.Handler {
	fromPlugin := slices.ContainsFunc(attributes, func(a slog.Attr) bool { return a.Key == "plugin" })
	return discreet{d.Handler.WithAttrs(attributes), d.plugin || fromPlugin}
}

func (d discreet) WithGroup(name string) slog.Handler {
	return discreet{d.Handler.WithGroup(name), d.plugin}
}

func (t teeHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return t.visible.Enabled(ctx, level) || t.retained.Enabled(ctx, level)
}

func (t teeHandler) Handle(ctx context.Context, record slog.Record) error {
	if t.retained.Enabled(ctx, record.Level) {
		_ = t.retained.Handle(ctx, record.Clone())
	}
	if t.visible.Enabled(ctx, record.Level) {
		return t.visible.Handle(ctx, record)
	}
	return nil
}

func (t teeHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return teeHandler{t.visible.WithAttrs(attributes), t.retained.WithAttrs(attributes)}
}

func (t teeHandler) WithGroup(name string) slog.Handler {
	return teeHandler{t.visible.WithGroup(name), t.retained.WithGroup(name)}
}
