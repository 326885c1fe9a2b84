// Package shakespeare holds the files of the example partition, as a person
// writes them, for the demo and for tests.
package shakespeare

import "embed"

// Files are lehr.yaml, what it names, and nothing else.
//
//go:embed lehr.yaml service.yaml *.star schema
var Files embed.FS
