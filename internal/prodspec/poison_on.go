//go:build lehr_poison

package prodspec

import (
	"os"
	"runtime/debug"
	"strings"
)

// poison ends this process, as the text says that a parser with a defect would.
func poison(text string) {
	_, how, found := strings.Cut(text, "poison-")
	if !found {
		return
	}
	trial := len(os.Args) > 1 && os.Args[1] == TrialCommand
	switch how, _, _ = strings.Cut(how, "."); {
	case how == "exit":
		os.Exit(7)
	case how == "panic":
		var nothing *sources
		nothing.home = text
	case how == "stack":
		debug.SetMaxStack(64 << 20) // What the machine has is not what this is about.
		deeper(0)
	case how == "memory":
		var all [][]byte
		for {
			block := make([]byte, 64<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			all = append(all, block)
		}
	case how == "server" && !trial:
		os.Exit(7)
	}
}

func deeper(n int) int { return deeper(n+1) + 1 }
