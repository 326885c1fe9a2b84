package generate_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/test/detector"
)

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
	detector.SkipSequential(t)
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
		"tables at once":             {module: module{tables: []uint64{600_000, 600_000}, start: forever(nil)}.bytes(), told: `tables of 1200000 elements, at most 1000000`},
		"a table by growing":         {module: module{tables: []uint64{1}, start: code(growTable(1<<31-2), drop)}.bytes(), told: `memory`},
		"entries without bytes":      {module: code([]byte("\x00asm\x01\x00\x00\x00"), section(1, number(1<<31))), told: `a section 1 of 5 bytes that says it has 2147483648 entries`},
		"parameters without bytes":   {module: code([]byte("\x00asm\x01\x00\x00\x00"), section(1, code(number(1), []byte{0x60}, number(1<<31)))), told: `memory`},
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
			if detector.On && strings.Contains(fmt.Sprint(bad.Findings), "ThreadSanitizer failed to allocate") {
				// The detector gets no memory before Go says that it gets none.
				c.told, c.stopped = "lost its child process", true
			}
			if len(bad.Assets) > 0 || len(bad.Findings) == 0 || !regexp.MustCompile(c.told).MatchString(bad.Findings[0].Message) || bad.Stopped != c.stopped {
				t.Errorf("%.800s, want %q", fmt.Sprintf("%+v", bad), c.told)
			}
			if len(results[1].Assets) != 1 {
				t.Errorf("the run after it gave %+v", results[1])
			}
		})
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
		if largest := <-ended; largest > most && !detector.On { // Which holds several times as much.
			t.Errorf("a child held %d MB, want %d at most", largest>>20, most>>20)
		} else {
			t.Logf("the largest child held %d MB", largest>>20)
		}
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
	// Others may run this test on this machine.
	word := fmt.Sprintf("98%07d", os.Getpid())
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
			result := runOne(t, shell(t, sandbox, limits), in, script(in, strings.ReplaceAll(c.text, "98761", word)))
			switch {
			case c.gives && (len(result.Assets) != 1 || len(result.Findings) > 0):
				t.Errorf("%.800s, want its asset", fmt.Sprintf("%+v", result))
			case !c.gives && (len(result.Assets) > 0 || len(result.Findings) == 0 || !regexp.MustCompile(c.told).MatchString(result.Findings[0].Message)):
				t.Errorf("%.800s, want %q", fmt.Sprintf("%+v", result), c.told)
			}
			// Who is killed is gone a moment later.
			for deadline := time.Now().Add(10 * time.Second); alive(t, word) > 0; {
				if time.Now().After(deadline) {
					t.Fatalf("%d of its processes are left", alive(t, word))
				}
				time.Sleep(10 * time.Millisecond)
			}
			if left, _ := filepath.Glob(filepath.Join(temporary(t), "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
