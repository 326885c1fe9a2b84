package generate_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/prodspec/generate"
	"lehr.dev/prodspec/generate/native"
	"lehr.dev/prodspec/generate/work"
	"lehr.dev/schema"
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
func shell(sandbox native.Sandbox, limits generate.Limits) *generate.Process {
	policy := native.Policy{Sandbox: sandbox, Visible: []string{"/usr", "/bin", "/lib", "/lib64"}}
	policy.Visible = slices.DeleteFunc(policy.Visible, func(folder string) bool { _, err := os.Lstat(folder); return err != nil })
	return generate.NewProcess(generate.Options{
		Child: []string{"/proc/self/exe"}, Environment: []string{role + "=true"}, Limits: limits,
		Native: func(intent.PartitionID) (native.Policy, error) { return policy, nil },
	})
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
	program := runOne(t, shell(native.Required, generate.DefaultLimits()), in, script(in, "printf '%s\\n' '"+strings.TrimSpace(owned)+"' '"+strings.TrimSpace(ended)+"'\n"))
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

// sleeps is a module that asks the host to wait for an age.
func sleeps() module {
	subscription := make([]byte, 48)
	subscription[16] = 1 // The monotonic clock.
	binary.LittleEndian.PutUint64(subscription[24:], 1<<62)
	return module{imports: []function{pollOff, procExit}, data: subscription, start: code(i32(0), i32(64), i32(1), i32(128), call(0), drop, i32(0), call(1))}
}

// TestHostileModules: whatever a module tries, its run gives nothing, it is said
// why, and the next run is as usual.
func TestHostileModules(t *testing.T) {
	flood := says(strings.Repeat("x", 1<<16), 0)
	flood.start = forever(code(i32(1), i32(0), i32(1), i32(8), call(0), drop))
	defer heldByChildren(t, 256<<20)()
	grow := module{imports: []function{procExit}, start: code(i32(65535), growMemory, drop, i32(1), growMemory, drop, i32(9), call(0))}
	hoard := module{start: forever(code(i32(64), growMemory, i32(-1), []byte{0x46, 0x04, 0x40}, unreachable, []byte{0x0b}))}
	for name, c := range map[string]struct {
		module  []byte
		told    string
		stopped bool
	}{
		"an endless loop":            {module: module{start: forever(nil)}.bytes(), told: `took longer than 1s and was killed`, stopped: true},
		"endless recursion":          {module: module{start: call(0)}.bytes(), told: `stack overflow`},
		"memory at once":             {module: module{pages: 65536, start: forever(nil)}.bytes(), told: `memory|pages`},
		"memory by growing":          {module: grow.bytes(), told: `exit code 9`},
		"all the memory it can get":  {module: hoard.bytes(), told: `unreachable`},
		"a million functions":        {module: module{more: 1_000_000, imports: []function{procExit}, start: code(i32(3), call(0))}.bytes(), told: `has 1000001 functions, at most 100000`},
		"what is not given":          {module: module{imports: []function{{"env", "system", typeExit}}}.bytes(), told: `needs "system" of "env", which is not given`},
		"an unknown call of WASI":    {module: module{imports: []function{{wasi, "sock_open", typeFill}}}.bytes(), told: `sock_open`},
		"50 MB":                      {module: module{padding: 50 << 20}.bytes(), told: `at most 33554432 are taken`},
		"a component":                {module: []byte("\x00asm\x0d\x00\x01\x00"), told: `no module of WebAssembly`},
		"no module":                  {module: []byte("hello"), told: `no module of WebAssembly`},
		"nothing at all":             {module: nil, told: `no module of WebAssembly`},
		"half a module":              {module: says(owned+ended, 0).bytes()[:200], told: `no module of WebAssembly`},
		"no start":                   {module: module{noStart: true}.bytes(), told: `has no _start`},
		"a call that waits for ever": {module: sleeps().bytes(), told: `without saying that this was all`},
		"a flood":                    {module: flood.bytes(), told: `wrote more than 40000000 bytes`},
		"an error after all":         {module: says(owned+ended, 1).bytes(), told: `exit code 1`},
		"a trap":                     {module: module{start: unreachable}.bytes(), told: `unreachable`},
	} {
		t.Run(name, func(t *testing.T) {
			in, limits := inputs{}, generate.DefaultLimits()
			if limits.Milliseconds *= 10; c.stopped {
				limits.Milliseconds = 1000
			}
			in["gen.wasm"], in["good.wasm"] = string(c.module), string(says(owned+ended, 0).bytes())
			good := jobOf(in, work.WASM, "good.wasm")
			runner := generate.NewProcess(generate.Options{Child: []string{"/proc/self/exe"}, Environment: []string{role + "=true"}, Limits: limits})
			results, err := runner.Run(t.Context(), schema.Builtin(), []generate.Job{jobOf(in, work.WASM, "gen.wasm"), good}, in.open)
			if err != nil {
				t.Fatal(err)
			}
			bad := results[0]
			if len(bad.Assets) > 0 || len(bad.Findings) == 0 || !regexp.MustCompile(c.told).MatchString(bad.Findings[0].Message) || bad.Stopped != c.stopped {
				t.Errorf("%.800s, want %q", fmt.Sprintf("%+v", bad), c.told)
			}
			if len(results[1].Assets) != 1 {
				t.Errorf("the run after it gave %+v", results[1])
			}
		})
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
		"a native program":    {shell(native.Required, generate.DefaultLimits()), func(in inputs) generate.Job { return script(in, "while :; do :; done\n") }},
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

// heldByChildren samples what children hold, at most, until the function that it
// returns is called, which fails when one held more than it may.
func heldByChildren(t *testing.T, most int64) func() {
	done, ended := make(chan struct{}), make(chan int64)
	go func() {
		var largest int64
		for {
			select {
			case <-done:
				ended <- largest
				return
			case <-time.After(time.Millisecond):
			}
			for _, pid := range native.Below(os.Getpid()) {
				// Before it is one, it is this process by another number.
				name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if err != nil || !strings.HasPrefix(string(name), "/proc/self/exe") {
					continue
				}
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
				if match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status); match != nil {
					held, _ := strconv.ParseInt(string(match[1]), 10, 64)
					largest = max(largest, held<<10)
				}
			}
		}
	}()
	return func() {
		close(done)
		if largest := <-ended; largest > most {
			t.Errorf("a child held %d MB, want %d at most", largest>>20, most>>20)
		} else {
			t.Logf("the largest child held %d MB", largest>>20)
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

// alive counts the processes with a word in their command line.
func alive(t *testing.T, word string) (count int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), word) {
			count++
		}
	}
	return count
}

// TestHostileNatives: whatever a native program tries, its run gives nothing,
// nothing of it stays, and it is said why.
func TestHostileNatives(t *testing.T) {
	if testing.Short() {
		t.Skip("some end by their time")
	}
	say := "printf '%s\\n' '" + strings.TrimSpace(owned) + "' '" + strings.TrimSpace(ended) + "'\n"
	for name, c := range map[string]struct {
		text, told string
		limits     func(*generate.Limits)
		off        bool
		gives      bool
	}{
		"10 000 forks":          {text: "i=0; while [ $i -lt 10000 ]; do sleep 98761 & i=$((i+1)); done\n" + say, told: `exit status|longer`},
		"forks of forks":        {text: "f() { f & f & sleep 98761; }; f\n" + say, told: `longer|exit status|memory`},
		"a daemon":              {text: "(setsid sleep 98761 >/dev/null 2>&1 &) &\nsleep 0.2\n" + say, gives: true},
		"a daemon outside":      {text: "(setsid sleep 98761 >/dev/null 2>&1 &) &\nsleep 0.2\n" + say, gives: true, off: true},
		"1 GiB to stderr":       {text: "yes | head -c 1073741824 >&2\n" + say, gives: true, limits: func(l *generate.Limits) { l.Milliseconds = 60_000 }},
		"stderr without end":    {text: "yes >&2\n", told: `longer than 1s`},
		"stdout without end":    {text: "yes\n", told: `wrote more than 4000000 bytes|longer`, limits: func(l *generate.Limits) { l.OutputBytes = 1_000_000; l.Milliseconds = 20_000 }},
		"no ear for SIGTERM":    {text: "trap '' TERM INT HUP QUIT\nwhile :; do :; done\n", told: `longer than 1s`},
		"sleep":                 {text: "sleep 98761\n", told: `longer than 1s`},
		"sleep outside":         {text: "sleep 98761\n", told: `longer than 1s`, off: true},
		"memory":                {text: "set -e\nyes | tail -c 900000000\n" + say, told: `memory|exit status|longer`, limits: func(l *generate.Limits) { l.Milliseconds = 20_000 }},
		"undeclared files":      {text: "set -e\ncat /etc/passwd >/dev/null\n" + say, told: `No such file|nonexistent`},
		"other processes":       {text: "set -e\nls /proc/1 >/dev/null\n" + say, told: `No such file|cannot access`},
		"writing to its inputs": {text: "set -e\necho b: 2 >> a.yaml\n" + say, told: `Read-only file system|Permission denied`},
		"writing to the root":   {text: "set -e\necho x > /x\n" + say, told: `Read-only file system`},
		"mounting":              {text: "set -e\nmount -o remount,rw / 2>&1 >/dev/null\n" + say, told: `exit status`},
		"another namespace":     {text: "set -e\nunshare -Ur true\n" + say, told: `exit status`},
		"the network":           {text: "test \"$(cat /proc/net/dev 2>/dev/null | wc -l)\" = 0 || exit 3\n" + say, gives: true},
		"its environment":       {text: "test -z \"$(env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=)\" || exit 3\n" + say, gives: true},
		"half of it, and death": {text: "printf '%s\\n' '" + strings.TrimSpace(owned) + "'\nkill -9 $$\nexit 1\n", told: `exit status 1|signal`},
		"half of it":            {text: "printf '%s\\n' '" + strings.TrimSpace(owned) + "'\n", told: `without saying that this was all`},
		"garbage after it":      {text: say + "echo bye\n", told: `after its end`},
	} {
		t.Run(name, func(t *testing.T) {
			in, limits := inputs{}, quick()
			if c.limits != nil {
				c.limits(&limits)
			}
			if c.gives && limits.Milliseconds < 10_000 {
				limits.Milliseconds = 10_000
			}
			sandbox := native.Required
			if c.off {
				sandbox = native.Off
			}
			result := runOne(t, shell(sandbox, limits), in, script(in, c.text))
			switch {
			case c.gives && (len(result.Assets) != 1 || len(result.Findings) > 0):
				t.Errorf("%.800s, want its asset", fmt.Sprintf("%+v", result))
			case !c.gives && (len(result.Assets) > 0 || len(result.Findings) == 0 || !regexp.MustCompile(c.told).MatchString(result.Findings[0].Message)):
				t.Errorf("%.800s, want %q", fmt.Sprintf("%+v", result), c.told)
			}
			// Who is killed is gone a moment later.
			for deadline := time.Now().Add(10 * time.Second); alive(t, "98761") > 0; {
				if time.Now().After(deadline) {
					t.Fatalf("%d of its processes are left", alive(t, "98761"))
				}
				time.Sleep(10 * time.Millisecond)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "lehr-generator-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
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
