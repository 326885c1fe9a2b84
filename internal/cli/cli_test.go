package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// run runs a command with parts of the test's own, away from any store.
func run(t *testing.T, local cli.Local, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), local, cli.Terminal{Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }}, args)
	return code, stdout.String(), stderr.String()
}

// runIn runs a command on a definition.
func runIn(t *testing.T, local cli.Local, args ...string) (code int, out, errs string) {
	t.Helper()
	folder := t.TempDir()
	if code, _, errs := run(t, local, "init", "-p", "hello", folder); code != 0 {
		t.Fatal(errs)
	}
	return run(t, local, append(args, folder+"/lehr.yaml")...)
}

func building(built cli.Built, err error) cli.Local {
	return cli.Local{Build: func(context.Context, cli.BuildOptions) (cli.Built, error) { return built, err }}
}

func TestExitCodes(t *testing.T) {
	broken := cli.Built{Findings: []intent.Finding{{Severity: intent.Error, Message: "no"}}}
	warned := cli.Built{Findings: []intent.Finding{{Severity: intent.Warning, Message: "hm"}}}
	tests := map[string]struct {
		local cli.Local
		want  int
	}{
		"done":          {building(cli.Built{}, nil), 0},
		"warnings":      {building(warned, nil), 0},
		"findings":      {building(broken, nil), 1},
		"a fault":       {building(cli.Built{}, fault.New(fault.Unavailable, "x")), 1},
		"another error": {building(cli.Built{}, errors.New("x")), 1},
		"out of time":   {building(cli.Built{}, context.DeadlineExceeded), 3},
		"interrupted":   {building(cli.Built{}, context.Canceled), 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if code, out, errs := runIn(t, test.local, "build"); code != test.want {
				t.Errorf("exit code %d, want %d\n%s%s", code, test.want, out, errs)
			}
		})
	}
	if code, _, errs := run(t, cli.Local{}, "frobnicate"); code != 1 || !strings.Contains(errs, "frobnicate") {
		t.Errorf("an unknown command: %d %s", code, errs)
	}
}

func TestErrorsTellWhatToDo(t *testing.T) {
	_, _, errs := runIn(t, building(cli.Built{}, fault.New(fault.Conflict, "it is taken").WithHint("take another")), "build")
	if errs != "lehr: it is taken\n      take another\n" {
		t.Errorf("printed %q", errs)
	}
}

// TestAFaultTellsWhatTookTooLong: a fault that has a deadline as its cause is told whole.
// Once, a server that could not reach its database ended with "timed out" alone.
func TestAFaultTellsWhatTookTooLong(t *testing.T) {
	for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
		late := fault.New(fault.Unavailable, "opening the store: %w", cause).WithHint("is it running?")
		code, _, errs := runIn(t, building(cli.Built{}, late), "build")
		if want := "lehr: opening the store: " + cause.Error() + "\n      is it running?\n"; errs != want || code != 1 {
			t.Errorf("exit code %d, printed %q, want %q", code, errs, want)
		}
	}
}

// What a manifest or a plugin wrote must not steer the terminal.
func TestTextIsHarmlessToTerminals(t *testing.T) {
	hostile := "a\x1b[2Jb\rc\u009bd\u202ee\u200bf\ng"
	built := cli.Built{
		Assets:   []cli.BuiltAsset{{ID: "web", Type: "x.Y", Generator: hostile}},
		Findings: []intent.Finding{{Severity: intent.Warning, Message: hostile, Hint: hostile, File: hostile, Field: hostile, Line: 3}},
	}
	for _, format := range []string{"table", "wide", "json"} {
		_, out, errs := runIn(t, building(built, nil), "build", "-o", format)
		for _, bad := range []string{"\x1b", "\r", "\u009b", "\u202e", "\u200b", "f\ng"} {
			if strings.Contains(out+errs, bad) {
				t.Errorf("-o %s let %q through: %q", format, bad, out)
			}
		}
		if format == "json" {
			var parsed struct{ Findings []intent.Finding }
			if err := json.Unmarshal([]byte(out), &parsed); err != nil || parsed.Findings[0].Message != hostile {
				t.Errorf("the value was changed: %v %q", err, out)
			}
		} else if !strings.Contains(out, `a\u001b[2Jb`) {
			t.Errorf("-o %s does not show what was there: %q", format, out)
		}
	}
}

