package serve

import (
	"io"
	"log"
	"os"
	"time"

	"lehr.dev/sdk/secret"
)

const (
	// chunk is as much as is redacted at once. What one call writes comes whole, up to
	// the size of a pipe.
	chunk = 64 << 10
	// drainStderr is how long the end of the program waits for what was written.
	drainStderr = time.Second
)

// redactStderr has what this process writes to os.Stderr, and by package log, go
// through secret.Redact: the log of Lehr has it all. The Go runtime's own last words
// go past it. What restore returns is called once, when the program ends.
func redactStderr() (restore func(), err error) {
	output, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	original := os.Stderr
	os.Stderr = input
	log.SetOutput(input)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		copyRedacted(original, output)
	}()
	return func() {
		os.Stderr = original
		log.SetOutput(original)
		input.Close()
		select {
		case <-drained:
		case <-time.After(drainStderr): // A child has it open.
		}
	}, nil
}

func copyRedacted(to io.Writer, from io.Reader) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			_, _ = io.WriteString(to, secret.Redact(string(buffer[:n])))
			clear(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}
