package prodspec_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
)

// seeing notes what is done before and after runs.
type seeing struct {
	generate.Runner
	progress *measure.Progress
	seen     *[]measure.Doing
}

func (s seeing) Run(ctx context.Context, set *schema.Set, jobs []generate.Job, open generate.Opener) ([]generate.Result, error) {
	*s.seen = append(*s.seen, s.progress.Read())
	results, err := s.Runner.Run(ctx, set, jobs, open)
	*s.seen = append(*s.seen, s.progress.Read())
	return results, err
}

// TestVerifyTellsItsProgress: in both builds it says which generator runs, and of how many
// runs how many have ended.
func TestVerifyTellsItsProgress(t *testing.T) {
	w := newWorld(t, "web")
	w.write("web.star", "def generate(ctx):\n    return []\n")
	w.write("lehr.yaml", "lehr: v1\npartition: shop\nsources:\n  in: {dir: in, files: [\"*.yaml\"]}\ngenerate:\n  web: {starlark: web.star, from: [in], for_each: file}\n")
	for _, name := range []string{"a", "b", "c"} {
		w.write("in/"+name+".yaml", "a: 1\n")
	}
	progress, seen := &measure.Progress{}, []measure.Doing{}
	runner := func(elsewhere bool) generate.Runner {
		return seeing{generate.NewProcess(generate.Options{
			Child: generatorChild(w.t), Limits: w.limits, Elsewhere: elsewhere, Progress: progress,
		}), progress, &seen}
	}
	program := prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: runner(false), Progress: progress}
	built, err := prodspec.Verify(t.Context(), program, runner(true), loop.Real())
	if err != nil || !built.OK() {
		t.Fatal(err, built.Findings)
	}
	var want []measure.Doing
	for _, pass := range []string{"first build", "second build"} {
		for _, done := range []int{0, 3} {
			want = append(want, measure.Doing{Pass: pass, Step: "run generator web", Done: done, All: 3})
		}
	}
	if !slices.Equal(seen, want) {
		t.Errorf("it told %+v, want %+v", seen, want)
	}
}
