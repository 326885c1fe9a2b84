package generate_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
)

// role makes the test binary a child: a true one, or one with a fault.
const role = "LEHR_TEST_CHILD_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "true":
		environment := slices.Concat([]string{"GOGC=400"}, generate.RaceEnvironment(), []string{role + "=true"})
		if os.Getenv("LEHR_GENERATE_STAGE") == "" && !slices.Equal(os.Environ(), environment) {
			fmt.Fprintf(os.Stderr, "the environment is %q, want %q\n", os.Environ(), environment)
			os.Exit(1)
		}
		os.Exit(generate.ChildMain(os.Stdin, os.Stdout))
	case "unclean":
		os.Exit(generate.ChildMain(os.Stdin, os.Stdout))
	case "half":
		// All is well until the first result, of which only a part gets out.
		os.Exit(generate.ChildMain(os.Stdin, &cut{}))
	case "mute":
		os.Exit(0)
	}
}

// cut lets frames through until one is long, and ends the process with half
// of that.
type cut struct{}

func (c *cut) Write(p []byte) (int, error) {
	if len(p) < 200 {
		return os.Stdout.Write(p)
	}
	os.Stdout.Write(p[:len(p)/2])
	os.Exit(0)
	return 0, io.EOF
}

func process(r string) *generate.Process {
	return generate.NewProcess(generate.Options{
		Child: []string{"/proc/self/exe"}, Environment: []string{role + "=" + r}, Limits: generate.DefaultLimits(),
	})
}

// inputs of a job by path.
type inputs map[string]string

func (in inputs) open(_ work.Kind, input generate.Input) ([]byte, error) {
	text, ok := in[input.Name]
	if !ok {
		return nil, fault.New(fault.Unavailable, "%s changed", input.Name)
	}
	return []byte(text), nil
}

func (in inputs) input(names ...string) (list []generate.Input) {
	for _, name := range names {
		list = append(list, generate.Input{Name: name, Digest: intent.Sum("test", []byte(in[name]))})
	}
	return list
}

const program = `
def generate(ctx):
    n = yaml(ctx.file)["n"]
    if n == 3:
        return ["x" * n for _ in range(n)] + [q for q in [1] if fail("three is bad")]
    return [asset("job/%d" % i, lehr.process.v1.Job(name = "x", binary = "/bin/true")) for i in range(n)]
`

func jobs(in inputs, count int) []generate.Job {
	in["p.star"] = program
	var list []generate.Job
	for i := range count {
		name := fmt.Sprintf("m%d.yaml", i)
		in[name] = fmt.Sprintf("n: %d", i)
		list = append(list, generate.Job{Partition: "shop", Generator: "g", Program: "p.star", File: name, Files: in.input(name), Programs: in.input("p.star")})
	}
	return list
}

// TestRunnersAgree: the form for the simulator gives what children give.
func TestRunnersAgree(t *testing.T) {
	in := inputs{}
	list := jobs(in, 6)
	there, err := process("true").Run(t.Context(), schema.Builtin(), list, in.open)
	if err != nil {
		t.Fatal(err)
	}
	here, err := generate.InProcess{Limits: generate.DefaultLimits()}.Run(t.Context(), schema.Builtin(), list, in.open)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if len(there[i].Assets) != len(here[i].Assets) || len(there[i].Reads) != len(here[i].Reads) || len(there[i].Findings) != len(here[i].Findings) {
			t.Errorf("job %d: a child gave %+v, this process %+v", i, there[i], here[i])
		}
		if i != 3 && (len(here[i].Assets) != i || len(here[i].Findings) > 0) {
			t.Errorf("job %d gave %+v", i, here[i])
		}
	}
	if f := there[3].Findings; len(f) != 1 || !strings.Contains(f[0].Message, "three is bad") || f[0].File != "p.star" || f[0].Line != 5 || there[3].Died {
		t.Errorf("a failing job among others: %+v", there[3])
	}
}

// TestLongFindingsAreCut: the server never holds megabytes that a program says.
func TestLongFindingsAreCut(t *testing.T) {
	in := inputs{"p.star": "def generate(ctx):\n    fail(\"é\" * 2500000)\n"}
	list := []generate.Job{{Partition: "shop", Generator: "g", Program: "p.star", Programs: in.input("p.star")}}
	results, err := process("true").Run(t.Context(), schema.Builtin(), list, in.open)
	if err != nil {
		t.Fatal(err)
	}
	f := results[0].Findings
	if len(f) != 1 || len(f[0].Message) > 10_000 || !strings.HasPrefix(f[0].Message, "fail: éé") || !strings.HasSuffix(f[0].Message, "é …") || f[0].Line != 2 {
		t.Fatalf("%d findings, the first of %d bytes: %.200q", len(f), len(f[0].Message), f[0].Message)
	}
}

// TestPartOfAResultIsNone: a child that ends early, even with exit code 0,
// gave nothing (S6), and the jobs after it run.
func TestPartOfAResultIsNone(t *testing.T) {
	in := inputs{}
	results, err := process("half").Run(t.Context(), schema.Builtin(), jobs(in, 3), in.open)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if !r.Died || len(r.Assets) > 0 || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, "lost its child") {
			t.Errorf("job %d: %+v, want that its child was lost", i, r)
		}
	}
}

func TestChildThatDoesNotStart(t *testing.T) {
	in := inputs{}
	for name, runner := range map[string]*generate.Process{
		"ends at once": process("mute"),
		"missing":      generate.NewProcess(generate.Options{Child: []string{"/nonexistent"}, Limits: generate.DefaultLimits()}),
	} {
		if _, err := runner.Run(t.Context(), schema.Builtin(), jobs(in, 1), in.open); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want unavailable, which concludes nothing", name, err)
		}
	}
}

// TestInputThatCannotBeOpened concludes nothing: no finding, an error.
func TestInputThatCannotBeOpened(t *testing.T) {
	in := inputs{}
	list := jobs(in, 2)
	delete(in, "m1.yaml")
	for _, runner := range []generate.Runner{process("true"), generate.InProcess{Limits: generate.DefaultLimits()}} {
		if _, err := runner.Run(t.Context(), schema.Builtin(), list, in.open); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%T: %v, want unavailable", runner, err)
		}
	}
}

func TestCancelledRunEndsAtOnce(t *testing.T) {
	in := inputs{"p.star": "def generate(ctx):\n    for _ in range(1 << 40):\n        pass\n", "m": ""}
	ctx, cancel := context.WithCancel(t.Context())
	job := generate.Job{Generator: "g", Program: "p.star", Programs: in.input("p.star")}
	_, err := process("true").Run(ctx, schema.Builtin(), []generate.Job{job}, func(kind work.Kind, input generate.Input) ([]byte, error) {
		cancel()
		return in.open(kind, input)
	})
	if err == nil || ctx.Err() == nil {
		t.Errorf("error %v, want the context's", err)
	}
}

// TestChildCollectsAsUsual: garbage counts as what a run holds, so that a child lets it
// grow at its start only, before it looks at anything.
func TestChildCollectsAsUsual(t *testing.T) {
	before := debug.SetGCPercent(400)
	defer debug.SetGCPercent(before)
	if code := generate.ChildMain(strings.NewReader(""), io.Discard); code != 0 {
		t.Fatalf("a child without work ends with code %d", code)
	}
	if percent := debug.SetGCPercent(400); percent != 100 {
		t.Errorf("a child collects at %d %%, want 100", percent)
	}
}