// TestJSONIsShort: --json is -o json, and is not asked for beside another output.
func TestJSONIsShort(t *testing.T) {
	_, want, _ := runIn(t, building(cli.Built{Partition: "shop"}, nil), "build", "-o", "json")
	if code, out, errs := runIn(t, building(cli.Built{Partition: "shop"}, nil), "build", "--json"); code != 0 || out != want || !json.Valid([]byte(out)) {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	if code, _, errs := runIn(t, building(cli.Built{}, nil), "build", "--json", "-o", "wide"); code != 1 || !strings.Contains(errs, "both --json and -o wide") {
		t.Errorf("%d: %s", code, errs)
	}
}

func TestStopWithoutServerSaysSo(t *testing.T) {
	opened := ""
	local := cli.Local{Open: func(_ context.Context, store string, actor intent.Actor) (*client.Client, func() error, error) {
		opened = store
		if actor.Name == "" || actor.Origin != "cli" {
			t.Errorf("the stop would be of %+v", actor)
		}
		return nil, nil, fault.New(fault.NotFound, "there is no store")
	}}
	if code, _, errs := run(t, local, "stop", "--reason", "x"); code != 1 || !strings.Contains(errs, "there is no store") {
		t.Errorf("%d %s", code, errs)
	}
	if opened != ".lehr/lehr.db" {
		t.Errorf("opened %q", opened)
	}
	if code, _, errs := run(t, local, "stop"); code != 1 || !strings.Contains(errs, "reason") {
		t.Errorf("without a reason: %d %s", code, errs)
	}
}

func TestServeRegistersEachPartitionOnce(t *testing.T) {
	folder := t.TempDir()
	if code, _, errs := run(t, cli.Local{}, "init", "-p", "hello", folder); code != 0 {
		t.Fatal(errs)
	}
	var registered map[intent.PartitionID]string
	local := cli.Local{Serve: func(_ context.Context, o cli.ServeOptions, _ func(cli.Serving)) error {
		registered = o.Register
		return nil
	}}
	if code, _, errs := run(t, local, "serve", "-p", folder); code != 0 {
		t.Fatal(errs)
	}
	if registered["hello"] != folder+"/lehr.yaml" {
		t.Errorf("registered %v", registered)
	}
	other := t.TempDir()
	if code, _, errs := run(t, cli.Local{}, "init", "-p", "hello", other); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := run(t, local, "serve", "-p", folder, "-p", other); code != 1 || !strings.Contains(errs, "hello") {
		t.Errorf("one name for two definitions: %d %s", code, errs)
	}
}

// Whoever names a database does not act on what a server here has.
func TestDatabaseWithoutItsServer(t *testing.T) {
	local := cli.Local{StoreName: func(store string) string { return store }}
	for _, command := range [][]string{{"hold", "web", "--reason", "x"}, {"approve", "web"}, {"partition", "remove", "shop"}, {"auth", "whoami"}, {"label", "shop@1", "a=b"}} {
		code, out, errs := run(t, local, append(command, "--database", "postgres://db/lehr")...)
		if code != 1 || !strings.Contains(errs, "this takes a server of postgres://db/lehr") || !strings.Contains(errs, "--server URL") {
			t.Errorf("%s: %d %s%s", command, code, out, errs)
		}
	}
}

// Whoever names a database does not get a backup of a file instead.
func TestBackupsAreOfFiles(t *testing.T) {
	for _, command := range [][]string{{"backup", "copy.db"}, {"restore", "copy.db"}} {
		code, out, errs := run(t, cli.Local{}, append(command, "--database", "postgres://db/lehr")...)
		if code != 1 || !strings.Contains(errs, "--database names a database") || !strings.Contains(errs, "docs/operate/operating.md") {
			t.Errorf("%s: %d %s%s", command, code, out, errs)
		}
	}
}

// A server of a database names that, not the file beside which it leaves word.
func TestServeNamesItsStore(t *testing.T) {
	local := cli.Local{
		StoreName: func(store string) string { return strings.TrimSuffix(store, "?secret") },
		Serve: func(_ context.Context, _ cli.ServeOptions, ready func(cli.Serving)) error {
			ready(cli.Serving{URL: "http://127.0.0.1:1"})
			return nil
		},
	}
	for want, args := range map[string][]string{
		"Lehr serves postgres://db/lehr on http://127.0.0.1:1\n": {"serve", "--database", "postgres://db/lehr?secret"},
		"Lehr serves a.db on http://127.0.0.1:1\n":               {"serve", "--store", "a.db"},
	} {
		if code, out, errs := run(t, local, args...); code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("%s says %q %s", args, out, errs)
		}
	}
}

// TestWhatIsMisspeltIsMet: an error names what was meant, or how to write it.
func TestWhatIsMisspeltIsMet(t *testing.T) {
	for line, hint := range map[string]string{
		"stpo":                             "did you mean lehr stop?",
		"partition ad":                     "did you mean lehr partition add?",
		"partition frobnicate":             "lehr partition --help",
		"build -p shop/lehr.yaml":          "write lehr build lehr.yaml",
		"serve shop":                       "write lehr serve [-p lehr.yaml]",
		"get reports --filter id==id":      "they take --prefix, --state, --group, --limit",
		"watch reports --filter id==id":    "it is for lehr watch assets",
		"get assets --state waiting":       "they take --prefix, --type",
		"get assets --limit -1":            "",
		"why a b":                          "",
		"hold web/a --reason x --for 2":    "write a number with its unit: 30s",
		"describe report":                  "lehr get reports lists them",
		"get asets":                        "known are: assets",
		"get assets --colour":              "lehr get --help",
		"get assets --server 127.0.0.1:80": "or http://127.0.0.1:7474",
	} {
		code, _, errs := run(t, cli.Local{}, strings.Fields(line)...)
		if code != 1 || !strings.Contains(errs, hint) || strings.Contains(errs, `\n`) {
			t.Errorf("%s: code %d\n%s", line, code, errs)
		}
	}
}
