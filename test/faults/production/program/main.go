// Command production is what pushes of the faults' tests run: VERB ARGUMENTS….
package main

import (
	"fmt"
	"os"

	"lehr.dev/test/faults/production"
)

func main() {
	verbs := map[string]func(arguments []string) int{
		"production:diff": production.Diff,
		"production:push": production.Push,
		"production:task": production.Task,
	}
	if len(os.Args) > 1 {
		if verb, ok := verbs[os.Args[1]]; ok {
			os.Exit(verb(os.Args[2:]))
		}
	}
	fmt.Fprintf(os.Stderr, "production: no such verb: %q\n", os.Args[1:])
	os.Exit(1)
}
