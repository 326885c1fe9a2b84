package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lehr.dev/internal/access"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/sim/campaign"
	"lehr.dev/test/building"
	"lehr.dev/test/inprocess"
	"lehr.dev/test/interpreter"
)

func TestMain(m *testing.M) {
	// Its children are this very program again.
	if children := []string{generate.ChildCommand, prodspec.TrialCommand, campaign.ChildCommand}; len(os.Args) > 1 && slices.Contains(children, os.Args[1]) {
		os.Exit(run())
	}
	testscript.Main(m, map[string]func(){"lehr": func() { os.Exit(run()) }, "zones-plugin": zonesMain})
}

// TestScripts tells what a person does and sees, with the real program and
// the real command plugin.
func TestScripts(t *testing.T) {
	programs := map[string]building.Program{}
	for name, from := range map[string]string{"lehr-command": "plugins/command", "lehr-process": "plugins/process", "lehr-http": "plugins/http", "lehr-task": "plugins/task", "quiet": "examples/protection", "quietest": "examples/selection", "slowest": "examples/measurement"} {
		programs[name] = building.Program{Of: "../../" + from}
	}
	runScripts(t, "../../test/scripts", programs)
}

// TestRendererScripts are those that need the programs of the module renderers.
func TestRendererScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the renderers")
	}
	stripped, static := []string{"-ldflags", "-s -w"}, []string{"CGO_ENABLED=0"}
	runScripts(t, "../../test/scripts/renderers", map[string]building.Program{
		"lehr-kustomize": {Of: "../../renderers/kustomize", Flags: stripped, Env: static},
		"lehr-helm":      {Of: "../../renderers/helm", Flags: stripped, Env: static},
	})
}

// TestCheckerScripts are those that need the programs of the module checkers.
func TestCheckerScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the checking programs")
	}
	runScripts(t, "../../test/scripts/checkers", map[string]building.Program{
		"lehr-prometheus-rules": {Of: "../../checkers/prometheusrules", Flags: []string{"-ldflags", "-s -w"}, Env: []string{"CGO_ENABLED=0"}},
	})
}

// TestPythonScripts are those of plugins in Python.
func TestPythonScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	runScripts(t, "../../test/scripts/python", nil, interpreter.Folder(t))
}

// runScripts runs the scripts of a folder, with programs in their PATH, and other folders.
func runScripts(t *testing.T, folder string, programs map[string]building.Program, path ...string) {
	bin := t.TempDir()
	for name, program := range programs {
		if err := program.At(filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: folder,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", strings.Join(append(append([]string{bin}, path...), env.Getenv("PATH")), string(os.PathListSeparator)))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GOGC", os.Getenv("GOGC")) // A command that lasts milliseconds collects nothing with that of make test.
			env.Setenv("EXAMPLES", examples)
			env.Setenv("UNIQUE", fmt.Sprint(os.Getpid())) // Of names that this machine has once.
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":    await,
			"slowly":   slowly,
			"takeport": takePort,
			"sed":      sed,
			"post":     post,
			"bear":     bear,
			"listen":   listen,
			"grafana":  grafana,
			"folder":   awaitFolder,
			"rename":   rename,
			"newest":   newest,
			"read":     readPlan,
			"site":     site,
			"registry": ociRegistry,
			"push":     push,
			"githost":  gitHost,
			"decide":   decide,
			"closed":   isClosed,
		},
		RequireExplicitExec: true,
	})
}

const patience = 5 * time.Minute

// await runs a command until it succeeds and its output matches:
// await PATTERN COMMAND ARGS….
func await(ts *testscript.TestScript, negated bool, args []string) {
	awaitFor(patience, ts, negated, args)
}

// slowly is await for what takes its time on purpose, as messages do that wait for more.
func slowly(ts *testscript.TestScript, negated bool, args []string) {
	awaitFor(2*patience, ts, negated, args)
}

func awaitFor(patience time.Duration, ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN COMMAND ARGS…")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	deadline := time.Now().Add(patience)
	ask := func() (string, error) {
		err := ts.Exec(args[1], args[2:]...)
		return ts.ReadFile("stdout"), err
	}
	isQuery := args[1] == "lehr" && inprocess.Allows(args[2:])
	if isQuery {
		ask = func() (string, error) {
			return inprocess.Run(context.Background(), local(), ts.MkAbs("."), ts.Getenv, args[2:]...)
		}
	}
	for {
		began := time.Now()
		output, err := ask()
		if err == nil && pattern.MatchString(output) {
			if isQuery {
				fmt.Fprint(ts.Stdout(), output)
			}
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no match for %s within %s: %v\n%s", args[0], patience, err, output)
		}
		// Asking computes for a fifth of the time at most: the servers compute beside it.
		time.Sleep(max(50*time.Millisecond, 4*time.Since(began)))
	}
}

// bear has the commands that follow speak to the server by its address, with
// the token that was printed last, or one that is named: bear [TOKEN]. ! bear
// ends that.
func bear(ts *testscript.TestScript, negated bool, args []string) {
	if negated {
		ts.Setenv("LEHR_SERVER", "")
		ts.Setenv("LEHR_TOKEN", "")
		return
	}
	token := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 1 {
		token = args[0]
	}
	found, err := access.ReadRendezvous(ts.MkAbs(".lehr/lehr.db"))
	ts.Check(err)
	ts.Setenv("LEHR_SERVER", found.URL)
	ts.Setenv("LEHR_TOKEN", token)
}

// newest puts "~" and the digest of the newest candidate into a variable: newest NAME.
func newest(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("lehr", "get", "candidates", "-o", "json"))
	digest := regexp.MustCompile(`"digest": *"([0-9a-f]{12})`).FindStringSubmatch(ts.ReadFile("stdout"))
	if digest == nil {
		ts.Fatalf("there is no candidate")
	}
	ts.Setenv(args[0], "~"+digest[1])
}

// readPlan puts the digest of what an asset's report shows into a variable, as a person
// copies it: read NAME ASSET.
func readPlan(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("lehr", "describe", "report", args[1]))
	digest := regexp.MustCompile(`plan: +([0-9a-f]{8,})`).FindStringSubmatch(ts.ReadFile("stdout"))
	if digest == nil {
		ts.Fatalf("no plan of %s is shown:\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], digest[1])
}

// takePort listens on a free port until the script ends, and puts the address
// into a variable: takeport NAME.
func takePort(ts *testscript.TestScript, _ bool, args []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { listener.Close() })
	ts.Setenv(args[0], listener.Addr().String())
}

// sed replaces what a pattern matches in a file: sed FILE PATTERN TEXT, with \n
// for a new line in both. It is an error when nothing matches.
func sed(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	content, err := os.ReadFile(path)
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	if !pattern.Match(content) {
		ts.Fatalf("nothing in %s matches %s", args[0], args[1])
	}
	text := strings.ReplaceAll(args[2], `\n`, "\n")
	ts.Check(os.WriteFile(path, pattern.ReplaceAll(content, []byte(text)), 0o644))
}
