package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoregistry"

	generatorpb "lehr.dev/gen/lehr/generator/v1"
	"lehr.dev/sdk/generator"
)

// said is what the program says of files.
func said(t *testing.T, files fstest.MapFS) string {
	t.Helper()
	files["assets.json"] = &fstest.MapFile{Data: []byte("{}")}
	var out bytes.Buffer
	in := generator.NewInput(&generatorpb.Job{Partition: "shop", Generator: "rules", Assets: "assets.json"}, nil, files)
	if err := generator.Run(check, in, protoregistry.GlobalTypes, &out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "{\"end\":{}}\n")
}

// TestAsPromtool plays the files that promtool itself is tested with, of the version of the
// library: what passes there passes here, and what fails there fails here.
func TestAsPromtool(t *testing.T) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(strings.TrimSpace(string(module)), "cmd/promtool/testdata")
	for name, passes := range map[string]bool{
		"unittest.yml": true, "no-test-group-interval.yml": true, "at-modifier-test.yml": true,
		"negative-offset-test.yml": true, "start-time-test.yml": true,
		"bad-input-series.yml": false, "bad-promql.yml": false, "bad-rules-error-test.yml": false, "bad-rules-syntax-test.yml": false,
		"failing.yml": false, "rules_run_no_fuzzy.yml": false, "rules_run_fuzzy.yml": false, // One of its tests is meant to fail.
	} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		files := fstest.MapFS{"rules/" + name: &fstest.MapFile{Data: text}}
		var content struct {
			RuleFiles []string `yaml:"rule_files"`
		}
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Fatal(err)
		}
		// A test file without rule files is a check all the same, of expressions.
		for _, rules := range append(content.RuleFiles, "at-modifier.yml") {
			if files["rules/"+rules], err = file(filepath.Join(folder, rules)); err != nil {
				t.Fatal(err)
			}
		}
		if got := said(t, files); (got == "") != passes {
			t.Errorf("%s passes with promtool: %v, and here it is said:\n%s", name, passes, got)
		}
	}
}

func file(path string) (*fstest.MapFile, error) {
	text, err := os.ReadFile(path)
	return &fstest.MapFile{Data: text}, err
}

// TestRulesOfOthers: rule files that are in use are taken.
func TestRulesOfOthers(t *testing.T) {
	paths := []string{"../../docs/operate/monitoring/alerts.yaml", "../../examples/ferry/kustomize/base/alerts.yaml"}
	const etcd = "/usr/share/doc/etcd-server/v2/etcd_alert.rules.yml" // Debian's package has it.
	if _, err := os.Stat(etcd); err == nil {
		paths = append(paths, etcd)
	}
	for _, path := range paths {
		rules, err := file(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := said(t, fstest.MapFS{"rules.yaml": rules}); got != "" {
			t.Errorf("of %s it is said:\n%s", path, got)
		}
	}
}
