// Package adapters holds the programs that an import writes beside its partition, and what the operator
// of a server copies to permit them. Lehr calls such a program as a verification or as a constraint
// that asks; it runs what another system ran. The importers of Keel and of Kargo use them. Nothing
// here runs a program.
package adapters

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed programs
var programs embed.FS

// Program is one of the programs, by its name.
type Program string

// The programs. Each says in its head how it is called.
const (
	// RunContainer runs a container to its end, for a verification.
	RunContainer Program = "run-container"
	// RunJob runs a Job of Kubernetes to its end, for a verification.
	RunJob Program = "run-job"
	// RunPipeline runs a pipeline of Spinnaker once for each version, for a constraint.
	RunPipeline Program = "run-spinnaker-pipeline"
	// SendRequest sends one HTTP request, for a constraint or a verification.
	SendRequest Program = "send-request"
)

// Command is the line that calls the program.
func (p Program) Command(arguments ...string) []string {
	return append([]string{p.path()}, arguments...)
}

func (p Program) path() string { return "/usr/local/bin/" + string(p) }

// List are the programs that an import needs, each once.
type List []Program

// Add a program.
func (l *List) Add(p Program) {
	if !slices.Contains(*l, p) {
		*l = append(*l, p)
	}
}

// Files are the programs, by their paths in the folder of the partition.
func (l List) Files() map[string][]byte {
	files := map[string][]byte{}
	for _, p := range l {
		text, err := programs.ReadFile("programs/" + string(p))
		if err != nil {
			panic(err) // They are built in.
		}
		files["programs/"+string(p)] = text
	}
	return files
}

// ExternalChecks is the text for the file of --external-checks that permits the programs to a partition.
func (l List) ExternalChecks(partition string) []byte {
	var text strings.Builder
	text.WriteString("# Copy this into the file of --external-checks of your server (docs/use/partition.md#asking-something-outside).\n" +
		"# The definition of the partition says what these programs run: permit them only where its authors may run that.\nexternal-checks: v1\ncommands:\n")
	for _, p := range l {
		fmt.Fprintf(&text, "  - {run: %s, partitions: [%s]}\n", p.path(), quoted(partition))
	}
	return []byte(text.String())
}

// Hint says what the operator does with the programs.
func (l List) Hint() string {
	var names []string
	for _, p := range l {
		names = append(names, "programs/"+string(p))
	}
	return "read " + strings.Join(names, ", ") + ", have the operator install them in /usr/local/bin with mode 755, and copy operator/external-checks.yaml into the file of --external-checks: until then nothing passes by them"
}

// quoted is a text as YAML takes it.
func quoted(text string) string {
	made, err := yaml.Marshal(text)
	if err != nil {
		panic(err) // A text always encodes.
	}
	return strings.TrimSpace(string(made))
}
