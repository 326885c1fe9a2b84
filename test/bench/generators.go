package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/work"
)

const ratesProgram = `def generate(ctx):
    files = [ctx.file] if each else ctx.files.keys()
    return [asset(name + "/" + cluster, lehr.process.v1.Job(
        name = name, replicas = 3, binary = "/opt/" + name, version = "v1",
        args = ["--port={port}", "--cluster=" + cluster], env = {"MODE": "production"},
    )) for name in [ctx.files[f].removeprefix("name: ").strip() for f in files] for cluster in ["a", "b"]]
`

// measureGenerators compares the three languages: assets a second of one run
// over many files, and runs a second of one file each, children included. The
// module has been compiled before, which is measured apart.
func measureGenerators(ctx context.Context, programs string, files int) error {
	contents := map[intent.Digest][]byte{}
	input := func(name string, content []byte) work.Input {
		digest := intent.Sum("bench", []byte(name), content)
		contents[digest] = content
		return work.Input{Name: name, Digest: digest}
	}
	open := func(_ work.Kind, input work.Input) ([]byte, error) {
		if content, ok := contents[input.Digest]; ok {
			return content, nil
		}
		return nil, fault.New(fault.NotFound, "no %s", input.Name)
	}
	all := make([]work.Input, files)
	for i := range files {
		all[i] = input(fmt.Sprintf("services/%06d.yaml", i), fmt.Appendf(nil, "name: service-%06d\n", i))
	}
	cache, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	options := generate.DefaultOptions()
	options.Cache, options.Limits.Milliseconds = cache, 10*60*1000
	options.Native = func(intent.PartitionID) (native.Policy, error) { return native.Policy{Sandbox: native.Required}, nil }
	runner := generate.NewProcess(options)
	run := func(jobs []work.Job, want int) (time.Duration, error) {
		start := time.Now()
		results, err := runAll(ctx, runner, jobs, open)
		if err != nil {
			return 0, err
		}
		duration, assets := time.Since(start), 0
		for _, result := range results {
			if len(result.Findings) > 0 {
				return 0, fmt.Errorf("%s: %s", result.Findings[0].File, result.Findings[0].Message)
			}
			assets += len(result.Assets)
		}
		if assets != want {
			return 0, fmt.Errorf("%d assets, want %d", assets, want)
		}
		return duration, nil
	}
	for _, language := range []struct {
		name     string
		language work.Language
		file     string
	}{{"starlark", work.Starlark, ""}, {"wasi", work.WASM, "rates.wasm"}, {"native", work.Native, "rates"}} {
		program := func(each string) ([]byte, error) {
			if language.file == "" {
				return []byte("each = " + each + "\n\n" + ratesProgram), nil
			}
			return os.ReadFile(filepath.Join(programs, language.file))
		}
		job := work.Job{Partition: partition, Generator: language.name, Language: language.language, Program: "program"}
		content, err := program("True")
		if err != nil {
			return err
		}
		job.Programs = []work.Input{input("program", content)}
		each := make([]work.Job, min(files, 500))
		for i := range each {
			each[i] = job
			each[i].File, each[i].Files = all[i].Name, all[i:i+1]
		}
		first, err := run(each[:1], 2)
		if err != nil {
			return fmt.Errorf("%s: %w", language.name, err)
		}
		duration, err := run(each, 2*len(each))
		if err != nil {
			return fmt.Errorf("%s: %w", language.name, err)
		}
		if content, err = program("False"); err != nil {
			return err
		}
		job.Programs, job.Files = []work.Input{input("program", content)}, all
		whole, err := run([]work.Job{job}, 2*files)
		if err != nil {
			return fmt.Errorf("%s: %w", language.name, err)
		}
		machine.figure("generate_"+language.name+"_first_run", first.Seconds()*1000, "ms", 1, byComputing)
		machine.figure("generate_"+language.name+"_runs", float64(len(each))/duration.Seconds(), "runs/s", 1, byComputing)
		machine.figure("generate_"+language.name+"_assets", float64(2*files)/whole.Seconds(), "assets/s", 1, byComputing)
	}
	return nil
}

// runAll runs jobs to their end, however many results a runner holds at once.
func runAll(ctx context.Context, runner generate.Runner, jobs []work.Job, open work.Opener) (all []generate.Result, err error) {
	for len(all) < len(jobs) {
		results, err := runner.Run(ctx, schema.Builtin(), jobs[len(all):], open)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}
