package sim

import (
	"context"
	"log/slog"
)

// log is where Lehr's own log goes: into the trace, if there is one. That an
// actor panicked is a defect, also when it was contained.
func (l *Lab) log() *slog.Logger { return slog.New(listener{l.handler(), l}) }

func (l *Lab) handler() slog.Handler {
	if l.options.Trace == nil {
		return slog.DiscardHandler
	}
	return slog.NewTextHandler(l.options.Trace, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
}

// listener hears of panics.
type listener struct {
	slog.Handler
	lab *Lab
}

func (h listener) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h listener) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == "an actor panicked" {
		text := ""
		record.Attrs(func(a slog.Attr) bool {
			text += a.Key + ": " + a.Value.String() + "\n"
			return true
		})
		h.lab.wrong("S12", "an actor panicked\n%s", text)
	}
	h.lab.showsLog(record)
	if record.Message == "an actor failed and is started again" {
		h.lab.Monitor.Forgot()
	}
	if !h.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}
