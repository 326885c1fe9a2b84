package scenario

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/cli"
	"lehr.dev/sdk/client"
)

func command(ctx context.Context, c *client.Client, now func() time.Time, out io.Writer, args []string) int {
	terminal := cli.Terminal{Out: out, Err: out, Getenv: func(string) string { return "" }}
	return cli.Run(ctx, cli.Local{Client: c, Now: now, Version: "simulated"}, terminal, args)
}

func play(t *testing.T, text string) (string, error) {
	t.Helper()
	var story bytes.Buffer
	err := Play(t.Context(), text, &story, command)
	return story.String(), err
}

// long are those that are not among the quick tests.
var long = []string{"rollout/window", "rollout/a_person_decides", "rollout/less_is_asked"}

func TestScenarios(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	rollouts, errRollouts := filepath.Glob("testdata/rollout/*.txtar")
	if err != nil || errRollouts != nil || len(scripts) < 13 || len(rollouts) < 15 {
		t.Fatalf("%d scripts, %d of rollouts: %v, %v", len(scripts), len(rollouts), err, errRollouts)
	}
	for number, script := range append(scripts, rollouts...) {
		name, _ := filepath.Rel("testdata", strings.TrimSuffix(script, ".txtar"))
		if testing.Short() && (number%4 != 0 || slices.Contains(long, name)) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			if story, err := play(t, string(text)); err != nil {
				t.Errorf("%v\n%s", err, story)
			}
		})
	}
}

// two versions of what is wanted.
const two = "-- intent.yaml --\njob/a: {version: v1}\nrecord/www: {text: one}\n-- next.yaml --\njob/a: {version: v2}\nrecord/www: {text: two}\n"

func TestAScriptTellsTheSameAgain(t *testing.T) {
	const script = "start\nuntil settled\nwrite intent.yaml next.yaml\ncrash at \"pushed\"\nuntil dead\nstart\nuntil settled\neffects\n" + two
	one, err := play(t, script)
	again, errAgain := play(t, script)
	if one != again || err != nil || errAgain != nil {
		t.Errorf("once:\n%s%v\nagain:\n%s%v", one, err, again, errAgain)
	}
}

// TestWhatIsNotSoFails: every way to say what must come about can be wrong.
func TestWhatIsNotSoFails(t *testing.T) {
	const begin = "start\nuntil settled\n"
	for script, want := range map[string]string{
		begin + "start":                                "runs already",
		begin + "! tick 1s":                            "should have failed",
		begin + "effects\n> not there":                 "does not have it",
		begin + "effects\nstdout 'not there'":          "does not have it",
		begin + "effects\n! stdout effects":            "has it",
		begin + "until job/a waits approval within 5s": "not within 5s: it is in-sync",
		begin + "until head sim@9 within 5s":           "it is sim@1",
		begin + "until job/a vanished within 5s":       "still there",
		begin + "until dead within 5s":                 "one lives",
		begin + "until job/none in sync within 5s":     "job/none",
		begin + "drift record/www\nquiet 1m":           "lehr changed sim:Command/record/www",
		begin + "break job/a push-hang for 1h seed 2\nwrite intent.yaml next.yaml\nuntil settled within 1m": "not within 1m0s",
		begin + "crash at \"no such point\"":         "a point that never came",
		begin + "approve job/a":                      "exit code 1",
		begin + "lehr wait":                          "waits by until",
		begin + "kill\nlehr get reports":             "no process of Lehr serves",
		begin + "dance":                              "there is no verb",
		begin + "tick soon":                          "no duration",
		begin + "write intent.yaml none":             "no file none",
		begin + "break job/a boredom":                "no trouble",
		begin + "-- all.star --\nthis is no program": "nothing is served yet",
	} {
		story, err := play(t, script+"\n"+two)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, wanted %q\n%s", script, err, want, story)
		}
	}
}

func TestArchive(t *testing.T) {
	a := parseArchive("# one\nstart \n-- a.yaml --\nx: 1\n\n--not a name--\n-- b --\nlast")
	if len(a.script) != 2 || a.script[1] != "start" || a.files["a.yaml"] != "x: 1\n\n--not a name--\n" || a.files["b"] != "last\n" || len(a.files) != 2 {
		t.Errorf("%+v", a)
	}
	if got := words(`crash at "push in plugin" skip 'a "b"' "" # why`); len(got) != 6 || got[2] != "push in plugin" || got[4] != `a "b"` || got[5] != "" {
		t.Errorf("%q", got)
	}
}
