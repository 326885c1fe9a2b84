package client

import (
	"crypto/x509"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// Roots are whose certificates are believed: the system's, and those in a PEM
// file. Nil, for no file, stands for the system's alone. There is no way to
// believe any certificate.
func Roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := files.Read(file, files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading certificates to believe: %w", err).WithHint("LEHR_CA names a PEM file")
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fault.New(fault.Invalid, "%s, which LEHR_CA names, holds no certificate", file).WithHint("name a PEM file: -----BEGIN CERTIFICATE-----")
	}
	return roots, nil
}
