// Package python holds the SDK for plugins in Python, which this folder is (see README.md
// there). A new plugin in Python gets a copy of it, so that it needs nothing of Lehr's source
// or of a registry of packages. The package scaffold writes it.
package python

import "embed"

// Files are those of the Python package lehr, by their paths from this folder.
//
//go:embed lehr/*.py lehr/*/*.py lehr/*/*/*.py
var Files embed.FS
