package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
)

// measureRenderers has Lehr render so many objects from kustomizations of 200
// (Kustomize's time grows by the square of the objects of one)
// and from one chart, children and assets included, and the libraries alone make
// the same text of the same files (renderers/alone). The ratio is Lehr's time to
// that of the library, the best of two each.
func measureRenderers(ctx context.Context, programs string, objects int) error {
	const rounds, each = 2, 200
	beside, err := filepath.Abs(programs)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	options := generate.DefaultOptions()
	options.Limits.Milliseconds, options.Limits.MemoryBytes, options.Limits.OutputBytes = 10*60*1000, 2<<30, 100<<20
	for _, of := range []struct {
		format    string
		parts     int
		files     map[string]string
		arguments []string
	}{
		{"kustomize", objects / each, kustomizeInput(each), []string{"--cluster=a", "--folder=overlay"}},
		{"helm", 1, chartInput(objects), []string{"--chart=chart", "--cluster=a", "--kube_version=1.34"}},
	} {
		objects := objects / each * each
		contents := map[intent.Digest][]byte{}
		job := work.Job{Partition: partition, Generator: "render", Language: work.Render, Program: of.format, Arguments: of.arguments, Renderer: filepath.Join(beside, "lehr-"+of.format)}
		program := intent.Sum("bench", []byte(of.format))
		contents[program], job.Programs = nil, []work.Input{{Name: of.format, Digest: program}}
		for name, text := range of.files {
			path := filepath.Join(folder, of.format, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return err
			}
			digest := intent.Sum("bench", []byte(name), []byte(text))
			contents[digest] = []byte(text)
			job.Files = append(job.Files, work.Input{Name: name, Digest: digest})
		}
		open := func(_ work.Kind, input work.Input) ([]byte, error) {
			if content, ok := contents[input.Digest]; ok {
				return content, nil
			}
			return nil, fault.New(fault.NotFound, "no %s", input.Name)
		}
		lehr, alone := time.Duration(1<<62), time.Duration(1<<62)
		for range rounds {
			start := time.Now()
			results, err := runAll(ctx, generate.NewProcess(options), slices.Repeat([]work.Job{job}, of.parts), open)
			if err != nil {
				return fmt.Errorf("%s: %w", of.format, err)
			}
			lehr = min(lehr, time.Since(start))
			for _, result := range results {
				if len(result.Findings) > 0 || len(result.Assets) != objects/of.parts {
					return fmt.Errorf("%s gave %d assets, want %d (%+v)", of.format, len(result.Assets), objects/of.parts, result.Findings)
				}
			}
			start = time.Now()
			output, err := exec.CommandContext(ctx, filepath.Join(beside, "render-alone"), of.format, filepath.Join(folder, of.format), strconv.Itoa(of.parts)).Output()
			if err != nil {
				return fmt.Errorf("%s alone: %w", of.format, err)
			}
			alone = min(alone, time.Since(start))
			if count, err := strconv.Atoi(strings.TrimSpace(string(output))); err != nil || count != objects {
				return fmt.Errorf("%s alone made %s objects, want %d", of.format, output, objects)
			}
		}
		machine.figure("render_"+of.format+"_objects", float64(objects)/lehr.Seconds(), "objects/s", 1, byComputing)
		machine.figure("render_"+of.format+"_alone_objects", float64(objects)/alone.Seconds(), "objects/s", 1, byComputing)
		print("render_"+of.format+"_ratio", lehr.Seconds()/alone.Seconds(), "x")
	}
	return nil
}

// service is one of two objects, with a place for its name.
const service = `apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {app: NAME}}
spec:
  replicas: 3
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers:
      - {name: main, image: "example.com/NAME:v1", ports: [{containerPort: 8080}], env: [{name: MODE, value: production}]}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, labels: {app: NAME}}
spec: {selector: {app: NAME}, ports: [{port: 80, targetPort: 8080}]}
`

// kustomizeInput has a hundred services a file, and an overlay.
func kustomizeInput(objects int) map[string]string {
	files := map[string]string{"overlay/kustomization.yaml": "resources: [../base]\nnamespace: shop\nlabels: [{pairs: {team: web}}]\n"}
	resources := "resources:\n"
	for at := 0; at < objects/2; at += 100 {
		name := fmt.Sprintf("services-%06d.yaml", at)
		resources += "- " + name + "\n"
		var text []string
		for i := at; i < min(at+100, objects/2); i++ {
			text = append(text, strings.ReplaceAll(service, "NAME", fmt.Sprintf("service-%06d", i)))
		}
		files["base/"+name] = strings.Join(text, "---\n")
	}
	files["base/kustomization.yaml"] = resources
	return files
}

// chartInput has one template for all services.
func chartInput(objects int) map[string]string {
	return map[string]string{
		"chart/Chart.yaml":              "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"chart/values.yaml":             fmt.Sprintf("services: %d\n", objects/2),
		"chart/templates/services.yaml": "{{- range $i := until (int .Values.services) }}\n{{- $name := printf \"service-%06d\" $i }}\n---\n" + strings.ReplaceAll(service, "NAME", "{{ $name }}") + "{{- end }}\n",
	}
}
