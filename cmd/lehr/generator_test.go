package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"lehr.dev/internal/cli"
	"lehr.dev/test/building"
)

// TestGeneratorPage follows docs/use/generators.md to the letter: a newcomer's first
// module gives what the page says.
func TestGeneratorPage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	page := documents(t)["docs/use/generators.md"]
	steps := regexp.MustCompile("(?s)```sh\n(mkdir pages.*?)```\n\nIt prints\n\n```\n(.*?)```").FindStringSubmatch(page)
	if steps == nil {
		t.Fatal("the page's first steps were not found")
	}
	folder := t.TempDir()
	source, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(folder, "bin")
	if err := (building.Program{Of: "."}).At(filepath.Join(bin, "lehr")); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "/bin/sh", "-e", "-c", steps[1])
	script.Dir, script.Env = folder, append(os.Environ(), "LEHR="+source, "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+folder+"/cache", "GOCACHE="+goCache(t), "GOPROXY=off", "GOFLAGS=-trimpath")
	var problems bytes.Buffer
	script.Stderr = &problems
	out, err := script.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &problems)
	}
	if string(out) != steps[2] {
		t.Errorf("it printed\n%s, and the page says\n%s", out, steps[2])
	}
	byHand := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".", "hello")
	byHand.Dir, byHand.Env, byHand.Stdin = filepath.Join(folder, "pages"), script.Env, strings.NewReader(`{"file": "services/english.yaml"}`)
	if out, err := byHand.CombinedOutput(); err != nil || !strings.Contains(string(out), "hello english") || !strings.HasSuffix(string(out), "{\"end\":{\"assets\":\"1\"}}\n") {
		t.Errorf("by hand: %v %s", err, out)
	}
}

// goCache returns where Go keeps what it compiled. A test that has a cache of its own
// for Lehr says it to Go: else Go would compile its standard library anew.
func goCache(t *testing.T) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(folder))
}

// TestGeneratorExample: the example gives the same bytes as a module and as a
// native program in its sandbox.
func TestGeneratorExample(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	t.Setenv("GOCACHE", goCache(t))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(repository, "examples/generator"))); err != nil {
		t.Fatal(err)
	}
	execute(t, repository, []string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-o", filepath.Join(folder, "pages.wasm"), "./examples/generator")
	execute(t, repository, []string{"CGO_ENABLED=0"}, "go", "build", "-o", filepath.Join(folder, "pages"), "./examples/generator")
	definition, allowed := filepath.Join(folder, "lehr.yaml"), filepath.Join(folder, "generators.yaml")
	if err := os.WriteFile(allowed, []byte("generators: v1\nnative: [{partitions: [pages]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	module, err := build(t.Context(), cli.BuildOptions{Definition: definition, Verify: true})
	if err != nil || len(module.Findings) > 0 || len(module.Assets) != 3 {
		t.Fatalf("as a module: %v %+v", err, module)
	}
	text, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("wasm: pages.wasm"), []byte("command: [./pages]"), 1)
	if err := os.WriteFile(definition, text, 0o600); err != nil {
		t.Fatal(err)
	}
	refused, err := build(t.Context(), cli.BuildOptions{Definition: definition})
	if err != nil || len(refused.Findings) != 1 || !strings.Contains(refused.Findings[0].Hint, "--generators") {
		t.Errorf("without leave: %v %+v", err, refused.Findings)
	}
	program, err := build(t.Context(), cli.BuildOptions{Definition: definition, Generators: allowed, Verify: true})
	if err != nil || len(program.Findings) > 0 || len(program.Assets) != 3 {
		t.Fatalf("as a native program: %v %+v", err, program)
	}
	for i, asset := range module.Assets {
		if other := program.Assets[i]; asset.ID != other.ID || !bytes.Equal(asset.JSON, other.JSON) || asset.Place != other.Place {
			t.Errorf("as a module %s (%s) is %s, as a program %s (%s)", asset.ID, asset.Place, asset.JSON, other.JSON, other.Place)
		}
	}
	// What they say is the same too, to the byte.
	if program, module := say(t, folder, "./pages"), sayAsModule(t, folder, "pages.wasm"); program != module || strings.Count(program, "\n") != 2 {
		t.Errorf("the program said %q, and the module %q", program, module)
	}
	for name, expected := range map[string]string{"owner: web@example.com": "nobody owns english", "name: english": "the service has no name"} {
		changed := filepath.Join(folder, "services/english.yaml")
		whole, err := os.ReadFile(changed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(changed, bytes.Replace(whole, []byte(name), nil, 1), 0o600); err != nil {
			t.Fatal(err)
		}
		built, err := build(t.Context(), cli.BuildOptions{Definition: definition, Generators: allowed})
		if err != nil || len(built.Findings) != 1 || built.Findings[0].Message != expected || built.Findings[0].File != "services/english.yaml" {
			t.Errorf("without %s: %v %+v", name, err, built.Findings)
		}
		if err := os.WriteFile(changed, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// job of both, by hand.
const job = `{"partition": "pages", "file": "services/english.yaml"}`

func sayAsModule(t *testing.T, folder, module string) string {
	t.Helper()
	ctx := t.Context()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	content, err := os.ReadFile(filepath.Join(folder, module))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	config := wazero.NewModuleConfig().WithStdin(strings.NewReader(job)).WithStdout(&out).WithFSConfig(wazero.NewFSConfig().WithFSMount(os.DirFS(folder), "/"))
	_, err = runtime.InstantiateWithConfig(ctx, content, config)
	if exit, ok := errors.AsType[*sys.ExitError](err); err != nil && (!ok || exit.ExitCode() != 0) {
		t.Fatal(err)
	}
	return out.String()
}

func say(t *testing.T, folder, program string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program)
	command.Dir, command.Stdin = folder, strings.NewReader(job)
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func execute(t *testing.T, folder string, environment []string, name string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir, command.Env = folder, append(os.Environ(), environment...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, output)
	}
}
