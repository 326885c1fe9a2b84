package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestABundleHasNoWordsOfPlugins: in the log that is shown they are.
func TestABundleHasNoWordsOfPlugins(t *testing.T) {
	var shown bytes.Buffer
	var kept tail
	log := kept.keeping(slog.New(slog.NewTextHandler(&shown, nil)))
	const secret = "hunter2"
	log.With("plugin", "lehr-command").Info("plugin says", "line", "password="+secret)
	log.Warn("a plugin is up and fails", "partition", "shop", "plugin", "lehr-command", "failures", 3, "error", errors.New("login with "+secret))
	log.Warn("cannot store reports; trying again", "partition", "shop", "error", "disk full")
	if got := strings.Count(shown.String(), secret); got != 2 {
		t.Errorf("%d words are shown: %s", got, &shown)
	}
	text := string(kept.read())
	if strings.Contains(text, secret) {
		t.Error(text)
	}
	for _, words := range []string{`msg="plugin says" plugin=lehr-command line="left out"`, "partition=shop plugin=lehr-command failures=3", `error="disk full"`} {
		if !strings.Contains(text, words) {
			t.Errorf("%s is not in %s", words, text)
		}
	}
}
