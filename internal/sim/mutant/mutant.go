// Package mutant says which deliberate defects are switched on. Only copies of
// the code into which package mutation has woven them import it; the code
// itself never does. It imports nothing of ours, so that any package may.
package mutant

import (
	"os"
	"strings"
)

// Variable names, in the environment, the mutants that are on: name,name.
const Variable = "LEHR_MUTANTS"

// switched is never written again, so that many goroutines may read it.
var switched = read(os.Getenv(Variable))

// On reports whether the mutant is switched on.
func On(name string) bool { return len(switched) > 0 && switched[name] }

func read(list string) map[string]bool {
	names := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[name] = true
		}
	}
	return names
}
