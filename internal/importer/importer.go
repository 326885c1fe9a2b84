// Package importer is the contract between "lehr import" and what reads one
// kind of what exists: a database, processes, a cluster. A kind only looks, and
// returns a partition as files; it never writes, not even the files, and never
// copies a secret (S13). The kinds are packages below this one; cmd/lehr lists
// them, and cli writes what they return.
package importer

import (
	"context"

	"github.com/spf13/pflag"
)

// Kind is one kind of what can be imported.
type Kind struct {
	// Name is what people write, and Arguments what follows it, for example
	// "postgres" and "URL".
	Name, Arguments string
	// Args is how many arguments it takes at least and at most; most -1: any
	// number.
	Args struct{ Least, Most int }
	// Short says it in a line, Long tells more.
	Short, Long string
	// Bind adds the kind's flags and returns what reads. Bind is called once
	// for each command line.
	Bind func(flags *pflag.FlagSet) Reader
}

// Reader reads what exists. What cannot be read as a whole is an error: an
// import that misses something without a word would be taken for intent.
type Reader func(ctx context.Context, args []string) (Import, error)

// Import is a partition made of what was read.
type Import struct {
	// Name is what the thing that was read is called. The partition has it, unless people name another.
	Name string
	// Definition is what lehr.yaml says after its partition and mode: sources,
	// generators, plugins.
	Definition string
	// Files beside lehr.yaml, by path.
	Files map[string][]byte
	// ForOperator gives files that the operator of a server copies from, by path: they grant
	// something to the partition of this name. nil: there are none.
	ForOperator func(partition string) map[string][]byte
	// Parts are partitions of their own, each in a folder of its name; with any there is no
	// Definition.
	Parts []Part
	// Read says what was read, a line each.
	Read []string
	// LeftOut says what was seen and not taken over.
	LeftOut []LeftOut
	// Hints say what a person has to do before the import is whole, a line each.
	Hints []string
}

// Part is one of several partitions.
type Part struct {
	// Name of the partition, and of the folder.
	Name       string
	Definition string
	// Files beside lehr.yaml, by path.
	Files map[string][]byte
}

// LeftOut is something that was seen and not taken over, and why.
type LeftOut struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Wrong: it cannot be taken over as it stands; all others are left out on purpose.
	Wrong bool `json:"wrong,omitempty"`
}
