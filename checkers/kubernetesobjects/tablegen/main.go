// Command tablegen makes the tables of package builtin: of the OpenAPI documents in the module
// k8s.io/kubernetes, by three releases, and of the lifecycles in k8s.io/api. "go generate
// ./kubernetesobjects/builtin" runs it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lehr.dev/checkers/kubernetesobjects/builtin"
)

// releases are the newest of their minor versions when the tables were made.
var releases = map[string]string{"1.35": "1.35.3", "1.36": "1.36.3", "1.37": "1.37.2"}

func main() {
	to := flag.String("to", "tables.json.gz", "the file that is written")
	flag.Parse()
	if err := write(*to); err != nil {
		fmt.Fprintln(os.Stderr, "tablegen:", err)
		os.Exit(1)
	}
}

func write(to string) error {
	tables, err := read()
	if err != nil {
		return err
	}
	packed, err := builtin.Pack(tables)
	if err != nil {
		return err
	}
	return os.WriteFile(to, packed, 0o644)
}

// read the tables of all releases.
func read() (*builtin.Tables, error) {
	m := &maker{indices: map[string]int{}, tables: &builtin.Tables{
		Releases: releases, Kinds: map[string]map[string]string{}, Types: map[string]map[string]int{}, Lifecycles: lifecycles(),
	}}
	for _, minor := range m.tables.Versions() {
		folder, err := download("k8s.io/kubernetes", "v"+releases[minor])
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(filepath.Join(folder, "api", "openapi-spec", "swagger.json"))
		if err != nil {
			return nil, err
		}
		var document struct{ Definitions map[string]definition }
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("the OpenAPI document of Kubernetes %s: %w", releases[minor], err)
		}
		if err := m.version(minor, document.Definitions); err != nil {
			return nil, fmt.Errorf("the OpenAPI document of Kubernetes %s: %w", releases[minor], err)
		}
	}
	return m.tables, nil
}

// download a module: the folder that it lies in.
func download(module, version string) (string, error) {
	command := exec.Command("go", "mod", "download", "-json", module+"@"+version)
	command.Dir = os.TempDir() // It is no requirement of this module.
	out, err := command.Output()
	var said struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &said); jsonErr != nil || err != nil || said.Error != "" {
		return "", fmt.Errorf("downloading %s@%s: %v %s", module, version, err, strings.TrimSpace(said.Error))
	}
	return said.Dir, nil
}
