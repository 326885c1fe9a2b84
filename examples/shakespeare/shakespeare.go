// Package shakespeare holds the files of the example partition, as a person
// writes them, for the demo and for tests.
package shakespeare

import "embed"

// Files are lehr.yaml, service.yaml and web.star.
//
//go:embed lehr.yaml service.yaml web.star
var Files embed.FS
