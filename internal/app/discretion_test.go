package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// S13: nothing that looks like a secret is logged, wherever in a record it is.
func TestLogsHoldNoSecrets(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(redacting{slog.NewTextHandler(&out, nil)}).With("url", "https://u:hunter2hunter@h/x").WithGroup("g")
	log.Info("with --db-password=hunter2hunter", "token", "hunter2hunter", "error", errors.New("postgres://u:hunter2hunter@db: refused"),
		slog.Group("in", "line", "Authorization: Bearer hunter2hunter"), "partition", "shop", "n", 3)
	if said := out.String(); strings.Contains(said, "hunter2") || !strings.Contains(said, "g.partition=shop") || !strings.Contains(said, "g.n=3") || !strings.Contains(said, "db: refused") {
		t.Error(said)
	}
}
