// Command generatorchild is a generator child and nothing else. Tests that start hundreds of them start
// it in place of themselves: it begins sooner, and the race detector stays with who started it.
package main

import (
	"os"

	"lehr.dev/internal/prodspec/generate"
)

func main() { os.Exit(generate.ChildMain(os.Stdin, os.Stdout)) }
