package generate_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/work"
)

const (
	owned = `{"asset":{"id":"note/a","payload":{"@type":"lehr.intent.v1.Owner","owner":"ann"},"addons":[{"@type":"lehr.intent.v1.Labels","labels":{"b":"2","a":"1"}}]},"from":{"file":"a.yaml","line":3}}` + "\n"
	ended = `{"end":{"assets":"1"}}` + "\n"
	none  = `{"end":{}}` + "\n"
)

// jobOf is a job of a program with one file.
func jobOf(in inputs, language work.Language, program string, arguments ...string) generate.Job {
	in["a.yaml"] = "a: 1\n"
	return generate.Job{
		Partition: "shop", Generator: "g", Language: language, Program: program, Arguments: arguments,
		Programs: in.input(program), Files: in.input("a.yaml"),
	}
}

func runOne(t *testing.T, runner generate.Runner, in inputs, job generate.Job) generate.Result {
	t.Helper()
	results, err := runner.Run(t.Context(), schema.Builtin(), []generate.Job{job}, in.open)
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// shell runs programs in sh, of which the machine's folders have what it needs.
// Rooms without a sandbox are made in the folder TMPDIR.
func shell(t *testing.T, sandbox native.Sandbox, limits generate.Limits) *generate.Process {
	policy := native.Policy{Sandbox: sandbox, Visible: []string{"/usr", "/bin", "/lib", "/lib64"}}
	policy.Visible = slices.DeleteFunc(policy.Visible, func(folder string) bool { _, err := os.Lstat(folder); return err != nil })
	return generate.NewProcess(generate.Options{
		Child: []string{"/proc/self/exe"}, Environment: []string{role + "=unclean", "TMPDIR=" + temporary(t)}, Limits: limits,
		Native: func(intent.PartitionID) (native.Policy, error) { return policy, nil },
	})
}

// temporary is one folder for all that a test runs.
func temporary(t *testing.T) string {
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("lehr-rooms-%d", os.Getpid()))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func script(in inputs, text string) generate.Job {
	in["gen"] = "#!/bin/sh\n" + text
	return jobOf(in, work.Native, "gen")
}

func quick() generate.Limits {
	limits := generate.DefaultLimits()
	limits.Milliseconds = 1000
	return limits
}

// TestProgramsGiveAssets: a module and a native program say the same, and the
// same is taken of both; a module's run rests on what it opened, a native
// program's on all it could open.
func TestProgramsGiveAssets(t *testing.T) {
	in := inputs{}
	in["gen.wasm"] = string(says(owned+ended, 0).bytes())
	module := jobOf(in, work.WASM, "gen.wasm")
	there := runOne(t, process("true"), in, module)
	here := runOne(t, generate.InProcess{Limits: generate.DefaultLimits()}, in, module)
	program := runOne(t, shell(t, native.Required, generate.DefaultLimits()), in, script(in, "printf '%s\\n' '"+strings.TrimSpace(owned)+"' '"+strings.TrimSpace(ended)+"'\n"))
	for name, result := range map[string]generate.Result{"in a child": there, "here": here, "native": program} {
		if len(result.Findings) > 0 || len(result.Assets) != 1 {
			t.Fatalf("%s: %+v", name, result)
		}
		a := result.Assets[0]
		if a.ID != "note/a" || a.Type != "lehr.intent.v1.Owner" || a.File != "a.yaml" || a.Line != 3 || a.Digest != there.Assets[0].Digest {
			t.Errorf("%s gave %+v", name, a)
		}
	}
	if len(there.Reads) != 1 || there.Reads[0].Kind != work.ReadProgram || len(here.Reads) != 1 {
		t.Errorf("a module that opens nothing rests on %+v, want itself only", there.Reads)
	}
	if len(program.Reads) != 4 {
		t.Errorf("a native program rests on %+v, want lists, program and file", program.Reads)
	}
	if w := program.Warnings; len(w) != 1 || w[0].Rule != native.NonHermetic || !strings.Contains(w[0].Message, "sees /usr") {
		t.Errorf("a program that sees /usr was labelled %+v", w)
	}
}

// TestWhatIsNotWhole: whatever a program says but a whole output gives nothing.
func TestWhatIsNotWhole(t *testing.T) {
	long := owned[:len(owned)-1]
	for name, c := range map[string]struct{ said, told string }{
		"nothing":             {"", `after 0 lines without saying that this was all`},
		"half":                {owned, `after 1 lines without saying`},
		"half a line":         {owned + ended[:9], `cannot be taken, in line 2`},
		"trailing garbage":    {owned + ended + "x", `after its end, in line 3`},
		"two documents":       {owned + ended + owned + ended, `after its end, in line 3`},
		"another count":       {owned + none, `says that there were 0 assets, and there were 1`},
		"twice":               {owned + owned + ended, `note/a is generated twice`},
		"no JSON":             {"hello\n" + none, `in line 1`},
		"an empty record":     {"{}\n" + none, `neither an asset, a finding nor the end`},
		"an unknown field":    {`{"asset":{"id":"a","paylod":{}}}` + "\n" + none, `paylod`},
		"a field twice":       {`{"end":{},"end":{}}` + "\n", `in line 1`},
		"an unknown type":     {`{"asset":{"id":"a","payload":{"@type":"acme.Thing"}}}` + "\n" + none, `acme.Thing`},
		"no payload":          {`{"asset":{"id":"a"}}` + "\n" + none, `no payload`},
		"an id that leads up": {strings.Replace(owned, "note/a", "../../a", 1) + ended, `in line 1: .*id`},
		"too large":           {strings.Replace(owned, "ann", strings.Repeat("x", 151_000), 1) + ended, `at most 150000`},
		"a line without end":  {long + strings.Repeat(" ", 2_000_000), `line 1 of more than`},
		"depth":               {strings.Repeat(`{"asset":`, 5000), `in line 1`},
		"a finding of nothing": {
			`{"finding":{"severity":"SEVERITY_ERROR"}}` + "\n" + none, `without a message`},
		"a line before the first": {`{"asset":{"id":"a","payload":{"@type":"lehr.intent.v1.Owner"}},"from":{"line":-1}}` + "\n" + none, `the place is none`},
		"not UTF-8":               {strings.Replace(owned, "ann", "\xff\xfe", 1) + ended, `in line 1`},
	} {
		in := inputs{}
		in["gen.wasm"] = string(says(c.said, 0).bytes())
		result := runOne(t, generate.InProcess{Limits: generate.DefaultLimits()}, in, jobOf(in, work.WASM, "gen.wasm"))
		if len(result.Assets) > 0 || len(result.Findings) != 1 || !regexp.MustCompile(c.told).MatchString(result.Findings[0].Message) || result.Findings[0].Hint == "" {
			t.Errorf("%s: %.600s, want %q", name, fmt.Sprint(result), c.told)
		}
	}
}

// TestFindingsOfPrograms: an error keeps all assets back, a warning does not.
func TestFindingsOfPrograms(t *testing.T) {
	finding := `{"finding":{"severity":"SEVERITY_%s","message":"no name","hint":"write one","field":"name"},"from":{"file":"a.yaml","line":7,"column":2}}` + "\n"
	in := inputs{}
	in["gen.wasm"] = string(says(owned+fmt.Sprintf(finding, "WARNING")+ended, 0).bytes())
	runner := generate.InProcess{Limits: generate.DefaultLimits()}
	result := runOne(t, runner, in, jobOf(in, work.WASM, "gen.wasm"))
	if len(result.Assets) != 1 || len(result.Warnings) != 1 || result.Warnings[0].Line != 7 || result.Warnings[0].Severity != intent.Warning {
		t.Errorf("a warning: %+v", result)
	}
	in["gen.wasm"] = string(says(owned+fmt.Sprintf(finding, "ERROR")+ended, 0).bytes())
	result = runOne(t, runner, in, jobOf(in, work.WASM, "gen.wasm"))
	want := intent.Finding{Rule: "generate", Severity: intent.Error, Message: "no name", Hint: "write one", Field: "name", File: "a.yaml", Line: 7, Column: 2}
	if len(result.Assets) != 0 || len(result.Findings) != 1 || result.Findings[0] != want {
		t.Errorf("an error: %+v", result)
	}
}

// TestNativeNeedsLeave: nobody runs programs on this machine unless whoever runs
// the server said so, and where no sandbox is to be had it shows.
func TestNativeNeedsLeave(t *testing.T) {
	in := inputs{}
	job := script(in, "printf '%s\\n' '"+strings.TrimSpace(owned)+"' '"+strings.TrimSpace(ended)+"'\n")
	for name, runner := range map[string]generate.Runner{
		"nobody said": process("true"),
		"not this one": generate.NewProcess(generate.Options{Child: []string{"/nonexistent"}, Native: func(intent.PartitionID) (native.Policy, error) {
			return native.Policy{}, fault.New(fault.Denied, "not this one")
		}}),
		"the simulator": generate.InProcess{Limits: generate.DefaultLimits()},
	} {
		if result := runOne(t, runner, in, job); len(result.Assets) > 0 || len(result.Findings) != 1 || !result.Stopped || len(result.Reads) == 0 {
			t.Errorf("%s: %+v, want a refusal that is tried again", name, result)
		}
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("no unshare on this machine")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A machine that permits no sandbox.
	without := func(sandbox native.Sandbox) generate.Runner {
		return generate.NewProcess(generate.Options{
			Child:       []string{unshare, "-Ur", "/bin/sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && unset PWD && exec "$0"`, self},
			Environment: []string{role + "=unclean"}, Limits: generate.DefaultLimits(),
			Native: func(intent.PartitionID) (native.Policy, error) { return native.Policy{Sandbox: sandbox}, nil },
		})
	}
	if result := runOne(t, without(native.Required), in, job); len(result.Assets) > 0 || len(result.Findings) != 1 || !strings.Contains(result.Findings[0].Message, "needs a sandbox") || !result.Stopped {
		t.Errorf("required: %+v", result)
	}
	if result := runOne(t, without(native.Preferred), in, job); len(result.Assets) != 1 || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0].Message, "permits no sandbox") {
		t.Errorf("preferred: %+v", result)
	}
}

// TestCancelledProgramEndsAtOnce: whoever no longer wants it does not wait for
// it, in children or here.
func TestCancelledProgramEndsAtOnce(t *testing.T) {
	endless := module{start: forever(nil)}.bytes()
	for name, c := range map[string]struct {
		runner generate.Runner
		job    func(inputs) generate.Job
	}{
		"a module in a child": {process("true"), func(in inputs) generate.Job { in["m"] = string(endless); return jobOf(in, work.WASM, "m") }},
		"a module here":       {generate.InProcess{Limits: generate.DefaultLimits()}, func(in inputs) generate.Job { in["m"] = string(endless); return jobOf(in, work.WASM, "m") }},
		"a native program":    {shell(t, native.Required, generate.DefaultLimits()), func(in inputs) generate.Job { return script(in, "while :; do :; done\n") }},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		in := inputs{}
		job := c.job(in)
		_, err := c.runner.Run(ctx, schema.Builtin(), []generate.Job{job}, func(kind work.Kind, input generate.Input) ([]byte, error) {
			content, err := in.open(kind, input)
			time.AfterFunc(50*time.Millisecond, cancel)
			return content, err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want that it was cancelled", name, err)
		}
	}
}

// TestCompiledModulesAreKept: in a folder of the partition's own, which another
// child takes up; damage there is no harm.
func TestCompiledModulesAreKept(t *testing.T) {
	in := inputs{}
	in["gen.wasm"] = string(says(owned+ended, 0).bytes())
	cache := t.TempDir()
	runner := generate.NewProcess(generate.Options{Child: []string{"/proc/self/exe"}, Environment: []string{role + "=true"}, Limits: generate.DefaultLimits(), Cache: cache})
	run := func(what string) {
		t.Helper()
		if result := runOne(t, runner, in, jobOf(in, work.WASM, "gen.wasm")); len(result.Assets) != 1 {
			t.Fatalf("%s: %+v", what, result)
		}
	}
	run("at first")
	kept, err := filepath.Glob(filepath.Join(cache, "shop", "*", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v (%v), want one compiled module of the partition", kept, err)
	}
	run("again")
	whole, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{nil, whole[:len(whole)/2], []byte("hello"), slices.Concat(whole[:len(whole)-8], make([]byte, 8))} {
		if err := os.WriteFile(kept[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		run(fmt.Sprintf("with %d bytes kept", len(damaged)))
	}
}

// TestBlobsOfPrograms: a program gives blobs by records, within bounds, and what an
// asset does not name is nobody's.
func TestBlobsOfPrograms(t *testing.T) {
	record := func(bytes int) string {
		return `{"blob":{"content":"` + base64.StdEncoding.EncodeToString(make([]byte, bytes)) + `"}}` + "\n"
	}
	for name, c := range map[string]struct{ said, told string }{
		"one":            {record(1_000_000) + owned + ended, ""},
		"too large":      {record(intent.MaxBlobBytes+1) + owned + ended, "at most 10000000 are allowed"},
		"together":       {record(8_000_000) + record(8_000_001) + record(8_000_002) + owned + ended, "more than 20000000 bytes of blobs"},
		"no base64":      {`{"blob":{"content":"%"}}` + "\n" + owned + ended, "in line 1"},
		"a line of more": {`{"asset":{"id":"` + strings.Repeat("x", 3_000_000) + `"}}` + "\n" + none, "line 1 of more than"},
	} {
		job := jobOf(inputs{}, work.Native, "gen")
		result := protocol.Read(strings.NewReader(c.said), &job, schema.Builtin(), 10_000_000)
		if c.told == "" {
			if len(result.Blobs) != 1 || len(result.Assets) != 1 || result.Blobs[0].Digest != intent.BlobSum(make([]byte, 1_000_000)) {
				t.Errorf("%s: %d blobs, %d assets, %+v", name, len(result.Blobs), len(result.Assets), result.Findings)
			}
			continue
		}
		if len(result.Blobs) > 0 || len(result.Findings) != 1 || !strings.Contains(result.Findings[0].Message, c.told) {
			t.Errorf("%s: %d blobs, %.300v, want %s", name, len(result.Blobs), result.Findings, c.told)
		}
	}
}
