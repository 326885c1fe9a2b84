package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"lehr.dev/internal/ground/secrecy"
)

// mostLogged is how much of one value is logged, in bytes.
const mostLogged = 8 << 10

// logged is a text as it is logged.
func logged(key, text string) string {
	if len(text) > mostLogged {
		text = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:mostLogged], ""), len(text))
	}
	return secrecy.Shown(key, text)
}

// redacting takes what looks like a secret out of all that is logged (S13), and
// bounds it.
type redacting struct{ slog.Handler }

func (r redacting) Handle(ctx context.Context, record slog.Record) error {
	clean := slog.NewRecord(record.Time, record.Level, logged("", record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(redacted(a))
		return true
	})
	return r.Handler.Handle(ctx, clean)
}

func (r redacting) WithAttrs(attributes []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attributes))
	for i, a := range attributes {
		clean[i] = redacted(a)
	}
	return redacting{r.Handler.WithAttrs(clean)}
}

func (r redacting) WithGroup(name string) slog.Handler { return redacting{r.Handler.WithGroup(name)} }

func redacted(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, logged(a.Key, value.String()))
	case slog.KindGroup:
		var clean []any
		for _, inner := range value.Group() {
			clean = append(clean, redacted(inner))
		}
		return slog.Group(a.Key, clean...)
	case slog.KindAny:
		if err, ok := value.Any().(error); ok && err != nil {
			if text := err.Error(); logged("", text) != text {
				return slog.String(a.Key, logged("", text))
			}
		}
	}
	return slog.Attr{Key: a.Key, Value: value}
}
