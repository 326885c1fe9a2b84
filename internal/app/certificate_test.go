package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
)

// writeCertificate replaces both files, and says when.
func writeCertificate(t *testing.T, certificate, key string, serial int64, at time.Time) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: at.Add(time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: made}, key: {Type: "PRIVATE KEY", Bytes: text}} {
		write(t, file, string(pem.EncodeToMemory(block)), at)
	}
}

func write(t *testing.T, file, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestCertificateIsReadAnew(t *testing.T) {
	folder := t.TempDir()
	file, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	now := time.Now()
	clock := func() time.Time { return now }
	log := slog.New(slog.DiscardHandler)
	if _, err := readCertificate(file, key, log, clock); !fault.Is(err, fault.Invalid) {
		t.Fatalf("without files: %v", err)
	}
	writeCertificate(t, file, key, 1, now)
	c, err := readCertificate(file, key, log, clock)
	if err != nil {
		t.Fatal(err)
	}
	presents := func(want int64, when string) {
		t.Helper()
		got, err := c.get(&tls.ClientHelloInfo{})
		if err != nil || got.Leaf.SerialNumber.Int64() != want {
			t.Errorf("%s: it presents %v, %v, want %d", when, got.Leaf.SerialNumber, err, want)
		}
	}
	presents(1, "at first")
	now = now.Add(2 * time.Second)
	write(t, file, "half of it", now)
	presents(1, "while the file is half written")
	now = now.Add(2 * time.Second)
	writeCertificate(t, file, key, 2, now)
	presents(2, "once it is whole")
	writeCertificate(t, file, key, 3, now.Add(time.Second))
	presents(2, "within the same second")
	now = now.Add(2 * time.Second)
	presents(3, "after it")
	now = now.Add(2 * time.Second)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	presents(3, "when the key is gone")
}
