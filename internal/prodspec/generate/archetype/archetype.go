// Package archetype holds the service models that come with Lehr: programs in
// Starlark that turn a manifest of package lehr.model.v1 into assets. They run as
// any other program does, with the same limits, and their text is part of what a
// run is cached by. Package generate gives them to runs.
package archetype

import (
	"embed"
	"path"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/work"
)

// The programs are named so that no file of a partition has the name of one.
const prefix = "lehr:"

//go:embed programs/*.star
var programs embed.FS

// texts by the name of the program.
var texts, inputs = func() (map[string][]byte, []work.Input) {
	texts, inputs := map[string][]byte{}, []work.Input(nil)
	entries, err := programs.ReadDir("programs")
	for _, entry := range entries {
		var text []byte
		if text, err = programs.ReadFile(path.Join("programs", entry.Name())); err != nil {
			break
		}
		texts[prefix+entry.Name()] = text
		inputs = append(inputs, work.Input{Name: prefix + entry.Name(), Digest: intent.Sum("lehr.archetype.v1", text)})
	}
	if err != nil {
		panic(err) // What is embedded can be read.
	}
	slices.SortFunc(inputs, work.ByName)
	return texts, inputs
}()

// Names of the models, in order.
func Names() []string {
	return []string{"cron", "kubernetes-cron", "kubernetes-pipeline", "kubernetes-web-service", "kubernetes-worker", "pipeline", "web-service", "worker"}
}

// Program is the name of a model's program.
func Program(model string) string { return prefix + model + ".star" }

// Programs are all that a model's run may load.
func Programs() []work.Input { return inputs }

// Open returns the text of one of Programs.
func Open(input work.Input) ([]byte, bool) {
	text, ok := texts[input.Name]
	return text, ok && strings.HasPrefix(input.Name, prefix)
}
