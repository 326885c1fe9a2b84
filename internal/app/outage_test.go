package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/test/pgserver"
)

// told keeps what is logged, with its level.
type told struct {
	mutex   sync.Mutex
	records []slog.Record
}

func (l *told) Enabled(context.Context, slog.Level) bool { return true }
func (l *told) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *told) WithGroup(string) slog.Handler            { return l }
func (l *told) Handle(_ context.Context, r slog.Record) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.records = append(l.records, r)
	return nil
}

// lines at a level and above.
func (l *told) lines(least, below slog.Level) (lines []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, r := range l.records {
		if r.Level >= least && r.Level < below {
			line := r.Message
			r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
			lines = append(lines, line)
		}
	}
	return lines
}

// TestADatabaseThatIsAwayIsToldOnce: when it begins and when it ends, with a
// count, however many partitions try how often.
func TestADatabaseThatIsAwayIsToldOnce(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	p, log := newProduction(), &told{}
	options := app.DefaultOptions()
	options.Store, options.Database = filepath.Join(t.TempDir(), "lehr.db"), server.Database()
	options.Listen, options.Log = "", slog.New(log)
	options.Register = map[intent.PartitionID]string{}
	options.Parts.Plugins = func([]string) plugin.Plugin { return p }
	options.Parts.Runner = generate.InProcess{Limits: generate.DefaultLimits()}
	const partitions = 8
	for n := range partitions {
		name := fmt.Sprint("shop-", n)
		options.Register[intent.PartitionID(name)] = partition(t, name, "web/"+name)
	}
	running, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer running.Stop(context.Background())
	shares(t, running, partitions)
	before := len(log.lines(slog.LevelWarn, slog.LevelError+1))

	server.Crash()
	eventually(t, "every partition fails in vain more than once", func() bool {
		return len(log.lines(slog.LevelDebug, slog.LevelInfo)) > 2*partitions
	})
	server.Start()
	eventually(t, "it goes on", func() bool {
		lines := log.lines(slog.LevelWarn, slog.LevelError+1)
		return len(lines) > before && strings.HasPrefix(lines[len(lines)-1], "the database can be used again")
	})
	shares(t, running, partitions)
	lines := log.lines(slog.LevelWarn, slog.LevelError+1)[before:]
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "the database cannot be used") || !strings.Contains(lines[1], "failures=") {
		t.Errorf("it was told:\n%s", strings.Join(lines, "\n"))
	}
}
