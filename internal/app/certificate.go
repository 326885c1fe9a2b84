package app

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// certificate is the one in two files, read again when they change: who renews
// it need not start the server again.
type certificate struct {
	certificateFile, keyFile string
	log                      *slog.Logger
	now                      func() time.Time

	mutex   sync.Mutex
	current *tls.Certificate
	// looked is when the files were looked at last, and seen how they were.
	looked time.Time
	stamps [2]look
}

// look tells whether a file changed.
type look struct {
	modified time.Time
	size     int64
}

// certificatePause is how long what was read is believed.
const certificatePause = time.Second

func readCertificate(certificateFile, keyFile string, log *slog.Logger, now func() time.Time) (*certificate, error) {
	c := &certificate{certificateFile: certificateFile, keyFile: keyFile, log: log, now: now}
	c.stamps = c.look()
	return c, c.read()
}

func (c *certificate) look() (stamps [2]look) {
	for i, file := range []string{c.certificateFile, c.keyFile} {
		if info, err := os.Stat(file); err == nil {
			stamps[i] = look{info.ModTime(), info.Size()}
		}
	}
	return stamps
}

func (c *certificate) read() error {
	read, err := files.KeyPair(c.certificateFile, c.keyFile)
	if err != nil {
		return fault.New(fault.Invalid, "reading the certificate %s with its key %s: %w", c.certificateFile, c.keyFile, err).
			WithHint("--tls-cert names a PEM file with the certificate and those that vouch for it, --tls-key one with its key")
	}
	c.current = &read
	return nil
}

// get is the certificate for one connection. While the files are half written or
// gone, it is the one that they held before.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now := c.now(); now.Sub(c.looked) >= certificatePause {
		c.looked = now
		if stamps := c.look(); stamps != c.stamps {
			if err := c.read(); err != nil {
				c.log.Error("the certificate changed and cannot be read; the one before is used", "error", err)
			} else {
				c.stamps = stamps
				c.log.Info("the certificate was read anew", "file", c.certificateFile)
			}
		}
	}
	return c.current, nil
}
