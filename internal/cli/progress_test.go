package cli

import (
	"bytes"
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestBuildTellsItsProgress: a build that takes long tells in a line each 5 s what it does
// and how much of it is done, on stderr only, and a short one tells nothing.
func TestBuildTellsItsProgress(t *testing.T) {
	for name, test := range map[string]struct {
		step time.Duration
		want string
	}{
		"long": {4 * time.Second, `first build: read sources: 5s
first build: run generator web: 500 of 2000: 10s
a document was read
second build: run generator web: 2000 of 2000: 15s
`},
		"short": {100 * time.Millisecond, "a document was read\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				s := &session{Terminal: Terminal{Out: &stdout, Err: &stderr, ShowsProgress: true}, now: time.Now}
				s.local.Build = func(_ context.Context, o BuildOptions) (Built, error) {
					o.Progress.EnterPass("first build")
					o.Progress.BeginStep("read sources", 0)
					time.Sleep(2 * test.step)
					o.Progress.BeginStep("run generator web", 2000)
					o.Progress.AddDone(500)
					time.Sleep(test.step)
					s.Err.Write([]byte("a document was read\n"))
					o.Progress.EnterPass("second build")
					o.Progress.BeginStep("run generator web", 2000)
					o.Progress.AddDone(2001)
					time.Sleep(test.step)
					return Built{Partition: "shop", Assets: []BuiltAsset{{ID: intent.AssetID("a")}}}, nil
				}
				command := s.buildCommand()
				command.SetArgs([]string{"lehr.yaml"})
				if err := os.WriteFile("lehr.yaml", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := command.ExecuteContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := stderr.String(); got != test.want {
					t.Errorf("stderr has\n%s, want\n%s", got, test.want)
				}
				if bytes.Contains(stdout.Bytes(), []byte("build:")) {
					t.Errorf("stdout has\n%s", stdout.String())
				}
			})
		})
	}
}

// TestProgressOnATerminal: the line is written anew in its place, and is gone before
// anything else is said.
func TestProgressOnATerminal(t *testing.T) {
	var out bytes.Buffer
	line := &progressLine{out: &out, redraws: true}
	line.show("1 of 2")
	line.show("2 of 2")
	line.Write([]byte("said\n"))
	line.clear()
	if got, want := out.String(), "\r\x1b[K1 of 2\r\x1b[K2 of 2\r\x1b[Ksaid\n"; got != want {
		t.Errorf("written is %q, want %q", got, want)
	}
}
