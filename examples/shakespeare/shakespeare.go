// Package shakespeare holds the files of the example partition, as a person
// writes them, for the demo and for tests.
package shakespeare

import "embed"

// Files are lehr.yaml, what it names, and nothing else.
//
//go:embed lehr.yaml service.yaml *.star schema
var Files embed.FS

// Reader is a second service in the folder reader, which delivery brings from test to production. Its lehr.yaml stands
// for itself; the demo joins its sections with those of Files.
//
//go:embed reader
var Reader embed.FS
