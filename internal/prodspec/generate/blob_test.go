package generate_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/work"
)

// heavy is a runner whose runs each give one blob and the asset that names it, one run
// at a time: as an own program's, which cannot give more.
type heavy struct {
	generate.InProcess
	bytes int
}

func (h heavy) Run(ctx context.Context, set *schema.Set, jobs []generate.Job, open generate.Opener) ([]generate.Result, error) {
	content := make([]byte, h.bytes)
	var number uint64
	if _, err := fmt.Sscanf(jobs[0].File, "%d", &number); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint64(content, number/2) // Each is given, and named, twice.
	sum := intent.BlobSum(content)
	digest := base64.StdEncoding.EncodeToString(sum[:])
	in := inputs{"a.yaml": fmt.Sprintf("id: net/%d\ntype: lehr.terraform.v1.Module\npayload:\n  root: .\n  files: [{path: a, sha256: %s, external: {uri: '%s', sha256: %s}}]\n", number, digest, intent.BlobURI(sum), digest)}
	results, err := h.InProcess.Run(ctx, set, []generate.Job{{Partition: "shop", Generator: "web", Language: work.Render, Program: "assets", Files: in.input("a.yaml")}}, in.open)
	if err == nil {
		results[0].Blobs, results[0].Reads = []work.Blob{{Digest: sum, Bytes: content}}, work.Everything(jobs[0])
	}
	return results, err
}

// forgetful is a cache that keeps nothing, and remembers how much it was given at once.
type forgetful struct{ most int }

func (*forgetful) Get(context.Context, string) ([]byte, error) {
	return nil, fault.New(fault.NotFound, "nothing is kept")
}

func (f *forgetful) Put(_ context.Context, records map[string][]byte) error {
	together := 0
	for _, record := range records {
		together += len(record)
	}
	f.most = max(f.most, together)
	return nil
}

// TestBytesThatAnIncarnationNames are bounded together, each blob once, however many
// assets name it and runs give it.
func TestBytesThatAnIncarnationNames(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 512 MB")
	}
	runner := heavy{generate.InProcess{Limits: generate.DefaultLimits()}, 8_000_000}
	fits := intent.MaxPartitionBlobBytes / runner.bytes
	r := newRendering(t, runner, "assets")
	r.graph, r.by.ForEachFile = generate.NewGraph(runner, &forgetful{}), true
	var files []string
	add := func(count int) {
		for range count {
			name := fmt.Sprintf("%03d.yaml", len(files))
			r.in[name] = name
			files = append(files, name)
		}
	}
	add(2 * fits)
	if _, said := r.build(files...); said != "" {
		t.Fatalf("%d blobs of %d bytes: %s", fits, runner.bytes, said)
	}
	add(1)
	want := fmt.Sprintf("asset net/%d names a blob with which those of the partition have more than %d bytes (keep large content elsewhere, and name it by URI and digest)", 2*fits, intent.MaxPartitionBlobBytes)
	if _, said := r.build(files...); !strings.HasSuffix(said, want) {
		t.Errorf("one more: %s\nwant %s", said, want)
	}
	if _, said := r.build(files[2:]...); said != "" {
		t.Errorf("another instead: %s", said)
	}
}

// TestRunsThatGiveMuch are not held all at once (S12).
func TestRunsThatGiveMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 160 MB")
	}
	sum := intent.BlobSum(bytes.Repeat([]byte("\xd3\x4d\x34"), 3_000_000)) // In base64: zeros.
	digest := base64.StdEncoding.EncodeToString(sum[:])
	asset := fmt.Sprintf(`{"asset":{"id":"net","payload":{"@type":"lehr.terraform.v1.Module","root":".","files":[{"path":"a","sha256":"%s","external":{"uri":"%s","sha256":"%s"}}]}}}`, digest, intent.BlobURI(sum), digest)
	in := inputs{"gen": `#!/bin/sh
printf '{"blob":{"content":"'
printf '%012000000d' 0
printf '"}}\n%s\n{"end":{"assets":"1"}}\n' '` + asset + "'\n"}
	runner, cache := shell(t, native.Required, generate.DefaultLimits()), &forgetful{}
	graph := generate.NewGraph(runner, cache)
	var files []string
	for i := range 18 {
		name := fmt.Sprintf("%03d.yaml", i)
		files, in[name] = append(files, name), name
	}
	findings, err := graph.Build(t.Context(), []definition.Generator{{
		Name: "web", Language: work.Native, Program: "gen", ForEachFile: true, File: "lehr.yaml", Line: 1, Sources: []string{"files"},
	}}, generate.Inputs{
		Partition: "shop", Sources: map[string][]generate.Input{"files": in.input(files...)}, Programs: in.input("gen"),
		Open: func(input generate.Input) ([]byte, error) { return in.open(work.ReadFile, input) },
	}, time.Unix(1e9, 0))
	if err != nil || len(findings) > 0 || graph.Executions() != len(files) {
		t.Fatalf("%d runs, %+v, %v", graph.Executions(), findings, err)
	}
	if most := 2 * (64<<20 + 10_000_000); cache.most > most || cache.most < 9_000_000 {
		t.Errorf("%d bytes were held at once, want at most %d", cache.most, most)
	}
}
