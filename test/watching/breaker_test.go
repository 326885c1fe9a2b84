package watching

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// pluginProcess is the plugin's, as the log tells it.
func (w world) pluginProcess(t *testing.T) int {
	t.Helper()
	for line := range strings.Lines(read(t, w.log)) {
		var record struct {
			Message string `json:"msg"`
			Process int    `json:"pid"`
		}
		if json.Unmarshal([]byte(line), &record) == nil && record.Message == "plugin is up" {
			return record.Process
		}
	}
	t.Fatal("the log does not tell the plugin's process")
	return 0
}

// A plugin that cannot be started any more opens its breaker, which stays open
// between tries, and closes when it answers.
func TestABreakerIsShown(t *testing.T) {
	w := newWorld(t, "--log-format", "json", "--log-level", "info")
	is := func(pattern string) func() string {
		return func() string {
			shows, err := w.show()
			if err == nil && regexp.MustCompile(pattern).MatchString(shows) {
				return ""
			}
			return errorText(err) + strings.Join(regexp.MustCompile(`(?m)^lehr_plugin_.*`).FindAllString(shows, -1), "\n")
		}
	}
	eventually(t, "it is closed", is(`lehr_plugin_breaker_open\{partition="hello",plugin="lehr-command"\} 0\n`))
	program := filepath.Join(w.folder, "bin", "lehr-command")
	if err := os.Rename(program, program+".away"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(w.pluginProcess(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is open", is(`lehr_plugin_breaker_open\{partition="hello",plugin="lehr-command"\} 1\n`))
	eventually(t, "failures are counted", is(`lehr_plugin_failures\{partition="hello",plugin="lehr-command"\} [3-9]\n`))
	if missing := is(`lehr_plugin_breaker_open\{partition="hello",plugin="lehr-command"\} 1\n`)(); missing != "" {
		t.Errorf("it closed without an answer: %s", missing)
	}
	if err := os.Rename(program+".away", program); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is closed again", is(`lehr_plugin_breaker_open\{partition="hello",plugin="lehr-command"\} 0\n`))
	eventually(t, "failures are over", is(`lehr_plugin_failures\{partition="hello",plugin="lehr-command"\} 0\n`))
}
