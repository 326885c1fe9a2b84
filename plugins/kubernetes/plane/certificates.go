package plane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// UseCertificates has the API server started anew with certificates of an authority of ours, and
// take clients' of the same. The kubeconfig then logs in by a certificate, and names files.
func (p *Plane) UseCertificates() {
	p.Helper()
	p.KillServer()
	p.writeCertificates()
	p.server.arguments = append(p.server.arguments, "--client-ca-file", p.certificate("ca.crt"), "--tls-cert-file", p.certificate("server.crt"), "--tls-private-key-file", p.certificate("server.key"))
	p.StartServer()
	text := fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: here,
contexts: [{name: here, context: {cluster: real, user: admin}}],
clusters: [{name: real, cluster: {server: %q, certificate-authority: %q}}],
users: [{name: admin, user: {client-certificate: %q, client-key: %q}}]}`, p.URL, p.certificate("ca.crt"), p.certificate("client.crt"), p.certificate("client.key"))
	if err := os.WriteFile(p.Kubeconfig, text, 0o600); err != nil {
		p.Fatal(err)
	}
}

// RotateCertificates replaces the authority, and the certificates of the server and of the
// client, while both run. It waits until the server has the new ones.
func (p *Plane) RotateCertificates() {
	p.Helper()
	p.writeCertificates()
	p.waitReady()
}

func (p *Plane) certificate(name string) string { return filepath.Join(p.folder, "certs", name) }

// writeCertificates makes an authority, and all that it signs.
func (p *Plane) writeCertificates() {
	p.Helper()
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "authority " + time.Now().Format(time.RFC3339Nano)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	authorityKey := p.key()
	p.sign("ca", authority, authority, authorityKey, authorityKey)
	p.sign("server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "apiserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, p.key(), authorityKey)
	p.sign("client", &x509.Certificate{
		Subject: pkix.Name{CommonName: "rotated", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority, p.key(), authorityKey)
	p.trust(p.certificate("ca.crt"))
}

func (p *Plane) key() *ecdsa.PrivateKey {
	p.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.Fatal(err)
	}
	return key
}

// sign writes a certificate and its key, each as a whole.
func (p *Plane) sign(name string, certificate, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) {
	p.Helper()
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		p.Fatal(err)
	}
	certificate.SerialNumber, certificate.NotBefore, certificate.NotAfter = number, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signed, err := x509.CreateCertificate(rand.Reader, certificate, parent, &key.PublicKey, parentKey)
	if err != nil {
		p.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: signed}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		path := p.certificate(name + suffix)
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			p.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			p.Fatal(err)
		}
	}
}
