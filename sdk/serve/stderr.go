package serve

import (
	"io"
	"log"
	"os"

	"lehr.dev/sdk/secret"
)

// Stderr is standard error, without the secrets that this process has read. Lehr has
// it in its log. What a plugin writes to os.Stderr goes past it, and so do the last
// words of the Go runtime; what package log writes does not, once Main runs.
func Stderr() io.Writer { return hidingWriter{} }

type hidingWriter struct{}

// Write redacts what one call writes.
func (hidingWriter) Write(p []byte) (int, error) {
	if !secret.IsAnyKnown() {
		return os.Stderr.Write(p)
	}
	if _, err := io.WriteString(os.Stderr, secret.Redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hideInLog has what package log writes go through Stderr.
func hideInLog() { log.SetOutput(Stderr()) }
